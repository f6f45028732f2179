//! How well the target's port reaches the logical unit (SPC-4 §5.15), as a session hears of it; and
//! the end of a session.

use super::{Slot, Table};
use crate::limits::{ABSENT_PAUSE_MS, ISCSI_PROBE_BYTES};
use crate::source::iscsi::isids::{SessionEnd, pair};
use crate::source::iscsi::shared::access_of;
use crate::source::unsettled::Unsettled;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{AccessState, Change};
use weft_io::{Handle, Time};
use weft_proto::iscsi::initiator::{CommandData, End, Initiator};
use weft_proto::scsi::cdb::Command as Scsi;
use weft_proto::scsi::initiator::{Change as Attention, PortState, Verdict};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, SenseKey as Key};

/// What a session knows of the access state.
#[derive(Default)]
pub(super) struct Access {
    /// What was told of it last.
    told: AccessState,
    /// The target is to be asked.
    wanted: bool,
    /// It is to be asked then.
    again: Option<Time>,
}

impl Access {
    /// There is reason to ask.
    pub(super) fn doubt(&mut self) {
        self.wanted = true;
    }

    /// When to ask next.
    pub(super) fn next(&self) -> Option<Time> {
        self.again
    }

    /// What is news.
    pub(super) fn change(&mut self, state: AccessState) -> Option<Change> {
        (core::mem::replace(&mut self.told, state) != state).then_some(Change::Access(state))
    }
}

/// The state in which a target refuses commands like this.
fn refusing(sense: Sense) -> Option<PortState> {
    match (sense.key, sense.code) {
        (Key::NOT_READY, Code::ACCESS_STATE_TRANSITION) => Some(PortState::TRANSITIONING),
        (Key::NOT_READY, Code::ACCESS_STATE_STANDBY) => Some(PortState::STANDBY),
        (Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE) => Some(PortState::UNAVAILABLE),
        (Key::NOT_READY, Code::ACCESS_STATE_OFFLINE) => Some(PortState::OFFLINE),
        _ => None,
    }
}

impl Table {
    /// Notes what a status says of the access state, if anything.
    pub(super) fn note_access(&mut self, verdict: Verdict, sense: Option<Sense>) {
        if verdict == Verdict::Again(Attention::AccessState) {
            self.access.doubt();
        } else if let Some(state) = sense.and_then(refusing) {
            self.shared.set_access(access_of(Some(state)), &self.url);
            self.access.again.get_or_insert(self.now);
        }
    }

    /// Asks for the state where that is due.
    pub(super) fn ask_access(&mut self, engine: &mut Initiator) {
        let due = self.access.again.is_some_and(|at| at <= self.now);
        if !(self.access.wanted || due) {
            return;
        }
        if !self.disk.asymmetric || self.disk.port_group.is_none() {
            (self.access.wanted, self.access.again) = (false, None);
            // It does not tell when it takes commands again: whether it does is to be tried.
            return self.shared.set_access(AccessState::Optimized, &self.url);
        }
        let allocation = ISCSI_PROBE_BYTES as u32;
        let command = Scsi::ReportTargetPortGroups { extended: false, allocation };
        if self.ask(
            engine,
            command,
            CommandData::In(allocation),
            Slot::Ports(Box::new([0; ISCSI_PROBE_BYTES])),
        ) {
            (self.access.wanted, self.access.again) = (false, None);
        }
    }

    /// The target has told it, or not.
    pub(super) fn ports_known(&mut self, end: End, sense: Option<Sense>, data: &[u8]) {
        let verdict = self.verdict(end, sense);
        let (Some(Verdict::Done), End::Answered(answer)) = (verdict, end) else {
            self.access.again = Some(self.now + Duration::from_millis(ABSENT_PAUSE_MS));
            return;
        };
        let data = &data[..(answer.received_bytes as usize).min(data.len())];
        let state = self
            .disk
            .port_group
            .and_then(|group| PortState::of_group(data, group))
            .filter(|_| !answer.damaged);
        let access = access_of(state);
        if !matches!(access, AccessState::Optimized | AccessState::NonOptimized) {
            self.access.again = Some(self.now + Duration::from_millis(ABSENT_PAUSE_MS));
        }
        self.shared.set_access(access, &self.url);
    }

    /// The connection has ended. With another session of the same name the target ends what it has
    /// of this one; otherwise it does so by `at`.
    pub(super) fn session_ended(
        &mut self,
        engine: &Initiator,
        on: &Handle,
        at: Time,
        has_lost: bool,
    ) {
        let end = Arc::new(SessionEnd::new(at, self.user.clone()));
        let isids = &self.shared.isids;
        if let (true, Some(nexus)) = (has_lost, engine.nexus()) {
            let unsettled: Arc<dyn Unsettled> = Arc::<SessionEnd>::clone(&end);
            isids.control().unsettled().ended(
                pair(&nexus, isids.epoch()),
                None,
                Arc::downgrade(&unsettled),
                on.now(),
            );
        }
        isids.release(engine.isid());
        self.end = Some(end);
    }
}
