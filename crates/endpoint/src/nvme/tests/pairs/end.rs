//! One end, as drivers see it.

use super::state::{Pair, Posted, Side, Work, exposure, lock};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use weft_io::event_loop::{Registrar, TimerSlot};
use weft_io::rdma::{DeviceLimits, Event, Exposure, Memory, QueuePair, QueuePairConfig, Remote};
use weft_io::{DriverId, Handle};

/// One end of a queue pair.
pub(in super::super) struct End {
    pair: Arc<Mutex<Pair>>,
    side: usize,
    driver: Option<DriverId>,
    timer: TimerSlot,
    /// What came in each buffer, and with the other end's word.
    buffers: Vec<Vec<u8>>,
    private: Vec<u8>,
}

impl End {
    pub(super) fn new(pair: Arc<Mutex<Pair>>, side: usize) -> Self {
        let private = lock(&pair).sides[side].private.clone();
        Self { pair, side, driver: None, timer: TimerSlot::default(), buffers: Vec::new(), private }
    }

    /// What is done when this end asks for the connection.
    pub(super) fn when_asked(&self, asked: impl FnOnce() + Send + 'static) {
        lock(&self.pair).asked = Some(Box::new(asked));
    }

    fn lock(&self) -> MutexGuard<'_, Pair> {
        lock(&self.pair)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Side) -> T) -> T {
        change(&mut self.lock().sides[self.side])
    }

    fn post(&self, id: u64, what: Posted) {
        let mut pair = self.lock();
        let of = &mut pair.sides[self.side];
        let room = usize::from(of.config.expect("it was created").send_queue);
        assert!(of.queue.len() < room, "the send queue overflows");
        of.queue.push_back(Work { id, what, due: None, retries: 0 });
        pair.wake(self.side);
    }
}

impl QueuePair for End {
    fn device_limits(&self) -> DeviceLimits {
        let has_windows = self.lock().has_windows;
        DeviceLimits { send_queue: 4096, receives: 1024, reads: 4, message_bytes: 16 << 10, has_windows }
    }

    fn create(&mut self, config: &QueuePairConfig) -> io::Result<()> {
        self.buffers = vec![Vec::new(); config.receives.into()];
        self.with(|of| {
            of.config = Some(*config);
            of.buffers = vec![Vec::new(); config.receives.into()];
            of.slots = (0..config.slots).map(|_| None).collect();
            of.exposed = vec![None; config.slots.into()];
        });
        Ok(())
    }

    fn open(&mut self, private_data: &[u8]) -> io::Result<()> {
        let mut pair = self.lock();
        let now = pair.sides[self.side].last_seen();
        pair.sides[1 - self.side].private = private_data.to_vec();
        if self.side == 1 {
            (0..2).for_each(|side| pair.report(side, now, Event::Established));
        }
        let asked = pair.asked.take();
        drop(pair);
        if let Some(asked) = asked {
            asked();
        }
        Ok(())
    }

    fn reject(&mut self, private_data: &[u8]) {
        let mut pair = self.lock();
        let now = pair.sides[self.side].last_seen();
        pair.sides[1 - self.side].private = private_data.to_vec();
        pair.report(1 - self.side, now, Event::Rejected);
    }

