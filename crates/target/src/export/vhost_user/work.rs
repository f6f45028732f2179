//! From rings to the queue of the device, and back.

use super::device::Device;
use super::guest::{OfGuest, Pending, name, slot_of};
use std::collections::VecDeque;
use weft_block::{Completion, Op, OpKind, Outcome, StatusKind};
use weft_connection::limits::{VHOST_USER_CHAINS_PER_TURN, VHOST_USER_REQUEST_BYTES_MAX};
use weft_io::Segments;
use weft_proto::virtio::block::{
    BlockRequest, BlockStatus, ID_BYTES, Range, SECTOR_BYTES, data_to, finish, range,
};
use weft_proto::virtio::chain::Chain;

impl Device {
    /// Takes chains from all queues, and adds the operations that they ask for. Whether there may be
    /// more to take.
    pub(super) fn take_all(&mut self, ops: &mut VecDeque<Op>) -> bool {
        let mut is_more = false;
        for index in 0..self.vrings.len() as u16 {
            let is_ready = self.vrings.get(usize::from(index)).is_some_and(|of| of.is_ready());
            for n in 0.. {
                if !is_ready || !self.take_one(index, ops) {
                    break;
                }
                if n >= VHOST_USER_CHAINS_PER_TURN {
                    is_more = true;
                    break;
                }
            }
        }
        is_more
    }

    /// Takes a chain; `false`: there is none, or no room.
    fn take_one(&mut self, index: u16, ops: &mut VecDeque<Op>) -> bool {
        let mut requests = self.guest.requests.borrow_mut();
        let Some(slot) = requests.next_free() else { return false };
        let Some(pending) = requests.at(slot) else { return false };
        let mut chain = core::mem::take(&mut pending.chain);
        drop(requests);
        let taken = self.vring(index, |vring, shared| vring.take(shared, &mut chain));
        let taken = taken.unwrap_or(Ok(false)).unwrap_or_else(|fault| {
            self.break_off(index, &fault.to_string());
            false
        });
        let mut requests = self.guest.requests.borrow_mut();
        if taken {
            requests.begin(slot);
        }
        if let Some(pending) = requests.at(slot) {
            pending.chain = chain;
            (pending.ring, pending.operations, pending.is_left) = (index, 0, false);
            (pending.status, pending.filled) = (BlockStatus::Ok, 0);
        }
        drop(requests);
        if taken {
            self.begin(slot, ops);
        }
        taken
    }

    /// A driver has broken a rule: its queue stands still.
    pub(super) fn break_off(&mut self, index: u16, why: &str) {
        self.remarks.push(format!("the driver of the virtual machine broke queue {index}: {why}"));
        if let Some(vring) = self.vrings.get_mut(usize::from(index)) {
            vring.break_off();
        }
    }

    /// Does what a request asks for.
    fn begin(&mut self, slot: u16, ops: &mut VecDeque<Op>) {
        let before = ops.len();
        let (filled, planned) = self.plan(slot, ops);
        if let Some(pending) = self.guest.requests.borrow_mut().at(slot) {
            pending.filled = filled;
            pending.parts = (ops.len() - before) as u32;
            pending.operations = pending.parts;
            // Operations that were added before a fault do what they would do alone.
            pending.status = planned.err().unwrap_or(BlockStatus::Ok);
        }
        if ops.len() == before {
            self.answer(slot);
        }
    }

    /// Adds the operations of a request. Bytes that the driver gets, and how it ends if not well.
    fn plan(&self, slot: u16, ops: &mut VecDeque<Op>) -> (u64, Result<(), BlockStatus>) {
        let mut requests = self.guest.requests.borrow_mut();
        let Some(Pending { chain, ring, .. }) = requests.at(slot) else { return (0, Ok(())) };
        let memory = self.guest.memory.borrow();
        let memory = OfGuest(&memory);
        match BlockRequest::parse(&memory, chain) {
            // The driver cannot be told of anything.
            None => (0, Err(BlockStatus::IoError)),
            Some(BlockRequest::Read { sector, bytes }) => {
                (bytes, self.add_parts(slot, OpKind::Read, sector, bytes, ops))
            }
            Some(BlockRequest::Write { sector, bytes }) => {
                let kind = OpKind::Write { fua: self.writes_through() };
                (0, self.add_parts(slot, kind, sector, bytes, ops))
            }
            Some(BlockRequest::Flush) if self.fails_flush(*ring) => (0, Err(BlockStatus::IoError)),
            Some(BlockRequest::Flush) => {
                ops.push_back(Op::bare(OpKind::Flush, 0, 0, name(slot, 0)));
                (0, Ok(()))
            }
            Some(BlockRequest::GetId) => {
                let is_there = data_to(&memory, chain, 0, &self.id());
                (ID_BYTES as u64, if is_there { Ok(()) } else { Err(BlockStatus::IoError) })
            }
            Some(BlockRequest::Discard { ranges }) => {
                (0, self.add_ranges(slot, (&memory, chain), (ranges, false), ops))
            }
            Some(BlockRequest::WriteZeroes { ranges }) => {
                (0, self.add_ranges(slot, (&memory, chain), (ranges, true), ops))
            }
            Some(BlockRequest::Refused(status)) => (0, Err(status)),
        }
    }

    /// The name of the disk, for GET_ID.
    fn id(&self) -> [u8; ID_BYTES] {
        let text = self.view.namespace.uuid.simple().to_string();
        let mut id = [0; ID_BYTES];
        id.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        id
    }

