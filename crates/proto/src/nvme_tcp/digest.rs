//! Header and data digests: CRC32C over the PDU header, and over the data of a PDU (NVMe TCP 1.1
//! §3.3.1.1).

pub use crate::crc32c::{crc32c, crc32c_append};

/// Bytes of a digest on the wire, little endian.
pub const BYTES: usize = 4;

/// Which digests a side wants or both sides agreed on (DGST of ICReq and ICResp, NVMe TCP 1.1
/// §3.6.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digests {
    /// HDGST_ENABLE: a digest behind every PDU header.
    pub header: bool,
    /// DDGST_ENABLE: a digest behind the data of every PDU that has some.
    pub data: bool,
}

impl Digests {
    /// Neither.
    pub const NONE: Self = Self { header: false, data: false };
    /// Both.
    pub const BOTH: Self = Self { header: true, data: true };

    /// Returns the digests that both sides request.
    pub const fn and(self, other: Self) -> Self {
        Self { header: self.header && other.header, data: self.data && other.data }
    }

    /// The wire form: bit 0 header, bit 1 data.
    pub const fn encode(self) -> u8 {
        self.header as u8 | (self.data as u8) << 1
    }

    /// Reads the wire form; reserved bits are ignored.
    pub const fn decode(byte: u8) -> Self {
        Self { header: byte & 1 != 0, data: byte & 2 != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of RFC 3720 appendix B.4, whose CRC this is.
    #[test]
    fn known_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), crc32c(b"123456789"));
    }

    #[test]
    fn wire_form() {
        for byte in 0..4 {
            assert_eq!(Digests::decode(byte).encode(), byte);
        }
        assert_eq!(Digests::decode(0xfc), Digests::NONE);
        assert_eq!(Digests::BOTH.and(Digests { header: true, data: false }).encode(), 1);
    }
}
