//! Places of a mirror's records: the last MiB of each leg, and the beginning of the state file.
//!
//! Both have the same layout, in units of 4 KiB: two slots for a record ([`super::record`]), which
//! are written in turn, then the pages of two bitmaps. A record fills one block, the smallest unit
//! that devices write entirely or not at all.

use crate::limits::MIRROR_HOT_REGIONS;

/// Bytes of a unit.
pub(crate) const UNIT: usize = 4096;

/// Bytes at the end of a leg that do not belong to the data.
pub(crate) const RESERVED_BYTES: u64 = 1 << 20;

/// Slots for records.
pub(crate) const SLOTS: usize = 2;

/// Pages of a bitmap.
pub(crate) const PAGES: usize = 3;

/// Regions of a page.
pub(crate) const PAGE_BITS: usize = (UNIT - 8) * 8;

/// Bytes of the slots and pages.
pub(crate) const AREA_BYTES: usize = (SLOTS + 2 * PAGES) * UNIT;

/// Bytes of the smallest region; the size of the data is a multiple of it.
pub(crate) const REGION_BYTES_MIN: u64 = 64 << 10;

/// The most regions of a mirror; larger ones have longer regions.
pub(crate) const REGIONS_MAX: u64 = 65_536;

/// The most bytes of regions that are marked at a time, unless the URL says otherwise: what is
/// compared after a crash.
pub(crate) const HOT_BYTES: u64 = 64 << 30;

const _: () = assert!(REGIONS_MAX as usize <= PAGES * PAGE_BITS);

/// Where the area of a leg of this size begins, in bytes; `None` if the leg is too small.
pub(crate) fn area_of_leg(bytes: u64) -> Option<u64> {
    (bytes / UNIT as u64 * UNIT as u64).checked_sub(RESERVED_BYTES)
}

/// The size of the data of a mirror whose smallest leg has this size.
pub(crate) fn data_bytes(leg_bytes: u64) -> Option<u64> {
    let bytes = area_of_leg(leg_bytes)? / REGION_BYTES_MIN * REGION_BYTES_MIN;
    (bytes > 0).then_some(bytes)
}

/// Bytes of a region of a new mirror: the shortest ones with which all regions may be marked at a
/// time, up to [`HOT_BYTES`]; then as long as they are there, until there are too many of them.
pub(crate) fn region_bytes(data_bytes: u64) -> u64 {
    let hot = data_bytes.min(HOT_BYTES).div_ceil(MIRROR_HOT_REGIONS as u64);
    hot.max(data_bytes.div_ceil(REGIONS_MAX)).next_power_of_two().max(REGION_BYTES_MIN)
}

/// Bytes of a region of a mirror whose record has version 1 or 2.
pub(crate) fn region_bytes_before_3(data_bytes: u64) -> u64 {
    data_bytes.div_ceil(REGIONS_MAX).next_power_of_two().max(REGION_BYTES_MIN)
}

/// Maximum amount of a mirror that is marked at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotLimit {
    /// This many regions, and 64 GiB.
    Regions(usize),
    /// This many bytes, rounded up to whole regions.
    Bytes(u64),
}

impl Default for HotLimit {
    fn default() -> Self {
        Self::Regions(MIRROR_HOT_REGIONS)
    }
}

impl HotLimit {
    /// The number of regions of this length; at least one.
    pub(crate) fn regions(self, region_bytes: u64) -> usize {
        let most = match self {
            Self::Regions(most) => most.min((HOT_BYTES / region_bytes) as usize),
            Self::Bytes(bytes) => bytes.div_ceil(region_bytes).min(REGIONS_MAX) as usize,
        };
        most.max(1)
    }
}

/// Offset of a slot within an area.
pub(crate) const fn slot_offset(slot: usize) -> u64 {
    (slot * UNIT) as u64
}

/// Kind of a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitmapKind {
    /// Regions that may differ between the legs in sync.
    Written,
    /// Regions that were written since the oldest absent leg left.
    Missed,
}

/// Offset of a page within an area.
pub(crate) const fn page_offset(map: BitmapKind, page: usize) -> u64 {
    let first = match map {
        BitmapKind::Written => SLOTS,
        BitmapKind::Missed => SLOTS + PAGES,
    };
    ((first + page) * UNIT) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(data_bytes(1 << 20), None);
        assert_eq!(data_bytes((1 << 20) + (64 << 10)), Some(64 << 10));
        assert_eq!(data_bytes((1 << 30) + 512), Some((1 << 30) - (1 << 20)));
        assert_eq!(region_bytes_before_3(1 << 20), 64 << 10);
        assert_eq!(region_bytes_before_3(1 << 40), 16 << 20);
        assert!((1u64 << 50).div_ceil(region_bytes_before_3((1 << 50) - 1)) <= REGIONS_MAX);
        assert_eq!(page_offset(BitmapKind::Missed, PAGES - 1) as usize + UNIT, AREA_BYTES);
    }

    #[test]
    fn regions_of_new_mirrors() {
        let gib = 1u64 << 30;
        for (data, region) in [
            (1 << 20, 64 << 10),
            (gib / 4, 64 << 10),
            (gib / 4 + 512, 128 << 10),
            (2 * gib, 512 << 10),
            (64 * gib, 16 << 20),
            (64 * gib + 512, 16 << 20),
            (1024 * gib, 16 << 20),
            (1024 * gib + 512, 32 << 20),
            (u64::MAX / 2, 1 << 47),
        ] {
            assert_eq!(region_bytes(data), region, "{data}");
            assert!(data.div_ceil(region) <= REGIONS_MAX);
            let is_small = data <= HOT_BYTES;
            let hot = HotLimit::default().regions(region) as u64;
            assert!(hot <= 4096 && (hot * region <= HOT_BYTES || hot == 1));
            assert_eq!(hot >= data.div_ceil(region), is_small, "{data}: all may be marked");
        }
        assert_eq!(HotLimit::Regions(2).regions(64 << 10), 2);
        assert_eq!(HotLimit::default().regions(region_bytes_before_3(4 * gib)), 4096);
    }

    #[test]
    fn bytes_are_whole_regions() {
        let region = 16 << 20;
        let regions = |bytes| HotLimit::Bytes(bytes).regions(region);
        assert_eq!([1, region, region + 1].map(regions), [1, 1, 2]);
        assert_eq!([100 << 30, u64::MAX].map(regions), [6400, REGIONS_MAX as usize]);
    }
}
