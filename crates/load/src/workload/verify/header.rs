//! The header of a block. What stands behind it is the payload of any write.
//!
//! | bytes | field (little endian) |
//! |---|---|
//! | 0..8 | magic |
//! | 8..16 | address, in blocks of the device |
//! | 16..24 | seed |
//! | 24..32 | run |
//! | 32..36 | generation |
//! | 36..40 | CRC-32C of all other bytes of the block |

const MAGIC: [u8; 8] = *b"weft\0blk";
const CHECKSUM: core::ops::Range<usize> = 36..40;
const HEADER_BYTES: usize = 40;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// The block's own address.
    pub lba: u64,
    /// Seed of the run.
    pub seed: u64,
    /// The run.
    pub run: u64,
    /// Number of earlier writes to the place in the run.
    pub generation: u32,
    /// Checksum as stored.
    pub checksum: u32,
}

impl BlockHeader {
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

/// The mark of one run on the blocks that it writes.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    seed: u64,
    run: u64,
}

impl Stamp {
    /// The mark of the run of this name, with this seed.
    pub const fn new(seed: u64, run: u64) -> Self {
        Self { seed, run }
    }

    /// Makes `block` (512 bytes or more) the given generation of the block at `lba`. Its bytes
    /// behind the header stay.
    pub fn put(&self, block: &mut [u8], lba: u64, generation: u32) {
        block[..8].copy_from_slice(&MAGIC);
        block[8..16].copy_from_slice(&lba.to_le_bytes());
        block[16..24].copy_from_slice(&self.seed.to_le_bytes());
        block[24..32].copy_from_slice(&self.run.to_le_bytes());
        block[32..36].copy_from_slice(&generation.to_le_bytes());
        let checksum = checksum(block).to_le_bytes();
        block[CHECKSUM].copy_from_slice(&checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_back_and_its_bytes_stay_what_they_are() {
        let mut block = vec![7; 4096];
        Stamp::new(1, 2).put(&mut block, 0x0102_0304_0506_0708, 9);
        let header = BlockHeader::decode(&block).unwrap();
        assert_eq!(
            (header.lba, header.seed, header.run, header.generation),
            (0x0102_0304_0506_0708, 1, 2, 9)
        );
        assert_eq!(header.checksum, checksum(&block));
        assert_eq!(block[..16], *b"weft\0blk\x08\x07\x06\x05\x04\x03\x02\x01");
        assert_eq!(block[HEADER_BYTES..], [7; 4096 - HEADER_BYTES]);
        assert_eq!(BlockHeader::decode(&block[..39]), None);
    }
}
