//! Queue pairs of a world ([`crate::rdma`]), found by its addresses.
//!
//! Devices execute work without the processes at either end: it reaches the other end in order,
//! after the network's delays, whatever the loops there do, and its acknowledgement comes back
//! later. A message takes a receive that is posted, or is tried again. What gets no answer is tried
//! again for a while ([`RdmaConfig::patience`]) and then fails, with the queue pair. Connections
//! that are cut, hosts that are apart and hosts without descriptors are those of byte streams; a
//! host that was killed or lost its power is found out by those who send to it.
//!
//! Bits do not arrive wrong: RDMA has checksums of its own, and sends again what is damaged.

mod config;
mod end;
mod execute;
mod faults;
mod handshake;
#[cfg(test)]
mod tests;

use super::net::{Net, Watch};
use crate::event_loop::{DriverId, Registrar, RemoteLoop};
use crate::rdma::{
    Exposure, QueuePair, QueuePairConfig, QueuePairEvent, QueuePairListener, RemoteMemory,
    SlotData, WorkError,
};
use crate::rng::Rng;
use crate::segment::{OnThread, Segments, pieces, total_len};
use crate::sim::config::Cut;
use crate::sim::net::SharedNet;
use crate::sim::stream::watch;
use crate::time::Time;
pub use config::{RdmaConfig, RdmaCounts};
use core::time::Duration;
pub(super) use end::SimQueuePair;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;

/// A future event of a queue pair, by its number and perhaps an end of it (0: the requester).
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// The way to the other end is looked for; how often that was in vain.
    Resolve(u64, u32),
    /// The request arrives; the wait before it is repeated.
    Request(u64, Duration),
    /// The acceptance arrives.
    Accepted(u64, Duration),
    /// The accepting end hears that it did.
    Ready(u64),
    /// A rejection arrives, with private data or without.
    Rejected(u64, Option<Vec<u8>>),
    /// The end that asks stops waiting.
    Unanswered(u64),
    /// Work of this end arrives at the other one.
    Execute(u64, usize),
    /// An acknowledgement arrives at this end.
    Acknowledge(u64, usize),
    /// This end hears that the other one has disconnected.
    Disconnected(u64, usize),
    /// The connection manager of this end confirms that it has disconnected.
    Gone(u64, usize),
    /// This end loses patience if nothing got across since.
    GiveUp(u64, usize, u64),
}

struct Port {
    /// Distinguishes it from an earlier listener on the same port.
    id: u64,
    backlog: VecDeque<u64>,
    watch: Option<Watch>,
    armed: bool,
}

/// All queue pairs of a world.
pub(super) struct Rdma {
    pub(super) config: RdmaConfig,
    pub(super) counts: RdmaCounts,
    pairs: BTreeMap<u64, Pair>,
    /// By host and port, which are not those of TCP.
    ports: BTreeMap<(usize, u16), Port>,
}

impl Rdma {
    pub(super) fn new(seed: u64) -> Self {
        let config = RdmaConfig::drawn(&mut Rng::new(seed ^ 0x7264_6d61));
        Self {
            config,
            counts: RdmaCounts::default(),
            pairs: BTreeMap::new(),
            ports: BTreeMap::new(),
        }
    }

    fn end(&mut self, id: u64, end: usize) -> Option<&mut PairEnd> {
        self.pairs.get_mut(&id).map(|pair| &mut pair.ends[end])
    }
}

impl Net {
    /// Lets a step happen, whose time has come.
    pub(super) fn happen_rdma(&mut self, step: Step) {
        match step {
            Step::Resolve(id, tries) => self.rdma_resolve(id, tries),
            Step::Request(id, again_in) => self.rdma_request(id, again_in),
            Step::Accepted(id, again_in) => self.rdma_accepted(id, again_in),
            Step::Ready(id) => self.rdma_ready(id),
            Step::Rejected(id, private_data) => self.rdma_rejected(id, private_data),
            Step::Unanswered(id) => self.rdma_unanswered(id),
            Step::Execute(id, end) => self.rdma_execute(id, end),
            Step::Acknowledge(id, end) => self.rdma_acknowledge(id, end),
            Step::Disconnected(id, end) => self.rdma_disconnected(id, end),
            Step::Gone(id, end) => self.rdma_gone(id, end),
            Step::GiveUp(id, end, progress) => self.rdma_give_up(id, end, progress),
        }
    }

    fn rdma_after_delay(&mut self, step: Step) {
        let delay = self.delay();
        self.after_rdma(delay, step);
    }

    /// Reports something to an end, with the bytes that belong to it.
    fn rdma_report(&mut self, id: u64, end: usize, event: QueuePairEvent, bytes: Vec<u8>) {
        let Some(of) = self.rdma.end(id, end).filter(|of| of.held) else { return };
        of.events.push_back((event, bytes));
        let armed = core::mem::take(&mut of.armed);
        match of.watcher.clone() {
            Some(Watcher::Here(watch)) => self.tell(Some(watch), armed),
            Some(Watcher::Elsewhere(remote, driver)) => remote.wake(driver),
            None => {}
        }
    }

