//! Login: security, then operational negotiation (RFC 7143 §6.3, §12.1, §13).

use super::command::InitiatorEvent;
use super::fault::{SessionFault, Violation};
use super::receive::Bhs;
use super::{Initiator, InitiatorConfig, Phase};
use crate::iscsi::chap::{self, Algorithm};
use crate::iscsi::deviation::Deviation;
use crate::iscsi::pdu::{
    LoginFlags, LoginRequest, LoginResponse, LoginStage, LoginStatus, TaskTag,
};
use crate::iscsi::text::{
    Collector, Key, NOT_UNDERSTOOD, Pair, Writer, negotiate, pairs, readable, settle,
};
use crate::limits::ISCSI_LOGIN_EXCHANGES_MAX;

/// Names the login.
const TASK: TaskTag = TaskTag(0x8000_0000);

/// Expected answer of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// Its choice of a method.
    Method,
    /// Algorithm and challenge.
    Challenge,
    /// That our response is right, and its own.
    Proof,
    /// Nothing more of security.
    Transit,
    /// Answers to our offers.
    Parameters,
}

/// The state of the login.
pub(super) struct Login {
    stage: LoginStage,
    awaited: Awaited,
    text: Collector,
    offered: Vec<Key>,
    exchanges: u32,
    /// Of CHAP.
    algorithm: Option<Algorithm>,
    /// TargetPortalGroupTag.
    pub(super) portal_group: Option<String>,
}

impl Login {
    pub fn new() -> Self {
        let (text, offered) = (Collector::default(), Vec::new());
        Self {
            stage: LoginStage::SECURITY,
            awaited: Awaited::Method,
            text,
            offered,
            exchanges: 0,
            algorithm: None,
            portal_group: None,
        }
    }
}

/// The value of a key in a text.
fn value<'a>(text: &[Pair<'a>], key: Key) -> Option<&'a str> {
    text.iter().find(|(name, _)| *name == key.name()).map(|(_, value)| *value)
}

/// The offered methods. An initiator that requires authentication of the target offers only CHAP.
fn methods(config: &InitiatorConfig) -> &'static str {
    match (&config.credentials, &config.target_proof) {
        (Some(_), Some(_)) => "CHAP",
        (Some(_), None) => "CHAP,None",
        (None, _) => "None",
    }
}

impl Initiator {
    /// Says who we are and whom we want.
    pub(super) fn start_login(&mut self) {
        let mut text = Writer::default();
        text.put(Key::InitiatorName.name(), self.config.name.as_str());
        match &self.config.target {
            Some(target) => {
                text.put(Key::SessionType.name(), "Normal");
                text.put(Key::TargetName.name(), target.as_str());
            }
            None => text.put(Key::SessionType.name(), "Discovery"),
        }
        text.put(Key::AuthMethod.name(), methods(&self.config));
        let proves = self.config.credentials.is_some();
        self.login_request((!proves).then_some(LoginStage::OPERATIONAL), &text);
    }

    fn login_request(&mut self, next: Option<LoginStage>, text: &Writer) {
        let request = LoginRequest {
            immediate: true,
            flags: LoginFlags::new(self.login.stage, next),
            isid: self.config.isid,
            task: TASK,
            cmd_sn: self.window.cmd_sn,
            exp_stat_sn: self.window.exp_stat_sn,
            ..LoginRequest::default()
        };
        self.send_text(&request.encode(text.text().len() as u32), text.text());
    }

    pub(super) fn login_response(
        &mut self,
        bhs: &Bhs,
        data: &[u8],
    ) -> Result<Option<InitiatorEvent>, SessionFault> {
        let response = LoginResponse::decode(bhs);
        let first = self.login.exchanges == 0;
        self.login.exchanges += 1;
        if self.login.exchanges > ISCSI_LOGIN_EXCHANGES_MAX {
            return Err(Violation::Endless.into());
        }
        if response.task != TASK {
            return Err(Violation::Login.into());
        }
        if first {
            self.window.exp_stat_sn = response.stat_sn;
        }
        self.window.status(response.stat_sn);
        self.window.update(response.exp_cmd_sn, response.max_cmd_sn);
        self.login.text.push(data).map_err(Violation::from)?;
        if response.status != LoginStatus::SUCCESS {
            return Err(self.refused(response.status));
        }
        if response.version_active != 0 || response.flags.current() != self.login.stage {
            return Err(Violation::Login.into());
        }
        if response.flags.is_continued() {
            self.login_request(None, &Writer::default());
            return Ok(None);
        }
        let text = core::mem::take(&mut self.login.text);
        self.deviations.add_text(text.text());
        let text = readable(text.text());
        let pairs: Vec<Pair<'_>> =
            pairs(&text).collect::<Result<_, _>>().map_err(Violation::from)?;
        if let Some(group) = value(&pairs, Key::TargetPortalGroupTag) {
            self.login.portal_group = Some(group.to_owned());
        }
        let next = response.flags.is_transit().then(|| response.flags.next());
        self.login_step(&pairs, next)
    }

