//! A virtqueue of either layout, as its device sees it.

use super::chain::{Chain, Piece};
use super::packed::{Packed, Position};
use super::packed_in_flight::PackedRecord;
use super::parts::{Parts, VERSION};
use super::split::Split;
use super::{RingFault, SharedMemory, after, le16, le64, read};
use crate::limits::VIRTIO_QUEUE_SIZE_MAX;
use std::collections::VecDeque;

/// Layout of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Addresses of its parts.
    pub parts: Parts,
    /// Entries.
    pub size: u16,
    /// VIRTIO_F_RING_PACKED was negotiated.
    pub is_packed: bool,
    /// VIRTIO_F_EVENT_IDX was negotiated.
    pub events: bool,
    /// Place at which the device continues: see [`Ring::base`].
    pub base: u32,
}

enum Layout {
    Split(Split, Option<SplitRecord>),
    Packed(Packed, Option<PackedRecord>),
}

/// See the module.
pub struct Ring {
    layout: Layout,
    size: u16,
    /// By identifier: descriptors that a chain in flight has taken from the ring; 0: none.
    taken: Vec<u16>,
    /// Of all of them.
    in_flight: u32,
    /// Chains that a process before this one took, which come first: heads, or entries of the
    /// record.
    again: VecDeque<u16>,
    /// Of a packed chain that is read.
    descriptors: Vec<(Piece, u16)>,
    /// The driver notifies of the next chain.
    is_listening: bool,
}

/// Alignment of the records of queues.
const RECORD_ALIGN: u64 = 64;

/// Bytes of the record of what is in flight of a queue, of either layout.
pub fn record_bytes(size: u16) -> u64 {
    SplitRecord::bytes(size).max(PackedRecord::bytes(size)).next_multiple_of(RECORD_ALIGN)
}

/// Bytes and alignments of the parts of a queue, in the order of [`Parts`].
pub fn part_bytes(size: u16, is_packed: bool) -> [(u64, u64); 3] {
    if is_packed { Packed::bytes(size) } else { Split::bytes(size) }
}

impl Ring {
    /// A ring. With `record`, the memory that keeps what is in flight and the place of this queue
    /// in it; then what a process before this one took comes first.
    ///
    /// # Errors
    /// The layout is not allowed, or a part or the record is not there.
    pub fn open(
        memory: &dyn SharedMemory,
        config: &RingConfig,
        record: Option<(&dyn SharedMemory, u64)>,
    ) -> Result<Self, RingFault> {
        let RingConfig { parts, size, is_packed, events, base } = *config;
        let places = [parts.descriptors, parts.driver, parts.device];
        let bytes = part_bytes(size.max(1), is_packed);
        let is_aligned = places.iter().zip(bytes).all(|(at, (_, to))| at.is_multiple_of(to));
        let allowed = (1..=VIRTIO_QUEUE_SIZE_MAX).contains(&size);
        if !allowed || !is_aligned || !is_packed && !size.is_power_of_two() {
            return Err(RingFault::Layout);
        }
        for (at, (bytes, _)) in places.iter().zip(bytes) {
            memory.read(after(*at, bytes - 1)?, &mut [0])?;
        }
        let mut ring = Self {
            layout: Layout::Split(Split::new(parts, size, events, 0, 0), None),
            size,
            taken: vec![0; size.into()],
            in_flight: 0,
            again: VecDeque::new(),
            descriptors: Vec::with_capacity(size.into()),
            is_listening: false,
        };
        ring.layout = match is_packed {
            true => ring.open_packed(memory, config, record)?,
            false => ring.open_split(memory, config, base as u16, record)?,
        };
        Ok(ring)
    }

    fn open_split(
        &mut self,
        memory: &dyn SharedMemory,
        config: &RingConfig,
        base: u16,
        record: Option<(&dyn SharedMemory, u64)>,
    ) -> Result<Layout, RingFault> {
        let RingConfig { parts, size, events, .. } = *config;
        let used = Split::used_index(&parts, memory)?;
        let Some((records, at)) = record else {
            return Ok(Layout::Split(Split::new(parts, size, events, base, used), None));
        };
        let (record, left) = SplitRecord::open(records, at, size, used)?;
        // What was taken is what was used, and what is in flight.
        let next = left.as_ref().map_or(base, |heads| used.wrapping_add(heads.len() as u16));
        let split = Split::new(parts, size, events, next, used);
        self.again = left.unwrap_or_default().into();
        Ok(Layout::Split(split, Some(record)))
    }

