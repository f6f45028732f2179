//! A packed virtqueue: one ring, in which the driver puts descriptors and the device puts them back
//! as used, with a bit that changes each time round.

use super::chain::{Chain, DESCRIPTOR_BYTES, Descriptor, INDIRECT, NEXT, Piece, WRITE};
use super::parts::{Parts, needs_event};
use super::{RingFault, SharedMemory, after};
use core::sync::atomic::{Ordering, fence};

const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;

/// Event flags: always, never, and at one descriptor.
const ENABLE: u16 = 0;
const DISABLE: u16 = 1;
const DESCRIPTOR: u16 = 2;

/// A place in the ring, and the bit of this time round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub index: u16,
    pub wrap: bool,
}

impl Position {
    /// From 15 bits and the bit of this time round.
    pub fn from_bits(bits: u16) -> Self {
        Self { index: bits & 0x7fff, wrap: bits >> 15 != 0 }
    }

    pub fn bits(self) -> u16 {
        self.index | u16::from(self.wrap) << 15
    }

    /// Returns the position `by` descriptors further; at most a whole ring.
    pub fn advanced(self, by: u16, size: u16) -> Self {
        let index = u32::from(self.index) + u32::from(by);
        match index.checked_sub(size.into()) {
            Some(index) => Self { index: index as u16, wrap: !self.wrap },
            None => Self { index: index as u16, ..self },
        }
    }
}

/// See the module.
pub(super) struct Packed {
    parts: Parts,
    size: u16,
    events: bool,
    /// Next descriptor to look at.
    pub next: Position,
    /// Next one to put back.
    pub used: Position,
    /// Where that was at the last decision about a notification, and not since the last time round.
    told: Option<u16>,
    is_news: bool,
}

impl Packed {
    pub fn new(parts: Parts, size: u16, events: bool, next: Position, used: Position) -> Self {
        Self { parts, size, events, next, used, told: None, is_news: true }
    }

    /// Bytes of the parts of a queue, in the order of [`Parts`], and their alignments.
    pub fn bytes(size: u16) -> [(u64, u64); 3] {
        [(DESCRIPTOR_BYTES * u64::from(size), 16), (4, 4), (4, 4)]
    }

    fn place(&self, index: u16) -> Result<u64, RingFault> {
        Ok(after(self.parts.descriptors, DESCRIPTOR_BYTES * u64::from(index))?)
    }

    fn flags(&self, memory: &dyn SharedMemory, index: u16) -> Result<u16, RingFault> {
        Ok(memory.load(after(self.place(index)?, 14)?)?)
    }

    /// Returns whether no driver has ever made the first descriptor available: it would have set a
    /// flag.
    pub fn is_new(&self, memory: &dyn SharedMemory) -> Result<bool, RingFault> {
        Ok(self.flags(memory, 0)? == 0)
    }

    /// Returns whether the descriptor at a place was put back there, whatever the driver has put
    /// there since.
    pub fn was_used(&self, memory: &dyn SharedMemory, at: Position) -> Result<bool, RingFault> {
        let flags = self.flags(memory, at.index)?;
        Ok((flags & AVAIL != 0, flags & USED != 0) != (at.wrap, !at.wrap))
    }

    /// Reads the next chain; `false`: there is none. It stays available until it is taken. `each`
    /// gets its descriptors.
    pub fn peek(
        &self,
        memory: &dyn SharedMemory,
        chain: &mut Chain,
        mut each: impl FnMut(Piece, u16),
    ) -> Result<bool, RingFault> {
        chain.clear();
        let mut at = self.next;
        let flags = self.flags(memory, at.index)?;
        if (flags & AVAIL != 0, flags & USED != 0) != (at.wrap, !at.wrap) {
            return Ok(false);
        }
        loop {
            let of = Descriptor::packed(memory, self.place(at.index)?)?;
            chain.descriptors += 1;
            each(of.piece, of.flags);
            if of.flags & INDIRECT != 0 {
                // A driver makes one such descriptor all of a chain.
                if of.flags & NEXT != 0 || chain.descriptors > 1 {
                    return Err(RingFault::Indirect);
                }
                chain.add_table(memory, of, true)?;
            } else {
                chain.add(of)?;
            }
            if of.flags & NEXT == 0 {
                chain.id = of.number;
                return if chain.id < self.size { Ok(true) } else { Err(RingFault::Number) };
            }
            if chain.descriptors >= self.size {
                return Err(RingFault::Long);
            }
            at = at.advanced(1, self.size);
        }
    }

    /// The chain of [`Packed::peek`] is taken.
    pub fn take(&mut self, chain: &Chain) {
        self.next = self.next.advanced(chain.descriptors, self.size);
    }

    /// Gives a chain back, with the number of bytes written.
    pub fn push(
        &mut self,
        memory: &dyn SharedMemory,
        chain: &Chain,
        written: u32,
    ) -> Result<(), RingFault> {
        let place = self.place(self.used.index)?;
        let mut entry = [0; 6];
        entry[..4].copy_from_slice(&written.to_le_bytes());
        entry[4..].copy_from_slice(&chain.id.to_le_bytes());
        memory.write(after(place, 8)?, &entry)?;
        let turn = if self.used.wrap { AVAIL | USED } else { 0 };
        let writes = if written > 0 { WRITE } else { 0 };
        memory.store(after(place, 14)?, turn | writes)?;
        let before = self.used;
        self.used = before.advanced(chain.descriptors, self.size);
        self.is_news = true;
        if self.used.wrap != before.wrap {
            self.told = None;
        }
        Ok(())
    }

    /// Returns whether the driver must be notified of chains that were given back since the last
    /// call.
    pub fn notifies(&mut self, memory: &dyn SharedMemory) -> Result<bool, RingFault> {
        if !core::mem::take(&mut self.is_news) {
            return Ok(false);
        }
        // The driver writes what is read below, then looks for used descriptors.
        fence(Ordering::SeqCst);
        let told = self.told.replace(self.used.index);
        let flags = memory.load(after(self.parts.driver, 2)?)?;
        if flags != DESCRIPTOR || !self.events {
            return Ok(flags != DISABLE);
        }
        let event = Position::from_bits(memory.load(self.parts.driver)?);
        let index = match event.wrap == self.used.wrap {
            true => event.index,
            false => event.index.wrapping_sub(self.size),
        };
        Ok(told.is_none_or(|told| needs_event(index, self.used.index, told)))
    }

    /// Says that the device wants notifications, or wants none.
    pub fn listen(&self, memory: &dyn SharedMemory, wanted: bool) -> Result<(), RingFault> {
        let flags = match (wanted, self.events) {
            (false, _) => DISABLE,
            (true, false) => ENABLE,
            (true, true) => {
                memory.store(self.parts.device, self.next.bits())?;
                DESCRIPTOR
            }
        };
        Ok(memory.store(after(self.parts.device, 2)?, flags)?)
    }
}
