//! Operations under way on one I/O queue: from block operations to NVMe commands and back.

#[cfg(test)]
pub(super) mod tests;

use super::transport::CommandEngine;
use crate::source::nvme::reserve;
use weft_block::limits::RESERVATION_REPORT_BYTES;
use weft_block::{Completion, Op, OpKind, Outcome, ReserveAction, Status, StatusKind};
use weft_connection::memory::{piece, piece_mut};
use weft_connection::settle::lost_writes::{GONE, LostWrites};
use weft_connection::status::nvme::from_nvme;
use weft_io::{Segment, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::command::{KEYS_BYTES, RANGE_BYTES};
use weft_proto::nvme::host::{HostData, RemoteNamespace, command};
use weft_proto::nvme::sqe::Sqe;
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

/// Bytes of a range, and of two keys.
const EXTRA_BYTES: usize = RANGE_BYTES;

const _: () = assert!(KEYS_BYTES == EXTRA_BYTES);

/// An operation, in the slot of the command that ends it.
struct Running {
    op: Op,
    started: Time,
    /// Data of the command that is not the operation's own: the range of a deallocate, or the keys
    /// of a change of a reservation.
    extra: Option<[u8; EXTRA_BYTES]>,
    /// The host is registered already, with another key: this replaces that.
    replaces: bool,
    /// Where in the operation's data the command's data starts.
    base: u32,
    /// Blocks that earlier commands of this operation have dealt with, and those of the command
    /// under way.
    done_blocks: u32,
    asked_blocks: u32,
    /// Of a fused pair: the compare has not ended yet, or how it ended.
    compare: Compare,
    /// Of a fused pair: how the write ended while the compare had not.
    write: Option<Cqe>,
    cancelled: bool,
    /// It was reported as overdue.
    overdue: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compare {
    None,
    Waits(Tag),
    Ended(Cqe),
}

impl Running {
    fn new(op: Op, now: Time) -> Self {
        Self {
            op,
            started: now,
            extra: None,
            replaces: false,
            base: 0,
            done_blocks: 0,
            asked_blocks: 0,
            compare: Compare::None,
            write: None,
            cancelled: false,
            overdue: false,
        }
    }

    /// The next command of the operation.
    #[inline]
    fn next(&mut self, namespace: &RemoteNamespace) -> (Sqe, HostData) {
        let lba = Lba(self.op.lba + u64::from(self.done_blocks));
        let left = self.op.blocks - self.done_blocks;
        let nsid = namespace.nsid;
        // Only what carries data is short enough for its bytes to fit.
        let bytes = || left * namespace.block_bytes;
        match self.op.kind {
            OpKind::Read => (command::read(nsid, lba, left), HostData::In(bytes())),
            OpKind::Write { fua } => (command::write(nsid, lba, left, fua), HostData::Out(bytes())),
            OpKind::Compare => (command::compare(nsid, lba, left), HostData::Out(bytes())),
            OpKind::Flush => (command::flush(nsid), HostData::None),
            OpKind::WriteZeroes { deallocate, fua } => {
                let limits = namespace.write_zeroes;
                self.asked_blocks = left.min(limits.map_or(left, |w| w.blocks_max));
                let may_free = deallocate && limits.is_some_and(|w| w.deallocate);
                (command::write_zeroes(nsid, lba, self.asked_blocks, may_free, fua), HostData::None)
            }
            OpKind::Discard => {
                self.asked_blocks =
                    left.min(namespace.deallocate.map_or(left, |d| d.range_blocks_max));
                command::put_range(self.extra.insert([0; RANGE_BYTES]), lba, self.asked_blocks);
                (command::deallocate(nsid, 1), HostData::Out(RANGE_BYTES as u32))
            }
            OpKind::Reserve(action) => {
                let change = reserve::change(action, self.replaces);
                self.extra = Some(change.keys());
                (
                    change.command(nsid, namespace.reservations_persist),
                    HostData::Out(KEYS_BYTES as u32),
                )
            }
            OpKind::ReservationReport => {
                (command::reservation_report(nsid, bytes()), HostData::In(bytes()))
            }
            OpKind::CompareAndWrite { .. } => {
                unreachable!("fused pairs are started by start_fused")
            }
        }
    }

    /// Whether the controller refused to register the host because it is registered with another
    /// key, which is now to be replaced.
    fn has_to_replace(&mut self, cqe: &Cqe) -> bool {
        let registers = matches!(self.op.kind, OpKind::Reserve(ReserveAction::Register { .. }));
        registers
            && cqe.status == NvmeStatus::RESERVATION_CONFLICT
            && !core::mem::replace(&mut self.replaces, true)
    }

    /// What counts of a fused pair: the compare, when that failed.
    fn pair_status(&self, last: Cqe) -> Cqe {
        match self.compare {
            // The write was not sent, and the target misses it.
            Compare::Ended(_) if last.status == NvmeStatus::HOST_PATHING_ERROR => last,
            Compare::Ended(compare) if !compare.status.is_success() => compare,
            _ => last,
        }
    }
}
