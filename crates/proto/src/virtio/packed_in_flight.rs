//! The record of what is in flight of a packed queue. What the device puts back overwrites
//! descriptors of others that are still in flight, so the record has all descriptors.

use super::chain::{Chain, Descriptor, INDIRECT, NEXT, Piece};
use super::packed::{Packed, Position};
use super::parts::VERSION;
use super::{RingFault, SharedMemory, after, le16, le32, le64, read};

const HEADER_BYTES: u64 = 32;
const ENTRY_BYTES: u64 = 32;

/// Offsets of the fields of the header. The first two are those of split queues.
const H_VERSION: u64 = 8;
const H_ENTRIES: u64 = 10;
/// One more than the entry of the chain that is given back; 0: none.
const H_ENDING: u64 = 12;
/// Place at which it is put back.
const H_ENDING_AT: u64 = 14;
/// Place at which the next one is put back.
const H_USED: u64 = 16;

/// An entry: one descriptor. The first of a chain says how many, and the order of chains.
struct Entry {
    is_in_flight: bool,
    next: u16,
    count: u16,
    id: u16,
    counter: u64,
    piece: Piece,
    flags: u16,
}

/// Remains of a process: the place at which the next chain is put back, and the first entries of
/// chains in flight, in order.
type Left = (Position, Vec<u16>);

/// See the module.
pub(super) struct PackedRecord {
    base: u64,
    size: u16,
    counter: u64,
    free: Vec<u16>,
}

impl PackedRecord {
    pub fn bytes(size: u16) -> u64 {
        HEADER_BYTES + ENTRY_BYTES * u64::from(size)
    }

    /// Opens the record of an earlier process, or begins a new one if there is none.
    pub fn open(
        (records, memory): (&dyn SharedMemory, &dyn SharedMemory),
        base: u64,
        size: u16,
        ring: &Packed,
    ) -> Result<(Self, Option<Left>), RingFault> {
        let header: [u8; 32] = read(records, base)?;
        let mut record = Self { base, size, counter: 0, free: (0..size).rev().collect() };
        let number = |at: u64| le16(&header, at as usize);
        if number(H_VERSION) == 0 {
            for entry in 0..size {
                records.write(record.place(entry)?, &[0; ENTRY_BYTES as usize])?;
            }
            records.write(after(base, H_ENTRIES)?, &size.to_le_bytes())?;
            records.store(after(base, H_ENDING)?, 0)?;
            records.store(after(base, H_USED)?, ring.used.bits())?;
            records.store(after(base, H_VERSION)?, VERSION)?;
            return Ok((record, None));
        }
        let mut used = Position::from_bits(number(H_USED));
        if (number(H_VERSION), number(H_ENTRIES)) != (VERSION, size) || used.index >= size {
            return Err(RingFault::Record);
        }
        // The process ended while it gave a chain back.
        if let Some(first) = number(H_ENDING).checked_sub(1) {
            let (at, count) =
                (Position::from_bits(number(H_ENDING_AT)), record.count(records, first)?);
            if used != at || ring.was_used(memory, at)? {
                used = at.advanced(count, size);
                record.settle(records, first, used)?;
            }
            records.store(after(base, H_ENDING)?, 0)?;
        }
        let taken = record.find(records)?;
        Ok((record, Some((used, taken))))
    }

    /// The first entries of chains in flight, in order; all other entries are free.
    fn find(&mut self, memory: &dyn SharedMemory) -> Result<Vec<u16>, RingFault> {
        let (mut taken, mut is_free) = (Vec::new(), vec![true; self.size.into()]);
        for first in 0..self.size {
            let entry = self.entry(memory, first)?;
            if !entry.is_in_flight {
                continue;
            }
            taken.push((entry.counter, first));
            let mut at = first;
            for _ in 0..entry.count {
                let slot = is_free.get_mut(usize::from(at)).ok_or(RingFault::Record)?;
                if !core::mem::replace(slot, false) {
                    return Err(RingFault::Record);
                }
                at = self.entry(memory, at)?.next;
            }
        }
        self.free = (0..self.size).rev().filter(|entry| is_free[usize::from(*entry)]).collect();
        taken.sort_unstable();
        self.counter = taken.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Ok(taken.into_iter().map(|(_, first)| first).collect())
    }

    fn place(&self, entry: u16) -> Result<u64, RingFault> {
        if entry >= self.size {
            return Err(RingFault::Record);
        }
        Ok(after(self.base, HEADER_BYTES + ENTRY_BYTES * u64::from(entry))?)
    }