    fn open_packed(
        &mut self,
        memory: &dyn SharedMemory,
        config: &RingConfig,
        record: Option<(&dyn SharedMemory, u64)>,
    ) -> Result<Layout, RingFault> {
        let RingConfig { parts, size, events, base, .. } = *config;
        let [next, used] = [base as u16, (base >> 16) as u16].map(Position::from_bits);
        if next.index >= size || used.index >= size {
            return Err(RingFault::Layout);
        }
        let mut packed = Packed::new(parts, size, events, next, used);
        if base == 0 && packed.is_new(memory)? {
            // Front ends that do not know of the bits of the time round mean the beginning.
            let begin = Position { index: 0, wrap: true };
            (packed.next, packed.used) = (begin, begin);
        }
        let Some((records, at)) = record else { return Ok(Layout::Packed(packed, None)) };
        let (record, left) = PackedRecord::open((records, memory), at, size, &packed)?;
        let Some((used, firsts)) = left else { return Ok(Layout::Packed(packed, Some(record))) };
        let mut count = 0_u32;
        for first in &firsts {
            count += u32::from(record.count(records, *first)?);
        }
        if count > size.into() {
            return Err(RingFault::Record);
        }
        (packed.used, packed.next) = (used, used.advanced(count as u16, size));
        self.again = firsts.into();
        Ok(Layout::Packed(packed, Some(record)))
    }

    /// Entries.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Where another device goes on, once nothing is in flight here: the available index; of a
    /// packed queue, also where used descriptors are put, in the upper half.
    pub fn base(&self) -> u32 {
        match &self.layout {
            Layout::Split(split, _) => split.next().into(),
            Layout::Packed(packed, _) => {
                u32::from(packed.next.bits()) | u32::from(packed.used.bits()) << 16
            }
        }
    }

    /// Takes the next chain; `false`: there is none. `records` is the memory of the record that the
    /// ring was opened with.
    ///
    /// # Errors
    /// The driver breaks a rule. The ring is unusable after that.
    pub fn take(
        &mut self,
        memory: &dyn SharedMemory,
        records: Option<&dyn SharedMemory>,
        chain: &mut Chain,
    ) -> Result<bool, RingFault> {
        if let Some(first) = self.again.pop_front() {
            match (&self.layout, records) {
                (Layout::Packed(_, Some(record)), Some(of)) => {
                    record.chain((of, memory), first, chain)?;
                }
                (Layout::Split(split, _), _) => split.walk(memory, first, chain)?,
                _ => return Err(RingFault::Record),
            }
            return self.count(chain).map(|()| true);
        }
        match &mut self.layout {
            Layout::Split(split, record) => {
                let Some(head) = split.peek(memory)? else { return Ok(false) };
                if self.taken[usize::from(head)] > 0 {
                    return Err(RingFault::Twice);
                }
                split.walk(memory, head, chain)?;
                if let (Some(record), Some(of)) = (record, records) {
                    record.begin(of, head)?;
                }
                split.take();
            }
            Layout::Packed(packed, record) => {
                let descriptors = &mut self.descriptors;
                descriptors.clear();
                if !packed.peek(memory, chain, |piece, flags| descriptors.push((piece, flags)))? {
                    return Ok(false);
                }
                if self.taken[usize::from(chain.id)] > 0 {
                    return Err(RingFault::Twice);
                }
                if let (Some(record), Some(of)) = (record, records) {
                    record.begin(of, chain, &self.descriptors)?;
                }
                packed.take(chain);
            }
        }
        self.count(chain).map(|()| true)
    }

