//! Parameter lists that an initiator sends.

use crate::scsi::bytes::put;
use crate::scsi::cdb::Extent;

/// Bytes of the parameter list of an UNMAP of `ranges` ranges.
pub const fn unmap_bytes(ranges: usize) -> usize {
    8 + 16 * ranges
}

/// Writes the parameter list of UNMAP (SBC-3 §5.32.2) to the front of `out`, which has
/// [`unmap_bytes`] at least; returns its length. Ranges beyond 4095 have no room in its length
/// field and are left out.
pub fn put_unmap(ranges: &[Extent], out: &mut [u8]) -> usize {
    let ranges = &ranges[..ranges.len().min(4095)];
    let bytes = unmap_bytes(ranges.len());
    out[..bytes].fill(0);
    put(&mut out[0..2], bytes as u64 - 2);
    put(&mut out[2..4], bytes as u64 - 8);
    for (field, range) in out[8..bytes].chunks_exact_mut(16).zip(ranges) {
        put(&mut field[0..8], range.lba);
        put(&mut field[8..12], range.blocks.into());
    }
    bytes
}

/// Bytes of the parameter list of PERSISTENT RESERVE OUT.
pub const RESERVE_OUT_BYTES: usize = 24;

/// The parameter list of PERSISTENT RESERVE OUT, other than REGISTER AND MOVE (SPC-4 §6.16.3): this
/// initiator's key, and the key that the service action is about.
pub fn reserve_out(key: u64, action_key: u64) -> [u8; RESERVE_OUT_BYTES] {
    let mut list = [0; RESERVE_OUT_BYTES];
    put(&mut list[0..8], key);
    put(&mut list[8..16], action_key);
    list
}
