//! The devices behind an export, and their queues on one connection's loop.

use std::collections::VecDeque;
use std::sync::Arc;
use weft_block::{BlockDevice, BlockQueue, Change, Completion, Error, Op, Outcome, Status, StatusKind};
use weft_io::{DriverId, Handle, Segments};

/// A queue, and the operations that it had no room for.
struct OpenDevice {
    queue: Box<dyn BlockQueue>,
    waiting: VecDeque<Op>,
}

/// The queues of one connection, by the index of their devices.
pub(crate) struct OpenDevices {
    devices: Vec<OpenDevice>,
    /// What ended without a device: reads that lent memory answered, and operations that no device was there for.
    ended: Vec<Completion>,
}

impl OpenDevices {
    /// Opens a queue of each device.
    pub(crate) fn open(devices: &[Arc<dyn BlockDevice>], on: &Handle, owner: DriverId) -> Result<Self, Error> {
        let open =
            |device: &Arc<dyn BlockDevice>| Ok(OpenDevice { queue: device.open_queue(on, owner)?, waiting: VecDeque::new() });
        Ok(Self { devices: devices.iter().map(open).collect::<Result<_, Error>>()?, ended: Vec::new() })
    }

    /// No devices: for a queue that is refused.
    pub(crate) fn none() -> Self {
        Self { devices: Vec::new(), ended: Vec::new() }
    }

    /// Adds an operation to those that the next [`OpenDevices::submit`] submits.
    #[inline]
    pub(crate) fn push(&mut self, device: usize, op: Op) {
        match self.devices.get_mut(device) {
            Some(open) => open.waiting.push_back(op),
            None => self.ended.push(op.done(Outcome::NotSent(Status::new(StatusKind::Gone)))),
        }
    }

    /// Answers a read with the device's own memory, appended to the operation's data, if the device lends it; else gives it back.
    #[inline]
    pub(crate) fn lend(&mut self, device: usize, mut op: Op) -> Result<(), Op> {
        let open = self.devices.get_mut(device);
        if !open.is_some_and(|open| open.queue.lend(op.lba, op.blocks, &mut op.data)) {
            return Err(op);
        }
        self.ended.push(op.done(Outcome::SUCCESS));
        Ok(())
    }

    /// What a read would give, in the device's own memory, appended to `into`; `false` if the device does not lend it.
    #[inline]
    pub(crate) fn lend_to(&mut self, device: usize, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        self.devices.get_mut(device).is_some_and(|open| open.queue.lend(lba, blocks, into))
    }

    /// The device's own memory to receive a write into, appended to `into`; `false` if it has none to give.
    #[inline]
    pub(crate) fn spare(&mut self, device: usize, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        self.devices.get_mut(device).is_some_and(|open| open.queue.spare(lba, blocks, into))
    }

    /// Whether the device takes short writes by [`OpenDevices::store`].
    #[inline]
    pub(crate) fn stores(&self, device: usize) -> bool {
        self.devices.get(device).is_some_and(|open| open.queue.stores())
    }

    /// Has the device store data that lies elsewhere; `false` if it does not.
    #[inline]
    pub(crate) fn store(&mut self, device: usize, lba: u64, blocks: u32, data: &[u8]) -> bool {
        self.devices.get_mut(device).is_some_and(|open| open.queue.store(lba, blocks, data))
    }

    /// Adds an operation that has ended, for the next [`OpenDevices::reap`].
    #[inline]
    pub(crate) fn ended(&mut self, completion: Completion) {
        self.ended.push(completion);
    }

    /// Submits what the devices have room for.
    #[inline]
    pub(crate) fn submit(&mut self) {
        for device in &mut self.devices {
            if !device.waiting.is_empty() {
                device.queue.submit(&mut device.waiting);
            }
        }
    }

    /// Reaps all devices.
    #[inline]
    pub(crate) fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ended);
        for device in &mut self.devices {
            device.queue.reap(done);
        }
    }

    /// Changes of devices that were not told yet, with the device's index.
    pub(crate) fn change(&mut self) -> Option<(usize, Change)> {
        self.devices.iter_mut().enumerate().find_map(|(n, device)| Some((n, device.queue.change()?)))
    }

    /// Asks for the end of one operation.
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
    }

    /// Forgets what no device has taken yet; tells how many operations that were.
    pub(crate) fn drop_waiting(&mut self) -> usize {
        self.devices.iter_mut().map(|device| device.waiting.drain(..).count()).sum()
    }

    /// Asks for the end of every operation that tags 0 to `tags` may have under way.
    pub(crate) fn cancel_all(&mut self, tags: u64) {
        for device in self.devices.iter_mut().filter(|device| device.queue.in_flight() > 0) {
            (0..tags).for_each(|user| device.queue.cancel(user));
        }
    }
}
