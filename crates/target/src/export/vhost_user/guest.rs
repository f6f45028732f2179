//! The guest's memory, and the requests in it whose data goes to or comes from there: what the
//! driver of a front end and the server's end of its queue both need.

use crate::export::local::exchange::Exchange;
use std::cell::RefCell;
use weft_io::Segment;
use weft_io::guest::mapping::Mapping;
use weft_io::guest::memory::GuestMemory;
use weft_proto::virtio::block::{BlockStatus, data_from, data_to};
use weft_proto::virtio::chain::Chain;
use weft_proto::virtio::{Outside, SharedMemory};

/// A guest's memory, for rings.
pub(super) struct OfGuest<'a>(pub &'a GuestMemory);

/// A record of what is in flight, for rings.
pub(super) struct OfRecord<'a>(pub &'a Mapping);

fn demand(is_there: bool) -> Result<(), Outside> {
    if is_there { Ok(()) } else { Err(Outside) }
}

impl SharedMemory for OfGuest<'_> {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Outside> {
        demand(self.0.read(at, into))
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Outside> {
        demand(self.0.write(at, from))
    }

    #[inline]
    fn load(&self, at: u64) -> Result<u16, Outside> {
        self.0.load(at).ok_or(Outside)
    }

    #[inline]
    fn store(&self, at: u64, value: u16) -> Result<(), Outside> {
        demand(self.0.store(at, value))
    }
}

impl SharedMemory for OfRecord<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Outside> {
        demand(self.0.read(at, into))
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Outside> {
        demand(self.0.write(at, from))
    }

    fn load(&self, at: u64) -> Result<u16, Outside> {
        self.0.load(at).ok_or(Outside)
    }

    fn store(&self, at: u64, value: u16) -> Result<(), Outside> {
        demand(self.0.store(at, value))
    }
}

/// A request that was taken from a queue.
pub(super) struct Pending {
    pub chain: Chain,
    /// Of which queue.
    pub ring: u16,
    /// Operations that it has...
    pub parts: u32,
    /// ...and those that have not ended.
    pub operations: u32,
    /// The status with which it ends, as far as is known.
    pub status: BlockStatus,
    /// Bytes that the driver gets if all goes well.
    pub filled: u64,
    /// It is not answered: who goes on with the queue does it again.
    pub is_left: bool,
}

/// See the module.
pub(super) struct Guest {
    pub memory: RefCell<GuestMemory>,
    pub requests: RefCell<Requests>,
    /// Bytes of an operation, except the last one of a request.
    pub operation_bytes: u64,
}

/// Requests by their slots. Free ones keep the memory of their chains.
pub(super) struct Requests {
    slots: Vec<Pending>,
    free: Vec<u16>,
}

/// The name of an operation: the slot of its request, and which part of it this is.
pub(super) fn name(slot: u16, part: u32) -> u64 {
    u64::from(slot) | u64::from(part) << 16
}

/// The slot in the name of an operation.
pub(super) fn slot_of(name: u64) -> u16 {
    name as u16
}

impl Requests {
    pub(super) fn new(count: u16) -> Self {
        let idle = || Pending {
            chain: Chain::default(),
            ring: 0,
            parts: 0,
            operations: 0,
            status: BlockStatus::Ok,
            filled: 0,
            is_left: false,
        };
        Self { slots: (0..count).map(|_| idle()).collect(), free: (0..count).rev().collect() }
    }

    /// Requests that are under way.
    pub(super) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Names of all operations that may be under way.
    pub(super) fn names(&self) -> Vec<u64> {
        let parts = |(slot, of): (usize, &Pending)| {
            (0..if of.operations > 0 { of.parts } else { 0 })
                .map(move |part| name(slot as u16, part))
                .collect::<Vec<_>>()
        };
        self.slots.iter().enumerate().flat_map(parts).collect()
    }

    /// A free slot, which stays free until [`Requests::begin`].
    pub(super) fn next_free(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// The slot of [`Requests::next_free`] is in use.
    pub(super) fn begin(&mut self, slot: u16) {
        let _ = self.free.pop_if(|free| *free == slot);
    }

    pub(super) fn end(&mut self, slot: u16) {
        self.free.push(slot);
    }

    pub(super) fn at(&mut self, slot: u16) -> Option<&mut Pending> {
        self.slots.get_mut(usize::from(slot))
    }
}

impl Guest {
    /// Calls `each` with what a request has for each segment: its chain, and the bytes before.
    fn exchange(
        &self,
        user: u64,
        mut each: impl FnMut(&OfGuest<'_>, &Chain, u64, usize) -> bool,
        lens: impl Iterator<Item = usize>,
    ) -> bool {
        let requests = self.requests.borrow();
        let Some(request) = requests.slots.get(usize::from(slot_of(user))) else { return false };
        let memory = self.memory.borrow();
        let mut skip = (user >> 16).saturating_mul(self.operation_bytes);
        for (n, len) in lens.enumerate() {
            if !each(&OfGuest(&memory), &request.chain, skip, n) {
                return false;
            }
            skip += len as u64;
        }
        true
    }
}

impl Exchange for Guest {
    fn fill(&self, user: u64, into: &mut [Segment]) -> bool {
        let lens: smallvec::SmallVec<[usize; 4]> = into.iter().map(|it| it.len()).collect();
        let fill = |memory: &OfGuest<'_>, chain: &Chain, skip, n: usize| {
            data_from(memory, chain, skip, &mut into[n])
        };
        self.exchange(user, fill, lens.into_iter())
    }

    fn take(&self, user: u64, from: &[Segment]) -> bool {
        let take = |memory: &OfGuest<'_>, chain: &Chain, skip, n: usize| {
            data_to(memory, chain, skip, &from[n])
        };
        self.exchange(user, take, from.iter().map(|it| it.len()))
    }
}
