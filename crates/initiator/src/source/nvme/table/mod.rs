//! Operations under way on one I/O queue: from block operations to NVMe commands and back.

mod running;

use super::transport::CommandEngine;
use crate::source::settle::{GONE, LostWrites};
use running::{Compare, Running};
use weft_block::limits::RESERVATION_REPORT_BYTES;
use weft_block::{Completion, Op, OpKind, Outcome, Status, StatusKind};
use weft_connection::memory::{piece, piece_mut};
use weft_connection::status::nvme::from_nvme;
use weft_io::{Segment, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::command;
use weft_proto::nvme::host::{HostData, RemoteNamespace};
use weft_proto::nvme::status::Status as NvmeStatus;
use weft_proto::nvme::types::{Cid, Lba};
use weft_proto::stream::Tag;

/// One command.
enum CommandSlot {
    Free,
    Io(Running),
    /// The compare of a fused pair; the operation is in the slot of the write.
    Compare {
        second: Tag,
    },
}

/// What came of an operation that was to be started.
enum Offer {
    /// Under way, or completed already.
    Taken,
    /// No command slot is free.
    Full(Op),
}

/// All operations of one queue.
pub(super) struct Table {
    namespace: RemoteNamespace,
    slots: Vec<CommandSlot>,
    running: usize,
    /// Ended and not yet reaped.
    pub(super) done: Vec<Completion>,
    /// Commands that were reported as overdue, or cancelled, and have ended.
    pub(super) recovered: Vec<Cid>,
    /// The controller has said that there is no such namespace.
    pub(super) missing: bool,
    /// The controller has refused a command for its access state.
    pub(super) access_refused: bool,
}

impl Table {
    pub(super) fn new(namespace: RemoteNamespace, entries: u16) -> Self {
        Self {
            namespace,
            slots: (0..entries).map(|_| CommandSlot::Free).collect(),
            running: 0,
            done: Vec::with_capacity(entries.into()),
            recovered: Vec::new(),
            missing: false,
            access_refused: false,
        }
    }

    /// Operations taken and not ended.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Starts an operation. One for which no command slot is free is given back; one that cannot be
    /// done is completed at once.
    #[inline]
    pub(super) fn offer(
        &mut self,
        engine: &mut impl CommandEngine,
        now: Time,
        op: Op,
    ) -> Option<Op> {
        if let Some(status) = self.settled(op.kind) {
            self.done.push(op.done(Outcome::Done(status)));
            return None;
        }
        if matches!(op.kind, OpKind::CompareAndWrite { .. })
            && op.blocks > self.namespace.compare_and_write_blocks_max
        {
            // The controller would not do it in one piece.
            self.done.push(op.done(Outcome::Done(Status::new(StatusKind::Invalid))));
            return None;
        }
        let offer = match op.kind {
            OpKind::CompareAndWrite { fua } => self.start_fused(engine, now, op, fua),
            _ => self.start(engine, now, Running::new(op, now)),
        };
        if let Offer::Full(op) = offer {
            return Some(op);
        }
        self.running += 1;
        None
    }

    /// What an operation ends with for which the controller has no command.
    fn settled(&self, kind: OpKind) -> Option<Status> {
        if self.supports(kind) {
            return None;
        }
        Some(match kind {
            _ if kind.is_write() && self.namespace.write_protected => {
                Status::new(StatusKind::WriteProtected)
            }
            // A discard is a hint.
            OpKind::Discard => Status::SUCCESS,
            _ => Status::new(StatusKind::Unsupported),
        })
    }

    fn supports(&self, kind: OpKind) -> bool {
        match kind {
            OpKind::Compare => self.namespace.compare,
            // A queue for one command never has room for both halves.
            OpKind::CompareAndWrite { .. } => {
                self.namespace.compare_and_write_blocks_max > 0 && self.slots.len() > 1
            }
            OpKind::WriteZeroes { .. } => self.namespace.write_zeroes.is_some(),
            OpKind::Discard => self.namespace.deallocate.is_some(),
            // A report is as many blocks as its bytes would be.
            OpKind::Reserve(_) | OpKind::ReservationReport => {
                self.namespace.reservations
                    && self.namespace.block_bytes as usize <= RESERVATION_REPORT_BYTES
            }
            OpKind::Read | OpKind::Write { .. } | OpKind::Flush => true,
        }
    }

    /// Sends the next command of an operation.
    #[inline]
    fn start(&mut self, engine: &mut impl CommandEngine, now: Time, mut running: Running) -> Offer {
        running.started = now;
        let (sqe, data) = running.next(&self.namespace);
        match engine.submit(sqe, data) {
            Ok(tag) => {
                self.slots[tag.index()] = CommandSlot::Io(running);
                Offer::Taken
            }
            Err(_) => Offer::Full(running.op),
        }
    }

    /// Sends both halves next to each other, as fused commands have to be.
    fn start_fused(
        &mut self,
        engine: &mut impl CommandEngine,
        now: Time,
        op: Op,
        fua: bool,
    ) -> Offer {
        if engine.outstanding() + 2 > self.slots.len() || engine.is_closed() {
            return Offer::Full(op);
        }
        let bytes = op.blocks * self.namespace.block_bytes;
        let [compare, write] =
            command::compare_and_write(self.namespace.nsid, Lba(op.lba), op.blocks, fua);
        let (Ok(first), Ok(second)) = (
            engine.submit(compare, HostData::Out(bytes)),
            engine.submit(write, HostData::Out(bytes)),
        ) else {
            unreachable!("two slots were free, and the connection open");
        };
        self.slots[first.index()] = CommandSlot::Compare { second };
        self.slots[second.index()] = CommandSlot::Io(Running {
            base: bytes,
            compare: Compare::Waits(first),
            ..Running::new(op, now)
        });
        Offer::Taken
    }

    /// A command ended.
    #[inline]
    pub(super) fn response(
        &mut self,
        engine: &mut impl CommandEngine,
        now: Time,
        tag: Tag,
        cqe: Cqe,
        received: u32,
    ) {
        if let CommandSlot::Io(running @ Running { compare: Compare::Waits(_), .. }) =
            &mut self.slots[tag.index()]
        {
            // The tag stays taken: its memory holds the data of both.
            running.write = Some(cqe);
            return;
        }
        let slot = core::mem::replace(&mut self.slots[tag.index()], CommandSlot::Free);
        engine.release(tag);
        match slot {
            CommandSlot::Free => {}
            CommandSlot::Compare { second } => self.compare_ended(engine, second, cqe),
            CommandSlot::Io(mut running) => {
                if core::mem::take(&mut running.overdue) || running.cancelled {
                    self.recovered.push(cqe.cid);
                }
                self.io_ended(engine, now, running, cqe, received);
            }
        }
    }

    #[inline]
    fn io_ended(
        &mut self,
        engine: &mut impl CommandEngine,
        now: Time,
        mut running: Running,
        cqe: Cqe,
        received: u32,
    ) {
        running.done_blocks += running.asked_blocks;
        running.extra = None;
        let more = running.asked_blocks > 0 && running.done_blocks < running.op.blocks;
        if more && cqe.status.is_success() || running.has_to_replace(&cqe) {
            running.asked_blocks = 0;
            if running.cancelled {
                return self.finish(running.op, Outcome::settled(Status::new(StatusKind::Aborted)));
            }
            if let Offer::Full(op) = self.start(engine, now, running) {
                self.finish(op, Outcome::settled(Status::new(StatusKind::Busy)));
            }
            return;
        }
        let mut outcome = self.outcome_of(&running.pair_status(cqe));
        let reads = matches!(running.op.kind, OpKind::Read | OpKind::ReservationReport);
        if reads
            && outcome.is_success()
            && received != running.op.blocks * self.namespace.block_bytes
        {
            outcome = Outcome::Done(Status::new(StatusKind::Transport));
        }
        self.finish(running.op, outcome);
    }

    /// The compare of a fused pair ended; the operation ends with whichever of the two is last.
    fn compare_ended(&mut self, engine: &mut impl CommandEngine, second: Tag, compare: Cqe) {
        let CommandSlot::Io(running) = &mut self.slots[second.index()] else { return };
        running.compare = Compare::Ended(compare);
        if running.write.is_none() {
            return;
        }
        let CommandSlot::Io(running) =
            core::mem::replace(&mut self.slots[second.index()], CommandSlot::Free)
        else {
            return;
        };
        engine.release(second);
        let write = running.write.unwrap_or(compare);
        if running.overdue || running.cancelled {
            self.recovered.push(write.cid);
        }
        let outcome = self.outcome_of(&running.pair_status(write));
        self.finish(running.op, outcome);
    }

    /// The outcome that a completion reports. A namespace that is not there is not the submitter's
    /// fault: it may come back, and others may have another way to it.
    #[inline]
    fn outcome_of(&mut self, cqe: &Cqe) -> Outcome {
        if cqe.status == NvmeStatus::INVALID_NAMESPACE {
            self.missing = true;
            return Outcome::Done(GONE);
        }
        self.access_refused |= cqe.status.is_ana();
        Outcome::Done(from_nvme(cqe.status, cqe.do_not_retry))
    }

    fn finish(&mut self, op: Op, outcome: Outcome) {
        self.running -= 1;
        self.done.push(op.done(outcome));
    }

    /// The connection is over. What of an operation was sent may have been executed, and may still
    /// be: what may change the namespace is lost. The rest ends.
    pub(super) fn connection_ended(&mut self, engine: &impl CommandEngine, lost: &mut LostWrites) {
        for n in 0..self.slots.len() {
            let CommandSlot::Io(running) =
                core::mem::replace(&mut self.slots[n], CommandSlot::Free)
            else {
                continue;
            };
            self.running -= 1;
            self.done.extend(lost.take(
                running.op,
                engine.never_sent(Tag(n as u16)),
                running.done_blocks == 0,
            ));
        }
    }

    /// A command that was started before `oldest`; each is given once.
    pub(super) fn next_overdue(&mut self, oldest: Time) -> Option<Tag> {
        let at = self.slots.iter_mut().position(|slot| match slot {
            CommandSlot::Io(running) if !running.overdue && running.started < oldest => {
                running.overdue = true;
                true
            }
            _ => false,
        })?;
        Some(Tag(at as u16))
    }

    /// The command under way of the operation that its submitter calls `user`.
    pub(super) fn find(&mut self, user: u64) -> Option<Tag> {
        let at = self.slots.iter_mut().position(|slot| match slot {
            CommandSlot::Io(running) if running.op.user == user => {
                running.cancelled = true;
                true
            }
            _ => false,
        })?;
        Some(Tag(at as u16))
    }

    #[inline]
    fn segments(&self, tag: Tag) -> (&[Segment], u32) {
        match &self.slots[tag.index()] {
            CommandSlot::Io(running) => (&running.op.data, running.base),
            CommandSlot::Compare { second } => match &self.slots[second.index()] {
                CommandSlot::Io(running) => (&running.op.data, 0),
                _ => (&[], 0),
            },
            CommandSlot::Free => (&[], 0),
        }
    }

    /// Memory of a command, to send from.
    #[inline]
    pub(super) fn memory(&self, tag: Tag, offset: u32, len: u32) -> Option<&[u8]> {
        if let CommandSlot::Io(Running { extra: Some(extra), .. }) = &self.slots[tag.index()] {
            return extra.get(offset as usize..(offset + len) as usize);
        }
        let (segments, base) = self.segments(tag);
        piece(segments, base + offset, len)
    }

    /// Memory of a read, to receive into.
    #[inline]
    pub(super) fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        match &mut self.slots[tag.index()] {
            CommandSlot::Io(running) => piece_mut(&mut running.op.data, running.base + offset, len),
            _ => None,
        }
    }
}

impl Drop for Table {
    /// The loop ends.
    fn drop(&mut self) {
        for slot in self.slots.drain(..) {
            if let CommandSlot::Io(running) = slot {
                running.op.give_up();
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
