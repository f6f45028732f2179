//! The negotiated properties of an export.

use super::code::TransmissionFlags;
use crate::limits::NBD_PAYLOAD_BYTES_MAX;

/// Block sizes ("Size constraints").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of this many bytes: a power of two, at most 65,536.
    pub minimum: u32,
    /// Preferred size of a request, bytes: a power of two, at least 512 and the minimum.
    pub preferred: u32,
    /// Longest payload of a read or write, bytes.
    pub payload_max: u32,
}

impl BlockSizes {
    /// Sizes if the server states none.
    pub const DEFAULT: Self =
        Self { minimum: 1, preferred: 4096, payload_max: NBD_PAYLOAD_BYTES_MAX };

    /// Returns whether they keep to the rules.
    pub const fn is_valid(&self) -> bool {
        self.minimum.is_power_of_two()
            && self.minimum <= 65_536
            && self.preferred.is_power_of_two()
            && self.preferred >= self.minimum
            && self.preferred >= 512
            && self.payload_max >= self.minimum
    }
}

/// An export as a client learns of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Its capabilities.
    pub flags: TransmissionFlags,
    /// Block sizes; [`BlockSizes::DEFAULT`] where the server says none.
    pub sizes: BlockSizes,
}

impl ExportInfo {
    /// Returns whether `length` bytes from `offset` on lie inside.
    #[inline]
    pub const fn contains(&self, offset: u64, length: u64) -> bool {
        match offset.checked_add(length) {
            Some(end) => end <= self.size_bytes,
            None => false,
        }
    }

    /// Returns whether both are multiples of the smallest block.
    #[inline]
    pub const fn is_aligned(&self, offset: u64, length: u64) -> bool {
        (offset | length) & (self.sizes.minimum as u64 - 1) == 0
    }
}
