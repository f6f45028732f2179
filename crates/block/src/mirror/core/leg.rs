//! A leg, or the state file: how far it has come, and what is known of it.

use super::port::Port;
use super::reserve::{Hold, Reserving};
use crate::limits::{MIRROR_RETRY_MS, MIRROR_RETRY_MS_MAX};
use crate::mirror::counts::LegCounts;
use crate::mirror::labels::FoundLeg;
use crate::mirror::options::LegSource;
use crate::outcome::error::ErrorKind;
use crate::url::opening::Opening;
use core::time::Duration;
use std::sync::Arc;
use weft_io::Time;

/// Progress of a leg, or of the state file.
pub(super) enum Phase {
    /// It is opened at this time.
    Waiting(Time),
    Opening(Opening),
    /// It is open, and its area is read when what was sent to it before is settled. Being open may
    /// settle that: by a reset of the controller that was lost, or by a session that takes the
    /// place of the one that was.
    Settling,
    /// Its area is being read.
    Reading,
    /// Its area was read.
    Here(FoundLeg),
    /// It is being reserved.
    Reserving(Reserving),
    /// It was taken from another opener, and its area is read again when its target has ended what
    /// that one has sent.
    Quiet(Time),
    /// The engine uses it, as the leg of this number (any for the state file).
    Used(usize),
}

impl Phase {
    pub(super) fn number(&self) -> Option<usize> {
        if let Self::Used(number) = self { Some(*number) } else { None }
    }
}

/// A leg.
pub(super) struct Leg {
    pub(super) source: LegSource,
    pub(super) phase: Phase,
    pub(super) port: Option<Port>,
    /// Ports that are no longer used, and still have operations in flight.
    pub(super) old: Vec<Port>,
    attempts: u32,
    pub(super) complaint: Option<Complaint>,
    /// The first attempt has ended.
    is_tried: bool,
    /// The cache epoch of the device when the engine took the leg.
    epoch: Option<u64>,
    /// The leg was in sync when the engine took it, or has been copied to since.
    is_in_sync: bool,
    /// Reservation of its port.
    pub(super) hold: Hold,
    /// This opening has reserved it before, so nobody else can have since, unless by force.
    pub(super) was_held: bool,
    pub(super) counts: Arc<LegCounts>,
    /// The number under which an engine used it last.
    pub(super) last_number: Option<usize>,
    /// Its port has been opened since.
    is_reopened: bool,
}

/// Why a leg, or the state file, is not used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) kind: ErrorKind,
    pub(super) text: String,
}

/// The kind of error of what cannot start because of these: that of all of them, if it is one. What
/// is in use may be free soon, which counts more than what else is missing.
pub(super) fn kind_of<'a>(complaints: impl Iterator<Item = &'a Complaint>) -> Option<ErrorKind> {
    let kinds: Vec<ErrorKind> = complaints.map(|complaint| complaint.kind).collect();
    if kinds.contains(&ErrorKind::InUse) {
        return Some(ErrorKind::InUse);
    }
    kinds.first().copied().filter(|first| kinds.iter().all(|kind| kind == first))
}

/// The state file is opened and read as a leg is.
pub(super) type Store = Leg;

/// Returns the pause after this many attempts.
pub(super) fn pause(attempts: u32) -> Duration {
    Duration::from_millis((MIRROR_RETRY_MS << attempts.min(16)).min(MIRROR_RETRY_MS_MAX))
}

impl Leg {
    pub(super) fn new(source: LegSource, now: Time) -> Self {
        let phase = Phase::Waiting(now);
        let (hold, was_held) = (Hold::Unknown, false);
        Self {
            source,
            phase,
            port: None,
            old: Vec::new(),
            attempts: 0,
            complaint: None,
            is_tried: false,
            epoch: None,
            is_in_sync: false,
            hold,
            was_held,
            counts: Arc::default(),
            last_number: None,
            is_reopened: false,
        }
    }

    /// Its device was opened.
    pub(super) fn opened(&mut self, port: Port) {
        (self.port, self.phase, self.is_reopened) = (Some(port), Phase::Settling, true);
    }

    pub(super) fn wait(&mut self, now: Time) {
        (self.phase, self.hold) = (Phase::Waiting(now + pause(self.attempts)), Hold::Unknown);
        self.attempts += 1;
        self.is_tried = true;
    }

    /// An engine begins with it, as one of the legs in sync.
    pub(super) fn used(&mut self, number: usize) {
        self.returned(number);
        self.joined();
    }

    /// It has everything that was acknowledged.
    pub(super) fn joined(&mut self) {
        self.is_in_sync = true;
    }

    /// The engine has it back, and copies to it what it lacks. Its target may have lost its cache,
    /// even if no label states yet that the leg was away.
    pub(super) fn returned(&mut self, number: usize) {
        (self.phase, self.attempts, self.complaint) = (Phase::Used(number), 0, None);
        (self.epoch, self.is_in_sync) = (self.cache_epoch(), false);
        let is_reopened = core::mem::take(&mut self.is_reopened);
        if self.last_number.replace(number).is_some() && is_reopened {
            self.counts.reconnected();
        }
    }

    fn cache_epoch(&self) -> Option<u64> {
        self.port.as_ref().and_then(|port| port.device.cache_epoch())
    }

    /// Returns whether its device certainly has all that it acknowledged while it was used before.
    pub(super) fn has_kept(&self) -> bool {
        let is_cached = self.port.as_ref().is_none_or(|port| port.device.features().volatile_cache);
        let is_same = self.epoch.is_some() && self.epoch == self.cache_epoch();
        !is_cached || self.is_in_sync && is_same
    }

    /// It is not used now. While the mirror `is_opening` that is not logged: the error of a failed
    /// start contains it, and a start without the leg logs it.
    pub(super) fn complain(
        &mut self,
        mirror: &str,
        (kind, why): (ErrorKind, &str),
        is_opening: bool,
    ) {
        let complaint = Complaint { kind, text: why.to_owned() };
        if self.complaint.as_ref() != Some(&complaint) {
            self.complaint = Some(complaint);
            if !is_opening {
                self.say(mirror);
            }
        }
    }

    /// Logs why it is not used, if it is not.
    pub(super) fn say(&self, mirror: &str) {
        if let Some(Complaint { text, .. }) = &self.complaint {
            tracing::warn!("{mirror}: {text}; weft keeps trying");
        }
    }

    /// Returns whether it can be opened now, as far as what was sent to it before is concerned.
    pub(super) fn may_open(&self) -> bool {
        self.old.is_empty() || self.source.is_remote
    }

    /// Returns whether none of its earlier commands can be executed.
    pub(super) fn is_settled(&self) -> bool {
        self.old.is_empty()
    }

    /// It is as far as it comes for now.
    pub(super) fn is_decided(&self) -> bool {
        matches!(self.phase, Phase::Here(_))
            || self.is_tried && matches!(self.phase, Phase::Waiting(_) | Phase::Settling)
    }
}
