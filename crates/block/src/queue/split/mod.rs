//! Splits operations that are longer than the maximum transfer of a device.
//!
//! A read, write or comparison above the device's own [`Geometry::max_transfer_bytes`] is split
//! into several operations, whose memory is cut from that of the original. They are submitted in
//! order and run concurrently. The original operation completes with the last of them; its outcome
//! combines theirs. Splitting adds no atomicity to that of the device. A compare-and-write is never
//! split.

use crate::check;
use crate::device::{BlockDevice, BlockQueue, Device, Geometry, InPlace};
use crate::filter::{Filter, QueueFilter, Relay};
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::error::Error;
use crate::outcome::status::{Status, StatusKind};
use crate::queue::slots::Slots;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::segment::Divided;
use weft_io::{DriverId, Handle, Segments};

/// Operations that are taken before the device is offered them.
const BATCH: usize = 64;

/// The device, or where it takes less than `bytes` at once, one that does. `bytes` is rounded up to
/// whole blocks.
pub fn up_to(device: Device, bytes: u32) -> Device {
    let Geometry { block_bytes, max_transfer_bytes, .. } = device.geometry();
    match bytes.checked_next_multiple_of(block_bytes) {
        Some(most) if most > max_transfer_bytes => Arc::new(SplitDevice { inner: device, most }),
        _ => device,
    }
}

struct SplitDevice {
    inner: Device,
    most: u32,
}

impl Filter for SplitDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.inner.as_ref()
    }

    fn geometry(&self) -> Geometry {
        Geometry { max_transfer_bytes: self.most, ..self.inner.geometry() }
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(SplitQueue {
            relay: Relay::new(self.inner.open_queue(on, owner)?, on, owner),
            device: Arc::clone(&self.inner),
            most: self.most,
            begun: Slots::default(),
        }))
    }
}

/// An operation that is under way as one or several.
struct Begun {
    /// As it came, without its memory.
    op: Op,
    memory: Divided,
    /// Parts that are still to come back.
    pending: u32,
    parts: u32,
    /// Joint outcome of the completed parts.
    outcome: Option<Outcome>,
}

struct SplitQueue {
    /// Parts, and operations that have ended.
    relay: Relay,
    device: Device,
    most: u32,
    /// Below, an operation's name is its place here, and above that the number of the part.
    begun: Slots<Begun>,
}

/// Bit from which on a name below has the number of the part.
const PART: u32 = 32;

/// Returns the joint outcome of two parts. `MayHaveExecuted` outweighs certainty; if one was done
/// and another never sent, the whole may have been executed, but can no longer be.
pub(crate) fn merge(first: Outcome, second: Outcome) -> Outcome {
    match (first, second) {
        (unsettled @ Outcome::MayHaveExecuted { settled: false, .. }, _) => unsettled,
        (_, unsettled @ Outcome::MayHaveExecuted { settled: false, .. }) => unsettled,
        (settled @ Outcome::MayHaveExecuted { .. }, _)
        | (_, settled @ Outcome::MayHaveExecuted { .. }) => settled,
        (Outcome::NotSent(status), Outcome::NotSent(_)) => Outcome::NotSent(status),
        (Outcome::NotSent(status), Outcome::Done(_))
        | (Outcome::Done(_), Outcome::NotSent(status)) => Outcome::settled(status),
        (Outcome::Done(_), Outcome::Done(_)) => {
            if first.is_success() {
                second
            } else {
                first
            }
        }
    }
}

impl SplitQueue {
    fn take(&mut self, mut op: Op) {
        let geometry = Geometry { max_transfer_bytes: self.most, ..self.device.geometry() };
        let part_blocks = (self.device.geometry().max_transfer_bytes / geometry.block_bytes).max(1);
        let long = op.kind.data_factor() > 0 && op.blocks > part_blocks;
        if !long {
            let (kind, lba, blocks, data) =
                (op.kind, op.lba, op.blocks, core::mem::take(&mut op.data));
            let name = self.begun.insert(Begun {
                op,
                memory: Divided::new(),
                pending: 1,
                parts: 1,
                outcome: None,
            });
            return self.relay.passing.push_back(Op::new(kind, lba, blocks, name, data));
        }
        let cut = matches!(op.kind, OpKind::Read | OpKind::Write { .. } | OpKind::Compare);
        let refusal = check::refusal(&op, &geometry, &self.device.features());
        if let Some(status) = refusal.or((!cut).then_some(Status::new(StatusKind::Invalid))) {
            return self.relay.ready.push(op.done(Outcome::Done(status)));
        }
        self.cut(op, part_blocks, geometry.block_bytes as usize);
    }

