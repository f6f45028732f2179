//! The queue of a leg or of the state file, and what is under way there.

use super::{Core, Equalising};
use crate::device::{BlockQueue, Device, DeviceChange, Presence};
use crate::mirror::counts::{LegCounts, LegQueueCounts};
use crate::mirror::layout::{AREA_BYTES, UNIT, area_of_leg, slot_offset};
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::error::{Error, ErrorKind};
use crate::outcome::status::{Status, StatusKind};
use crate::queue::slots::Slots;
use crate::queue::split::up_to;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::{DriverId, Handle, Pool, Segment, Segments, Time};

/// Purpose of an action of a port.
pub(super) enum ActionPurpose {
    /// The engine's, without data that is needed again.
    Plain { run: u32, name: u64 },
    /// Writes for a user's operation.
    Write { run: u32, name: u64, held: u64 },
    /// Reads into the memory of a user's operation.
    Read { run: u32, name: u64, held: u64 },
    /// Reads what a user's operation compares with.
    Compare { run: u32, name: u64, held: u64 },
    /// Reads what is compared with a copy.
    Compared(Box<Equalising>),
    /// Writes a part that differed from a copy.
    Mended(Box<Equalising>),
    /// Reads into the memory of a copy.
    Fetch { run: u32, name: u64, copy: u64 },
    /// A slot, on a device that cannot compare and write.
    Slot { run: u32, name: u64, lba: u64, old: Vec<u8>, new: Vec<u8>, step: SlotStep },
    /// The whole area.
    Area,
    /// A step of the reservation of a leg.
    Reserve,
    /// Gives back what an earlier opener has reserved, as that one.
    Displace,
    /// Gives the reservation of a leg back.
    GiveBack,
    /// Shows whether the device still answers.
    Probe,
}

/// Without compare-and-write a slot is read, written and read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotStep {
    Look,
    Write,
    LookAgain,
}

pub(super) struct Port {
    pub(super) url: String,
    pub(super) device: Device,
    queue: Box<dyn BlockQueue>,
    todo: VecDeque<Op>,
    under_way: Slots<ActionPurpose>,
    done: Vec<Completion>,
    /// The first block of the area.
    area: u64,
    pub(super) block_bytes: u32,
    is_gone: bool,
    /// Something was sent since the last look ([`Port::probe`]).
    is_used: bool,
    /// Others than the mirror itself have it while a loop may have something under way there.
    pub(super) uses: Arc<()>,
    counts: LegQueueCounts,
}

impl Core {
    /// Ports of a place: a leg, or behind the last one the state file. The first one is in use, the
    /// others end.
    pub(super) fn ports(&self, place: usize) -> usize {
        let old = self.legs.get(place).map(|leg| leg.old.len());
        1 + old.or_else(|| self.state.as_ref().map(|state| state.old.len())).unwrap_or(0)
    }

    /// One of them.
    pub(super) fn port_at(&mut self, place: usize, index: usize) -> Option<&mut Port> {
        let (port, old) = match self.legs.get_mut(place) {
            Some(leg) => (&mut leg.port, &mut leg.old),
            None => self.state.as_mut().map(|state| (&mut state.port, &mut state.old))?,
        };
        if index == 0 { port.as_mut() } else { old.get_mut(index - 1) }
    }
}

