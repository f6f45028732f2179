//! The header of a block, and the content behind it.
//!
//! | bytes | field (little endian) |
//! |---|---|
//! | 0..8 | magic |
//! | 8..16 | address, in blocks of the device |
//! | 16..24 | seed |
//! | 24..32 | run |
//! | 32..36 | generation |
//! | 36..40 | CRC-32C of all other bytes of the block |

use crate::random::Random;

const MAGIC: [u8; 8] = *b"weft\0blk";
const CHECKSUM: core::ops::Range<usize> = 36..40;
const HEADER_BYTES: usize = 40;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The block's own address.
    pub lba: u64,
    /// Seed of the run.
    pub seed: u64,
    /// The run.
    pub run: u64,
    /// How often the place had been written in the run.
    pub generation: u32,
    /// Checksum as stored.
    pub checksum: u32,
}

impl Header {
    /// The header of a block, if it has one.
    pub fn decode(block: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = block.first_chunk()?;
        if header[..8] != MAGIC {
            return None;
        }
        let long = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| header[at + i]));
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| header[at + i]));
        Some(Self {
            lba: long(8),
            seed: long(16),
            run: long(24),
            generation: word(32),
            checksum: word(36),
        })
    }
}

/// The checksum that a block should carry.
pub fn checksum(block: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&block[..CHECKSUM.start]);
    digest.update(&block[CHECKSUM.end..]);
    digest.finalize() as u32
}

/// Writes the blocks of one run.
#[derive(Clone, Debug)]
pub struct Pattern {
    seed: u64,
    run: u64,
    /// Two blocks of noise; each block's content is a window into it.
    noise: Vec<u8>,
}

impl Pattern {
    /// For blocks of `block_bytes` bytes (512 or more).
    pub fn new(seed: u64, run: u64, block_bytes: usize) -> Self {
        let mut noise = vec![0; 2 * block_bytes];
        Random::new(seed).fill(&mut noise);
        Self { seed, run, noise }
    }

    /// Makes `block` the given generation of the block at `lba`.
    pub fn stamp(&self, block: &mut [u8], lba: u64, generation: u32) {
        let windows = (self.noise.len() - block.len()) as u64 / 8;
        let window = (lba.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ u64::from(generation).wrapping_mul(0xd6e8_feb8_6659_fd93))
            >> 32;
        let from = (window % windows * 8) as usize;
        let content = block.len() - HEADER_BYTES;
        block[HEADER_BYTES..].copy_from_slice(&self.noise[from..from + content]);
        block[..8].copy_from_slice(&MAGIC);
        block[8..16].copy_from_slice(&lba.to_le_bytes());
        block[16..24].copy_from_slice(&self.seed.to_le_bytes());
        block[24..32].copy_from_slice(&self.run.to_le_bytes());
        block[32..36].copy_from_slice(&generation.to_le_bytes());
        let checksum = checksum(block).to_le_bytes();
        block[CHECKSUM].copy_from_slice(&checksum);
    }

    /// The noise, for buffers whose content does not matter as long as it is not all alike.
    pub fn noise(&self) -> &[u8] {
        &self.noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_back_and_its_bytes_stay_what_they_are() {
        let mut block = vec![0; 4096];
        Pattern::new(1, 2, 4096).stamp(&mut block, 0x0102_0304_0506_0708, 9);
        let header = Header::decode(&block).unwrap();
        assert_eq!(
            (header.lba, header.seed, header.run, header.generation),
            (0x0102_0304_0506_0708, 1, 2, 9)
        );
        assert_eq!(header.checksum, checksum(&block));
        assert_eq!(block[..16], *b"weft\0blk\x08\x07\x06\x05\x04\x03\x02\x01");
        assert_eq!(Header::decode(&block[..39]), None);
    }
}
