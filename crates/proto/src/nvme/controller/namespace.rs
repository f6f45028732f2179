//! Namespaces as a controller shows them, and the table of them that queues keep a snapshot of.

use crate::limits::NAMESPACES_MAX;
use crate::nvme::types::{Id128, Nsid};

/// What the device behind a namespace can do. What is not supported is not advertised, and refused as an unknown command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// Dataset Management with the attribute Deallocate.
    pub discard: bool,
    /// Write Zeroes.
    pub write_zeroes: bool,
    /// Compare.
    pub compare: bool,
    /// Writes may sit in a cache that loses them with power: Flush and Force Unit Access matter.
    pub volatile_cache: bool,
    /// Blocks that were discarded read as zeroes.
    pub discarded_reads_zero: bool,
}

/// Sizes that perform well, in logical blocks; 0 means "not told" (NVM §4.1.5.1: NPWG, NPWA, NPDG, NPDA, NOWS, NOIOB).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferred {
    /// Writes should be multiples of this.
    pub write_granularity: u32,
    /// Writes should start at multiples of this.
    pub write_alignment: u32,
    /// Discards should be multiples of this.
    pub discard_granularity: u32,
    /// Discards should start at multiples of this.
    pub discard_alignment: u32,
    /// The size of a write that performs best.
    pub write_size: u32,
    /// Transfers should not cross multiples of this.
    pub io_boundary: u32,
}

/// A namespace of the NVM command set, without metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Identifier, 1 to [`NAMESPACES_MAX`].
    pub nsid: Nsid,
    /// Bytes of a logical block: a power of two, at least 512.
    pub block_bytes: u32,
    /// Logical blocks.
    pub blocks: u64,
    /// UUID: what hosts know the namespace by. It must outlive restarts.
    pub uuid: Id128,
    /// NGUID; zero means none. ESXi names a disk by it, so give one where ESXi is served.
    pub nguid: Id128,
    /// EUI-64; zero means none.
    pub eui64: [u8; 8],
    /// Writes are refused with Namespace is Write Protected.
    pub read_only: bool,
    /// What the device can do.
    pub support: Support,
    /// Writes of up to this many blocks never mix with other commands (NAWUN); at least 1.
    pub atomic_blocks: u32,
    /// Writes of up to this many blocks are whole or absent after a power failure (NAWUPF); at least 1.
    pub atomic_power_fail_blocks: u32,
    /// Fused Compare and Write is atomic up to this many blocks (NACWU); 0 means that it is not supported. ESXi locks files on its
    /// datastores by it and takes no namespace without it.
    pub compare_write_blocks: u32,
    /// Sizes that perform well.
    pub preferred: Preferred,
}

/// Why a namespace cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// The identifier is out of range.
    #[error("namespace identifiers go from 1 to {NAMESPACES_MAX}")]
    Identifier,
    /// The block size is not usable.
    #[error("logical blocks have 512 bytes or a larger power of two, up to 64 KiB")]
    BlockSize,
    /// There is no block, or there are more than an address can reach.
    #[error("a namespace has at least one block, and ends below 2^64 bytes")]
    Size,
}

impl Namespace {
    /// A namespace of this size without optional abilities; one block is written atomically.
    pub fn new(nsid: Nsid, block_bytes: u32, blocks: u64, uuid: Id128) -> Self {
        Self {
            nsid,
            block_bytes,
            blocks,
            uuid,
            nguid: Id128::default(),
            eui64: [0; 8],
            read_only: false,
            support: Support::default(),
            atomic_blocks: 1,
            atomic_power_fail_blocks: 1,
            compare_write_blocks: 0,
            preferred: Preferred::default(),
        }
    }

    /// Whether the numbers make sense.
    pub fn check(&self) -> Result<(), NamespaceError> {
        if self.nsid.0 == 0 || self.nsid.0 > NAMESPACES_MAX {
            return Err(NamespaceError::Identifier);
        }
        if !self.block_bytes.is_power_of_two() || !(512..=65536).contains(&self.block_bytes) {
            return Err(NamespaceError::BlockSize);
        }
        let bytes = self.blocks.checked_mul(u64::from(self.block_bytes));
        if self.blocks == 0 || bytes.is_none() { Err(NamespaceError::Size) } else { Ok(()) }
    }

    /// Whether `blocks` blocks from `lba` on are all there.
    #[inline]
    pub(super) fn holds(&self, lba: u64, blocks: u32) -> bool {
        lba.checked_add(u64::from(blocks)).is_some_and(|end| end <= self.blocks)
    }
}