impl Port {
    /// Opens a queue of a leg, or of the state file (`is_state`).
    ///
    /// # Errors
    /// What is wrong with the device.
    pub(super) fn open(
        device: Device,
        is_state: bool,
        most: u32,
        counts: &Arc<LegCounts>,
        (on, owner): (&Handle, DriverId),
    ) -> Result<Self, Error> {
        let (url, geometry) = (device.url().to_owned(), device.geometry());
        let wrong = |what: &str| Err(Error::new(ErrorKind::Unsupported, format!("{url}: {what}")));
        if !matches!(geometry.block_bytes, 512 | 4096) {
            return wrong("a mirror needs blocks of 512 or 4096 bytes");
        }
        if !device.features().write {
            return wrong("a mirror needs to write to it");
        }
        let bytes = geometry.whole_bytes();
        let area = if is_state { Some(0) } else { area_of_leg(bytes) };
        let Some(area) = area.filter(|area| area + AREA_BYTES as u64 <= bytes) else {
            return wrong("it is too small for a mirror");
        };
        let device = up_to(device, most);
        let queue = device.open_queue(on, owner)?;
        let block_bytes = geometry.block_bytes;
        let area = area / u64::from(block_bytes);
        Ok(Self {
            url,
            device,
            queue,
            todo: VecDeque::new(),
            under_way: Slots::default(),
            done: Vec::new(),
            area,
            block_bytes,
            is_gone: false,
            is_used: false,
            uses: Arc::default(),
            counts: LegQueueCounts::new(counts, block_bytes),
        })
    }

    pub(super) fn send(
        &mut self,
        kind: OpKind,
        lba: u64,
        blocks: u32,
        data: Segments,
        what: ActionPurpose,
    ) {
        self.is_used = true;
        let name = self.under_way.insert(what);
        self.todo.push_back(Op::new(kind, lba, blocks, name, data));
    }

    pub(super) fn read_area(&mut self, pool: &Pool) {
        let data = memory(pool, AREA_BYTES);
        let (area, blocks) = (self.area, AREA_BYTES as u32 / self.block_bytes);
        self.send(OpKind::Read, area, blocks, data, ActionPurpose::Area);
    }

    /// Reads a block if nothing was sent since the last call: nobody else notices when a connection
    /// is dead that only the home uses.
    pub(super) fn probe(&mut self, pool: &Pool) {
        if !self.is_used {
            let (area, data) = (self.area, memory(pool, self.block_bytes as usize));
            self.send(OpKind::Read, area, 1, data, ActionPurpose::Probe);
        }
        self.is_used = false;
    }

    /// Writes a page of a bitmap.
    pub(super) fn write_page(
        &mut self,
        pool: &Pool,
        offset: u64,
        bytes: &[u8],
        what: ActionPurpose,
    ) {
        let lba = self.area + offset / u64::from(self.block_bytes);
        let blocks = bytes.len() as u32 / self.block_bytes;
        self.send(OpKind::Write { fua: true }, lba, blocks, filled(pool, &[bytes]), what);
    }

    /// Writes a slot if it holds `old`; without looking in the state file, which is locked.
    pub(super) fn write_slot(
        &mut self,
        pool: &Pool,
        (run, name): (u32, u64),
        slot: usize,
        [old, new]: [Vec<u8>; 2],
        is_state: bool,
    ) {
        let lba = self.area + slot_offset(slot) / u64::from(self.block_bytes);
        if is_state {
            let data = filled(pool, &[&new]);
            self.send(
                OpKind::Write { fua: true },
                lba,
                1,
                data,
                ActionPurpose::Plain { run, name },
            );
        } else if self.device.features().compare {
            let data = filled(pool, &[&old, &new]);
            self.send(
                OpKind::CompareAndWrite { fua: true },
                lba,
                1,
                data,
                ActionPurpose::Plain { run, name },
            );
        } else {
            self.slot_step(
                pool,
                ActionPurpose::Slot { run, name, lba, old, new, step: SlotStep::Look },
            );
        }
    }

    fn slot_step(&mut self, pool: &Pool, what: ActionPurpose) {
        let ActionPurpose::Slot { lba, ref new, step, .. } = what else { return };
        let (kind, data) = match step {
            SlotStep::Write => (OpKind::Write { fua: true }, filled(pool, &[new])),
            SlotStep::Look | SlotStep::LookAgain => (OpKind::Read, memory(pool, new.len())),
        };
        self.send(kind, lba, 1, data, what);
    }

