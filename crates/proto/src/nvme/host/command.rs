//! Commands of the NVM command set as a host sends them (NVM §3.2), and what their status means.
//!
//! The data pointer and the command identifier are left to the transport. Numbers of blocks are
//! counted from one here and from zero on the wire.

use crate::nvme::opcode::NvmOpcode;
use crate::nvme::sqe::{Fuse, Sqe};
use crate::nvme::types::{Lba, Nsid};
use crate::reservation::Kind;

/// Blocks that one command can name.
pub const BLOCKS_MAX: u32 = 0x1_0000;

/// Ranges that one Dataset Management command can carry.
pub const RANGES_MAX: u16 = 256;

/// Bytes of a range in the data of Dataset Management.
pub const RANGE_BYTES: usize = 16;

/// Dword 12: Force Unit Access.
pub const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// Dword 12 of Write Zeroes: Deallocate.
pub const DEALLOCATE: u32 = 1 << 25;
/// Dword 11 of Dataset Management: Attribute – Deallocate.
pub const ATTRIBUTE_DEALLOCATE: u32 = 1 << 2;

/// A command on blocks. Panics when `blocks` is not in `1..=BLOCKS_MAX`, which is the caller's
/// mistake: sent as it is, the command would touch other blocks.
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

/// Fused Compare and Write (NVM §2.1.2, Base §3.4.2): the two commands to submit one right after
/// the other on the same queue. The write is done only if the compare finds its data, and nothing
/// comes between them.
pub fn compare_and_write(nsid: Nsid, lba: Lba, blocks: u32, fua: bool) -> [Sqe; 2] {
    let mut first = compare(nsid, lba, blocks);
    first.set_fuse(Fuse::First);
    let mut second = write(nsid, lba, blocks, fua);
    second.set_fuse(Fuse::Second);
    [first, second]
}

/// Write Zeroes (NVM §3.2.8) over 1 to [`BLOCKS_MAX`] blocks. With `deallocate` the controller may
/// free them, where the namespace allows that bit.
pub fn write_zeroes(nsid: Nsid, lba: Lba, blocks: u32, deallocate: bool, fua: bool) -> Sqe {
    let deallocate = if deallocate { DEALLOCATE } else { 0 };
    let fua = if fua { FORCE_UNIT_ACCESS } else { 0 };
    on_blocks(NvmOpcode::WRITE_ZEROES, nsid, lba, blocks, deallocate | fua)
}

/// Dataset Management with the attribute Deallocate (NVM §3.2.3). Its data are `ranges` (1 to
/// [`RANGES_MAX`]) entries of [`RANGE_BYTES`], which [`put_range`] writes. Panics when `ranges` is
/// out of range.
pub fn deallocate(nsid: Nsid, ranges: u16) -> Sqe {
    assert!((1..=RANGES_MAX).contains(&ranges), "{ranges} ranges do not fit a command");
    let mut sqe = Sqe::new(NvmOpcode::DATASET_MANAGEMENT.0, nsid);
    sqe.set_dword(10, u32::from(ranges - 1));
    sqe.set_dword(11, ATTRIBUTE_DEALLOCATE);
    sqe
}

/// Writes an entry of the data of [`deallocate`]: `blocks` from `lba`. Unlike elsewhere, blocks are
/// counted from one here on the wire as well.
pub fn put_range(entry: &mut [u8; RANGE_BYTES], lba: Lba, blocks: u32) {
    entry[0..4].fill(0);
    entry[4..8].copy_from_slice(&blocks.to_le_bytes());
    entry[8..16].copy_from_slice(&lba.0.to_le_bytes());
}

/// Bytes of the two keys of a command that changes a reservation.
pub const KEYS_BYTES: usize = 16;

/// Dword 10 of Reservation Register: Ignore Existing Key.
pub const IGNORE_EXISTING_KEY: u32 = 1 << 3;
/// Dword 10 of Reservation Register, CPTPL: reservations and registrants persist through power
/// loss.
const PERSIST: u32 = 0b11 << 30;
/// Dword 11 of Reservation Report: registrants in their extended form.
const EXTENDED_DATA: u32 = 1;