    /// Returns whether an end hears nothing of the other one.
    fn rdma_is_cut_off(&self, id: u64, end: usize) -> bool {
        let Some(pair) = self.rdma.pairs.get(&id) else { return true };
        pair.silent || self.is_walled(pair.ends[1 - end].host, pair.ends[end].host)
    }

    fn rdma_forget_unheld(&mut self, id: u64) {
        if self.rdma.pairs.get(&id).is_some_and(|pair| !pair.ends[0].held && !pair.ends[1].held) {
            self.rdma.pairs.remove(&id);
        }
    }
}

/// Posted to a send queue.
enum Posted {
    Send { message: Vec<u8>, data: Option<SlotData>, invalidate: Option<u32> },
    Read { into: SlotData, from: RemoteMemory },
    Write { from: SlotData, to: RemoteMemory, signaled: bool },
    Bind { slot: u16 },
    Invalidate { slot: u16 },
}

impl Posted {
    /// Returns whether it concerns this end alone.
    fn is_local(&self) -> bool {
        matches!(self, Self::Bind { .. } | Self::Invalidate { .. })
    }

    fn uses(&self, of: u16) -> bool {
        match self {
            Self::Send { data, .. } => data.is_some_and(|data| data.slot == of),
            Self::Read { into: memory, .. } | Self::Write { from: memory, .. } => memory.slot == of,
            Self::Bind { slot } | Self::Invalidate { slot } => *slot == of,
        }
    }
}

struct Work {
    id: u64,
    what: Posted,
    /// When it reaches the other end; when its acknowledgement arrives, once it did.
    due: Time,
    /// It was refused once.
    refused: bool,
    /// Data of an RDMA READ.
    brought: Vec<u8>,
}

/// Access of the other end to a slot.
#[derive(Clone, Copy)]
struct Exposed {
    key: u32,
    bytes: u32,
    writable: bool,
    /// The window is bound, or there is none.
    in_force: bool,
}

#[derive(Default)]
struct MemorySlot {
    memory: Option<Vec<u8>>,
    /// In the place of `memory`.
    lent: Option<OnThread<Segments>>,
    exposed: Option<Exposed>,
}

impl MemorySlot {
    /// A piece of its memory.
    fn piece(&mut self, offset: u32, bytes: usize) -> &mut [u8] {
        &mut self.memory.as_mut().expect("a slot that was prepared")[offset as usize..][..bytes]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The connection was not asked for, or not accepted.
    Beginning,
    Asked,
    /// Asked for and accepted: work is executed.
    Open,
    /// Work is flushed.
    Over,
}

/// Receiver of events.
#[derive(Clone)]
enum Watcher {
    /// A driver of a loop of the world.
    Here(Watch),
    /// One of another loop, which it names whenever it looks for events.
    Elsewhere(RemoteLoop, DriverId),
}

struct PairEnd {
    host: usize,
    addr: SocketAddr,
    phase: Phase,
    /// An object, or a backlog, uses it.
    held: bool,
    watcher: Option<Watcher>,
    /// Saw that there was no event since the last wake.
    armed: bool,
    config: Option<QueuePairConfig>,
    /// Data of the other end's request, or of its answer.
    private_data: Vec<u8>,
    trouble: Option<&'static str>,
    /// With the bytes that belong to them.
    events: VecDeque<(QueuePairEvent, Vec<u8>)>,
    /// It knows that the connection is over.
    told: bool,
    /// The connection was accepted, as far as this end knows.
    stood: bool,
    disconnected: bool,
    receives: VecDeque<u16>,
    slots: Vec<MemorySlot>,
    /// Not with the other end yet.
    queue: VecDeque<Work>,
    /// Executed, but this end does not know.
    unacknowledged: VecDeque<Work>,
    execution_scheduled: bool,
    acknowledgement_scheduled: bool,
    impatient: bool,
    /// Work that was executed or acknowledged.
    progress: u64,
    keys: u32,
}

impl PairEnd {
    fn new(host: usize, addr: SocketAddr, held: bool) -> Self {
        Self {
            host,
            addr,
            phase: Phase::Beginning,
            held,
            watcher: None,
            armed: false,
            config: None,
            private_data: Vec::new(),
            trouble: None,
            events: VecDeque::new(),
            told: false,
            stood: false,
            disconnected: false,
            receives: VecDeque::new(),
            slots: Vec::new(),
            queue: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            execution_scheduled: false,
            acknowledgement_scheduled: false,
            impatient: false,
            progress: 0,
            keys: 0,
        }
    }

    /// Returns whether messages of the other end reach it.
    fn is_open(&self) -> bool {
        self.held && self.phase == Phase::Open
    }

    /// Nothing of it is left.
    fn vanish(&mut self) {
        (self.held, self.watcher, self.phase) = (false, None, Phase::Over);
        (self.queue, self.unacknowledged, self.receives) = Default::default();
        self.events.clear();
        self.slots.clear();
    }

    fn has_work(&self) -> bool {
        !(self.queue.is_empty() && self.unacknowledged.is_empty())
    }