    /// The blocks of so many sectors, which must be whole ones.
    fn blocks(&self, sector: u64, sectors: u64) -> Result<(u64, u32), BlockStatus> {
        let per_block = u64::from(self.view.geometry.block_bytes / SECTOR_BYTES).max(1);
        let is_whole = sector.is_multiple_of(per_block) && sectors.is_multiple_of(per_block);
        match u32::try_from(sectors / per_block) {
            Ok(blocks) if is_whole => Ok((sector / per_block, blocks)),
            _ => Err(BlockStatus::IoError),
        }
    }

    /// Operations of a transfer, each as long as the device allows.
    fn add_parts(
        &self,
        slot: u16,
        kind: OpKind,
        sector: u64,
        bytes: u64,
        ops: &mut VecDeque<Op>,
    ) -> Result<(), BlockStatus> {
        let unit = u64::from(SECTOR_BYTES);
        if bytes == 0 || bytes > VHOST_USER_REQUEST_BYTES_MAX || !bytes.is_multiple_of(unit) {
            return Err(BlockStatus::IoError);
        }
        let (lba, blocks) = self.blocks(sector, bytes / unit)?;
        let block_bytes = u64::from(self.view.geometry.block_bytes);
        let part_blocks = (self.guest.operation_bytes / block_bytes).max(1);
        let mut left = u64::from(blocks);
        for part in 0.. {
            let now = left.min(part_blocks);
            let at = lba + u64::from(part) * part_blocks;
            ops.push_back(Op::new(kind, at, now as u32, name(slot, part), Segments::new()));
            left -= now;
            if left == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Operations of discard or write zeroes.
    fn add_ranges(
        &self,
        slot: u16,
        (memory, chain): (&OfGuest<'_>, &Chain),
        (ranges, zeroes): (u32, bool),
        ops: &mut VecDeque<Op>,
    ) -> Result<(), BlockStatus> {
        let features = &self.view.features;
        if !features.write || (zeroes && !features.write_zeroes) {
            return Err(BlockStatus::Unsupported);
        }
        let fua = self.writes_through();
        for n in 0..ranges {
            let Range { sector, sectors, unmap } = range(memory, chain, n, zeroes)?;
            let (lba, blocks) = self.blocks(sector, sectors.into())?;
            let kind = match zeroes {
                true => OpKind::WriteZeroes { deallocate: unmap, fua },
                false => OpKind::Discard,
            };
            if blocks > 0 {
                ops.push_back(Op::bare(kind, lba, blocks, name(slot, n)));
            }
        }
        Ok(())
    }

    /// An operation has ended.
    pub(super) fn completed(&mut self, Completion { op, outcome }: Completion) {
        self.last_flush.saw(op.kind, outcome);
        self.ended(op.user, outcome);
    }

    /// An operation will not be done by this process.
    pub(super) fn ended(&mut self, user: u64, outcome: Outcome) {
        if self.last_flush.ended(user) {
            if !outcome.is_success() {
                let why = outcome.status().kind;
                self.remarks.push(format!(
                    "the flush before a queue stops has failed, so data that was written may be lost: {why:?}"
                ));
            }
            return;
        }
        let slot = slot_of(user);
        let mut requests = self.guest.requests.borrow_mut();
        let Some(pending) = requests.at(slot) else { return };
        let is_gone = outcome.status().kind == StatusKind::Gone;
        if matches!(outcome, Outcome::NotSent(_)) && is_gone && self.has_record(pending.ring) {
            pending.is_left = true;
        } else if !outcome.is_success() {
            pending.status = match outcome.status().kind {
                StatusKind::Unsupported => BlockStatus::Unsupported,
                _ => BlockStatus::IoError,
            };
        }
        pending.operations = pending.operations.saturating_sub(1);
        let is_done = pending.operations == 0;
        drop(requests);
        if is_done {
            self.answer(slot);
        }
    }

    /// All operations of a request have ended.
    fn answer(&mut self, slot: u16) {
        let mut requests = self.guest.requests.borrow_mut();
        let Some(pending) = requests.at(slot) else { return };
        let (index, chain) = (pending.ring, core::mem::take(&mut pending.chain));
        let (status, filled, is_left) = (pending.status, pending.filled, pending.is_left);
        drop(requests);
        let filled = if status == BlockStatus::Ok { filled } else { 0 };
        let given = self.vring(index, |vring, shared| {
            vring.in_flight = vring.in_flight.saturating_sub(1);
            match is_left {
                true => Ok(()),
                false => {
                    let memory = OfGuest(shared.memory);
                    let written = finish(&memory, &chain, status, filled).unwrap_or(0);
                    vring.give(shared, &chain, written)
                }
            }
        });
        let mut requests = self.guest.requests.borrow_mut();
        if let Some(pending) = requests.at(slot) {
            pending.chain = chain;
        }
        requests.end(slot);
        drop(requests);
        if let Some(Err(fault)) = given {
            self.break_off(index, &fault.to_string());
        }
    }

    /// Notifies drivers of what was given back.
    pub(super) fn notify_all(&mut self) {
        for index in 0..self.vrings.len() as u16 {
            let told = self.vring(index, |vring, shared| vring.notify(shared.memory));
            if let Some(Err(fault)) = told {
                self.break_off(index, &fault.to_string());
            }
        }
    }

    /// Opens queues of which all is known.
    pub(super) fn start_all(&mut self) {
        let features = self.features;
        for index in 0..self.vrings.len() as u16 {
            let started = self.vring(index, |vring, shared| vring.start(shared, features));
            if let Some(Err(fault)) = started {
                self.break_off(index, &fault.to_string());
            }
        }
    }
}
