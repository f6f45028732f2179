//! Namespaces as a controller shows them, and the table of them that queues keep a snapshot of.

use super::ana_states::AnaStates;
use crate::limits::{ANA_GROUPS_MAX, NAMESPACES_MAX};
use crate::nvme::log_page::AnaState;
use crate::nvme::types::{Id128, Nqn, Nsid};
use crate::reservation::Reservations;
use std::net::SocketAddr;
use std::sync::Arc;

/// The highest namespace identifier that can be in use (Base §3.2.1.1): FFFFFFFFh means all of
/// them.
const NSID_MAX: u32 = 0xffff_fffe;

/// Capabilities of the device behind a namespace. What is not supported is not advertised, and
/// refused as an unknown command.
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

/// Sizes that perform well, in logical blocks; 0 means "not told" (NVM §4.1.5.1: NPWG, NPWA, NPDG,
/// NPDA, NOWS, NOIOB).
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
    /// Identifier, 1 to FFFFFFFEh.
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
    /// Commands can be carried out at present; hosts see the bit NRDY. It changes nothing else: a
    /// device that cannot be reached fails what it is given.
    pub ready: bool,
    /// Capabilities of the device.
    pub support: Support,
    /// Writes of up to this many blocks never mix with other commands (NAWUN); at least 1.
    pub atomic_blocks: u32,
    /// Writes of up to this many blocks are whole or absent after a power failure (NAWUPF); at
    /// least 1.
    pub atomic_power_fail_blocks: u32,
    /// Fused Compare and Write is atomic up to this many blocks (NACWU); 0 means that it is not
    /// supported. ESXi locks files on its datastores by it and takes no namespace without it.
    pub compare_write_blocks: u32,
    /// Sizes that perform well.
    pub preferred: Preferred,
    /// Most data of one command that the device takes, in bytes; of no meaning where MDTS is less.
    pub transfer_bytes_max: u32,
    /// Another number says that there is another device behind the identifier: commands that have
    /// not reached a device yet were meant for the one before, and are not executed.
    pub incarnation: u64,
    /// ANA group, 1 to [`ANA_GROUPS_MAX`] (ANAGRPID).
    pub ana_group: u32,
    /// State of the group, in a table that a controller has; what a subsystem is given says
    /// nothing.
    pub ana_state: AnaState,
    /// Its reservations; `None`: their commands are refused.
    pub reservations: Option<Arc<Reservations>>,
    /// Hosts that see it, of those that may connect to its subsystem; `None`: all. Tables that are
    /// shown to one host do not tell.
    pub hosts: Option<Arc<[Nqn]>>,
}

/// Why a namespace cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// The identifier is out of range.
    #[error("namespace identifiers go from 1 to {NSID_MAX}")]
    Identifier,
    /// There are as many as there can be.
    #[error("a subsystem has {NAMESPACES_MAX} namespaces at most")]
    TooMany,
    /// The block size is not usable.
    #[error("logical blocks have 512 bytes or a larger power of two, up to 64 KiB")]
    BlockSize,
    /// The ANA group is out of range.
    #[error("ANA groups go from 1 to {ANA_GROUPS_MAX}")]
    AnaGroup,
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
            ready: true,
            support: Support::default(),
            atomic_blocks: 1,
            atomic_power_fail_blocks: 1,
            compare_write_blocks: 0,
            preferred: Preferred::default(),
            transfer_bytes_max: u32::MAX,
            incarnation: 0,
            reservations: None,
            ana_group: 1,
            ana_state: AnaState::OPTIMIZED,
            hosts: None,
        }
    }

    /// Checks that the numbers are consistent.
    pub fn check(&self) -> Result<(), NamespaceError> {
        if self.nsid.0 == 0 || self.nsid.0 > NSID_MAX {
            return Err(NamespaceError::Identifier);
        }
        if !self.block_bytes.is_power_of_two() || !(512..=65536).contains(&self.block_bytes) {
            return Err(NamespaceError::BlockSize);
        }
        if !(1..=ANA_GROUPS_MAX).contains(&self.ana_group) {
            return Err(NamespaceError::AnaGroup);
        }
        let bytes = self.blocks.checked_mul(u64::from(self.block_bytes));
        if self.blocks == 0 || bytes.is_none() { Err(NamespaceError::Size) } else { Ok(()) }
    }

    /// Returns whether `blocks` blocks from `lba` on are all there.
    #[inline]
    pub(super) fn holds(&self, lba: u64, blocks: u32) -> bool {
        lba.checked_add(u64::from(blocks)).is_some_and(|end| end <= self.blocks)
    }
}

