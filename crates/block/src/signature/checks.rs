//! Checks beyond a magic number, and the places of numbers that depend on the size of the disk.

use super::ends::{DiskEnds, END_BYTES};

const KIB: u64 = 1024;
const SECTOR: u64 = 512;

/// `s_magic` is 38h bytes into the superblock.
const EXT_MAGIC: u64 = 0x38;
const HAS_JOURNAL: u32 = 0x4;
/// Extents, 64 bits, flexible block groups.
const OF_EXT4: u32 = 0x40 | 0x80 | 0x200;

/// Two bytes are little: the counts and the block size must be possible too.
pub(super) fn is_ext(ends: &DiskEnds<'_>, at: u64) -> bool {
    let field = |offset| ends.u32_le(at - EXT_MAGIC + offset).unwrap_or(0);
    let (inodes, blocks, log_block_size, revision) = (field(0), field(4), field(0x18), field(0x4c));
    inodes > 0 && blocks > 0 && log_block_size <= 6 && revision <= 1
}

pub(super) fn is_ext3(ends: &DiskEnds<'_>, at: u64) -> bool {
    let compatible = ends.u32_le(at - EXT_MAGIC + 0x5c).unwrap_or(0);
    is_ext(ends, at) && compatible & HAS_JOURNAL != 0
}

pub(super) fn is_ext4(ends: &DiskEnds<'_>, at: u64) -> bool {
    let incompatible = ends.u32_le(at - EXT_MAGIC + 0x60).unwrap_or(0);
    is_ext(ends, at) && incompatible & OF_EXT4 != 0
}

/// The version stands behind the magic number, with the high byte first; the first version has no
/// label.
pub(super) fn is_luks2(ends: &DiskEnds<'_>, at: u64) -> bool {
    ends.has(at + 6, &[0, 2])
}

pub(super) fn is_lvm2(ends: &DiskEnds<'_>, at: u64) -> bool {
    ends.has(at + 24, b"LVM2 001")
}

pub(super) fn is_boot_sector(ends: &DiskEnds<'_>, _: u64) -> bool {
    ends.has(510, &[0x55, 0xaa])
}

/// Four entries of 16 bytes, of which at least one has a partition, and each is free or possible.
pub(super) fn is_mbr(ends: &DiskEnds<'_>, _: u64) -> bool {
    let mut used = 0;
    for entry in 0..4 {
        let at = 446 + entry * 16;
        let (Some(&[status]), Some(&[kind])) = (ends.at(at, 1), ends.at(at + 4, 1)) else {
            return false;
        };
        let (first, sectors) =
            (ends.u32_le(at + 8).unwrap_or(0), ends.u32_le(at + 12).unwrap_or(0));
        if !matches!(status, 0 | 0x80) {
            return false;
        }
        if kind != 0 && sectors > 0 {
            used += 1;
            if first == 0 {
                return false;
            }
        }
    }
    used > 0
}

/// The version is 1, in either order of bytes; the space before it is for boot loaders.
pub(super) fn is_swap(ends: &DiskEnds<'_>, _: u64) -> bool {
    ends.has(KIB, &[1, 0, 0, 0]) || ends.has(KIB, &[0, 0, 0, 1])
}

pub(super) fn is_md_1(ends: &DiskEnds<'_>, at: u64) -> bool {
    ends.has(at + 4, &[1, 0, 0, 0])
}

/// Versions 1.1 and 1.2, at the start, and 1.0, at least 8 KiB before the end.
pub(super) fn md_1_places(bytes: u64) -> Vec<u64> {
    let end = (bytes / SECTOR).checked_sub(16).map(|sector| (sector & !7) * SECTOR);
    [0, 4 * KIB].into_iter().chain(end).collect()
}

/// Version 0.90: the last whole 64 KiB before the last whole 64 KiB.
pub(super) fn md_0_places(bytes: u64) -> Vec<u64> {
    (bytes & !(64 * KIB - 1)).checked_sub(64 * KIB).into_iter().collect()
}

/// A label of 256 KiB has uberblocks from its half on; there are two labels at the start and two at
/// the end.
pub(super) fn zfs_places(bytes: u64) -> Vec<u64> {
    let end = bytes & !(256 * KIB - 1);
    let labels = [Some(0), Some(256 * KIB), end.checked_sub(512 * KIB), end.checked_sub(256 * KIB)];
    labels
        .into_iter()
        .flatten()
        .flat_map(|label| (128..256).map(move |n| label + n * KIB))
        .collect()
}

/// The number is 60 bytes into the last whole 4 KiB.
pub(super) fn drbd_places(bytes: u64) -> Vec<u64> {
    (bytes & !(4 * KIB - 1)).checked_sub(4 * KIB).map(|at| at + 60).into_iter().collect()
}

/// At a multiple of 4 KiB near the end.
pub(super) fn mirror_places(bytes: u64) -> Vec<u64> {
    let first = bytes.saturating_sub(END_BYTES).next_multiple_of(4 * KIB);
    (first..bytes).step_by(4096).collect()
}
