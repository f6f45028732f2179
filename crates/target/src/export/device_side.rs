//! The device's side of a session, for every protocol: the memory of commands with its fair share,
//! commands that wait for memory, operations from submission to completion, those that are overdue,
//! the counting of commands, changes of the devices, and the end. A session keeps what its protocol
//! is about; see [`Dialect`](super::dialect::Dialect).

use super::budget::Budget;
use super::devices::{OpenDevices, Wanted};
use super::memory::CommandMemory;
use crate::inventory::LiveInventory;
use std::collections::VecDeque;
use weft_block::{Completion, Op, OpKind, Outcome, spare};
use weft_connection::statistics::Meter;
use weft_io::{DriverId, Handle, Segments};
use weft_proto::stream::Tag;

/// Blocks of the device with this number.
#[derive(Clone, Copy)]
pub(crate) struct DeviceRange {
    pub(crate) device: usize,
    pub(crate) lba: u64,
    pub(crate) blocks: u32,
}

/// See the module. `W`: a command that waits for memory.
pub(crate) struct DeviceSide<W> {
    /// The memory of commands.
    pub(crate) memory: CommandMemory,
    /// The counts of commands.
    pub(crate) meter: Meter,
    /// The write whose data goes from where it is received to the device, without memory of its
    /// own, and the device's outcome. One at a time: the data comes right behind its command.
    direct: Option<(Tag, Option<Outcome>)>,
    devices: OpenDevices,
    waiting: VecDeque<W>,
    done: Vec<Completion>,
    /// Operations that have not completed, and whatever else must end before the session may.
    outstanding: usize,
    phase: Phase,
}

/// How far a session is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// No more commands are taken; those that came before end as ever.
    Draining,
    /// Nor are commands answered; what the devices have ends.
    Stopping,
}

impl<W> DeviceSide<W> {
    /// For a session that uses these devices for commands of `tags` tags, with memory of this
    /// budget.
    pub(crate) fn new(devices: OpenDevices, tags: usize, budget: Budget, meter: Meter) -> Self {
        Self {
            done: Vec::new(),
            memory: CommandMemory::new(tags, budget),
            meter,
            direct: None,
            devices,
            waiting: VecDeque::new(),
            outstanding: 0,
            phase: Phase::Serving,
        }
    }

    /// A command waits for memory.
    #[inline]
    pub(crate) fn wait(&mut self, command: W) {
        self.waiting.push_back(command);
    }

    /// Returns whether commands wait for memory.
    #[inline]
    pub(crate) fn is_starved(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The commands that wait for memory, in order.
    #[inline]
    pub(crate) fn waiting(&self) -> &VecDeque<W> {
        &self.waiting
    }

    /// The first command that waits for memory, to be served or to wait again.
    #[inline]
    pub(crate) fn next_waiting(&mut self) -> Option<W> {
        self.waiting.pop_front()
    }

    /// Commands that wait for memory and have ended do not any more.
    pub(crate) fn forget_waiting(&mut self, mut has_ended: impl FnMut(&W) -> bool) {
        self.waiting.retain(|command| !has_ended(command));
    }

    /// All commands that wait for memory, for those to wait again that are to.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<W> {
        core::mem::take(&mut self.waiting)
    }

    /// Submits an operation with the next [`DeviceSide::reap`].
    #[inline]
    pub(crate) fn push(&mut self, device: usize, op: Op) {
        self.outstanding += 1;
        self.devices.push(device, op);
    }

    /// Ends an operation that needed no device, with the next [`DeviceSide::reap`].
    #[inline]
    pub(crate) fn end(&mut self, completion: Completion) {
        self.outstanding += 1;
        self.devices.ended(completion);
    }

    /// The session may not end until [`DeviceSide::release`], although no device is asked.
    pub(crate) fn hold(&mut self) {
        self.outstanding += 1;
    }

    /// See [`DeviceSide::hold`].
    pub(crate) fn release(&mut self) {
        self.outstanding -= 1;
    }