/// The namespaces of a subsystem, or those of them that one host sees. Controllers and queues hold
/// a snapshot (an `Arc`) and get a new one when something changes. A namespace keeps its index for
/// as long as it is there, in every snapshot: an index is below [`NAMESPACES_MAX`] however high the
/// identifier is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceMap {
    slots: Vec<Option<Namespace>>,
    /// Identifiers in ascending order, with their indexes.
    order: Vec<(Nsid, usize)>,
}

impl NamespaceMap {
    /// Adds or replaces a namespace.
    pub fn insert(&mut self, namespace: Namespace) -> Result<(), NamespaceError> {
        namespace.check()?;
        let nsid = namespace.nsid;
        match self.order.binary_search_by_key(&nsid, |(of, _)| *of) {
            Ok(at) => self.slots[self.order[at].1] = Some(namespace),
            Err(_) if self.order.len() >= NAMESPACES_MAX as usize => {
                return Err(NamespaceError::TooMany);
            }
            Err(at) => {
                let index = self.free_index(nsid);
                self.slots.resize(self.slots.len().max(index + 1), None);
                self.slots[index] = Some(namespace);
                self.order.insert(at, (nsid, index));
            }
        }
        Ok(())
    }

    /// An index for an identifier that has none: the one at which it is found at once, or any.
    fn free_index(&self, nsid: Nsid) -> usize {
        let is_free = |index: &usize| self.at(*index).is_none();
        let own = Some(nsid.0 as usize - 1)
            .filter(|&index| index < NAMESPACES_MAX as usize)
            .filter(is_free);
        own.or_else(|| (0..self.slots.len()).find(is_free)).unwrap_or(self.slots.len())
    }

    /// Takes a namespace out; returns whether it was there.
    pub fn remove(&mut self, nsid: Nsid) -> bool {
        let Ok(at) = self.order.binary_search_by_key(&nsid, |(of, _)| *of) else { return false };
        self.slots[self.order.remove(at).1] = None;
        true
    }

    /// The active namespace with this identifier and its index.
    #[inline]
    pub fn find(&self, nsid: Nsid) -> Option<(usize, &Namespace)> {
        let index = (nsid.0 as usize).wrapping_sub(1);
        match self.slots.get(index) {
            Some(Some(namespace)) if namespace.nsid == nsid => Some((index, namespace)),
            _ => self.search(nsid),
        }
    }

    /// [`Self::find`] where the identifier does not say the index.
    fn search(&self, nsid: Nsid) -> Option<(usize, &Namespace)> {
        let at = self.order.binary_search_by_key(&nsid, |(of, _)| *of).ok()?;
        let index = self.order[at].1;
        self.at(index).map(|namespace| (index, namespace))
    }

    /// The namespace at an index.
    #[inline]
    pub fn at(&self, index: usize) -> Option<&Namespace> {
        self.slots.get(index)?.as_ref()
    }

    /// The first active namespace at `index` or above that satisfies `wanted`, and its index.
    pub(super) fn next(
        &self,
        index: usize,
        wanted: impl Fn(&Namespace) -> bool,
    ) -> Option<(usize, &Namespace)> {
        let rest = self.slots.iter().enumerate().skip(index);
        rest.filter_map(|(at, slot)| Some((at, slot.as_ref()?)))
            .find(|(_, namespace)| wanted(namespace))
    }

