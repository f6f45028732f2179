//! Commands of the NVM command set as a host sends them (NVM §3.2), and what their status means.
//!
//! The data pointer and the command identifier are left to the transport. Numbers of blocks are counted from one here and from
//! zero on the wire.

use crate::nvme::opcode::NvmOpcode;
use crate::nvme::sqe::{Fuse, Sqe};
use crate::nvme::types::{Lba, Nsid};

/// Blocks that one command can name.
pub const BLOCKS_MAX: u32 = 0x1_0000;

/// Ranges that one Dataset Management command can carry.
pub const RANGES_MAX: u16 = 256;

/// Bytes of a range in the data of Dataset Management.
pub const RANGE_BYTES: usize = 16;

/// Dword 12: Force Unit Access.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// Dword 12 of Write Zeroes: Deallocate.
const DEALLOCATE: u32 = 1 << 25;
/// Dword 11 of Dataset Management: Attribute – Deallocate.
const ATTRIBUTE_DEALLOCATE: u32 = 1 << 2;

/// A command on blocks. Panics when `blocks` is not in `1..=BLOCKS_MAX`, which is the caller's mistake: sent as it is, the command
/// would touch other blocks.
#[inline]
fn on_blocks(opcode: NvmOpcode, nsid: Nsid, lba: Lba, blocks: u32, flags: u32) -> Sqe {
    assert!((1..=BLOCKS_MAX).contains(&blocks), "{blocks} blocks do not fit a command");
    let mut sqe = Sqe::new(opcode.0, nsid);
    sqe.set_qword(10, lba.0);
    sqe.set_dword(12, (blocks - 1) | flags);
    sqe
}

/// Read (NVM §3.2.4) of 1 to [`BLOCKS_MAX`] blocks.
#[inline]
pub fn read(nsid: Nsid, lba: Lba, blocks: u32) -> Sqe {
    on_blocks(NvmOpcode::READ, nsid, lba, blocks, 0)
}

/// Write (NVM §3.2.6) of 1 to [`BLOCKS_MAX`] blocks; with `fua` they are durable when it completes.
#[inline]
pub fn write(nsid: Nsid, lba: Lba, blocks: u32, fua: bool) -> Sqe {
    on_blocks(NvmOpcode::WRITE, nsid, lba, blocks, if fua { FORCE_UNIT_ACCESS } else { 0 })
}

/// Flush (Base §7.1): what was written to the namespace before is durable when it completes.
pub fn flush(nsid: Nsid) -> Sqe {
    Sqe::new(NvmOpcode::FLUSH.0, nsid)
}

/// Compare (NVM §3.2.1) of 1 to [`BLOCKS_MAX`] blocks with the command's data.
pub fn compare(nsid: Nsid, lba: Lba, blocks: u32) -> Sqe {
    on_blocks(NvmOpcode::COMPARE, nsid, lba, blocks, 0)
}

/// Fused Compare and Write (NVM §2.1.2, Base §3.4.2): the two commands to submit one right after the other on the same queue. The
/// write is done only if the compare finds its data, and nothing comes between them.
pub fn compare_and_write(nsid: Nsid, lba: Lba, blocks: u32, fua: bool) -> [Sqe; 2] {
    let mut first = compare(nsid, lba, blocks);
    first.set_fuse(Fuse::First);
    let mut second = write(nsid, lba, blocks, fua);
    second.set_fuse(Fuse::Second);
    [first, second]
}

/// Write Zeroes (NVM §3.2.8) over 1 to [`BLOCKS_MAX`] blocks. With `deallocate` the controller may free them, where the namespace
/// allows that bit.
pub fn write_zeroes(nsid: Nsid, lba: Lba, blocks: u32, deallocate: bool, fua: bool) -> Sqe {
    let deallocate = if deallocate { DEALLOCATE } else { 0 };
    let fua = if fua { FORCE_UNIT_ACCESS } else { 0 };
    on_blocks(NvmOpcode::WRITE_ZEROES, nsid, lba, blocks, deallocate | fua)
}

/// Dataset Management with the attribute Deallocate (NVM §3.2.3). Its data are `ranges` (1 to [`RANGES_MAX`]) entries of
/// [`RANGE_BYTES`], which [`put_range`] writes. Panics when `ranges` is out of range.
pub fn deallocate(nsid: Nsid, ranges: u16) -> Sqe {
    assert!((1..=RANGES_MAX).contains(&ranges), "{ranges} ranges do not fit a command");
    let mut sqe = Sqe::new(NvmOpcode::DATASET_MANAGEMENT.0, nsid);
    sqe.set_dword(10, u32::from(ranges - 1));
    sqe.set_dword(11, ATTRIBUTE_DEALLOCATE);
    sqe
}

/// Writes an entry of the data of [`deallocate`]: `blocks` from `lba`. Unlike elsewhere, blocks are counted from one here on the
/// wire as well.
pub fn put_range(entry: &mut [u8; RANGE_BYTES], lba: Lba, blocks: u32) {
    entry[0..4].fill(0);
    entry[4..8].copy_from_slice(&blocks.to_le_bytes());
    entry[8..16].copy_from_slice(&lba.0.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_zero_based_on_the_wire() {
        let sqe = read(Nsid(3), Lba(0x0102_0304_0506_0708), BLOCKS_MAX);
        assert_eq!(sqe.0[..8], [2, 0x40, 0, 0, 3, 0, 0, 0]);
        assert_eq!(sqe.0[40..52], [8, 7, 6, 5, 4, 3, 2, 1, 0xff, 0xff, 0, 0]);
        assert_eq!(write(Nsid(1), Lba(0), 1, true).0[48..52], [0, 0, 0, 0x40]);
        assert_eq!(write_zeroes(Nsid(1), Lba(0), 8, true, false).0[48..52], [7, 0, 0, 2]);
        assert_eq!(flush(Nsid(9)).0[..8], [0, 0x40, 0, 0, 9, 0, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "0 blocks")]
    fn no_blocks_is_a_mistake() {
        read(Nsid(1), Lba(0), 0);
    }

    #[test]
    fn fused_pair() {
        let [first, second] = compare_and_write(Nsid(1), Lba(5), 2, false);
        assert_eq!((first.opcode(), first.fuse()), (NvmOpcode::COMPARE.0, Fuse::First));
        assert_eq!((second.opcode(), second.fuse()), (NvmOpcode::WRITE.0, Fuse::Second));
        assert_eq!((first.qword(10), second.qword(10), first.dword(12), second.dword(12)), (5, 5, 1, 1));
    }

    #[test]
    fn deallocate_ranges() {
        let sqe = deallocate(Nsid(1), 256);
        assert_eq!((sqe.0[0], sqe.dword(10), sqe.dword(11)), (9, 255, 4));
        let mut entry = [0xee; RANGE_BYTES];
        put_range(&mut entry, Lba(0x10), 3);
        assert_eq!(entry, [0, 0, 0, 0, 3, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    }
}
