//! Queue pairs of rdma-core.

mod connection;
mod posting;

use super::cm::{Channel, Id, Reported};
use super::completion::Completions;
use super::device::Device;
use super::errors;
use super::ffi::{QPT_RC, Qp, QpInitAttr};
use super::queues::{Receives, Sends};
use super::slots::Slots;
use super::traffic::Traffic;
use crate::event_loop::{DriverId, Handle, Registrar};
use crate::rdma::{
    DeviceLimits, Exposure, NotLent, QueuePair, QueuePairConfig, QueuePairEvent, RemoteMemory,
    SlotData,
};
use crate::segment::Segments;
use core::ptr::{NonNull, null_mut};
use mio::unix::SourceFd;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// Role of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Asks,
    /// With what the other end can have outstanding, and answers.
    Accepts {
        responder_resources: u8,
        initiator_depth: u8,
    },
}

/// Progress of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not asked for, or not accepted.
    Beginning,
    /// Asked for, accepted, or established.
    Open,
    Over,
}

/// The queues. The fields are dropped in this order, after the queue pair is destroyed.
pub(super) struct Queues {
    qp: NonNull<Qp>,
    completions: Completions,
    receives: Receives,
    sends: Sends,
    slots: Slots,
    traffic: Traffic,
    config: QueuePairConfig,
    /// The poller knows the completions.
    registered: bool,
}

/// A queue pair of rdma-core.
pub(super) struct VerbsQueuePair {
    device: Option<&'static Device>,
    queues: Option<Queues>,
    /// `None` once it is destroyed. The identifier is dropped before its channel.
    id: Option<Id>,
    channel: Channel,
    side: Side,
    phase: Phase,
    peer: SocketAddr,
    /// Events of this end alone.
    own: VecDeque<QueuePairEvent>,
    private_data: Box<[u8]>,
    trouble: Option<String>,
    disconnected: bool,
    established: bool,
    /// Whom the poller tells.
    driver: Option<DriverId>,
}

// SAFETY: nothing in it is bound to a thread. The pointer to the queue pair is used through
// `&mut self` only, and the library lets any thread use it.
unsafe impl Send for VerbsQueuePair {}

impl VerbsQueuePair {
    pub(super) fn connect(to: SocketAddr) -> io::Result<Self> {
        let channel = Channel::new()?;
        let id = Id::new(&channel)?;
        id.resolve_address(to).map_err(|e| errors::of_address(to, e))?;
        Ok(Self::new(id, channel, Side::Asks, to, Box::default()))
    }

    /// A request that a listener got.
    pub(super) fn requested(id: Id, reported: Reported) -> io::Result<Self> {
        let device = Device::of(id.context().ok_or(io::ErrorKind::NotConnected)?)?;
        let peer = id.destination().ok_or(io::ErrorKind::NotConnected)?;
        let channel = Channel::new()?;
        id.migrate(&channel)?;
        let Reported { responder_resources, initiator_depth, private_data, .. } = reported;
        let mut new = Self::new(
            id,
            channel,
            Side::Accepts { responder_resources, initiator_depth },
            peer,
            private_data,
        );
        new.device = Some(device);
        Ok(new)
    }

    fn new(
        id: Id,
        channel: Channel,
        side: Side,
        peer: SocketAddr,
        private_data: Box<[u8]>,
    ) -> Self {
        Self {
            device: None,
            queues: None,
            id: Some(id),
            channel,
            side,
            phase: Phase::Beginning,
            peer,
            own: VecDeque::new(),
            private_data,
            trouble: None,
            disconnected: false,
            established: false,
            driver: None,
        }
    }

