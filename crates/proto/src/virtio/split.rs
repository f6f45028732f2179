//! A split virtqueue: a table of descriptors, a ring of those that are available, and a ring of
//! those that were used.

use super::chain::{Chain, DESCRIPTOR_BYTES, Descriptor, INDIRECT, NEXT};
use super::parts::{Parts, needs_event};
use super::{RingFault, SharedMemory, after};
use core::sync::atomic::{Ordering, fence};

/// Flag of the available ring: the driver wants no notifications. Of the used ring: the device
/// wants none.
const SILENT: u16 = 1;

/// See the module.
pub(super) struct Split {
    parts: Parts,
    size: u16,
    events: bool,
    /// Next available entry to look at...
    next: u16,
    /// ...and where they end, as far as is known.
    end: u16,
    /// Next used entry.
    used: u16,
    /// The used index at the last decision about a notification, if there was one.
    told: Option<u16>,
}

impl Split {
    pub fn new(parts: Parts, size: u16, events: bool, next: u16, used: u16) -> Self {
        Self { parts, size, events, next, end: next, used, told: None }
    }

    /// Bytes of the parts of a queue, in the order of [`Parts`], and their alignments.
    pub fn bytes(size: u16) -> [(u64, u64); 3] {
        let size = u64::from(size);
        [(DESCRIPTOR_BYTES * size, 16), (6 + 2 * size, 2), (6 + 8 * size, 4)]
    }

    /// The used index in the driver's memory.
    pub fn used_index(parts: &Parts, memory: &dyn SharedMemory) -> Result<u16, RingFault> {
        Ok(memory.load(after(parts.device, 2)?)?)
    }

    pub fn next(&self) -> u16 {
        self.next
    }

    pub fn used(&self) -> u16 {
        self.used
    }

    /// Returns whether there is an available entry.
    fn look(&mut self, memory: &dyn SharedMemory) -> Result<bool, RingFault> {
        if self.next == self.end {
            self.end = memory.load(after(self.parts.driver, 2)?)?;
            if self.end.wrapping_sub(self.next) > self.size {
                return Err(RingFault::Index);
            }
        }
        Ok(self.next != self.end)
    }

    /// The first descriptor of the next available chain; it stays available until it is taken.
    pub fn peek(&mut self, memory: &dyn SharedMemory) -> Result<Option<u16>, RingFault> {
        if !self.look(memory)? {
            return Ok(None);
        }
        let entry = u64::from(self.next % self.size);
        let head = memory.load(after(self.parts.driver, 4 + 2 * entry)?)?;
        if head >= self.size { Err(RingFault::Number) } else { Ok(Some(head)) }
    }

    /// The chain of [`Split::peek`] is taken.
    pub fn take(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// Reads the chain that starts at a descriptor.
    pub fn walk(
        &self,
        memory: &dyn SharedMemory,
        head: u16,
        chain: &mut Chain,
    ) -> Result<(), RingFault> {
        chain.clear();
        chain.id = head;
        let mut at = head;
        loop {
            let place = after(self.parts.descriptors, DESCRIPTOR_BYTES * u64::from(at))?;
            let of = Descriptor::split(memory, place)?;
            chain.descriptors += 1;
            if of.flags & INDIRECT != 0 {
                return chain.add_table(memory, of, false);
            }
            chain.add(of)?;
            if of.flags & NEXT == 0 {
                return Ok(());
            }
            at = of.number;
            if at >= self.size {
                return Err(RingFault::Number);
            }
            if chain.descriptors >= self.size {
                return Err(RingFault::Long);
            }
        }
    }

    /// Gives a chain back, with the number of bytes written.
    pub fn push(
        &mut self,
        memory: &dyn SharedMemory,
        id: u16,
        written: u32,
    ) -> Result<(), RingFault> {
        let mut entry = [0; 8];
        entry[..2].copy_from_slice(&id.to_le_bytes());
        entry[4..].copy_from_slice(&written.to_le_bytes());
        let place = 4 + 8 * u64::from(self.used % self.size);
        memory.write(after(self.parts.device, place)?, &entry)?;
        self.used = self.used.wrapping_add(1);
        Ok(memory.store(after(self.parts.device, 2)?, self.used)?)
    }

    /// Returns whether the driver must be notified of chains that were given back since the last
    /// call.
    pub fn notifies(&mut self, memory: &dyn SharedMemory) -> Result<bool, RingFault> {
        if self.told == Some(self.used) {
            return Ok(false);
        }
        // The driver writes what is read below, then looks for used entries.
        fence(Ordering::SeqCst);
        let told = self.told.replace(self.used);
        if !self.events {
            return Ok(memory.load(self.parts.driver)? & SILENT == 0);
        }
        let event = memory.load(after(self.parts.driver, 4 + 2 * u64::from(self.size))?)?;
        Ok(told.is_none_or(|told| needs_event(event, self.used, told)))
    }

    /// Says that the device wants notifications, or wants none.
    pub fn listen(&self, memory: &dyn SharedMemory, wanted: bool) -> Result<(), RingFault> {
        match (self.events, wanted) {
            // Without a new index there, there is no notification.
            (true, false) => Ok(()),
            (true, true) => {
                let event = after(self.parts.device, 4 + 8 * u64::from(self.size))?;
                Ok(memory.store(event, self.next)?)
            }
            (false, _) => Ok(memory.store(self.parts.device, if wanted { 0 } else { SILENT })?),
        }
    }
}