    /// All active namespaces, in ascending order of their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.order.iter().filter_map(|&(_, index)| self.at(index))
    }

    fn named(&self, nsid: Nsid) -> Option<&Namespace> {
        self.find(nsid).map(|(_, namespace)| namespace)
    }

    /// The highest identifier that is valid at present (NN): those that are not in use are
    /// inactive.
    pub(super) fn highest(&self) -> u32 {
        self.order.last().map_or(0, |(nsid, _)| nsid.0).max(NAMESPACES_MAX)
    }

    /// The table that `host` is shown, if that is another one than this.
    pub(super) fn shown_to(&self, host: Option<&Nqn>) -> Option<Self> {
        let is_limited = |namespace: &Namespace| namespace.hosts.is_some();
        if !self.iter().any(is_limited) {
            return None;
        }
        let mut shown = self.clone();
        for namespace in self.iter().filter(|namespace| is_limited(namespace)) {
            let sees = lists(namespace.hosts.as_deref(), host);
            match shown.search(namespace.nsid) {
                Some((index, _)) if sees => {
                    shown.slots[index].iter_mut().for_each(|namespace| namespace.hosts = None)
                }
                _ => _ = shown.remove(namespace.nsid),
            }
        }
        Some(shown)
    }

    /// The table with the states that its groups have for hosts that came by this listener, if that
    /// is another one than this.
    pub(super) fn in_states(
        &self,
        states: &AnaStates,
        listener: Option<SocketAddr>,
    ) -> Option<Self> {
        let state = |namespace: &Namespace| states.of(listener, namespace.ana_group);
        if self.iter().all(|namespace| namespace.ana_state == state(namespace)) {
            return None;
        }
        let mut table = self.clone();
        table
            .slots
            .iter_mut()
            .flatten()
            .for_each(|namespace| namespace.ana_state = state(namespace));
        Some(table)
    }

    /// Identifiers that are active in only one of the two tables or differ between them in what the
    /// event Namespace Attribute Changed is for, in ascending order. ANA groups have an event of
    /// their own.
    pub(super) fn difference(&self, other: &Self) -> Vec<Nsid> {
        let mut all: Vec<Nsid> =
            self.order.iter().chain(&other.order).map(|(nsid, _)| *nsid).collect();
        all.sort_unstable();
        all.dedup();
        let told = |namespace: &Namespace| Namespace {
            ana_group: 1,
            ana_state: AnaState::OPTIMIZED,
            ..namespace.clone()
        };
        all.retain(|&nsid| self.named(nsid).map(told) != other.named(nsid).map(told));
        all
    }
}