    pub(super) fn id(&self) -> io::Result<&Id> {
        self.id.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub(super) fn is_destroyed(&self) -> bool {
        self.id.is_none()
    }

    /// The queues.
    ///
    /// # Panics
    /// If they were not made.
    pub(super) fn queues(&mut self) -> &mut Queues {
        self.queues.as_mut().expect("the queues were made")
    }

    /// Tells the poller of completions, once there is a queue of them and a driver.
    fn register_completions(&mut self, on: &Handle) -> io::Result<()> {
        let (Some(queues), Some(driver)) = (&mut self.queues, self.driver) else { return Ok(()) };
        if !queues.registered {
            on.registrar(driver, |r| r.register_mio(&mut SourceFd(&queues.completions.fd())))?;
            queues.registered = true;
        }
        Ok(())
    }

    /// Returns how many RDMA READs of the other end are answered at a time, and how many this end
    /// has outstanding.
    fn reads(&self, device: &Device, config: &QueuePairConfig) -> (u8, u8) {
        let own = config.reads.min(device.limits.reads);
        match self.side {
            Side::Asks => (device.answers, own),
            Side::Accepts { responder_resources, initiator_depth } => {
                (device.answers.min(responder_resources), own.min(initiator_depth))
            }
        }
    }
}

impl Drop for VerbsQueuePair {
    fn drop(&mut self) {
        self.destroy();
    }
}

impl QueuePair for VerbsQueuePair {
    fn device_limits(&self) -> DeviceLimits {
        let mut limits = self.device.expect("the device is known").limits;
        if let Side::Accepts { initiator_depth, .. } = self.side {
            limits.reads = limits.reads.min(initiator_depth);
        }
        limits
    }