/// The namespaces of a subsystem at one moment. Queues hold a snapshot (an `Arc`) and get a new one when something changes. The
/// index of a namespace is its identifier minus one, so it keeps its meaning from one snapshot to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceTable {
    slots: Vec<Option<Namespace>>,
}

impl NamespaceTable {
    /// Adds or replaces a namespace.
    pub fn insert(&mut self, namespace: Namespace) -> Result<(), NamespaceError> {
        namespace.check()?;
        let index = namespace.nsid.0 as usize - 1;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
        }
        self.slots[index] = Some(namespace);
        Ok(())
    }

    /// Takes a namespace out; returns whether it was there.
    pub fn remove(&mut self, nsid: Nsid) -> bool {
        let slot = (nsid.0 as usize).checked_sub(1).and_then(|index| self.slots.get_mut(index));
        slot.is_some_and(|slot| slot.take().is_some())
    }

    /// The active namespace with this identifier and its index.
    #[inline]
    pub fn find(&self, nsid: Nsid) -> Option<(usize, &Namespace)> {
        let index = (nsid.0 as usize).wrapping_sub(1);
        self.slots.get(index)?.as_ref().map(|namespace| (index, namespace))
    }

    /// The namespace at an index.
    #[inline]
    pub fn at(&self, index: usize) -> Option<&Namespace> {
        self.slots.get(index)?.as_ref()
    }

    /// The first active namespace at `index` or above that satisfies `wanted`, and its index.
    pub(super) fn next(&self, index: usize, wanted: impl Fn(&Namespace) -> bool) -> Option<(usize, &Namespace)> {
        let rest = self.slots.iter().enumerate().skip(index);
        rest.filter_map(|(at, slot)| Some((at, slot.as_ref()?))).find(|(_, namespace)| wanted(namespace))
    }

    /// All active namespaces, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.slots.iter().flatten()
    }

    /// Identifiers that are active in only one of the two tables or differ between them, in ascending order.
    pub(super) fn difference(&self, other: &Self) -> Vec<Nsid> {
        let slots = self.slots.len().max(other.slots.len());
        (0..slots).filter(|&index| self.at(index) != other.at(index)).map(|index| Nsid(index as u32 + 1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(nsid: u32) -> Namespace {
        Namespace::new(Nsid(nsid), 512, 1000, Id128([nsid as u8; 16]))
    }

    #[test]
    fn the_table_keeps_indexes() {
        let mut table = NamespaceTable::default();
        table.insert(namespace(3)).unwrap();
        table.insert(namespace(1)).unwrap();
        assert_eq!(table.iter().map(|n| n.nsid.0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(table.find(Nsid(3)).map(|(index, n)| (index, n.nsid)), Some((2, Nsid(3))));
        for nsid in [0, 2, 4, u32::MAX] {
            assert!(table.find(Nsid(nsid)).is_none());
        }
        assert!(table.remove(Nsid(1)) && !table.remove(Nsid(1)) && !table.remove(Nsid(0)) && !table.remove(Nsid(9)));
        assert_eq!(table.find(Nsid(3)).map(|(index, _)| index), Some(2));
        assert_eq!(table.next(0, |_| true).map(|(index, _)| index), Some(2));
    }

    #[test]
    fn differences() {
        let mut before = NamespaceTable::default();
        before.insert(namespace(1)).unwrap();
        before.insert(namespace(2)).unwrap();
        let mut after = before.clone();
        assert_eq!(after.difference(&before), []);
        after.remove(Nsid(1));
        after.insert(Namespace { blocks: 2000, ..namespace(2) }).unwrap();
        after.insert(namespace(5)).unwrap();
        assert_eq!(before.difference(&after), [Nsid(1), Nsid(2), Nsid(5)]);
    }

    #[test]
    fn ranges_and_checks() {
        let one = namespace(1);
        assert!(one.holds(0, 1000) && one.holds(999, 1) && !one.holds(999, 2) && !one.holds(u64::MAX, 1));
        assert_eq!(one.check(), Ok(()));
        assert_eq!(namespace(0).check(), Err(NamespaceError::Identifier));
        assert_eq!(namespace(NAMESPACES_MAX + 1).check(), Err(NamespaceError::Identifier));
        assert_eq!(Namespace { block_bytes: 520, ..namespace(1) }.check(), Err(NamespaceError::BlockSize));
        assert_eq!(Namespace { blocks: 0, ..namespace(1) }.check(), Err(NamespaceError::Size));
        assert_eq!(Namespace { blocks: u64::MAX, ..namespace(1) }.check(), Err(NamespaceError::Size));
    }
}
