//! The login phase (RFC 7143 §6.3): security, operational parameters, transit to the full feature
//! phase.

use super::auth::{Auth, Entropy, Said};
use super::config::{Guard, IscsiTargetConfig, Login, LoginAttempt, SessionKind};
use super::violation::Violation;
use crate::iscsi::deviation::{Deviation, Deviations};
use crate::iscsi::pdu::{LoginFlags, LoginRequest, LoginStage, LoginStatus};
use crate::iscsi::text::{
    Collector, IRRELEVANT, Key, KeyAnswer, NOT_UNDERSTOOD, Name, Pair, Parameters, REJECT, Writer,
};
use crate::iscsi::text::{is_essential, name::NAME_BYTES_MAX, negotiate, pairs, readable};
use crate::limits::{ISCSI_LOGIN_TEXT_BYTES, LOGIN_STEPS_MAX, UNKNOWN_KEYS_MAX};
use core::time::Duration;
use std::sync::Arc;

/// Result of a request of the login.
#[derive(Debug)]
pub(super) enum Next {
    /// Answer with this.
    Respond(LoginFlags, Writer),
    /// Answer with this once the layer above has admitted the connection.
    Admit(LoginFlags, Writer),
    /// The login has failed.
    Refuse(LoginStatus),
}

/// A login in progress.
pub(super) struct LoginPhase {
    auth: Auth,
    text: Collector,
    steps: u32,
    /// The first request; later ones repeat its names.
    first: Option<LoginRequest>,
    stage: LoginStage,
    /// Keys that were negotiated, by their place among all keys.
    seen: u64,
    /// Keys that were not understood, or came again.
    odd_keys: u32,
    /// Claimed name of the initiator, valid or not.
    called: Option<String>,
    initiator: Option<Name>,
    target: Option<String>,
    kind: SessionKind,
    /// True if the target has declared what it has to.
    declared: bool,
    /// TargetPortalGroupTag.
    group: u16,
    told_group: bool,
    /// Deviations of the initiator from the standard.
    pub deviations: Deviations,
}

const _: () = assert!(Key::ALL.len() <= 64);

/// Errors that end the login with a status of class 2.
type Refused<T> = Result<T, LoginStatus>;

impl LoginPhase {
    pub fn new(entropy: Entropy, group: u16) -> Self {
        Self {
            auth: Auth::new(entropy),
            text: Collector::default(),
            steps: 0,
            first: None,
            stage: LoginStage::SECURITY,
            seen: 0,
            odd_keys: 0,
            called: None,
            initiator: None,
            target: None,
            kind: SessionKind::Normal,
            declared: false,
            group,
            told_group: false,
            deviations: Deviations::default(),
        }
    }

    /// Bounds the guessing of secrets.
    pub fn set_guard(&mut self, guard: Arc<dyn Guard>) {
        self.auth.guard = Some(guard);
    }

    /// Returns the login, once it is known.
    pub fn login(&self) -> Option<Login> {
        let first = self.first.as_ref()?;
        let initiator = self.initiator.clone()?;
        let user = self.auth.user().map(str::to_owned);
        Some(Login {
            initiator,
            isid: first.isid,
            tsih: first.tsih,
            cid: first.cid,
            kind: self.kind,
            user,
        })
    }

    /// Returns the claimed identity.
    pub fn attempt(&self) -> LoginAttempt {
        LoginAttempt {
            initiator: self.called.clone(),
            user: self.auth.claimed().map(str::to_owned),
        }
    }

    /// Takes a request and its text, which came at this time.
    pub fn request(
        &mut self,
        request: &LoginRequest,
        text: &[u8],
        config: &IscsiTargetConfig,
        into: &mut Parameters,
        now: Duration,
    ) -> Result<Next, Violation> {
        (self.steps, self.auth.now) = (self.steps + 1, now);
        if let Err(what) = self.check_order(request) {
            return Err(Violation::Login(what));
        }
        if request.version_min > 0 {
            return Ok(Next::Refuse(LoginStatus::UNSUPPORTED_VERSION));
        }
        self.text.push(text)?;
        if request.flags.is_continued() {
            return Ok(Next::Respond(
                LoginFlags::new(request.flags.current(), None),
                Writer::default(),
            ));
        }
        let text = core::mem::take(&mut self.text);
        self.deviations.add_text(text.text());
        let text = readable(text.text());
        let pairs = pairs(&text).collect::<Result<Vec<_>, _>>()?;
        Ok(self.step(request, &pairs, config, into).unwrap_or_else(Next::Refuse))
    }