    fn private_data(&self) -> &[u8] {
        &self.private
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    fn peer(&self) -> String {
        if self.side == 0 { "10.0.0.1:4420".into() } else { "10.0.1.1:5".into() }
    }

    fn local(&self) -> String {
        if self.side == 1 { "10.0.0.1:4420".into() } else { "10.0.1.1:5".into() }
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        (self.driver, self.timer) = (Some(registrar.driver()), TimerSlot::default());
        Ok(())
    }

    fn deregister(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        self.driver = None;
        self.with(|of| of.home = None);
        Ok(())
    }

    fn poll(&mut self, on: &Handle) -> io::Result<Option<Event>> {
        let (side, now) = (self.side, on.now());
        let mut pair = lock(&self.pair);
        pair.sides[side].home = self.driver.map(|driver| (on.remote(), driver));
        pair.execute(side, now);
        pair.flush(side, now);
        let of = &mut pair.sides[side];
        if of.destroyed {
            return Ok(None);
        }
        let is_due = |front: Option<&(weft_io::Time, Event)>| front.is_some_and(|(at, _)| *at <= now);
        let from = if is_due(of.messages.front()) { &mut of.messages } else { &mut of.ends };
        if !is_due(from.front()) {
            if let (Some(at), Some(driver)) = (pair.next(side), self.driver) {
                self.timer.arm(on, driver, at);
            }
            return Ok(None);
        }
        let event = from.pop_front().map(|(_, event)| event);
        match event {
            Some(Event::Received { buffer, .. }) => {
                self.buffers[usize::from(buffer)] = core::mem::take(&mut of.buffers[usize::from(buffer)]);
            }
            Some(Event::Established | Event::Rejected) => self.private = of.private.clone(),
            _ => {}
        }
        Ok(event)
    }

    fn post_receive(&mut self, buffer: u16) {
        let mut pair = self.lock();
        pair.sides[self.side].receives.push_back(buffer);
        pair.wake(self.side);
        pair.wake(1 - self.side);
    }

    fn received(&self, buffer: u16) -> &[u8] {
        &self.buffers[usize::from(buffer)]
    }

    fn prepare(&mut self, slot: u16, bytes: u32) -> io::Result<()> {
        let mut pair = self.lock();
        assert!(!pair.is_used(self.side, slot), "slot {slot} is in use");
        let others = pair.sides[self.side].slots.iter().flatten().count();
        if others > 0 && pair.rng.one_in(4) {
            pair.counts.no_memory.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        pair.sides[self.side].slots[usize::from(slot)] = Some(vec![0xa5; bytes as usize]);
        Ok(())
    }

    fn copy_in(&mut self, slot: u16, offset: u32, bytes: &[u8]) {
        self.with(|of| {
            let memory = of.slots[usize::from(slot)].as_mut().expect("a slot that was prepared");
            memory[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        });
    }

    fn copy_out(&self, slot: u16, offset: u32, bytes: &mut [u8]) {
        self.with(|of| {
            let memory = of.slots[usize::from(slot)].as_ref().expect("a slot that was prepared");
            bytes.copy_from_slice(&memory[offset as usize..][..bytes.len()]);
        });
    }

    fn release(&mut self, slot: u16) {
        let mut pair = self.lock();
        if !pair.sides[self.side].failed {
            assert!(!pair.is_used(self.side, slot), "slot {slot} is in use");
        }
        let of = &mut pair.sides[self.side];
        (of.slots[usize::from(slot)], of.exposed[usize::from(slot)]) = (None, None);
    }

    fn expose(&mut self, id: u64, slot: u16, bytes: u32, writable: bool) -> io::Result<Remote> {
        let at = self.lock().expose(self.side, slot, bytes, writable);
        if self.with(|of| exposure(&of.config.expect("it was created"))) == Exposure::Window {
            self.post(id, Posted::Bind);
        }
        Ok(at)
    }

    fn conceal(&mut self, slot: u16) {
        self.with(|of| of.exposed[usize::from(slot)] = None);
    }

    fn invalidate(&mut self, id: u64, slot: u16) {
        self.post(id, Posted::Invalidate { slot });
    }

    fn send(&mut self, id: u64, message: &[u8], data: Option<Memory>, invalidate: Option<u32>) {
        self.post(id, Posted::Send { message: message.to_vec(), data, invalidate });
    }

    fn read(&mut self, id: u64, into: Memory, from: Remote) {
        self.post(id, Posted::Read { into, from });
    }

    fn write(&mut self, id: u64, from: Memory, to: Remote, signaled: bool) {
        self.post(id, Posted::Write { from, to, signaled });
    }

    fn disconnect(&mut self) {
        self.lock().fail(self.side);
    }

    fn destroy(&mut self) {
        let mut pair = self.lock();
        pair.fail(self.side);
        pair.sides[self.side].destroyed = true;
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.destroy();
    }
}
