//! Chains that a device has taken from a split queue and not given back, in memory that the other
//! side keeps when the device's process ends. The next process goes on with it.
//!
//! The layout is the one that the specification of vhost-user describes for split queues; that of
//! packed queues is in the neighbouring file. The other side may damage the memory, so everything
//! read is checked; numbers are places in it, and entries of other queues are out of reach.

use super::parts::VERSION;
use super::{RingFault, SharedMemory, after, le16, le64, read};

const HEADER_BYTES: u64 = 16;
const ENTRY_BYTES: u64 = 16;

/// The record of a split queue.
pub(super) struct SplitRecord {
    base: u64,
    size: u16,
    /// Given to the next chain, so that the order is known.
    counter: u64,
}

impl SplitRecord {
    pub fn bytes(size: u16) -> u64 {
        HEADER_BYTES + ENTRY_BYTES * u64::from(size)
    }

    /// Opens the record of an earlier process, or begins a new one if there is none. Returns the
    /// chains in flight in the order in which they were taken, by their heads.
    ///
    /// `used` is the index of used entries that the driver sees.
    pub fn open(
        memory: &dyn SharedMemory,
        base: u64,
        size: u16,
        used: u16,
    ) -> Result<(Self, Option<Vec<u16>>), RingFault> {
        let header: [u8; 16] = read(memory, base)?;
        let (version, entries) = (le16(&header, 8), le16(&header, 10));
        let mut record = Self { base, size, counter: 0 };
        if version == 0 {
            for head in 0..size {
                memory.write(record.entry(head)?, &[0; ENTRY_BYTES as usize])?;
            }
            memory.write(after(base, 10)?, &size.to_le_bytes())?;
            memory.store(after(base, 14)?, used)?;
            memory.store(after(base, 8)?, VERSION)?;
            return Ok((record, None));
        }
        if (version, entries) != (VERSION, size) {
            return Err(RingFault::Record);
        }
        // The process ended between the used index and the entry.
        let (last, known) = (le16(&header, 12), le16(&header, 14));
        if known != used && last < size {
            record.ended(memory, last, used)?;
        }
        let mut taken = Vec::new();
        for head in 0..size {
            let entry: [u8; 16] = read(memory, record.entry(head)?)?;
            if entry[0] != 0 {
                taken.push((le64(&entry, 8), head));
            }
        }
        taken.sort_unstable();
        record.counter = taken.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Ok((record, Some(taken.into_iter().map(|(_, head)| head).collect())))
    }

    fn entry(&self, head: u16) -> Result<u64, RingFault> {
        let head = head % self.size;
        Ok(after(self.base, HEADER_BYTES + ENTRY_BYTES * u64::from(head))?)
    }

    /// A chain is taken. Before its index in the ring is passed.
    pub fn begin(&mut self, memory: &dyn SharedMemory, head: u16) -> Result<(), RingFault> {
        let entry = self.entry(head)?;
        memory.write(after(entry, 8)?, &self.counter.to_le_bytes())?;
        self.counter = self.counter.wrapping_add(1);
        Ok(memory.store(entry, 1)?)
    }

    /// A chain will be given back: before the driver sees it.
    pub fn ending(&self, memory: &dyn SharedMemory, head: u16) -> Result<(), RingFault> {
        Ok(memory.store(after(self.base, 12)?, head)?)
    }

    /// A chain was given back, and the driver sees this index.
    pub fn ended(&self, memory: &dyn SharedMemory, head: u16, used: u16) -> Result<(), RingFault> {
        memory.store(self.entry(head)?, 0)?;
        Ok(memory.store(after(self.base, 14)?, used)?)
    }

    /// The queue has ended cleanly: the next process begins a new record.
    pub fn close(&self, memory: &dyn SharedMemory) -> Result<(), RingFault> {
        Ok(memory.store(after(self.base, 8)?, 0)?)
    }
}
