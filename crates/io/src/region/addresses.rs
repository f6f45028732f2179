//! Addresses of the memory of regions, for devices that register it: in parts, each of which stays
//! unchanged until its end is reported.
//!
//! A part is as long as what goes back to the system at a time. Its pages are others afterwards,
//! and a registration would still lead to those that it had; so whoever registers a part hears of
//! its end before.

use super::memory::HUGE_PAGE_BYTES;
use super::views::zeroes;
use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use weft_base::lock::SharedLock;

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

/// The part in which `view` lies, a view of a region that the caller holds; `None`: it is no such
/// memory.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only queue pairs ask, which are for Linux")
)]
pub(crate) fn part_of(view: &[u8]) -> Option<Range<usize>> {
    let Range { start, end } = view.as_ptr_range();
    let (start, end) = (start.addr(), end.addr());
    let zeroes = zeroes().as_ptr_range();
    let zeroes = zeroes.start.addr()..zeroes.end.addr();
    let part = if zeroes.contains(&start) {
        zeroes
    } else {
        let places = read();
        let (_, &region_end) = places
            .regions
            .range(..=start)
            .next_back()
            .filter(|&(_, &region_end)| start < region_end)?;
        let first = start / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        first..(first + HUGE_PAGE_BYTES).min(region_end)
    };
    (end <= part.end).then_some(part)
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::region::{CHUNK_BYTES, Lender, Region};
    use crate::segment::Segments;
    use std::sync::Arc;

    #[derive(Default)]
    struct Ends(weft_base::lock::Lock<Vec<Range<usize>>>);

    impl EndsObserver for Ends {
        fn ends(&self, addresses: Range<usize>) {
            self.0.lock().push(addresses);
        }
    }

    impl Ends {
        fn has(&self, part: &Range<usize>) -> bool {
            self.0.lock().iter().any(|ended| ended.start <= part.start && part.end <= ended.end)
        }
    }

    #[test]
    fn views_are_in_parts_whose_end_is_told() {
        let ends: &'static Ends = Box::leak(Box::default());
        observe(ends);
        let len = 2 * HUGE_PAGE_BYTES;
        let region = Arc::new(Region::new(len).unwrap());
        let (lender, filled) = (Lender::new(Arc::clone(&region)), vec![7; len]);
        region.write_slice(0, &filled);
        let part = |at: usize| {
            let mut views = Segments::new();
            assert!(lender.lend(at, 4096, &mut views));
            part_of(&views[0]).unwrap()
        };
        let parts = [part(0), part(HUGE_PAGE_BYTES)];
        assert!(parts[0] != parts[1] && parts.iter().all(|part| part.len() == HUGE_PAGE_BYTES));
        assert_eq!(part(CHUNK_BYTES), parts[0]);
        assert!(!ends.has(&parts[0]));
        region.release(0, len);
        assert!(parts.iter().all(|part| ends.has(part)) || cfg!(not(target_os = "linux")));
        let zeroes = part(0);
        assert_eq!(zeroes.len(), CHUNK_BYTES);
        assert!(!ends.has(&zeroes));
        assert!(part_of(&filled).is_none(), "memory of others");
        let first = parts[0].clone();
        ends.0.lock().clear();
        drop((lender, region));
        assert!(ends.has(&first));
    }
}
