//! Contents of a unit of 512 bytes: its address, its write, and a checksum over both that fills the
//! rest. So any unit that is read names its write, and one that is torn, misplaced or damaged names
//! none.

/// Bytes of a unit: the smallest block that there is. A block holds one or more.
pub const UNIT_BYTES: usize = 512;

/// Number of the write that a block comes from; writes are counted from 1.
pub type Version = u64;

/// Contents of a block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Zeroes.
    Zeroes,
    /// The data of this write to this block.
    Written(Version),
    /// The data of a write to another block.
    Misplaced {
        /// The block for which it was written.
        lba: u64,
        /// The write.
        version: Version,
    },
    /// The data of no write.
    Damaged,
}

const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `n`th word of a block.
const fn word(lba: u64, version: Version, n: u64) -> u64 {
    match n {
        0 => lba,
        1 => version,
        n => (lba ^ version.rotate_left(32))
            .wrapping_mul(PRIME)
            .wrapping_add(n.wrapping_mul(PRIME | 2))
            .rotate_left(23),
    }
}

/// Fills a block with the data of a write.
pub fn write(block: &mut [u8], lba: u64, version: Version) {
    for (n, bytes) in block.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&word(lba, version, n as u64).to_le_bytes());
    }
}

/// Looks at what was read of block `lba`.
pub fn read(block: &[u8], lba: u64) -> Seen {
    let (words, _) = block.as_chunks::<8>();
    let at = |n: usize| words.get(n).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if block.iter().all(|byte| *byte == 0) {
        return Seen::Zeroes;
    }
    let (of, version) = (at(0), at(1));
    let is_whole =
        words.iter().zip(0..).all(|(bytes, n)| u64::from_le_bytes(*bytes) == word(of, version, n));
    match is_whole {
        true if of == lba => Seen::Written(version),
        true => Seen::Misplaced { lba: of, version },
        false => Seen::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_names_its_write() {
        let mut block = [0; 512];
        assert_eq!(read(&block, 3), Seen::Zeroes);
        write(&mut block, 3, 17);
        assert_eq!(read(&block, 3), Seen::Written(17));
        assert_eq!(read(&block, 4), Seen::Misplaced { lba: 3, version: 17 });
        for at in [0, 8, 16, 300, 511] {
            let mut damaged = block;
            damaged[at] ^= 1;
            assert_eq!(read(&damaged, 3), Seen::Damaged, "at {at}");
        }
        let mut torn = block;
        write(&mut torn[..256], 3, 18);
        assert_eq!(read(&torn, 3), Seen::Damaged);
    }
}
