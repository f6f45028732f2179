//! Addresses of the memory of regions, for devices that register it: in parts, each of which stays
//! unchanged until its end is reported.
//!
//! A part is as long as what goes back to the system at a time. Its pages are others afterwards,
//! and a registration would still lead to those that it had; so whoever registers a part hears of
//! its end before.

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use weft_base::lock::SharedLock;

/// Bytes of a huge page; regions start at a multiple of it.
pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Observer of the end of memory.
pub(crate) trait EndsObserver: Sync {
    /// The pages at these addresses are about to go. No view of them is left.
    fn ends(&self, addresses: Range<usize>);
}

/// The memory of all regions of the process.
struct RegionAddresses {
    /// Ends, by start.
    regions: BTreeMap<usize, usize>,
    observers: Vec<&'static dyn EndsObserver>,
}

static REGIONS: SharedLock<RegionAddresses> =
    SharedLock::new(RegionAddresses { regions: BTreeMap::new(), observers: Vec::new() });

fn read() -> RwLockReadGuard<'static, RegionAddresses> {
    REGIONS.read()
}

fn write() -> RwLockWriteGuard<'static, RegionAddresses> {
    REGIONS.write()
}

/// There is a region with this memory, which starts at a multiple of [`HUGE_PAGE_BYTES`].
pub(super) fn begins(addresses: Range<usize>) {
    write().regions.insert(addresses.start, addresses.end);
}

/// The memory of a region is about to go back to the system.
pub(super) fn ends(addresses: Range<usize>) {
    write().regions.remove(&addresses.start);
    parts_end(addresses);
}

/// Whole parts of a region are about to go back to the system.
pub(super) fn parts_end(addresses: Range<usize>) {
    // Observers take locks of their own, in which they may ask for places.
    let observers = read().observers.clone();
    observers.iter().for_each(|observer| observer.ends(addresses.clone()));
}

/// Tells the observer of all ends from now on.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only queue pairs ask, which are for Linux")
)]
pub(crate) fn observe(observer: &'static dyn EndsObserver) {
    write().observers.push(observer);
}

/// The part of a region at this address; `None`: no region is there.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only queue pairs ask, which are for Linux")
)]
pub(super) fn part_at(address: usize) -> Option<Range<usize>> {
    let places = read();
    let region = places.regions.range(..=address).next_back();
    let (_, &region_end) = region.filter(|&(_, &region_end)| address < region_end)?;
    let first = address / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    Some(first..(first + HUGE_PAGE_BYTES).min(region_end))
}