/// Returns whether a list of names has that of a host. A list that is not there has all hosts; one
/// that is there has no host without a name.
pub(super) fn lists(names: Option<&[Nqn]>, host: Option<&Nqn>) -> bool {
    names.is_none_or(|names| host.is_some_and(|host| names.contains(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(nsid: u32) -> Namespace {
        Namespace::new(Nsid(nsid), 512, 1000, Id128([nsid as u8; 16]))
    }

    #[test]
    fn the_table_keeps_indexes() {
        let mut table = NamespaceMap::default();
        table.insert(namespace(3)).unwrap();
        table.insert(namespace(1)).unwrap();
        assert_eq!(table.iter().map(|n| n.nsid.0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(table.find(Nsid(3)).map(|(index, n)| (index, n.nsid)), Some((2, Nsid(3))));
        for nsid in [0, 2, 4, u32::MAX] {
            assert!(table.find(Nsid(nsid)).is_none());
        }
        assert!(
            table.remove(Nsid(1))
                && !table.remove(Nsid(1))
                && !table.remove(Nsid(0))
                && !table.remove(Nsid(9))
        );
        assert_eq!(table.find(Nsid(3)).map(|(index, _)| index), Some(2));
        assert_eq!(table.next(0, |_| true).map(|(index, _)| index), Some(2));
    }

    #[test]
    fn identifiers_may_be_far_apart() {
        let mut table = NamespaceMap::default();
        for nsid in [NSID_MAX, 7, 70_000, 1] {
            table.insert(namespace(nsid)).unwrap();
        }
        assert_eq!(table.iter().map(|n| n.nsid.0).collect::<Vec<_>>(), [1, 7, 70_000, NSID_MAX]);
        let indexes: Vec<usize> =
            [1, 7, 70_000, NSID_MAX].map(|nsid| table.find(Nsid(nsid)).unwrap().0).into();
        assert!(indexes.iter().all(|&index| index < 8), "{indexes:?}");
        assert_eq!(table.highest(), NSID_MAX);
        // What is there keeps its index, whatever comes and goes.
        assert!(table.remove(Nsid(7)) && table.remove(Nsid(NSID_MAX)));
        table.insert(namespace(2)).unwrap();
        assert_eq!(table.find(Nsid(70_000)).unwrap().0, indexes[2]);
        assert_eq!(table.highest(), 70_000);
        for (index, nsid) in table.iter().map(|n| (table.find(n.nsid).unwrap().0, n.nsid)) {
            assert_eq!(table.at(index).unwrap().nsid, nsid);
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let mut table = NamespaceMap::default();
        for n in 0..NAMESPACES_MAX {
            table.insert(namespace(NSID_MAX - n)).unwrap();
        }
        assert_eq!(table.insert(namespace(1)), Err(NamespaceError::TooMany));
        table.insert(Namespace { blocks: 1, ..namespace(NSID_MAX) }).unwrap();
        assert!(table.remove(Nsid(NSID_MAX - 3)));
        table.insert(namespace(1)).unwrap();
        assert_eq!(table.slots.len(), NAMESPACES_MAX as usize);
    }

    #[test]
    fn a_host_is_shown_what_it_may_see() {
        let host = |name: &str| Nqn::new(&format!("nqn.2014-08.org.example:{name}")).unwrap();
        let mut table = NamespaceMap::default();
        table.insert(namespace(1)).unwrap();
        assert_eq!(table.shown_to(Some(&host("a"))), None, "nothing is hidden");
        table.insert(Namespace { hosts: Some([host("a")].into()), ..namespace(2) }).unwrap();
        table.insert(namespace(3)).unwrap();
        let (a, b) =
            (table.shown_to(Some(&host("a"))).unwrap(), table.shown_to(Some(&host("b"))).unwrap());
        assert_eq!(a.iter().map(|n| n.nsid.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(b.iter().map(|n| n.nsid.0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(b.find(Nsid(3)).unwrap().0, table.find(Nsid(3)).unwrap().0);
        assert_eq!(a.find(Nsid(2)).unwrap().1, &namespace(2), "who else sees it is not told");
    }

    #[test]
    fn differences() {
        let mut before = NamespaceMap::default();
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
        assert!(
            one.holds(0, 1000)
                && one.holds(999, 1)
                && !one.holds(999, 2)
                && !one.holds(u64::MAX, 1)
        );
        assert_eq!(one.check(), Ok(()));
        assert_eq!(namespace(0).check(), Err(NamespaceError::Identifier));
        assert_eq!(namespace(u32::MAX).check(), Err(NamespaceError::Identifier));
        assert_eq!(namespace(NSID_MAX).check(), Ok(()));
        assert_eq!(
            Namespace { block_bytes: 520, ..namespace(1) }.check(),
            Err(NamespaceError::BlockSize)
        );
        assert_eq!(Namespace { blocks: 0, ..namespace(1) }.check(), Err(NamespaceError::Size));
        assert_eq!(
            Namespace { blocks: u64::MAX, ..namespace(1) }.check(),
            Err(NamespaceError::Size)
        );
    }
}
