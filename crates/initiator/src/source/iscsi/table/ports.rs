//! Questions of a session about the target's port groups.

use super::access::refusing;
use super::{Table, TaskSlot};
use crate::source::iscsi::device_state::access_of;
use std::time::Duration;
use weft_block::AccessState;
use weft_connection::limits::{ABSENT_PAUSE_MS, ISCSI_PROBE_BYTES};
use weft_proto::iscsi::initiator::{CommandOutcome, Initiator, ScsiData};
use weft_proto::scsi::cdb::Command as Scsi;
use weft_proto::scsi::initiator::{AttentionChange as Attention, CommandVerdict, PortState};
use weft_proto::scsi::sense::Sense;

impl Table {
    /// Notes what a status says of the access state, if anything.
    pub(super) fn note_access(&mut self, verdict: CommandVerdict, sense: Option<Sense>) {
        if verdict == CommandVerdict::Again(Attention::AccessState) {
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
            ScsiData::In(allocation),
            TaskSlot::Ports(Box::new([0; ISCSI_PROBE_BYTES])),
        ) {
            (self.access.wanted, self.access.again) = (false, None);
        }
    }

    /// The target has told it, or not.
    pub(super) fn ports_known(&mut self, end: CommandOutcome, sense: Option<Sense>, data: &[u8]) {
        let verdict = self.verdict(end, sense);
        let (Some(CommandVerdict::Done), CommandOutcome::Answered(answer)) = (verdict, end) else {
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
}
