//! Header and data digests (RFC 7143 §13.1): CRC32C over the header with its additional segments,
//! and over the data with its padding, least significant byte first.
//!
//! The digest of a data segment covers its padding, which the pump does not see, because it moves
//! only payload. So the engine computes the digest that the payload alone must have for the
//! received digest to be right, and the pump compares that ([`without_tail`]).

pub use crate::crc32c::{crc32c, crc32c_append};

/// Bytes of a digest on the wire.
pub const BYTES: usize = 4;

/// The polynomial, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The CRC32C of what stands before `tail`, where `whole` is that of both together.
pub fn without_tail(whole: u32, tail: &[u8]) -> u32 {
    let mut state = !whole;
    for byte in tail.iter().rev() {
        for bit in (0..8).rev() {
            let input = u32::from(byte >> bit & 1);
            // The top bit tells whether the polynomial was added, which it is when the bit shifted
            // out differs from the input.
            state = if state >> 31 == 1 {
                (state ^ POLYNOMIAL) << 1 | (input ^ 1)
            } else {
                state << 1 | input
            };
        }
    }
    !state
}

/// Digests in use on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digests {
    /// A digest behind every header.
    pub header: bool,
    /// A digest behind every data segment that is not empty.
    pub data: bool,
}

impl Digests {
    /// Neither, as during login.
    pub const NONE: Self = Self { header: false, data: false };
    /// Both.
    pub const BOTH: Self = Self { header: true, data: true };

    /// Bytes of a header digest.
    #[inline]
    pub const fn header_bytes(self) -> usize {
        if self.header { BYTES } else { 0 }
    }

    /// Bytes of a data digest behind `data_bytes` of data.
    #[inline]
    pub const fn data_bytes(self, data_bytes: u32) -> usize {
        if self.data && data_bytes > 0 { BYTES } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7143 appendix A.4.
    #[test]
    fn examples_of_the_standard() {
        assert_eq!(crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(crc32c(&[0xff; 32]).to_le_bytes(), [0x43, 0xab, 0xa8, 0x62]);
        let up: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&up).to_le_bytes(), [0x4e, 0x79, 0xdd, 0x46]);
    }

    #[test]
    fn a_tail_is_taken_off() {
        for tail in [&[][..], &[0], &[0, 0, 0], &[1, 2, 3], &[0xff, 0x80], b"a longer one, too"] {
            let before = crc32c(b"what comes before");
            assert_eq!(without_tail(crc32c_append(before, tail), tail), before, "{tail:?}");
        }
    }
}