    fn login_step(
        &mut self,
        text: &[Pair<'_>],
        next: Option<LoginStage>,
    ) -> Result<Option<InitiatorEvent>, SessionFault> {
        match self.login.awaited {
            Awaited::Method => self.method_chosen(text, next)?,
            Awaited::Challenge => self.challenged(text, next)?,
            Awaited::Proof => {
                self.check_proof(text)?;
                self.login.awaited = Awaited::Transit;
                self.leave_security(next)?;
            }
            Awaited::Transit => self.leave_security(next)?,
            Awaited::Parameters => return self.agree(text, next),
        }
        Ok(None)
    }

    fn method_chosen(
        &mut self,
        text: &[Pair<'_>],
        next: Option<LoginStage>,
    ) -> Result<(), SessionFault> {
        match value(text, Key::AuthMethod) {
            Some("CHAP") if self.config.credentials.is_some() && next.is_none() => {
                let mut offer = Writer::default();
                offer.put(Key::ChapAlgorithm.name(), &Algorithm::list(self.config.algorithms));
                self.login.awaited = Awaited::Challenge;
                self.login_request(None, &offer);
                Ok(())
            }
            None | Some("None") if self.config.target_proof.is_none() => {
                self.login.awaited = Awaited::Transit;
                self.leave_security(next)
            }
            _ => Err(SessionFault::Method),
        }
    }

    fn challenged(
        &mut self,
        text: &[Pair<'_>],
        next: Option<LoginStage>,
    ) -> Result<(), SessionFault> {
        let Some(credentials) = &self.config.credentials else { return Err(SessionFault::Method) };
        let chosen = value(text, Key::ChapAlgorithm).and_then(Algorithm::choose);
        let algorithm = chosen
            .filter(|chosen| self.config.algorithms.contains(chosen))
            .ok_or_else(|| self.no_algorithm(None))?;
        let identifier =
            value(text, Key::ChapIdentifier).and_then(chap::identifier).ok_or(Violation::Chap)?;
        let challenge =
            value(text, Key::ChapChallenge).and_then(chap::challenge).ok_or(Violation::Chap)?;
        // A target that sends our own challenge back wants us to work out its proof.
        let reflected =
            self.config.target_proof.as_ref().is_some_and(|proof| proof.challenge == challenge);
        if next.is_some() || reflected {
            return Err(Violation::Chap.into());
        }
        let response = chap::respond(algorithm, identifier, &credentials.secret, &challenge)
            .ok_or(SessionFault::Method)?;
        let mut answer = Writer::default();
        answer.put(Key::ChapName.name(), &credentials.name);
        answer.put(Key::ChapResponse.name(), &response.text());
        if let Some(proof) = &self.config.target_proof {
            answer.put(Key::ChapIdentifier.name(), &proof.identifier.to_string());
            answer.put(
                Key::ChapChallenge.name(),
                &crate::iscsi::text::binary::encode(&proof.challenge),
            );
        }
        self.login.algorithm = Some(algorithm);
        self.login.awaited = Awaited::Proof;
        self.login_request(Some(LoginStage::OPERATIONAL), &answer);
        Ok(())
    }

    /// Algorithms of CHAP, as they were offered, if the target has not answered that yet.
    pub fn unanswered_algorithms(&self) -> Option<String> {
        let awaits = self.phase == Phase::Login && self.login.awaited == Awaited::Challenge;
        awaits.then(|| Algorithm::list(self.config.algorithms))
    }

    fn no_algorithm(&self, status: Option<LoginStatus>) -> SessionFault {
        SessionFault::Algorithms { offered: Algorithm::list(self.config.algorithms), status }
    }

    /// Why the target has ended the login with this status. In answer to the algorithms, two of
    /// them can be about these; others are not, such as that of a target that is gone.
    fn refused(&self, status: LoginStatus) -> SessionFault {
        let about_algorithms = [LoginStatus::INITIATOR_ERROR, LoginStatus::AUTHENTICATION_FAILURE];
        match self.login.awaited {
            Awaited::Challenge if about_algorithms.contains(&status) => {
                self.no_algorithm(Some(status))
            }
            _ => refusal(status, self.login.text.text()),
        }
    }

    /// Checks that the target has proved its identity, if it must.
    fn check_proof(&self, text: &[Pair<'_>]) -> Result<(), SessionFault> {
        let Some(proof) = &self.config.target_proof else { return Ok(()) };
        let (algorithm, secret) =
            (self.login.algorithm.ok_or(SessionFault::Method)?, &proof.credentials.secret);
        let expected = chap::respond(algorithm, proof.identifier, secret, &proof.challenge)
            .ok_or(SessionFault::Method)?;
        let name = &proof.credentials.name;
        let named = name.is_empty() || value(text, Key::ChapName) == Some(name);
        let proved =
            value(text, Key::ChapResponse).is_some_and(|response| expected.matches(response));
        if named && proved { Ok(()) } else { Err(SessionFault::Impostor) }
    }

    /// On to the operational negotiation, if the target is ready for it.
    fn leave_security(&mut self, next: Option<LoginStage>) -> Result<(), SessionFault> {
        match next {
            None => self.login_request(Some(LoginStage::OPERATIONAL), &Writer::default()),
            Some(LoginStage::OPERATIONAL) => {
                let mut offers = Writer::default();
                self.config.offer.write(self.config.target.is_none(), &mut offers);
                self.login.offered = pairs(offers.text())
                    .flatten()
                    .filter_map(|(name, _)| Key::named(name))
                    .collect();
                self.login.stage = LoginStage::OPERATIONAL;
                self.login.awaited = Awaited::Parameters;
                self.login_request(Some(LoginStage::FULL_FEATURE), &offers);
            }
            Some(_) => return Err(Violation::Login.into()),
        }
        Ok(())
    }

    fn agree(
        &mut self,
        text: &[Pair<'_>],
        next: Option<LoginStage>,
    ) -> Result<Option<InitiatorEvent>, SessionFault> {
        let mut answers = Writer::default();
        for (name, value) in text {
            self.parameter(name, value, &mut answers)?;
        }
        match next {
            Some(LoginStage::FULL_FEATURE) => {
                if !answers.is_empty() {
                    self.deviations.add(Deviation::Unanswered);
                }
                self.check_digests()?;
                self.parameters.max_recv_bytes = self.config.offer.max_recv_bytes;
                self.enter_full_feature();
                Ok((self.phase == Phase::FullFeature && self.config.target.is_some())
                    .then_some(InitiatorEvent::Ready))
            }
            None => {
                self.login_request(Some(LoginStage::FULL_FEATURE), &answers);
                Ok(None)
            }
            Some(_) => Err(Violation::Login.into()),
        }
    }

    /// A target that does not answer an offer, or does not understand it, leaves the default: no
    /// digest.
    fn check_digests(&self) -> Result<(), SessionFault> {
        let (required, granted) = (self.config.offer.require_digests, self.parameters.digests);
        match (required.header && !granted.header, required.data && !granted.data) {
            (true, _) => Err(SessionFault::NoDigest("header digest")),
            (_, true) => Err(SessionFault::NoDigest("data digest")),
            _ => Ok(()),
        }
    }

    /// One key of the operational negotiation: the answer to an offer, or an offer of the target's.
    fn parameter(
        &mut self,
        name: &str,
        value: &str,
        answers: &mut Writer,
    ) -> Result<(), SessionFault> {
        let Some(key) = Key::named(name) else {
            if value != NOT_UNDERSTOOD {
                answers.put(name, NOT_UNDERSTOOD);
            }
            return Ok(());
        };
        if self.login.offered.contains(&key) {
            return Ok(settle(key, value, &self.config.offer, &mut self.parameters)?);
        }
        if let Some(answer) = negotiate(key, value, &self.config.offer, &mut self.parameters).text()
        {
            answers.put(name, &answer);
        }
        Ok(())
    }
}

/// Why there is no login, as the target says it.
fn refusal(status: LoginStatus, text: &[u8]) -> SessionFault {
    let address = || {
        pairs(text)
            .flatten()
            .find(|(name, _)| *name == Key::TargetAddress.name())
            .map(|(_, value)| value)
    };
    match (status.class(), address()) {
        (1, Some(address)) => {
            // The portal group tag behind the comma is of no use to us.
            let address = address.split(',').next().unwrap_or(address).to_owned();
            SessionFault::Moved { address }
        }
        _ => SessionFault::Refused(status),
    }
}
