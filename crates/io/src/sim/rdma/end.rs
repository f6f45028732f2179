//! One end, as drivers see it.

use super::{MemorySlot, PairEnd, Phase, Posted, Watcher};
use crate::event_loop::{DriverId, Handle, Registrar};
use crate::rdma::{
    DeviceLimits, Exposure, NotLent, QueuePair, QueuePairConfig, QueuePairEvent, RemoteMemory,
    SlotData,
};
use crate::segment::{OnThread, Segments};
use crate::sim::net::{Net, SharedNet, exhausted};
use crate::sim::stream::watch;
use std::io;
use std::net::SocketAddr;

/// Queue sizes in the device limits.
const SEND_QUEUE: u16 = 4096;
const RECEIVES: u16 = 1024;

/// One end of a queue pair.
pub(in crate::sim) struct SimQueuePair {
    net: SharedNet,
    id: u64,
    /// 0: that which asks, 1: that which accepts.
    end: usize,
    local: SocketAddr,
    peer: SocketAddr,
    /// The driver to wake on a loop outside of the world.
    elsewhere: Option<DriverId>,
    /// Contents of each buffer, and the data of the other end's message.
    buffers: Vec<Vec<u8>>,
    private_data: Vec<u8>,
    /// Once it is destroyed, the memory that its user has not released.
    left: Option<Vec<MemorySlot>>,
}

impl SimQueuePair {
    pub(in crate::sim) fn new(
        net: &SharedNet,
        id: u64,
        end: usize,
        (local, peer): (SocketAddr, SocketAddr),
    ) -> Self {
        let private_data =
            net.lock().rdma.end(id, end).map(|of| of.private_data.clone()).unwrap_or_default();
        let (net, elsewhere, buffers) = (net.clone(), None, Vec::new());
        Self { net, id, end, local, peer, elsewhere, buffers, private_data, left: None }
    }

    /// Changes this end, if it still exists.
    fn with<T: Default>(&self, change: impl FnOnce(&mut PairEnd) -> T) -> T {
        self.net
            .lock()
            .rdma
            .end(self.id, self.end)
            .filter(|of| of.held)
            .map(change)
            .unwrap_or_default()
    }

    fn post(&self, number: u64, what: Posted) {
        self.net.lock().rdma_post(self.id, self.end, number, what);
    }

    fn watch(&self, watcher: Option<Watcher>) {
        let mut net = self.net.lock();
        let Some(of) = net.rdma.end(self.id, self.end) else { return };
        of.armed = of.events.is_empty();
        let due = (!of.armed).then(|| watcher.clone()).flatten();
        of.watcher = watcher;
        if let Some(Watcher::Here(watch)) = due {
            net.tell(Some(watch), true);
        }
    }

    /// Returns whether memory, or access to it, is refused now.
    fn is_refused(&self, net: &mut Net, others: bool) -> bool {
        let config = &net.rdma.config;
        let (soon, ever) = (config.no_memory_one_in, config.refused_one_in);
        let refused = others && net.rng.one_in(soon) || net.rng.one_in(ever);
        net.rdma.counts.no_memory += u64::from(refused);
        refused
    }
}

impl QueuePair for SimQueuePair {
    fn device_limits(&self) -> DeviceLimits {
        let config = self.net.lock().rdma.config.clone();
        DeviceLimits {
            send_queue: SEND_QUEUE,
            receives: RECEIVES,
            reads: config.reads,
            message_bytes: config.message_bytes,
            has_windows: config.has_windows,
            pieces: config.pieces,
        }
    }

    fn create(&mut self, config: &QueuePairConfig) -> io::Result<()> {
        let mut net = self.net.lock();
        let of = net.rdma.end(self.id, self.end).ok_or(io::ErrorKind::NotConnected)?;
        let host = of.host;
        of.config = Some(*config);
        of.slots = (0..config.slots).map(|_| MemorySlot::default()).collect();
        if net.is_exhausted(host) {
            return Err(exhausted());
        }
        self.buffers = vec![Vec::new(); config.receives.into()];
        Ok(())
    }

    fn open(&mut self, private_data: &[u8]) -> io::Result<()> {
        self.net.lock().rdma_open(self.id, self.end, private_data)
    }

    fn reject(&mut self, private_data: &[u8]) {
        self.net.lock().rdma_reject(self.id, private_data);
    }

    fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    fn trouble(&self) -> Option<String> {
        self.with(|of| of.trouble).map(str::to_owned)
    }

    fn peer(&self) -> String {
        self.peer.to_string()
    }

    fn local(&self) -> String {
        self.local.to_string()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        match watch(registrar) {
            Ok(watch) => self.watch(Some(Watcher::Here(watch))),
            Err(_) => self.elsewhere = Some(registrar.driver()),
        }
        Ok(())
    }

    fn deregister(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        self.elsewhere = None;
        self.watch(None);
        Ok(())
    }

    fn poll(&mut self, on: &Handle) -> io::Result<Option<QueuePairEvent>> {
        if let Some(driver) = self.elsewhere {
            self.with(|of| of.watcher = Some(Watcher::Elsewhere(on.remote(), driver)));
        }
        let next = self.with(|of| {
            of.armed = of.events.is_empty();
            of.events.pop_front()
        });
        let Some((event, bytes)) = next else { return Ok(None) };
        match event {
            QueuePairEvent::Received { buffer, .. } => {
                self.buffers[usize::from(buffer)] = bytes;
                if self.end == 1 {
                    self.net.lock().rdma_taken(self.id);
                }
            }
            QueuePairEvent::Established | QueuePairEvent::Rejected => self.private_data = bytes,
            _ => {}
        }
        Ok(Some(event))
    }

