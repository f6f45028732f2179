//! The devices of an export, and their queues on one connection's loop.

use super::failures;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_block::limit::{Rate, with_rate};
use weft_block::{
    BlockDevice, BlockQueue, Completion, DeviceChange, Error, Geometry, InPlace, Op, Outcome,
    Status, StatusKind, spare,
};
use weft_connection::refusals::Refusals;
use weft_io::{DriverId, Handle, Segments};

/// Devices of which a connection gets no queue, for the log: each connection tells of them.
static UNUSABLE: Refusals = Refusals::of_errors();

/// The device of each number; `None`: none.
pub(crate) type Wanted = [Option<Arc<dyn BlockDevice>>];

/// A queue, and the operations for which it had no room.
struct OpenDevice {
    number: usize,
    device: Arc<dyn BlockDevice>,
    queue: Box<dyn BlockQueue>,
    waiting: VecDeque<Op>,
    block_bytes: u32,
    /// Maximum operation, bytes.
    operation_bytes: u32,
}

impl OpenDevice {
    /// Drops operations that the device has not accepted; returns their number.
    fn give_up(&mut self) -> usize {
        let waiting = self.waiting.len();
        self.waiting.drain(..).for_each(Op::give_up);
        waiting
    }
}

impl Drop for OpenDevice {
    /// The connection has ended.
    fn drop(&mut self) {
        self.give_up();
    }
}

/// No device.
const NOWHERE: u16 = u16::MAX;

/// The queues of one connection, by the numbers of their devices.
#[derive(Default)]
pub(crate) struct OpenDevices {
    devices: Vec<OpenDevice>,
    /// The index of the device of each number.
    places: Vec<u16>,
    /// Removed devices that still have operations.
    leaving: Vec<OpenDevice>,
    /// Operations that ended without a device: reads from lent memory, and operations for a missing
    /// device.
    ended: Vec<Completion>,
    /// What the host may use of all devices together; `None`: all there is.
    rate: Option<Arc<Rate>>,
    /// Operations that devices still had at the last look although they were completed at a time
    /// limit.
    overdue: usize,
}

fn gone(op: Op) -> Completion {
    op.done(Outcome::NotSent(Status::new(StatusKind::Gone)))
}

impl OpenDevices {
    /// Opens a queue of each device, for a host that may use so much.
    pub(crate) fn open(
        wanted: &Wanted,
        rate: Option<Arc<Rate>>,
        on: &Handle,
        owner: DriverId,
    ) -> Result<Self, Error> {
        let mut open = Self { rate, ..Self::default() };
        for number in 0..wanted.len() {
            open.add(wanted, number, on, owner)?;
        }
        open.find_places(wanted.len());
        Ok(open)
    }

    /// Replaces the devices. A removed device keeps the operations that it has and is released
    /// after the last one; operations that wait for it end.
    pub(crate) fn follow(&mut self, wanted: &Wanted, on: &Handle, owner: DriverId) {
        let stays = |open: &mut OpenDevice| matches!(wanted.get(open.number), Some(Some(device)) if Arc::ptr_eq(device, &open.device));
        for mut open in self.devices.extract_if(.., |open| !stays(open)) {
            self.ended.extend(open.waiting.drain(..).map(gone));
            self.leaving.push(open);
        }
        for number in 0..wanted.len() {
            if self.devices.iter().all(|open| open.number != number)
                && let Err(e) = self.add(wanted, number, on, owner)
            {
                UNUSABLE.log_now(|| format!("cannot use a new device: {e}"));
            }
        }
        self.find_places(wanted.len());
    }

    fn add(
        &mut self,
        wanted: &Wanted,
        number: usize,
        on: &Handle,
        owner: DriverId,
    ) -> Result<(), Error> {
        if let Some(device) = &wanted[number] {
            let (device, mut queue) = (Arc::clone(device), device.open_queue(on, owner)?);
            if let Some(rate) = &self.rate {
                queue = with_rate(queue, rate, on, owner);
            }
            let Geometry { block_bytes, max_transfer_bytes: operation_bytes, .. } =
                device.geometry();
            self.devices.push(OpenDevice {
                number,
                device,
                queue,
                waiting: VecDeque::new(),
                block_bytes,
                operation_bytes,
            });
        }
        Ok(())
    }

    fn find_places(&mut self, numbers: usize) {
        self.places.clear();
        self.places.resize(numbers, NOWHERE);
        for (place, open) in (0..).zip(&self.devices) {
            self.places[open.number] = place;
        }
    }

    #[inline]
    fn at(&mut self, number: usize) -> Option<&mut OpenDevice> {
        self.devices.get_mut(usize::from(*self.places.get(number)?))
    }

    /// The block size of the device with this number.
    #[inline]
    pub(crate) fn block_bytes(&self, number: usize) -> Option<u32> {
        Some(self.devices.get(usize::from(*self.places.get(number)?))?.block_bytes)
    }

    /// The maximum operation of the device with this number, bytes.
    #[inline]
    pub(crate) fn operation_bytes(&self, number: usize) -> Option<u32> {
        Some(self.devices.get(usize::from(*self.places.get(number)?))?.operation_bytes)
    }

    /// Adds an operation for the next [`OpenDevices::submit`].
    #[inline]
    pub(crate) fn push(&mut self, device: usize, op: Op) {
        match self.at(device) {
            Some(open) => {
                spare::provide(&mut open.waiting);
                open.waiting.push_back(op);
            }
            None => self.ended.push(gone(op)),
        }
    }

