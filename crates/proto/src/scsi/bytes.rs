//! Numbers in SCSI structures: big-endian, of 1 to 8 bytes.

/// The number in these bytes, at most eight.
#[inline]
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Two bytes at `at`, which must be there.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    number(&bytes[at..at + 2]) as u16
}

/// Four bytes at `at`, which must be there.
#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    number(&bytes[at..at + 4]) as u32
}

/// Eight bytes at `at`, which must be there.
#[inline]
pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    number(&bytes[at..at + 8])
}

/// Writes the low bytes of a number over all of `field`.
pub(crate) fn put(field: &mut [u8], number: u64) {
    let bytes = number.to_be_bytes();
    field.copy_from_slice(&bytes[8 - field.len()..]);
}
