//! Questions of a session between operations: is the logical unit still the one that was opened,
//! and what is its size?

use super::{CAPACITY_BYTES, Table, TaskSlot};
use crate::source::iscsi::identity;
use crate::source::iscsi::idle_sessions::RESTARTED;
use std::time::Duration;
use weft_connection::limits::{ISCSI_BUSY_PAUSE_MS, ISCSI_PROBE_BYTES};
use weft_proto::iscsi::initiator::{CommandOutcome, Initiator, ScsiData};
use weft_proto::scsi::cdb::Command as Scsi;
use weft_proto::scsi::initiator::CommandVerdict;
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::AdditionalSense;

impl Table {
    /// Asks what is worth knowing of the disk.
    pub(super) fn look_around(&mut self, engine: &mut Initiator) {
        if let Some(question) = self.identification.question(self.now) {
            let slot = TaskSlot::Identity(Box::new([0; ISCSI_PROBE_BYTES]));
            if self.ask(engine, question, ScsiData::In(ISCSI_PROBE_BYTES as u32), slot) {
                self.identification.asked();
            }
        }
        self.ask_access(engine);
        let question = self.shared.size.last();
        if question > self.size_question {
            (self.size_question, self.capacity_at) = (question, Some(self.now));
        }
        if self.capacity_at.is_some_and(|at| at <= self.now) {
            let allocation = CAPACITY_BYTES;
            let slot = TaskSlot::Capacity([0; CAPACITY_BYTES as usize], self.size_question);
            let asked = self.ask(
                engine,
                Scsi::ReadCapacity16 { allocation },
                ScsiData::In(allocation),
                slot,
            );
            self.capacity_at = self.capacity_at.filter(|_| !asked);
        }
        if !self.shared.interval.is_zero()
            && self.running == 0
            && self.now >= self.touched + self.shared.interval
        {
            self.touched = self.now;
            self.ask(engine, Scsi::TestUnitReady, ScsiData::None, TaskSlot::Ready);
        }
    }

    pub(super) fn identified(&mut self, end: CommandOutcome, sense: Option<Sense>, data: &[u8]) {
        let verdict = self.verdict(end, sense);
        let (received, damaged) = match end {
            CommandOutcome::Answered(answer) => (answer.received_bytes as usize, answer.damaged),
            _ => (0, false),
        };
        let is_missing =
            sense.is_some_and(|sense| sense.code == AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED);
        let verdict = verdict.filter(|_| !damaged);
        match self.identification.answered(
            self.now,
            verdict,
            is_missing,
            &data[..received.min(data.len())],
        ) {
            identity::Answer::Nothing => {}
            identity::Answer::Other => {
                self.replaced("it has other names than the one that was opened")
            }
            identity::Answer::Refused => self.replaced("it no longer reports its names"),
        }
    }

    /// It is another logical unit, or may be: nothing that was meant for the one that was opened
    /// may reach it.
    #[cold]
    fn replaced(&mut self, why: &str) {
        let text = format!(
            "{}: the logical unit was replaced: {why}; it is no longer used. Open it again if it is meant",
            self.url
        );
        if self.shared.why_ended().is_none() {
            tracing::error!("{text}");
        }
        self.shared.end(text);
    }

    /// The disk was started anew within the session. If it has a volatile cache, it may have lost
    /// completed writes, so the sessions end: who opens the device again finds another epoch, and
    /// writes them again before anything else.
    #[cold]
    pub(super) fn restarted(&mut self) {
        if !self.disk.volatile_cache || self.is_restarted {
            return;
        }
        self.is_restarted = true;
        if self.shared.why_ended().is_none() {
            tracing::warn!("{}: {RESTARTED}", self.url);
            self.shared.isids.begin_epoch();
        }
        self.shared.end(RESTARTED.to_owned());
    }

    /// The size has come, or not: that answers `question`, too.
    pub(super) fn capacity(
        &mut self,
        end: CommandOutcome,
        sense: Option<Sense>,
        data: &[u8],
        question: u64,
    ) {
        match (self.verdict(end, sense), end) {
            (Some(CommandVerdict::Done), CommandOutcome::Answered(answer))
                if answer.received_bytes >= CAPACITY_BYTES && !answer.damaged =>
            {
                let last = data.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                let block_bytes = data
                    .get(8..)
                    .and_then(|rest| rest.first_chunk())
                    .map_or(0, |bytes| u32::from_be_bytes(*bytes));
                if block_bytes == self.disk.block_bytes {
                    self.shared.resize(last.wrapping_add(1));
                    self.shared.size.answer(question, Ok(()));
                } else {
                    self.replaced(&format!(
                        "its blocks have {block_bytes} bytes, and had {}",
                        self.disk.block_bytes
                    ));
                }
            }
            (Some(CommandVerdict::Again(_)), _) => self.capacity_at = Some(self.now),
            // One that is not ready for long is not asked all the time.
            (Some(CommandVerdict::Later), _) => {
                self.capacity_at = Some(self.now + Duration::from_millis(ISCSI_BUSY_PAUSE_MS))
            }
            _ => {
                let why = "the target does not tell its capacity".to_owned();
                self.shared.size.answer(question, Err(why));
            }
        }
    }
}
