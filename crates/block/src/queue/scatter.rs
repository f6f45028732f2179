//! Scatters units of a disk over fewer places, such as locks.
//!
//! Users write at multiples of a stripe, an extent or a page. With the remainder of the unit as its
//! place, units at a distance of a power of two would meet in a few places. Here a run of units
//! (`places / 32` of them) has a random place among the runs, and a random order within; one bit
//! distinguishes it from the adjacent runs, so that neighbours never meet.

use crate::random::mix;

/// Bits of a place that are not of the place within a run.
const OUTER_BITS: u32 = 5;

/// The place of a unit, less than `places`, which is a power of two.
pub(crate) const fn place(unit: u64, places: usize) -> usize {
    let run_bits = places.ilog2().saturating_sub(OUTER_BITS);
    let run = unit >> run_bits;
    let random = mix(run);
    let inner = (unit ^ random >> 32) & ((1 << run_bits) - 1);
    let outer = (random << 1 | run & 1) << run_bits;
    (outer | inner) as usize & (places - 1)
}

/// Number of successive units with different places.
pub(crate) const fn run(places: usize) -> usize {
    places >> OUTER_BITS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PLACES: usize = 4096;

    fn used(units: impl Iterator<Item = u64>) -> usize {
        let places: BTreeSet<usize> = units.map(|unit| place(unit, PLACES)).collect();
        assert!(places.last().is_some_and(|last| *last < PLACES));
        places.len()
    }

    #[test]
    fn units_that_follow_each_other_have_different_places() {
        let count = run(PLACES) as u64;
        assert_eq!(count, 128);
        for first in (0..10_000).chain([u64::MAX - count]) {
            assert_eq!(used((0..count).map(|nth| first + nth)), run(PLACES), "from {first}");
        }
    }

    /// At random, 1 - 1/e of the places are used, or 1 - 1/e^2 of half of them.
    #[test]
    fn units_at_equal_distances_use_many_places() {
        for shift in 0..40 {
            for step in [1_u64, 3, 5, 7, 9, 11, 13, 15].map(|odd| odd << shift) {
                let used = used((0..PLACES as u64).map(|nth| nth * step));
                assert!(used > PLACES * 2 / 5, "{used} of {PLACES} at a distance of {step}");
            }
        }
    }
}