    fn cut(&mut self, mut op: Op, part_blocks: u32, block_bytes: usize) {
        let parts = op.blocks.div_ceil(part_blocks);
        let (kind, lba, blocks) = (op.kind, op.lba, op.blocks);
        let mut memory = Divided::new();
        memory.fill(core::mem::take(&mut op.data));
        let name = self.begun.insert(Begun { op, memory, pending: parts, parts, outcome: None });
        let Some(begun) = self.begun.get_mut(name) else { return };
        for part in 0..parts {
            let first = part * part_blocks;
            let blocks = part_blocks.min(blocks - first);
            let mut data = Segments::new();
            begun.memory.cut(
                first as usize * block_bytes,
                blocks as usize * block_bytes,
                &mut data,
            );
            let name = u64::from(part) << PART | name;
            self.relay.passing.push_back(Op::new(kind, lba + u64::from(first), blocks, name, data));
        }
    }

    /// Takes in a part that has come back; the last of its operation completes that.
    fn come_back(&mut self, completion: Completion) {
        let Completion { op: mut part, outcome } = completion;
        let name = part.user & u64::from(u32::MAX);
        let Some(begun) = self.begun.get_mut(name) else { return };
        begun.pending -= 1;
        begun.outcome = Some(begun.outcome.map_or(outcome, |before| merge(before, outcome)));
        let data = core::mem::take(&mut part.data);
        if begun.parts == 1 {
            begun.op.data = data;
        } else {
            drop(data);
        }
        if begun.pending > 0 {
            return;
        }
        let Some(Begun { mut op, mut memory, parts, outcome, .. }) = self.begun.remove(name) else {
            return;
        };
        if parts > 1 {
            op.data = memory.take_back().unwrap_or_default();
        }
        self.relay.ready.push(op.done(outcome.unwrap_or(Outcome::SUCCESS)));
    }
}

impl QueueFilter for SplitQueue {
    fn inner(&self) -> &dyn BlockQueue {
        self.relay.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn BlockQueue {
        self.relay.inner.as_mut()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }

    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.relay.pass();
        while self.relay.passing.is_empty() && !ops.is_empty() {
            while self.relay.passing.len() < BATCH
                && let Some(op) = ops.pop_front()
            {
                self.take(op);
            }
            self.relay.pass();
        }
        self.relay.leave(ops);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.relay.pass();
        let mut returned = self.relay.returned();
        returned.drain(..).for_each(|completion| self.come_back(completion));
        self.relay.keep(returned);
        self.relay.pass();
        self.relay.finish(done, self.relay.passing.is_empty());
    }

    fn cancel(&mut self, user: u64) {
        let Some(name) = self.begun.find(|begun| begun.op.user == user) else { return };
        let parts = self.begun.get(name).map_or(0, |begun| begun.parts);
        let mut ended = false;
        for op in core::mem::take(&mut self.relay.passing) {
            if op.user & u64::from(u32::MAX) == name {
                ended = true;
                self.come_back(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
            } else {
                self.relay.passing.push_back(op);
            }
        }
        for part in 0..parts {
            self.relay.inner.cancel(u64::from(part) << PART | name);
        }
        if ended {
            self.relay.wake();
        }
    }

    fn in_flight(&self) -> usize {
        self.begun.len() + self.relay.ready.len()
    }
}

impl Drop for SplitQueue {
    fn drop(&mut self) {
        self.begun.drain().for_each(|begun| begun.op.give_up());
    }
}

#[cfg(test)]
mod tests;
