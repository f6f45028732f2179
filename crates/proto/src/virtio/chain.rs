//! The pieces of memory of one request: a chain of descriptors, in the ring or in a table that one
//! descriptor points to.

use super::{RingFault, SharedMemory, after, le16, le32, le64, read};
use crate::limits::VIRTIO_CHAIN_PIECES_MAX;

/// Bytes of a descriptor, of either layout.
pub const DESCRIPTOR_BYTES: u64 = 16;

/// Another descriptor follows.
pub(super) const NEXT: u16 = 1;
/// The device writes to this piece.
pub(super) const WRITE: u16 = 2;
/// The descriptor points to a table of descriptors.
pub(super) const INDIRECT: u16 = 4;

/// A piece of the guest's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Address of the guest.
    pub at: u64,
    /// Bytes.
    pub len: u32,
}

/// One request. It is used again for others, and keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The name by which the driver knows it: the first descriptor, or the buffer's identifier.
    pub id: u16,
    /// Descriptors of the ring that it took.
    pub descriptors: u16,
    /// The place of its record among those in flight, for a packed ring.
    pub(super) record: u16,
    /// Memory that the device reads, in order.
    pub readable: Vec<Piece>,
    /// Memory that the device writes, in order.
    pub writable: Vec<Piece>,
}

/// A descriptor of either layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub piece: Piece,
    /// Split: of the next one; packed: the buffer's identifier.
    pub number: u16,
    pub flags: u16,
}

impl Descriptor {
    /// A descriptor of a split ring, or of a table of one.
    pub fn split(memory: &dyn SharedMemory, at: u64) -> Result<Self, RingFault> {
        let bytes: [u8; 16] = read(memory, at)?;
        let piece = Piece { at: le64(&bytes, 0), len: le32(&bytes, 8) };
        Ok(Self { piece, flags: le16(&bytes, 12), number: le16(&bytes, 14) })
    }

    /// A descriptor of a packed ring, or of a table of one.
    pub fn packed(memory: &dyn SharedMemory, at: u64) -> Result<Self, RingFault> {
        let bytes: [u8; 16] = read(memory, at)?;
        let piece = Piece { at: le64(&bytes, 0), len: le32(&bytes, 8) };
        Ok(Self { piece, number: le16(&bytes, 12), flags: le16(&bytes, 14) })
    }
}

impl Chain {
    /// Forgets a request.
    pub fn clear(&mut self) {
        (self.id, self.descriptors, self.record) = (0, 0, 0);
        self.readable.clear();
        self.writable.clear();
    }

    /// Takes the memory for the longest chain there may be.
    pub fn reserve(&mut self) {
        self.readable.reserve_exact(VIRTIO_CHAIN_PIECES_MAX.saturating_sub(self.readable.len()));
        self.writable.reserve_exact(VIRTIO_CHAIN_PIECES_MAX.saturating_sub(self.writable.len()));
    }

    /// Adds the memory of a descriptor that is not indirect.
    pub(super) fn add(&mut self, of: Descriptor) -> Result<(), RingFault> {
        if self.readable.len() + self.writable.len() >= VIRTIO_CHAIN_PIECES_MAX {
            return Err(RingFault::Long);
        }
        if after(of.piece.at, of.piece.len.into()).is_err() {
            return Err(RingFault::Outside);
        }
        match (of.flags & WRITE != 0, self.writable.is_empty()) {
            (true, _) => self.writable.push(of.piece),
            (false, true) => self.readable.push(of.piece),
            (false, false) => return Err(RingFault::Order),
        }
        Ok(())
    }

    /// Adds the memory of all descriptors of a table. Those of a split ring are linked, those of a
    /// packed one follow each other.
    pub(super) fn add_table(
        &mut self,
        memory: &dyn SharedMemory,
        table: Descriptor,
        is_packed: bool,
    ) -> Result<(), RingFault> {
        let (len, unit) = (u64::from(table.piece.len), DESCRIPTOR_BYTES);
        let entries = len / unit;
        let is_whole = len.is_multiple_of(unit) && entries > 0 && entries <= u16::MAX.into();
        if !is_whole || table.flags & NEXT != 0 && !is_packed {
            return Err(RingFault::Indirect);
        }
        let place = |n: u64| after(table.piece.at, n * unit);
        if is_packed {
            return (0..entries).try_for_each(|n| {
                let of = Descriptor::packed(memory, place(n)?)?;
                if of.flags & INDIRECT != 0 { Err(RingFault::Indirect) } else { self.add(of) }
            });
        }
        let mut n = 0;
        // A loop ends at the limit of `add`.
        loop {
            let of = Descriptor::split(memory, place(n)?)?;
            if of.flags & INDIRECT != 0 {
                return Err(RingFault::Indirect);
            }
            self.add(of)?;
            if of.flags & NEXT == 0 {
                return Ok(());
            }
            n = of.number.into();
            if n >= entries {
                return Err(RingFault::Number);
            }
        }
    }
}

/// Bytes of pieces.
pub fn total(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.len)).sum()
}

/// Parts of pieces: what lies behind the first `skip` bytes, `len` bytes at most.
pub fn part(pieces: &[Piece], skip: u64, len: u64) -> impl Iterator<Item = Piece> {
    let (mut skip, mut left) = (skip, len);
    pieces.iter().filter_map(move |piece| {
        let skipped = skip.min(piece.len.into());
        skip -= skipped;
        let len = left.min(u64::from(piece.len) - skipped);
        left -= len;
        // `Chain::add` has looked at the end of the piece.
        (len > 0).then(|| Piece { at: piece.at.wrapping_add(skipped), len: len as u32 })
    })
}

/// Copies the bytes behind the first `skip` of pieces; `false`: there are not so many, or not all
/// of them are there.
pub fn copy_from(memory: &dyn SharedMemory, pieces: &[Piece], skip: u64, into: &mut [u8]) -> bool {
    let mut done = 0;
    for piece in part(pieces, skip, into.len() as u64) {
        let end = done + piece.len as usize;
        if memory.read(piece.at, &mut into[done..end]).is_err() {
            return false;
        }
        done = end;
    }
    done == into.len()
}

/// Like [`copy_from`], to the pieces.
pub fn copy_to(memory: &dyn SharedMemory, pieces: &[Piece], skip: u64, from: &[u8]) -> bool {
    let mut done = 0;
    for piece in part(pieces, skip, from.len() as u64) {
        let end = done + piece.len as usize;
        if memory.write(piece.at, &from[done..end]).is_err() {
            return false;
        }
        done = end;
    }
    done == from.len()
}