    /// Appends the result of a read, in the device's own memory, to `into`; `false` if the device
    /// does not lend it.
    #[inline]
    pub(crate) fn lend(
        &mut self,
        device: usize,
        lba: u64,
        blocks: u32,
        into: &mut Segments,
    ) -> bool {
        self.in_place(device).is_some_and(|own| own.lend(lba, blocks, into))
    }

    /// Appends the device's own memory for a write to `into`; `false` if it has none.
    #[inline]
    pub(crate) fn spare(
        &mut self,
        device: usize,
        lba: u64,
        blocks: u32,
        into: &mut Segments,
    ) -> bool {
        self.in_place(device).is_some_and(|own| own.spare(lba, blocks, into))
    }

    /// Whether the device accepts short writes by [`OpenDevices::store`].
    #[inline]
    pub(crate) fn stores(&mut self, device: usize) -> bool {
        self.in_place(device).is_some_and(InPlace::stores)
    }

    /// Stores borrowed data on the device; `NotSent` if it does not support this.
    #[inline]
    pub(crate) fn store(&mut self, device: usize, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        let refused = Outcome::NotSent(Status::new(StatusKind::Internal));
        self.in_place(device).map_or(refused, |own| own.store(lba, blocks, data))
    }

    #[inline]
    fn in_place(&mut self, device: usize) -> Option<&mut dyn InPlace> {
        self.at(device)?.queue.in_place()
    }

    /// Adds a completed operation for the next [`OpenDevices::reap`].
    #[inline]
    pub(crate) fn ended(&mut self, completion: Completion) {
        spare::provide(&mut self.ended);
        self.ended.push(completion);
    }

    /// Submits operations while the devices have room.
    #[inline]
    pub(crate) fn submit(&mut self) {
        for device in &mut self.devices {
            if !device.waiting.is_empty() {
                device.queue.submit(&mut device.waiting);
                spare::release(&mut device.waiting);
            }
        }
    }

    /// Reaps all devices.
    #[inline]
    pub(crate) fn reap(&mut self, done: &mut Vec<Completion>) {
        spare::append(done, &mut self.ended);
        for device in &mut self.devices {
            device.queue.reap(done);
        }
        if !self.leaving.is_empty() {
            self.leaving.iter_mut().for_each(|device| device.queue.reap(done));
            self.leaving.retain(|device| device.queue.in_flight() > 0);
        }
    }

    /// Logs a failed operation, and notes whether it is overdue: it came without its memory, which
    /// its device will give back.
    #[cold]
    pub(crate) fn note_failed(&mut self, failed: &Completion) -> bool {
        match &self.devices[..] {
            [open] => failures::log(open.device.url(), failed),
            // The completion does not say whose it is.
            _ => failures::log("one of the devices of a connection", failed),
        }
        let overdue = matches!(
            failed.outcome,
            Outcome::MayHaveExecuted { status: Status { kind: StatusKind::TimedOut, .. }, .. }
        );
        self.overdue += usize::from(overdue);
        overdue
    }

    /// Overdue operations at the last look.
    pub(crate) fn overdue(&self) -> usize {
        self.overdue
    }

    /// Whether devices had overdue operations at the last look.
    #[inline]
    pub(crate) fn has_overdue(&self) -> bool {
        self.overdue > 0
    }

    /// Whether devices have overdue operations. The memory of those that have come back is passed
    /// to `give`.
    #[inline]
    pub(crate) fn holds_overdue(&mut self, give: impl FnMut(Segments)) -> bool {
        self.overdue > 0 && self.look_at_overdue(give)
    }

    #[cold]
    fn look_at_overdue(&mut self, give: impl FnMut(Segments)) -> bool {
        let mut given_back = Vec::new();
        let devices = self.devices.iter_mut().chain(&mut self.leaving);
        self.overdue = devices.map(|device| device.queue.overdue(&mut given_back)).sum();
        given_back.into_iter().for_each(give);
        self.overdue > 0
    }

    /// The next unreported change of a device.
    pub(crate) fn change(&mut self) -> Option<(Arc<dyn BlockDevice>, DeviceChange)> {
        self.devices
            .iter_mut()
            .find_map(|open| Some((Arc::clone(&open.device), open.queue.change()?)))
    }

    /// Cancels one operation.
    pub(crate) fn cancel(&mut self, user: u64) {
        for device in &mut self.devices {
            if let Some(at) = device.waiting.iter().position(|op| op.user == user)
                && let Some(op) = device.waiting.remove(at)
            {
                self.ended.push(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
                return;
            }
            device.queue.cancel(user);
        }
        self.leaving.iter_mut().for_each(|device| device.queue.cancel(user));
    }

    /// Drops all operations that no device has accepted; returns their number.
    pub(crate) fn drop_waiting(&mut self) -> usize {
        self.devices.iter_mut().map(OpenDevice::give_up).sum()
    }

    /// Cancels all operations of the tags 0 to `tags`.
    pub(crate) fn cancel_all(&mut self, tags: u64) {
        for device in self
            .devices
            .iter_mut()
            .chain(&mut self.leaving)
            .filter(|device| device.queue.in_flight() > 0)
        {
            (0..tags).for_each(|user| device.queue.cancel(user));
        }
    }
}