    /// Takes the next chain, like [`Ring::take`]; without one, the driver notifies of the next.
    ///
    /// # Errors
    /// Those of [`Ring::take`].
    pub fn take_or_listen(
        &mut self,
        memory: &dyn SharedMemory,
        records: Option<&dyn SharedMemory>,
        chain: &mut Chain,
    ) -> Result<bool, RingFault> {
        let mut is_one = self.take(memory, records, chain)?;
        if !is_one && !self.is_listening {
            self.listen(memory, true)?;
            self.is_listening = true;
            // One may have come before the driver saw that.
            is_one = self.take(memory, records, chain)?;
        }
        // What was asked for was a notification of this one; of the next, it is to be asked again.
        if is_one && core::mem::take(&mut self.is_listening) {
            self.listen(memory, false)?;
        }
        Ok(is_one)
    }

    /// A chain is in flight.
    fn count(&mut self, chain: &Chain) -> Result<(), RingFault> {
        let taken = self.taken.get_mut(usize::from(chain.id)).ok_or(RingFault::Number)?;
        if core::mem::replace(taken, chain.descriptors) > 0 {
            return Err(RingFault::Twice);
        }
        // Chains of a split queue may share descriptors, which harms nobody.
        let units = if self.is_packed() { chain.descriptors.into() } else { 1 };
        self.in_flight += units;
        if self.in_flight > self.size.into() { Err(RingFault::Index) } else { Ok(()) }
    }

    fn is_packed(&self) -> bool {
        matches!(self.layout, Layout::Packed(..))
    }

    /// Gives a taken chain back, with the number of bytes written.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn give(
        &mut self,
        memory: &dyn SharedMemory,
        records: Option<&dyn SharedMemory>,
        chain: &Chain,
        written: u32,
    ) -> Result<(), RingFault> {
        let taken = self.taken.get_mut(usize::from(chain.id)).ok_or(RingFault::Number)?;
        if core::mem::take(taken) == 0 {
            return Ok(());
        }
        let units = if self.is_packed() { chain.descriptors.into() } else { 1 };
        self.in_flight -= units;
        match (&mut self.layout, records) {
            (Layout::Split(split, Some(record)), Some(of)) => {
                record.ending(of, chain.id)?;
                split.push(memory, chain.id, written)?;
                record.ended(of, chain.id, split.used())
            }
            (Layout::Packed(packed, Some(record)), Some(of)) => {
                record.ending(of, chain, packed.used)?;
                packed.push(memory, chain, written)?;
                record.ended(of, chain, packed.used)
            }
            (Layout::Split(split, _), _) => split.push(memory, chain.id, written),
            (Layout::Packed(packed, _), _) => packed.push(memory, chain, written),
        }
    }

    /// The queue has come to rest, and nothing is in flight. Returns the place at which the next
    /// user continues.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn close(&mut self, records: &dyn SharedMemory) -> Result<(), RingFault> {
        match &self.layout {
            Layout::Split(_, Some(record)) => record.close(records),
            Layout::Packed(_, Some(record)) => record.close(records),
            _ => Ok(()),
        }
    }

    /// Returns whether the driver must be notified of chains that were given back since the last
    /// call.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn notifies(&mut self, memory: &dyn SharedMemory) -> Result<bool, RingFault> {
        match &mut self.layout {
            Layout::Split(split, _) => split.notifies(memory),
            Layout::Packed(packed, _) => packed.notifies(memory),
        }
    }

    /// Says whether the device wants to be notified of chains. Look for chains once more after it
    /// was said that it does.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn listen(&mut self, memory: &dyn SharedMemory, wanted: bool) -> Result<(), RingFault> {
        match &mut self.layout {
            Layout::Split(split, _) => split.listen(memory, wanted)?,
            Layout::Packed(packed, _) => packed.listen(memory, wanted)?,
        }
        if wanted {
            // The driver writes chains, then reads what was said.
            core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        }
        Ok(())
    }
}

// Chains that a device has taken from a split queue and not given back, in memory that the other
// side keeps when the device's process ends. The next process goes on with it.
//
// The layout is the one that the specification of vhost-user describes for split queues; that of
// packed queues is in the neighbouring file. The other side may damage the memory, so everything
// read is checked; numbers are places in it, and entries of other queues are out of reach.

const HEADER_BYTES: u64 = 16;

const ENTRY_BYTES: u64 = 16;

/// The record of a split queue.
struct SplitRecord {
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