    /// Returns whether something may still touch a slot.
    fn is_used(&self, slot: u16) -> bool {
        let mut posted = self.queue.iter().chain(&self.unacknowledged);
        // A standing key says nothing of that.
        let is_standing =
            self.config.is_some_and(|config| config.exposure == Some(Exposure::Standing));
        !is_standing && self.slots[usize::from(slot)].exposed.is_some()
            || posted.any(|work| work.what.uses(slot))
    }

    /// Gives access to a slot.
    fn expose(&mut self, slot: u16, bytes: u32, writable: bool, in_force: bool) -> RemoteMemory {
        self.keys += 1;
        let key = self.keys << 8 | 0x5a;
        self.slots[usize::from(slot)].exposed = Some(Exposed { key, bytes, writable, in_force });
        RemoteMemory { address: base(slot.into()), key }
    }

    /// Returns the data to send from a slot.
    fn source(&mut self, memory: SlotData) -> Result<Vec<u8>, WorkError> {
        let (offset, len) = (memory.offset as usize, memory.bytes as usize);
        let Some(lent) =
            self.slots.get(usize::from(memory.slot)).and_then(|slot| slot.lent.as_ref())
        else {
            return self.slice(memory).map(|bytes| bytes.to_vec());
        };
        let lent = lent
            .get()
            .filter(|lent| total_len(lent) >= offset + len)
            .ok_or(WorkError::LocalProtection)?;
        Ok(pieces(lent, offset, len).flatten().copied().collect())
    }

    /// A part of the own memory of a slot.
    fn slice(&mut self, memory: SlotData) -> Result<&mut [u8], WorkError> {
        let slot = self.slots.get_mut(usize::from(memory.slot)).filter(|slot| slot.lent.is_none());
        let slot = slot.and_then(|slot| slot.memory.as_mut());
        let end = memory.offset as usize + memory.bytes as usize;
        slot.and_then(|bytes| bytes.get_mut(memory.offset as usize..end))
            .ok_or(WorkError::LocalProtection)
    }

    /// Its memory, as the other end reaches it.
    fn reached(
        &mut self,
        at: RemoteMemory,
        bytes: u32,
        writes: bool,
    ) -> Result<&mut [u8], WorkError> {
        let is_it = |slot: &MemorySlot| {
            slot.exposed.is_some_and(|exposed| exposed.key == at.key && exposed.in_force)
        };
        let nth = self.slots.iter().position(is_it).ok_or(WorkError::RemoteAccess)?;
        let MemorySlot { memory, exposed, .. } = &mut self.slots[nth];
        let (Some(memory), Some(exposed)) = (memory, exposed) else {
            return Err(WorkError::RemoteAccess);
        };
        let offset = at.address.checked_sub(base(nth)).ok_or(WorkError::RemoteAccess)?;
        let end = offset
            .checked_add(bytes.into())
            .filter(|end| *end <= exposed.bytes.into())
            .ok_or(WorkError::RemoteAccess)?;
        if exposed.writable != writes {
            return Err(WorkError::RemoteAccess);
        }
        memory.get_mut(offset as usize..end as usize).ok_or(WorkError::RemoteAccess)
    }

    /// Ends the access by a key.
    fn invalidate(&mut self, key: u32) -> Result<(), WorkError> {
        let is_it = |slot: &&mut MemorySlot| slot.exposed.is_some_and(|exposed| exposed.key == key);
        self.slots.iter_mut().find(is_it).ok_or(WorkError::RemoteAccess)?.exposed = None;
        Ok(())
    }
}

/// The address of a slot.
fn base(slot: usize) -> u64 {
    (slot as u64 + 1) << 32
}

/// A queue pair: the end that asks for the connection, and the one that accepts it.
struct Pair {
    ends: [PairEnd; 2],
    /// Nothing arrives.
    silent: bool,
    /// Bytes that each end has got across.
    carried: [u64; 2],
    /// After how many of them it is cut, and how.
    cut: [Option<(u64, Cut)>; 2],
}

pub(super) struct SimQueuePairListener {
    pub(in crate::sim) net: SharedNet,
    pub(in crate::sim) host: usize,
    pub(in crate::sim) at: SocketAddr,
    pub(in crate::sim) id: u64,
}

impl QueuePairListener for SimQueuePairListener {
    fn accept(&mut self) -> io::Result<Box<dyn QueuePair>> {
        let (id, local, peer) = self.net.lock().rdma_accept(self.host, self.at.port(), self.id)?;
        Ok(Box::new(SimQueuePair::new(&self.net, id, 1, (local, peer))))
    }

    fn local(&self) -> String {
        self.at.to_string()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        let watch = watch(registrar)?;
        self.net.lock().rdma_watch_port(self.host, self.at.port(), self.id, Some(watch))
    }

    fn deregister(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        self.net.lock().rdma_watch_port(self.host, self.at.port(), self.id, None)
    }
}

impl Drop for SimQueuePairListener {
    fn drop(&mut self) {
        self.net.lock().rdma_close_port(self.host, self.at.port(), self.id);
    }
}