    fn post_receive(&mut self, buffer: u16) {
        self.net.lock().rdma_post_receive(self.id, self.end, buffer);
    }

    fn received(&self, buffer: u16) -> &[u8] {
        &self.buffers[usize::from(buffer)]
    }

    fn prepare(&mut self, slot: u16, bytes: u32) -> io::Result<()> {
        let mut net = self.net.lock();
        let of = net
            .rdma
            .end(self.id, self.end)
            .filter(|of| of.held)
            .ok_or(io::ErrorKind::NotConnected)?;
        assert!(!of.is_used(slot), "slot {slot} is in use");
        assert!(of.slots[usize::from(slot)].lent.is_none(), "memory was lent to slot {slot}");
        let others = of.slots.iter().any(|slot| slot.memory.is_some());
        if self.is_refused(&mut net, others) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if let Some(of) = net.rdma.end(self.id, self.end) {
            of.slots[usize::from(slot)].memory = Some(vec![0xa5; bytes as usize]);
        }
        Ok(())
    }

    fn copy_in(&mut self, slot: u16, offset: u32, bytes: &[u8]) {
        let copy = |slots: &mut [MemorySlot]| {
            slots[usize::from(slot)].piece(offset, bytes.len()).copy_from_slice(bytes)
        };
        match &mut self.left {
            Some(left) => copy(left),
            None => self.with(|of| copy(&mut of.slots)),
        }
    }

    fn copy_out(&self, slot: u16, offset: u32, bytes: &mut [u8]) {
        match &self.left {
            Some(left) => {
                let memory =
                    left[usize::from(slot)].memory.as_ref().expect("a slot that was prepared");
                bytes.copy_from_slice(&memory[offset as usize..][..bytes.len()]);
            }
            None => self.with(|of| {
                bytes.copy_from_slice(of.slots[usize::from(slot)].piece(offset, bytes.len()))
            }),
        }
    }

    fn release(&mut self, slot: u16) {
        if let Some(left) = &mut self.left {
            left[usize::from(slot)] = MemorySlot::default();
            return;
        }
        self.with(|of| {
            assert!(of.phase == Phase::Over || !of.is_used(slot), "slot {slot} is in use");
            of.slots[usize::from(slot)] = MemorySlot::default();
        });
    }

    fn lend(&mut self, slot: u16, memory: Segments) -> Result<(), NotLent> {
        let mut net = self.net.lock();
        let most = net.rdma.config.pieces.saturating_sub(1);
        let of = net.rdma.end(self.id, self.end).filter(|of| of.held);
        let takes = of.is_some_and(|of| {
            let pieces = of.config.map_or(0, |config| config.lent_pieces).min(most);
            let is_free = !of.is_used(slot) && of.slots[usize::from(slot)].lent.is_none();
            is_free && memory.len() <= usize::from(pieces)
        });
        // Of another loop the world may see the memory on another thread.
        if !takes || self.elsewhere.is_some() || self.is_refused(&mut net, true) {
            return Err(NotLent { memory, why: None });
        }
        net.rdma.counts.lent += 1;
        if let Some(of) = net.rdma.end(self.id, self.end) {
            of.slots[usize::from(slot)].lent = Some(OnThread::new(memory));
        }
        Ok(())
    }

    fn take_back(&mut self, slot: u16) -> Option<Segments> {
        let lent = match &mut self.left {
            Some(left) => left[usize::from(slot)].lent.take(),
            None => self.with(|of| {
                if of.is_used(slot) { None } else { of.slots[usize::from(slot)].lent.take() }
            }),
        };
        lent.map(OnThread::into_inner)
    }

    fn expose(
        &mut self,
        id: u64,
        slot: u16,
        bytes: u32,
        writable: bool,
    ) -> io::Result<RemoteMemory> {
        let mut net = self.net.lock();
        if self.is_refused(&mut net, false) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let of = net
            .rdma
            .end(self.id, self.end)
            .filter(|of| of.held)
            .ok_or(io::ErrorKind::NotConnected)?;
        let exposure =
            of.config.and_then(|config| config.exposure).expect("this end exposes memory");
        let remote = of.expose(slot, bytes, writable, exposure != Exposure::Window);
        if exposure == Exposure::Window {
            net.rdma_post(self.id, self.end, id, Posted::Bind { slot });
        }
        Ok(remote)
    }

    fn conceal(&mut self, slot: u16) {
        self.with(|of| of.slots[usize::from(slot)].exposed = None);
    }

    fn invalidate(&mut self, id: u64, slot: u16) {
        self.post(id, Posted::Invalidate { slot });
    }

    fn send(&mut self, id: u64, message: &[u8], data: Option<SlotData>, invalidate: Option<u32>) {
        self.post(id, Posted::Send { message: message.to_vec(), data, invalidate });
    }

    fn read(&mut self, id: u64, into: SlotData, from: RemoteMemory) {
        self.post(id, Posted::Read { into, from });
    }

    fn write(&mut self, id: u64, from: SlotData, to: RemoteMemory, signaled: bool) {
        self.post(id, Posted::Write { from, to, signaled });
    }

    fn disconnect(&mut self) {
        self.net.lock().rdma_disconnect(self.id, self.end);
    }

    fn destroy(&mut self) {
        if self.left.is_none() {
            self.left = Some(self.with(|of| core::mem::take(&mut of.slots)));
            self.net.lock().rdma_destroy(self.id, self.end);
        }
    }
}

impl Drop for SimQueuePair {
    fn drop(&mut self) {
        self.destroy();
    }
}