    fn create(&mut self, config: &QueuePairConfig) -> io::Result<()> {
        let device = self.device.expect("the device is known");
        let id = self.id()?;
        if config.exposure == Some(Exposure::Window) && !device.limits.has_windows {
            let why = format!("the RDMA device {} has no type 2 memory windows", device.name);
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let entries = u32::from(config.send_queue) + u32::from(config.receives);
        if entries > device.completions {
            let why = format!(
                "the RDMA device {} has completion queues of {} entries",
                device.name, device.completions
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let completions = Completions::new(device, entries.max(1))?;
        let receives = Receives::new(device, config.receives, config.receive_bytes)?;
        let sends = Sends::new(device, config.send_queue, config.message_bytes)?;
        // Every entry of the send queue has room for the pieces of lent memory, behind a message.
        // Some devices have not so much.
        let most = usize::from(config.lent_pieces.min(device.limits.pieces.saturating_sub(1)));
        let make = |pieces: usize| {
            let mut attr = QpInitAttr {
                context: null_mut(),
                send_cq: completions.queue().as_ptr(),
                recv_cq: completions.queue().as_ptr(),
                srq: null_mut(),
                max_send_wr: config.send_queue.into(),
                max_recv_wr: config.receives.into(),
                max_send_sge: 2.max(1 + pieces as u32),
                max_recv_sge: 1,
                max_inline_data: 0,
                qp_type: QPT_RC,
                sq_sig_all: 0,
            };
            // SAFETY: the completion queue is dropped with the other queues, after `destroy`.
            unsafe { id.create_qp(device, &mut attr) }.map(|qp| (qp, pieces))
        };
        let made = make(most).or_else(|e| if most > 1 { make(1) } else { Err(e) });
        let (qp, pieces) = made.map_err(|e| errors::of_creation(device, config, e))?;
        let slots = Slots::new(device, config.slots, config.exposure, pieces);
        self.queues = Some(Queues {
            qp,
            completions,
            receives,
            sends,
            slots,
            traffic: Traffic::default(),
            config: *config,
            registered: false,
        });
        Ok(())
    }

    fn open(&mut self, private_data: &[u8]) -> io::Result<()> {
        if self.phase != Phase::Beginning {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let (Some(device), Some(queues)) = (self.device, &self.queues) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let (answers, asks) = self.reads(device, &queues.config);
        let id = self.id()?;
        match self.side {
            Side::Asks => id.connect(private_data, answers, asks),
            Side::Accepts { .. } => id.accept(private_data, answers, asks),
        }?;
        self.phase = Phase::Open;
        Ok(())
    }

    fn reject(&mut self, private_data: &[u8]) {
        self.phase = Phase::Over;
        if let Some(id) = &self.id {
            // The other end may have given up meanwhile.
            let _ = id.reject(private_data);
        }
    }

    fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    fn peer(&self) -> String {
        self.peer.to_string()
    }

    fn local(&self) -> String {
        self.id
            .as_ref()
            .and_then(Id::source)
            .map_or_else(|| "unknown".into(), |address| address.to_string())
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.register_mio(&mut SourceFd(&self.channel.fd()))?;
        self.driver = Some(registrar.driver());
        if let Some(queues) = &mut self.queues {
            registrar.register_mio(&mut SourceFd(&queues.completions.fd()))?;
            queues.registered = true;
        }
        Ok(())
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        self.driver = None;
        registrar.deregister_mio(&mut SourceFd(&self.channel.fd()))?;
        if let Some(queues) = &mut self.queues
            && core::mem::take(&mut queues.registered)
        {
            registrar.deregister_mio(&mut SourceFd(&queues.completions.fd()))?;
        }
        Ok(())
    }

    fn poll(&mut self, on: &Handle) -> io::Result<Option<QueuePairEvent>> {
        self.register_completions(on)?;
        if let Some(queues) = &mut self.queues {
            queues.traffic.tell(on.counters());
        }
        loop {
            if let Some(event) = self.own.pop_front() {
                return Ok(Some(event));
            }
            if self.id.is_none() {
                return Ok(None);
            }
            if let Some(event) = self.next_completion()? {
                return Ok(Some(event));
            }
            let Some(reported) = self.channel.next()? else { return Ok(None) };
            if let Some(event) = self.reported(reported) {
                return Ok(Some(event));
            }
        }
    }

    #[inline]
    fn has_own_event(&self) -> bool {
        !self.own.is_empty()
    }

    fn post_receive(&mut self, buffer: u16) {
        self.do_post_receive(buffer);
    }

    fn received(&self, buffer: u16) -> &[u8] {
        self.queues.as_ref().map_or(&[], |queues| queues.receives.message(buffer))
    }

    fn copy_received(&self, buffer: u16, offset: u32, into: &mut [u8]) {
        let queues = self.queues.as_ref().expect("the queues were made");
        queues.traffic.copied(into.len());
        into.copy_from_slice(&queues.receives.message(buffer)[offset as usize..][..into.len()]);
    }

    fn prepare(&mut self, slot: u16, bytes: u32) -> io::Result<()> {
        self.queues().slots.prepare(slot, bytes)
    }

    fn copy_in(&mut self, slot: u16, offset: u32, bytes: &[u8]) {
        let queues = self.queues();
        queues.traffic.copied(bytes.len());
        queues.slots.copy_in(slot, offset, bytes);
    }

    fn copy_out(&self, slot: u16, offset: u32, bytes: &mut [u8]) {
        let queues = self.queues.as_ref().expect("the queues were made");
        queues.traffic.copied(bytes.len());
        queues.slots.copy_out(slot, offset, bytes);
    }

    fn release(&mut self, slot: u16) {
        self.queues().slots.release(slot);
    }

    fn lend(&mut self, slot: u16, memory: Segments) -> Result<(), NotLent> {
        if self.is_destroyed() {
            return Err(NotLent { memory, why: None });
        }
        self.queues().slots.lend(slot, memory)
    }

    fn take_back(&mut self, slot: u16) -> Option<Segments> {
        self.queues().slots.take_back(slot)
    }

    fn expose(
        &mut self,
        id: u64,
        slot: u16,
        bytes: u32,
        writable: bool,
    ) -> io::Result<RemoteMemory> {
        self.do_expose(id, slot, bytes, writable)
    }

    fn conceal(&mut self, slot: u16) {
        self.queues().slots.conceal(slot);
    }

    fn invalidate(&mut self, id: u64, slot: u16) {
        self.post_invalidate(id, slot);
    }

    fn send(&mut self, id: u64, message: &[u8], data: Option<SlotData>, invalidate: Option<u32>) {
        self.post_send(id, message, data, invalidate);
    }

    fn read(&mut self, id: u64, into: SlotData, from: RemoteMemory) {
        self.post_read(id, into, from);
    }

    fn write(&mut self, id: u64, from: SlotData, to: RemoteMemory, signaled: bool) {
        self.post_write(id, from, to, signaled);
    }

    fn disconnect(&mut self) {
        if core::mem::replace(&mut self.disconnected, true) {
            return;
        }
        self.phase = Phase::Over;
        if let Some(id) = &self.id {
            // Where there is no connection the queue pair goes to its error state all the same.
            let _ = id.disconnect();
        }
    }

    fn destroy(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.phase = Phase::Over;
        self.own.clear();
        if let Some(queues) = &mut self.queues {
            queues.slots.free_windows();
        }
        id.destroy_qp();
        drop(id);
        if let Some(queues) = &mut self.queues {
            queues.slots.destroyed();
        }
    }
}