/// A command that changes a reservation. Its data are two keys, which [`ReservationChange::keys`]
/// gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationChange {
    /// Reservation Register of a host that is not registered.
    Register {
        /// The key.
        key: u64,
    },
    /// Reservation Register of a host that is registered, with whatever key.
    Replace {
        /// The new key.
        key: u64,
    },
    /// Reservation Register that ends the registration.
    Unregister {
        /// The key registered.
        key: u64,
    },
    /// Reservation Acquire.
    Acquire {
        /// The key registered.
        key: u64,
        /// The type.
        kind: Kind,
    },
    /// Reservation Acquire that preempts.
    Preempt {
        /// The key registered.
        key: u64,
        /// The key of those who are preempted.
        of: u64,
        /// The type.
        kind: Kind,
    },
    /// Reservation Release.
    Release {
        /// The key registered.
        key: u64,
        /// The type that is held.
        kind: Kind,
    },
}

impl ReservationChange {
    /// The command (Base 2.1 §7.4 to 7.6). `persists`: what is registered is to persist through
    /// power loss.
    pub fn command(self, nsid: Nsid, persists: bool) -> Sqe {
        let of_type = |kind: Kind| u32::from(kind.nvme()) << 8;
        let (opcode, dword) = match self {
            Self::Register { .. } => (NvmOpcode::RESERVATION_REGISTER, 0),
            Self::Unregister { .. } => (NvmOpcode::RESERVATION_REGISTER, 1),
            Self::Replace { .. } => (NvmOpcode::RESERVATION_REGISTER, 2 | IGNORE_EXISTING_KEY),
            Self::Acquire { kind, .. } => (NvmOpcode::RESERVATION_ACQUIRE, of_type(kind)),
            Self::Preempt { kind, .. } => (NvmOpcode::RESERVATION_ACQUIRE, 1 | of_type(kind)),
            Self::Release { kind, .. } => (NvmOpcode::RESERVATION_RELEASE, of_type(kind)),
        };
        let registers = matches!(self, Self::Register { .. } | Self::Replace { .. });
        let persists = if persists && registers { PERSIST } else { 0 };
        let mut sqe = Sqe::new(opcode.0, nsid);
        sqe.set_dword(10, dword | persists);
        sqe
    }

    /// Its data: the current key, and the new one or that of those who are preempted.
    pub fn keys(self) -> [u8; KEYS_BYTES] {
        let (current, other) = match self {
            Self::Register { key } | Self::Replace { key } => (0, key),
            Self::Unregister { key } | Self::Acquire { key, .. } | Self::Release { key, .. } => {
                (key, 0)
            }
            Self::Preempt { key, of, .. } => (key, of),
        };
        let mut bytes = [0; KEYS_BYTES];
        bytes[..8].copy_from_slice(&current.to_le_bytes());
        bytes[8..].copy_from_slice(&other.to_le_bytes());
        bytes
    }
}

/// Reservation Report (Base 2.1 §7.7) of `bytes` (a multiple of 4, not 0) in its extended form.
pub fn reservation_report(nsid: Nsid, bytes: u32) -> Sqe {
    let mut sqe = Sqe::new(NvmOpcode::RESERVATION_REPORT.0, nsid);
    sqe.set_dword(10, bytes / 4 - 1);
    sqe.set_dword(11, EXTENDED_DATA);
    sqe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservation_commands() {
        let kind = Kind::WriteExclusiveRegistrantsOnly;
        for (change, opcode, dword, keys) in [
            (ReservationChange::Register { key: 5 }, 0x0d, 0, (0, 5)),
            (ReservationChange::Replace { key: 5 }, 0x0d, 0xa, (0, 5)),
            (ReservationChange::Unregister { key: 5 }, 0x0d, 1, (5, 0)),
            (ReservationChange::Acquire { key: 5, kind }, 0x11, 0x300, (5, 0)),
            (ReservationChange::Preempt { key: 5, of: 6, kind }, 0x11, 0x301, (5, 6)),
            (ReservationChange::Release { key: 5, kind }, 0x15, 0x300, (5, 0)),
        ] {
            let sqe = change.command(Nsid(2), false);
            assert_eq!((sqe.0[0], sqe.0[4], sqe.dword(10)), (opcode, 2, dword), "{change:?}");
            assert_eq!((change.keys()[0], change.keys()[8]), keys, "{change:?}");
        }
        let report = reservation_report(Nsid(2), 4096);
        assert_eq!((report.0[0], report.dword(10), report.dword(11)), (0x0e, 1023, 1));
    }

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
        assert_eq!(
            (first.qword(10), second.qword(10), first.dword(12), second.dword(12)),
            (5, 5, 1, 1)
        );
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
