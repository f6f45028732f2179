//! One queue: its settings by the front end, and its ring while it runs.

use super::guest::{OfGuest, OfRecord};
use weft_io::guest::mapping::Mapping;
use weft_io::guest::memory::GuestMemory;
use weft_io::guest::notify::{Call, Kick};
use weft_proto::vhost_user::VringAddress;
use weft_proto::virtio::chain::Chain;
use weft_proto::virtio::feature::FeatureBits;
use weft_proto::virtio::parts::Parts;
use weft_proto::virtio::ring::{Ring, RingConfig, part_bytes};
use weft_proto::virtio::{RingFault, SharedMemory};

/// See the module.
#[derive(Default)]
pub(super) struct Vring {
    pub size: u16,
    pub base: u32,
    pub address: Option<VringAddress>,
    pub kick: Option<Kick>,
    pub call: Option<Call>,
    pub err: Option<Call>,
    /// It was given a descriptor for kicks, or told that there is none.
    pub is_started: bool,
    pub is_enabled: bool,
    /// Requests that were taken and have not ended.
    pub in_flight: u32,
    ring: Option<Ring>,
    /// The driver has broken a rule: nothing is done until the queue is set up again.
    is_broken: bool,
}

/// The memory of queues, and the record of this one with its place.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub memory: &'a GuestMemory,
    pub record: Option<(&'a Mapping, u64)>,
}

impl Vring {
    pub(super) fn is_running(&self) -> bool {
        self.ring.is_some()
    }

    /// Returns whether the device takes chains from it.
    pub(super) fn is_ready(&self) -> bool {
        self.is_started && self.is_enabled && self.ring.is_some() && !self.is_broken
    }

    /// Returns whether the ring must be polled, because nobody sends kicks.
    pub(super) fn is_polled(&self) -> bool {
        self.is_ready() && self.kick.is_none()
    }

    /// Opens the ring, if all is known of it.
    pub(super) fn start(
        &mut self,
        shared: Shared<'_>,
        features: FeatureBits,
    ) -> Result<(), RingFault> {
        let (false, Some(address)) = (self.is_running() || self.is_broken, self.address) else {
            return Ok(());
        };
        if !self.is_started || !self.is_enabled || self.size == 0 {
            return Ok(());
        }
        let is_packed = features.has(FeatureBits::RING_PACKED);
        let bytes = part_bytes(self.size, is_packed);
        let place = |at: u64, n: usize| {
            shared.memory.guest_address(at, bytes[n].0).ok_or(RingFault::Outside)
        };
        let parts = Parts {
            descriptors: place(address.descriptors, 0)?,
            driver: place(address.available, 1)?,
            device: place(address.used, 2)?,
        };
        let events = features.has(FeatureBits::EVENT_IDX);
        let config = RingConfig { parts, size: self.size, is_packed, events, base: self.base };
        let record = shared.record.map(|(record, at)| (OfRecord(record), at));
        let record = record.as_ref().map(|(record, at)| (record as &dyn SharedMemory, *at));
        self.ring = Some(Ring::open(&OfGuest(shared.memory), &config, record)?);
        Ok(())
    }

    /// Takes the next chain. Without one, the driver notifies of the next.
    pub(super) fn take(
        &mut self,
        shared: Shared<'_>,
        chain: &mut Chain,
    ) -> Result<bool, RingFault> {
        let Some(ring) = &mut self.ring else { return Ok(false) };
        let memory = OfGuest(shared.memory);
        let record = shared.record.map(|(record, _)| OfRecord(record));
        let record = record.as_ref().map(|record| record as &dyn SharedMemory);
        let is_one = ring.take_or_listen(&memory, record, chain)?;
        self.in_flight += u32::from(is_one);
        Ok(is_one)
    }

    /// Gives a chain back.
    pub(super) fn give(
        &mut self,
        shared: Shared<'_>,
        chain: &Chain,
        written: u32,
    ) -> Result<(), RingFault> {
        let Some(ring) = self.ring.as_mut().filter(|_| !self.is_broken) else { return Ok(()) };
        let record = shared.record.map(|(record, _)| OfRecord(record));
        let record = record.as_ref().map(|record| record as &dyn SharedMemory);
        ring.give(&OfGuest(shared.memory), record, chain, written)
    }

    /// Notifies the driver of what was given back, if it wants that.
    pub(super) fn notify(&mut self, memory: &GuestMemory) -> Result<(), RingFault> {
        let Some(ring) = self.ring.as_mut().filter(|_| !self.is_broken) else { return Ok(()) };
        if ring.notifies(&OfGuest(memory))? {
            self.call.iter().for_each(Call::signal);
        }
        Ok(())
    }

    /// Stops the queue, since the driver has broken a rule, and signals that to the front end.
    pub(super) fn break_off(&mut self) {
        self.is_broken = true;
        self.err.iter().for_each(Call::signal);
    }

    /// Nothing is in flight: the ring is closed, and where another device goes on is known.
    pub(super) fn stop(&mut self, record: Option<&Mapping>) -> u32 {
        if let Some(mut ring) = self.ring.take() {
            self.base = ring.base();
            if let (Some(record), false) = (record, self.is_broken) {
                // What is not there any more is nobody's.
                let _ = ring.close(&OfRecord(record));
            }
        }
        (self.is_started, self.is_broken, self.kick) = (false, false, None);
        self.base
    }
}