    /// The next step of a slot, or its end.
    pub(super) fn slot_done(
        &mut self,
        pool: &Pool,
        what: ActionPurpose,
        completion: &Completion,
    ) -> Option<(u32, u64, Outcome)> {
        let ActionPurpose::Slot { run, name, lba, old, new, step } = what else { return None };
        let holds =
            |bytes: &[u8]| completion.op.data.iter().flat_map(|segment| segment.iter()).eq(bytes);
        let end = |outcome| Some((run, name, outcome));
        if !completion.outcome.is_success() {
            return end(completion.outcome);
        }
        let next = match step {
            SlotStep::Look if holds(&old) => SlotStep::Write,
            SlotStep::Write => SlotStep::LookAgain,
            SlotStep::LookAgain if holds(&new) => return end(Outcome::SUCCESS),
            SlotStep::Look | SlotStep::LookAgain => {
                return end(Outcome::Done(Status::new(StatusKind::CompareFailed)));
            }
        };
        self.slot_step(pool, ActionPurpose::Slot { run, name, lba, old, new, step: next });
        None
    }

    /// Submits, and appends what has ended.
    pub(super) fn turn(&mut self, ended: &mut Vec<(ActionPurpose, Completion)>, now: Time) {
        if !self.todo.is_empty() {
            let is_timed = |op: &&Op| self.under_way.get(op.user).is_some_and(is_timed);
            if self.counts.is_due(now)
                && let Some(op) = self.todo.iter().find(is_timed)
            {
                self.counts.time(op, now);
            }
            self.queue.submit(&mut self.todo);
        }
        self.queue.reap(&mut self.done);
        self.counts.ended(&self.done, now);
        for completion in self.done.drain(..) {
            if let Some(what) = self.under_way.remove(completion.op.user) {
                ended.push((what, completion));
            }
        }
        while let Some(change) = self.queue.change() {
            self.is_gone |= matches!(
                change,
                DeviceChange::Gone | DeviceChange::Away | DeviceChange::Resized { .. }
            );
        }
    }

    /// Returns whether its device reports that it is gone.
    pub(super) fn look(&mut self) -> bool {
        self.is_gone |= self.device.presence() != Presence::Here;
        self.is_gone
    }

    /// It is no longer used: operations that its queue has not taken were never sent.
    pub(super) fn withdraw(&mut self, ended: &mut Vec<(ActionPurpose, Completion)>) {
        for op in self.todo.drain(..) {
            if let Some(what) = self.under_way.remove(op.user) {
                ended.push((what, op.done(Outcome::NotSent(Status::new(StatusKind::Gone)))));
            }
        }
    }

    pub(super) fn holds_back(&self) -> bool {
        self.queue.holds_back()
    }

    /// Returns whether none of its commands can be executed, not even by a device that has not
    /// answered in time.
    pub(super) fn is_settled(&mut self) -> bool {
        self.under_way.is_empty()
            && self.queue.overdue(&mut Vec::new()) == 0
            && Arc::strong_count(&self.uses) == 1
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.todo.drain(..).for_each(Op::give_up);
    }
}

/// Returns whether the latency of the leg is measured by such an action: only by reads and writes
/// of users, as on other loops. Copies and labels have sizes of their own.
fn is_timed(what: &ActionPurpose) -> bool {
    use ActionPurpose as P;
    matches!(what, P::Write { .. } | P::Read { .. } | P::Compare { .. })
}

/// Memory for the mirror's own actions: there are few at a time.
pub(super) fn memory(pool: &Pool, len: usize) -> Segments {
    let buf = pool.take_reserve(len).expect("no action of a mirror is longer than a buffer");
    Segments::from_iter([Segment::from(buf)])
}

fn filled(pool: &Pool, parts: &[&[u8]]) -> Segments {
    let mut data = memory(pool, parts.iter().map(|part| part.len()).sum());
    let mut at = 0;
    for part in parts {
        data[0][at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    data
}

const _: () = assert!(UNIT >= 4096 && AREA_BYTES <= weft_io::limits::BUF_BYTES_MAX);
