//! Both ends of a queue pair.

use crate::event_loop::{DriverId, RemoteLoop};
use crate::rdma::{Exposure, QueuePairConfig, QueuePairEvent, RemoteMemory, SlotData, WorkError};
use crate::segment::{OnThread, Segments, pieces, total_len};
use crate::sim::config::Cut;
use crate::sim::net::Watch;
use crate::time::Time;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Posted to a send queue.
pub(super) enum Posted {
    Send { message: Vec<u8>, data: Option<SlotData>, invalidate: Option<u32> },
    Read { into: SlotData, from: RemoteMemory },
    Write { from: SlotData, to: RemoteMemory, signaled: bool },
    Bind { slot: u16 },
    Invalidate { slot: u16 },
}

impl Posted {
    /// Returns whether it concerns this end alone.
    pub(super) fn is_local(&self) -> bool {
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

pub(super) struct Work {
    pub(super) id: u64,
    pub(super) what: Posted,
    /// When it reaches the other end; when its acknowledgement arrives, once it did.
    pub(super) due: Time,
    /// It was refused once.
    pub(super) refused: bool,
    /// Data of an RDMA READ.
    pub(super) brought: Vec<u8>,
}

/// Access of the other end to a slot.
#[derive(Clone, Copy)]
pub(super) struct Exposed {
    key: u32,
    bytes: u32,
    writable: bool,
    /// The window is bound, or there is none.
    pub(super) in_force: bool,
}

#[derive(Default)]
pub(super) struct MemorySlot {
    pub(super) memory: Option<Vec<u8>>,
    /// In the place of `memory`.
    pub(super) lent: Option<OnThread<Segments>>,
    pub(super) exposed: Option<Exposed>,
}

impl MemorySlot {
    /// A piece of its memory.
    pub(super) fn piece(&mut self, offset: u32, bytes: usize) -> &mut [u8] {
        &mut self.memory.as_mut().expect("a slot that was prepared")[offset as usize..][..bytes]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
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
pub(super) enum Watcher {
    /// A driver of a loop of the world.
    Here(Watch),
    /// One of another loop, which it names whenever it looks for events.
    Elsewhere(RemoteLoop, DriverId),
}

pub(super) struct PairEnd {
    pub(super) host: usize,
    pub(super) addr: SocketAddr,
    pub(super) phase: Phase,
    /// An object, or a backlog, uses it.
    pub(super) held: bool,
    pub(super) watcher: Option<Watcher>,
    /// Saw that there was no event since the last wake.
    pub(super) armed: bool,
    pub(super) config: Option<QueuePairConfig>,
    /// Data of the other end's request, or of its answer.
    pub(super) private_data: Vec<u8>,
    pub(super) trouble: Option<&'static str>,
    /// With the bytes that belong to them.
    pub(super) events: VecDeque<(QueuePairEvent, Vec<u8>)>,
    /// It knows that the connection is over.
    pub(super) told: bool,
    /// The connection was accepted, as far as this end knows.
    pub(super) stood: bool,
    pub(super) disconnected: bool,
    pub(super) receives: VecDeque<u16>,
    pub(super) slots: Vec<MemorySlot>,
    /// Not with the other end yet.
    pub(super) queue: VecDeque<Work>,
    /// Executed, but this end does not know.
    pub(super) unacknowledged: VecDeque<Work>,
    pub(super) execution_scheduled: bool,
    pub(super) acknowledgement_scheduled: bool,
    pub(super) impatient: bool,
    /// Work that was executed or acknowledged.
    pub(super) progress: u64,
    keys: u32,
}

impl PairEnd {
    pub(super) fn new(host: usize, addr: SocketAddr, held: bool) -> Self {
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
    pub(super) fn is_open(&self) -> bool {
        self.held && self.phase == Phase::Open
    }

    /// Nothing of it is left.
    pub(super) fn vanish(&mut self) {
        (self.held, self.watcher, self.phase) = (false, None, Phase::Over);
        (self.queue, self.unacknowledged, self.receives) = Default::default();
        self.events.clear();
        self.slots.clear();
    }

    pub(super) fn has_work(&self) -> bool {
        !(self.queue.is_empty() && self.unacknowledged.is_empty())
    }

    /// Returns whether something may still touch a slot.
    pub(super) fn is_used(&self, slot: u16) -> bool {
        let mut posted = self.queue.iter().chain(&self.unacknowledged);
        // A standing key says nothing of that.
        let is_standing =
            self.config.is_some_and(|config| config.exposure == Some(Exposure::Standing));
        !is_standing && self.slots[usize::from(slot)].exposed.is_some()
            || posted.any(|work| work.what.uses(slot))
    }

    /// Gives access to a slot.
    pub(super) fn expose(
        &mut self,
        slot: u16,
        bytes: u32,
        writable: bool,
        in_force: bool,
    ) -> RemoteMemory {
        self.keys += 1;
        let key = self.keys << 8 | 0x5a;
        self.slots[usize::from(slot)].exposed = Some(Exposed { key, bytes, writable, in_force });
        RemoteMemory { address: base(slot.into()), key }
    }

    /// Returns the data to send from a slot.
    pub(super) fn source(&mut self, memory: SlotData) -> Result<Vec<u8>, WorkError> {
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
    pub(super) fn slice(&mut self, memory: SlotData) -> Result<&mut [u8], WorkError> {
        let slot = self.slots.get_mut(usize::from(memory.slot)).filter(|slot| slot.lent.is_none());
        let slot = slot.and_then(|slot| slot.memory.as_mut());
        let end = memory.offset as usize + memory.bytes as usize;
        slot.and_then(|bytes| bytes.get_mut(memory.offset as usize..end))
            .ok_or(WorkError::LocalProtection)
    }

    /// Its memory, as the other end reaches it.
    pub(super) fn reached(
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
    pub(super) fn invalidate(&mut self, key: u32) -> Result<(), WorkError> {
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
pub(super) struct Pair {
    pub(super) ends: [PairEnd; 2],
    /// Nothing arrives.
    pub(super) silent: bool,
    /// Bytes that each end has got across.
    pub(super) carried: [u64; 2],
    /// After how many of them it is cut, and how.
    pub(super) cut: [Option<(u64, Cut)>; 2],
}