    /// Appends the result of a read, in the device's own memory, to that of the command; `false` if
    /// the device does not lend it.
    #[inline]
    pub(crate) fn lend(&mut self, place: DeviceRange, into: &mut Segments) -> bool {
        self.devices.lend(place.device, place.lba, place.blocks, into)
    }

    /// Gives a command memory for a read: the device's own, with the result, if it may and does lend
    /// that, otherwise some of the pool's. Returns whether it is lent; `None`: there is none.
    #[inline]
    pub(crate) fn provide_for_read(
        &mut self,
        on: &Handle,
        tag: Tag,
        (place, bytes): (DeviceRange, u32),
        may_lend: bool,
    ) -> Option<bool> {
        let DeviceRange { device, lba, blocks } = place;
        // The list of the command's slot: one that had several pieces once has room for them again.
        let into = self.memory.at(tag);
        let lent = may_lend && self.devices.lend(device, lba, blocks, into);
        if !lent && !self.memory.provide(on, tag, bytes as usize) {
            return None;
        }
        self.meter.has_memory(tag);
        Some(lent)
    }

    /// Appends the device's own memory for a write to `into`; `false` if it has none.
    #[inline]
    pub(crate) fn spare(&mut self, place: DeviceRange, into: &mut Segments) -> bool {
        self.devices.spare(place.device, place.lba, place.blocks, into)
    }

    /// [`DeviceSide::spare`] for the memory of a command.
    #[inline]
    pub(crate) fn spare_for(&mut self, tag: Tag, place: DeviceRange) -> bool {
        self.devices.spare(place.device, place.lba, place.blocks, self.memory.at(tag))
    }

    /// Whether the device accepts short writes by [`DeviceSide::store`].
    #[inline]
    pub(crate) fn stores(&mut self, device: usize) -> bool {
        self.devices.stores(device)
    }

    /// Stores borrowed data on the device; `NotSent` if it does not support this.
    #[inline]
    pub(crate) fn store(&mut self, place: DeviceRange, data: &[u8]) -> Outcome {
        self.devices.store(place.device, place.lba, place.blocks, data)
    }

    /// Decides that the data of a write, which comes right behind its command, goes from where it
    /// is received to the device, by [`DeviceSide::place`]. Returns false if the device does not
    /// support this.
    #[inline]
    pub(crate) fn expect(&mut self, tag: Tag, device: usize) -> bool {
        let will = self.stores(device);
        if will {
            self.meter.has_memory(tag);
            self.direct = Some((tag, None));
        }
        will
    }

    /// Returns whether the payload of this command must be passed to [`DeviceSide::place`] in one
    /// piece.
    #[inline]
    pub(crate) fn wants_whole(&self, tag: Tag) -> bool {
        self.direct == Some((tag, None))
    }

    /// Stores the payload of a write.
    #[inline]
    pub(crate) fn place(&mut self, tag: Tag, place: DeviceRange, data: &[u8]) {
        self.meter.submitted(tag, place.device, (place.lba, place.blocks.into()));
        let mut outcome = self.store(place, data);
        if !outcome.is_success() {
            outcome = self.not_stored(tag, place, outcome);
        }
        self.meter.completed(tag);
        self.direct = Some((tag, Some(outcome)));
    }

    #[cold]
    fn not_stored(&mut self, tag: Tag, place: DeviceRange, outcome: Outcome) -> Outcome {
        let kind = OpKind::Write { fua: false };
        let failed = Op::bare(kind, place.lba, place.blocks, tag.0.into()).done(outcome);
        let _ = self.devices.note_failed(&failed);
        failed.outcome
    }

    /// The device's outcome of a write whose data has come by [`DeviceSide::place`]; `None` within:
    /// the session kept it from the device.
    #[inline]
    pub(crate) fn placed(&mut self, tag: Tag) -> Option<Option<Outcome>> {
        self.direct.take_if(|(of, _)| *of == tag).map(|(_, outcome)| outcome)
    }