    fn entry(&self, memory: &dyn SharedMemory, entry: u16) -> Result<Entry, RingFault> {
        let bytes: [u8; 32] = read(memory, self.place(entry)?)?;
        Ok(Entry {
            is_in_flight: bytes[0] != 0,
            next: le16(&bytes, 2),
            count: le16(&bytes, 4),
            id: le16(&bytes, 6),
            counter: le64(&bytes, 8),
            piece: Piece { at: le64(&bytes, 16), len: le32(&bytes, 24) },
            flags: le16(&bytes, 28),
        })
    }

    /// Descriptors of a chain.
    pub fn count(&self, memory: &dyn SharedMemory, first: u16) -> Result<u16, RingFault> {
        let count = self.entry(memory, first)?.count;
        if count == 0 || count > self.size { Err(RingFault::Record) } else { Ok(count) }
    }

    /// A chain is taken, with these descriptors, of which there are no more than free entries.
    pub fn begin(
        &mut self,
        memory: &dyn SharedMemory,
        chain: &mut Chain,
        descriptors: &[(Piece, u16)],
    ) -> Result<(), RingFault> {
        if descriptors.len() > self.free.len() {
            return Err(RingFault::Index);
        }
        // The last entry first, so that each knows the next.
        let mut next = 0;
        for (piece, flags) in descriptors.iter().rev() {
            let entry = self.free.pop().ok_or(RingFault::Index)?;
            let mut bytes = [0; ENTRY_BYTES as usize];
            bytes[2..4].copy_from_slice(&u16::to_le_bytes(next));
            bytes[4..6].copy_from_slice(&chain.descriptors.to_le_bytes());
            bytes[6..8].copy_from_slice(&chain.id.to_le_bytes());
            bytes[8..16].copy_from_slice(&self.counter.to_le_bytes());
            bytes[16..24].copy_from_slice(&piece.at.to_le_bytes());
            bytes[24..28].copy_from_slice(&piece.len.to_le_bytes());
            bytes[28..30].copy_from_slice(&flags.to_le_bytes());
            memory.write(self.place(entry)?, &bytes)?;
            next = entry;
        }
        chain.record = next;
        self.counter = self.counter.wrapping_add(1);
        Ok(memory.store(self.place(next)?, 1)?)
    }

    /// Reads a chain that a process before this one has taken.
    ///
    /// Descriptors are in the record, tables in the memory of the guest.
    pub fn chain(
        &self,
        (records, memory): (&dyn SharedMemory, &dyn SharedMemory),
        first: u16,
        chain: &mut Chain,
    ) -> Result<(), RingFault> {
        chain.clear();
        let mut entry = self.entry(records, first)?;
        let count = self.count(records, first)?;
        (chain.id, chain.descriptors, chain.record) = (entry.id, count, first);
        for left in (0..count).rev() {
            let of = Descriptor { piece: entry.piece, number: entry.id, flags: entry.flags };
            match of.flags & INDIRECT != 0 {
                true if count > 1 || of.flags & NEXT != 0 => return Err(RingFault::Indirect),
                true => chain.add_table(memory, of, true)?,
                false => chain.add(of)?,
            }
            if left > 0 {
                entry = self.entry(records, entry.next)?;
            }
        }
        if chain.id >= self.size { Err(RingFault::Number) } else { Ok(()) }
    }

    /// A chain will be put back at a place: before the driver sees it.
    pub fn ending(
        &self,
        memory: &dyn SharedMemory,
        chain: &Chain,
        at: Position,
    ) -> Result<(), RingFault> {
        memory.store(after(self.base, H_ENDING_AT)?, at.bits())?;
        Ok(memory.store(after(self.base, H_ENDING)?, chain.record.wrapping_add(1))?)
    }

    /// A chain was put back; `used` is where the next one is put.
    pub fn ended(
        &mut self,
        memory: &dyn SharedMemory,
        chain: &Chain,
        used: Position,
    ) -> Result<(), RingFault> {
        self.settle(memory, chain.record, used)?;
        memory.store(after(self.base, H_ENDING)?, 0)?;
        let mut at = chain.record;
        for _ in 0..chain.descriptors {
            // Whoever keeps the memory may have made a loop of it.
            if self.free.len() >= self.size.into() || at >= self.size {
                return Err(RingFault::Record);
            }
            self.free.push(at);
            at = self.entry(memory, at)?.next;
        }
        Ok(())
    }

    /// The queue has ended cleanly: the next process begins a new record.
    pub fn close(&self, memory: &dyn SharedMemory) -> Result<(), RingFault> {
        Ok(memory.store(after(self.base, H_VERSION)?, 0)?)
    }

    fn settle(
        &self,
        memory: &dyn SharedMemory,
        first: u16,
        used: Position,
    ) -> Result<(), RingFault> {
        memory.store(after(self.base, H_USED)?, used.bits())?;
        Ok(memory.store(self.place(first)?, 0)?)
    }
}
