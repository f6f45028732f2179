//! The completion of commands of an I/O queue, and what it counts for the log pages.

use super::IoQueue;
use crate::limits::STATISTICS_COMMANDS;
use crate::nvme::controller::admin::error_log::CommandError;
use crate::nvme::controller::fault::Fault;
use crate::nvme::controller::io::command::IoRequestKind;
use crate::nvme::controller::io::next::{DeviceOutcome, IoNext};
use crate::nvme::controller::io::slot::{CommandStage, IoSlot, Role};
use crate::nvme::controller::statistics::IoStatistics;
use crate::nvme::cqe::Cqe;
use crate::nvme::opcode::NvmOpcode;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::stream::Tag;

impl IoQueue {
    /// Adds what was counted since the last time to the subsystem's log page SMART / Health
    /// Information. The queue does so itself every [`STATISTICS_COMMANDS`] commands and at its end.
    pub fn merge_statistics(&mut self) {
        self.link.health.add(std::mem::take(&mut self.statistics));
        self.uncounted = 0;
    }

    /// Returns the counts since the last merge.
    pub fn statistics(&self) -> IoStatistics {
        self.statistics
    }

    /// Answers a command that never got a slot.
    #[cold]
    pub(super) fn refuse(&mut self, sqe: &Sqe, fault: Fault) -> IoNext {
        self.link.log_error(CommandError {
            qid: self.qid,
            cid: sqe.cid(),
            opcode: sqe.opcode(),
            fault,
            do_not_retry: fault.do_not_retry(),
            nsid: sqe.nsid(),
            lba: sqe.qword(10),
        });
        let cqe = Cqe { more: true, ..fault.cqe(sqe) };
        IoNext::Reply { cqe: self.stamp(cqe), data_bytes: 0 }
    }

    /// Fills in what the queue knows: the head of the submission queue.
    #[inline]
    pub(in crate::nvme::controller) fn stamp(&self, mut cqe: Cqe) -> Cqe {
        cqe.sq_head = if self.flow_control { (self.started % self.entries) as u16 } else { 0 };
        cqe
    }

    /// Completes a command and frees its tag.
    #[inline]
    pub(super) fn reply(&mut self, tag: Tag, outcome: DeviceOutcome) -> IoNext {
        let sends_data = self.slots[tag.index()].request.kind == IoRequestKind::Read
            && outcome.status.is_success();
        let data_bytes = if sends_data { self.slots[tag.index()].request.bytes } else { 0 };
        IoNext::Reply { cqe: self.complete(tag, outcome), data_bytes }
    }

    /// The completion of a command, whose tag is free from now on.
    #[inline]
    pub(super) fn complete(&mut self, tag: Tag, outcome: DeviceOutcome) -> Cqe {
        let slot = self.slots[tag.index()];
        self.slots[tag.index()].stage = CommandStage::Idle;
        let mut cqe = Cqe::new(slot.cid, outcome.status);
        if outcome.status.is_success() {
            self.count(&slot);
        } else {
            (cqe.do_not_retry, cqe.more) = (outcome.do_not_retry, true);
            self.count_failure(&slot, outcome);
            if slot.role == Role::Copy {
                cqe.result = self.end_copy(tag).into();
            }
        }
        self.stamp(cqe)
    }

    #[inline]
    fn count(&mut self, slot: &IoSlot) {
        let bytes = u64::from(slot.request.bytes);
        match NvmOpcode(slot.opcode) {
            NvmOpcode::READ | NvmOpcode::COMPARE => {
                self.statistics.reads += 1;
                self.statistics.bytes_read += bytes;
            }
            NvmOpcode::WRITE => {
                self.statistics.writes += 1;
                self.statistics.bytes_written += bytes;
            }
            NvmOpcode::COPY => self.count_copy(slot.request.tag),
            _ => {}
        }
        self.uncounted += 1;
        if self.uncounted == STATISTICS_COMMANDS {
            self.merge_statistics();
        }
    }

    #[cold]
    fn count_failure(&mut self, slot: &IoSlot, outcome: DeviceOutcome) {
        let DeviceOutcome { status, do_not_retry } = outcome;
        if status.code_type() == 2 && status != Status::COMPARE_FAILURE {
            self.statistics.media_errors += 1;
        }
        self.link.log_error(CommandError {
            qid: self.qid,
            cid: slot.cid,
            opcode: slot.opcode,
            fault: Fault::new(status),
            do_not_retry,
            nsid: slot.nsid,
            lba: slot.request.lba.0,
        });
    }
}