    /// Checks that the request continues the previous one (§11.12).
    fn check_order(&mut self, request: &LoginRequest) -> Result<(), &'static str> {
        if self.steps > LOGIN_STEPS_MAX {
            return Err("there are too many steps");
        }
        let (flags, current) = (request.flags, request.flags.current());
        let transit = !flags.is_transit()
            || flags.next().0 > current.0
                && matches!(flags.next(), LoginStage::OPERATIONAL | LoginStage::FULL_FEATURE);
        if !matches!(current, LoginStage::SECURITY | LoginStage::OPERATIONAL) || !transit {
            return Err("the stage does not exist");
        }
        if flags.is_transit() && flags.is_continued() {
            return Err("a text continues into the next stage");
        }
        match &self.first {
            None => {
                self.stage = current;
                self.first = Some(*request);
                Ok(())
            }
            Some(first)
                if (first.isid, first.tsih, first.task, first.cid)
                    != (request.isid, request.tsih, request.task, request.cid) =>
            {
                Err("a request belongs to another session than the first one")
            }
            Some(_) if current != self.stage => {
                Err("a request is in another stage than negotiated")
            }
            Some(_) => Ok(()),
        }
    }

    fn step(
        &mut self,
        request: &LoginRequest,
        pairs: &[Pair<'_>],
        config: &IscsiTargetConfig,
        into: &mut Parameters,
    ) -> Refused<Next> {
        let (mut reply, mut said) = (Writer::default(), Said::default());
        self.identify(pairs, config)?;
        for &(name, value) in pairs {
            match Key::named(name) {
                None => self.not_understood(name, &mut reply)?,
                Some(key) if said.take(key, value) => {}
                Some(key) => self.negotiate(key, value, config, into, &mut reply)?,
            }
        }
        let chap = config.chap.as_ref();
        if self.stage == LoginStage::SECURITY {
            self.auth.step(&said, self.initiator.as_ref(), chap, &mut reply)?;
        } else if !self.auth.is_done(chap) {
            // Security was left out, or not come to its end.
            return Err(LoginStatus::AUTHENTICATION_FAILURE);
        }
        self.declare(config, into, &mut reply);
        if reply.text().len() > ISCSI_LOGIN_TEXT_BYTES as usize {
            return Err(LoginStatus::INITIATOR_ERROR);
        }
        let transit = request.flags.is_transit().then(|| request.flags.next());
        let transit = transit.filter(|_| {
            self.stage != LoginStage::SECURITY
                || self.auth.is_done(chap) && !self.auth.is_under_way()
        });
        let flags = LoginFlags::new(self.stage, transit);
        match transit {
            Some(LoginStage::FULL_FEATURE) => Ok(Next::Admit(flags, reply)),
            next => {
                self.stage = next.unwrap_or(self.stage);
                Ok(Next::Respond(flags, reply))
            }
        }
    }

    /// Each unknown key is answered (§6.2), up to a limit.
    fn not_understood(&mut self, name: &str, reply: &mut Writer) -> Refused<()> {
        self.count_odd_key()?;
        reply.put(name, NOT_UNDERSTOOD);
        Ok(())
    }

    fn count_odd_key(&mut self) -> Refused<()> {
        self.odd_keys += 1;
        if self.odd_keys > UNKNOWN_KEYS_MAX { Err(LoginStatus::INITIATOR_ERROR) } else { Ok(()) }
    }

    /// The first request says who and what for (§6.3.1).
    fn identify(&mut self, pairs: &[Pair<'_>], config: &IscsiTargetConfig) -> Refused<()> {
        if self.initiator.is_some() {
            return Ok(());
        }
        let find =
            |key: Key| pairs.iter().find(|(name, _)| *name == key.name()).map(|(_, value)| *value);
        let name = find(Key::InitiatorName).ok_or(LoginStatus::MISSING_PARAMETER)?;
        self.called = Some(name.chars().take(NAME_BYTES_MAX).collect());
        let name = Name::new(name).map_err(|_| LoginStatus::INITIATOR_ERROR)?;
        self.kind = match find(Key::SessionType) {
            None | Some("Normal") => SessionKind::Normal,
            Some("Discovery") => SessionKind::Discovery,
            Some(_) => return Err(LoginStatus::SESSION_TYPE),
        };
        // Discovery is of all targets, whichever it names.
        self.target = find(Key::TargetName)
            .map(str::to_lowercase)
            .filter(|_| self.kind == SessionKind::Normal);
        match &self.target {
            None if self.kind == SessionKind::Normal => return Err(LoginStatus::MISSING_PARAMETER),
            Some(target) if target != config.name.as_str() => return Err(LoginStatus::NOT_FOUND),
            _ => {}
        }
        if config.allow.as_ref().is_some_and(|allowed| !allowed.contains(&name)) {
            return Err(LoginStatus::AUTHORIZATION_FAILURE);
        }
        self.initiator = Some(name);
        Ok(())
    }

    fn negotiate(
        &mut self,
        key: Key,
        value: &str,
        config: &IscsiTargetConfig,
        into: &mut Parameters,
        reply: &mut Writer,
    ) -> Refused<()> {
        let bit = 1_u64 << (key as u32);
        if self.seen & bit != 0 {
            self.deviations.add(Deviation::RepeatedKey);
            self.count_odd_key()?;
        }
        self.seen |= bit;
        if key.is_targets_own() {
            return Ok(());
        }
        if key == Key::SendTargets {
            reply.put(key.name(), REJECT);
            return Ok(());
        }
        if self.kind == SessionKind::Discovery && key.is_irrelevant_in_discovery() {
            reply.put(key.name(), IRRELEVANT);
            return Ok(());
        }
        let answer = negotiate(key, value, &config.offer, into);
        if answer == KeyAnswer::Word(REJECT) && is_essential(key) {
            return Err(LoginStatus::INITIATOR_ERROR);
        }
        if let Some(text) = answer.text() {
            reply.put(key.name(), &text);
        }
        Ok(())
    }

    /// Adds declarations of the target: its group with the first response (§13.9), and the maximum
    /// length of a PDU that it takes.
    fn declare(&mut self, config: &IscsiTargetConfig, into: &mut Parameters, reply: &mut Writer) {
        if !self.told_group {
            self.told_group = true;
            if self.target.is_some() {
                reply.number(Key::TargetPortalGroupTag, self.group.into());
            }
            if !config.alias.is_empty() && self.kind == SessionKind::Normal {
                reply.put(Key::TargetAlias.name(), &config.alias);
            }
        }
        if self.stage == LoginStage::OPERATIONAL && !self.declared {
            self.declared = true;
            into.max_recv_bytes = config.offer.own_recv_bytes();
            reply.number(Key::MaxRecvDataSegmentLength, into.max_recv_bytes);
        }
    }
}