    /// Frees the memory of a command, which has ended.
    #[inline]
    pub(crate) fn free(&mut self, tag: Tag) {
        self.memory.free(tag);
        let _ = self.placed(tag);
    }

    /// The block size of a device.
    pub(crate) fn block_bytes(&self, device: usize) -> Option<u32> {
        self.devices.block_bytes(device)
    }

    /// The maximum operation of a device, bytes.
    #[inline]
    pub(crate) fn operation_bytes(&self, device: usize) -> Option<u32> {
        self.devices.operation_bytes(device)
    }

    /// Submits and reaps. The completions are to be given back with [`DeviceSide::reaped`], and
    /// each is to be passed to [`DeviceSide::completed`]; `None`: there are none.
    #[inline]
    pub(crate) fn reap(&mut self) -> Option<Vec<Completion>> {
        self.devices.submit();
        spare::provide(&mut self.done);
        self.devices.reap(&mut self.done);
        if self.done.is_empty() {
            spare::release(&mut self.done);
            return None;
        }
        Some(core::mem::take(&mut self.done))
    }

    /// Takes the list of [`DeviceSide::reap`] back, so that it is allocated once.
    #[inline]
    pub(crate) fn reaped(&mut self, mut done: Vec<Completion>) {
        done.clear();
        self.done = done;
        spare::release(&mut self.done);
    }

    /// An operation has completed. Returns whether it is overdue: it came without its memory, which
    /// its device will give back.
    #[inline]
    pub(crate) fn completed(&mut self, completion: &Completion) -> bool {
        self.outstanding -= 1;
        !completion.outcome.is_success() && self.devices.note_failed(completion)
    }

    /// Operations that devices still had at the last look although they were completed at a time
    /// limit.
    pub(crate) fn overdue(&self) -> usize {
        self.devices.overdue()
    }

    /// Whether devices had overdue operations at the last look.
    #[inline]
    pub(crate) fn has_overdue(&self) -> bool {
        self.devices.has_overdue()
    }

    /// Whether devices hold operations that were completed at a time limit; memory that came back
    /// is free.
    #[inline]
    pub(crate) fn holds_overdue(&mut self) -> bool {
        self.devices.holds_overdue(|memory| self.memory.give(memory))
    }

    /// Other devices, from now on.
    pub(crate) fn follow(&mut self, wanted: &Wanted, on: &Handle, owner: DriverId) {
        self.devices.follow(wanted, on, owner);
    }

    /// Passes on the changes that devices report.
    #[inline]
    pub(crate) fn tell_changes(&mut self, to: &LiveInventory) {
        while let Some((device, change)) = self.devices.change() {
            to.device_changed(&device, change);
        }
    }

    /// Cancels one operation.
    pub(crate) fn cancel(&mut self, user: u64) {
        self.devices.cancel(user);
    }

    /// Takes no more commands.
    pub(crate) fn drain(&mut self) {
        self.phase = self.phase.max(Phase::Draining);
    }

    /// Takes no more commands and answers none. Returns whether this is news: the session then
    /// cancels its operations.
    pub(crate) fn stop(&mut self) -> bool {
        core::mem::replace(&mut self.phase, Phase::Stopping) != Phase::Stopping
    }

    /// Drops commands that wait for memory, and operations that no device has taken.
    pub(crate) fn drop_waiting(&mut self) {
        self.waiting.clear();
        self.outstanding -= self.devices.drop_waiting();
    }

    /// Cancels all operations of the tags of the memory.
    pub(crate) fn cancel_all(&mut self) {
        self.devices.cancel_all(self.memory.tags() as u64);
    }

    /// Whether no more commands are taken.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        self.phase >= Phase::Draining
    }

    /// Whether commands are not answered any more.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.phase == Phase::Stopping
    }

    /// Whether no device holds anything of this session.
    #[inline]
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.outstanding == 0 && !self.holds_overdue()
    }
}
