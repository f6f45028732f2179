//! The blocks of a source that has a size in bytes.
//!
//! Every source whose size is a number of bytes counts its blocks by [`PaddedSize::of`], which
//! leaves nothing out: the last block may be one of which the source has only the beginning. The
//! rest of that block, the padding, reads as zeroes, and the block is not written. So such a source
//! is opened for reading only ([`crate::registry`] refuses it otherwise).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weft_base::lock::Lock;

/// The number of blocks that hold a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaddedSize {
    /// Blocks, including a last one of which there is only the beginning.
    pub blocks: u64,
    /// Bytes that are missing at the end of the last block.
    pub padding_bytes: u32,
}

impl PaddedSize {
    /// The blocks of `block_bytes` bytes that hold `bytes` bytes.
    pub const fn of(bytes: u64, block_bytes: u32) -> Self {
        let block = block_bytes as u64;
        let padding_bytes = match bytes % block {
            0 => 0,
            part => (block - part) as u32,
        };
        Self { blocks: bytes.div_ceil(block), padding_bytes }
    }
}

/// The extent of a device that may change its size while it is open.
#[derive(Debug)]
pub struct CurrentExtent {
    blocks: AtomicU64,
    padding_bytes: AtomicU32,
    /// Held by whoever replaces both.
    replacing: Lock<()>,
}

impl CurrentExtent {
    /// Starts with this extent.
    pub const fn new(extent: PaddedSize) -> Self {
        Self {
            blocks: AtomicU64::new(extent.blocks),
            padding_bytes: AtomicU32::new(extent.padding_bytes),
            replacing: Lock::new(()),
        }
    }

    /// The extent now.
    #[inline]
    pub fn now(&self) -> PaddedSize {
        PaddedSize {
            blocks: self.blocks.load(Ordering::Relaxed),
            padding_bytes: self.padding_bytes.load(Ordering::Relaxed),
        }
    }

    /// Replaces the extent, and returns the previous one.
    pub fn replace(&self, extent: PaddedSize) -> PaddedSize {
        let _one = self.replacing.lock();
        PaddedSize {
            blocks: self.blocks.swap(extent.blocks, Ordering::Relaxed),
            padding_bytes: self.padding_bytes.swap(extent.padding_bytes, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_is_left_out() {
        let of = |bytes, block_bytes| {
            let PaddedSize { blocks, padding_bytes } = PaddedSize::of(bytes, block_bytes);
            assert_eq!(
                u128::from(blocks) * u128::from(block_bytes),
                u128::from(bytes) + u128::from(padding_bytes)
            );
            (blocks, padding_bytes)
        };
        assert_eq!(
            [of(0, 512), of(1, 512), of(512, 512), of(513, 512)],
            [(0, 0), (1, 511), (1, 0), (2, 511)]
        );
        assert_eq!([of(1_000_001, 512), of(1_049_088, 4096)], [(1954, 447), (257, 3584)]);
        assert_eq!(of(u64::MAX, 512), (1 << 55, 1));
    }
}
