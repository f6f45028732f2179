//! Self-describing blocks, so that wrong, stale and misplaced blocks can be distinguished.
//!
//! With `verify=crc32c` every block of the device that a job writes begins with a header: its own
//! address, the seed and the run that wrote it, how often this place was written in that run (its
//! *generation*), and a checksum over all of it. The rest is the payload that the write has anyway.
//! The [`ledger::GenerationLedger`] remembers the generation that each place must hold.
//!
//! | found | kind | what has happened |
//! |---|---|---|
//! | zeroes, no header, a wrong checksum | wrong | never written, overwritten by somebody else, damaged, torn |
//! | a sound block of an older generation or of another run | stale | a write that was acknowledged is lost |
//! | a sound block with the address of another place | misplaced | a write or a read went astray |
//!
//! Reading what an earlier run wrote (`rw=read`) has no ledger: it checks checksum and address, and
//! the seed when one is given.

pub mod header;
pub mod ledger;

use core::fmt;
use header::BlockHeader;
pub use header::Stamp;

/// Expected properties of a block; `None` where any value will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Seed that it was written with.
    pub seed: Option<u64>,
    /// Run that wrote it.
    pub run: Option<u64>,
    /// Number of writes to its place in that run.
    pub generation: Option<u32>,
}

/// Fault of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFault {
    /// It holds zeroes only.
    Blank,
    /// It has no header.
    Foreign {
        /// Its first eight bytes.
        first_bytes: [u8; 8],
    },
    /// Its checksum is wrong.
    Damaged {
        /// In the header.
        stored: u32,
        /// Of what is there.
        computed: u32,
    },
    /// It belongs to another address.
    Misplaced {
        /// Which.
        lba: u64,
    },
    /// Another run wrote it.
    OtherRun {
        /// The seed of that run.
        seed: u64,
    },
    /// It is of another generation.
    OtherGeneration {
        /// That must be there.
        expected: u32,
        /// That is there.
        found: u32,
    },
}

/// The three kinds of bad blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The content is invalid, or was never written to this address.
    Wrong,
    /// Content that was overwritten.
    Stale,
    /// Content of another address.
    Misplaced,
}

impl BlockFault {
    /// The kind.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Blank | Self::Foreign { .. } | Self::Damaged { .. } => FaultKind::Wrong,
            Self::Misplaced { .. } => FaultKind::Misplaced,
            Self::OtherRun { .. } => FaultKind::Stale,
            Self::OtherGeneration { expected, found } if found < expected => FaultKind::Stale,
            Self::OtherGeneration { .. } => FaultKind::Wrong,
        }
    }
}

impl FaultKind {
    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Stale => "stale",
            Self::Misplaced => "misplaced",
        }
    }
}

impl fmt::Display for BlockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())?;
        match self {
            Self::Blank => f.write_str(": it holds zeroes"),
            Self::Foreign { first_bytes } => {
                f.write_str(": it is not a block of a weft run and begins with")?;
                first_bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
            }
            Self::Damaged { stored, computed } => {
                write!(
                    f,
                    ": its stored checksum is {stored:08x}, that of its content is {computed:08x}"
                )
            }
            Self::Misplaced { lba } => write!(f, ": it contains the block of LBA {lba}"),
            Self::OtherRun { seed } => {
                write!(f, ": it was written by another run, with seed {seed}")
            }
            Self::OtherGeneration { expected, found } => {
                write!(
                    f,
                    ": it was written {expected} times in this run but contains write number {found}"
                )
            }
        }
    }
}

/// A bad block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlock {
    /// Its address, in blocks of the device.
    pub lba: u64,
    /// Its fault.
    pub fault: BlockFault,
}

impl fmt::Display for BadBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LBA {} is {}", self.lba, self.fault)
    }
}

/// Says what is wrong with a block at `lba`, if anything.
pub fn check(block: &[u8], lba: u64, expected: &Expected) -> Result<(), BlockFault> {
    let Some(header) = BlockHeader::decode(block) else {
        return Err(match block.iter().all(|&byte| byte == 0) {
            true => BlockFault::Blank,
            false => BlockFault::Foreign {
                first_bytes: core::array::from_fn(|i| block.get(i).copied().unwrap_or(0)),
            },
        });
    };
    let computed = header::checksum(block);
    if computed != header.checksum {
        return Err(BlockFault::Damaged { stored: header.checksum, computed });
    }
    if header.lba != lba {
        return Err(BlockFault::Misplaced { lba: header.lba });
    }
    let differs = |expected: Option<u64>, found| expected.is_some_and(|e| e != found);
    if differs(expected.run, header.run) || differs(expected.seed, header.seed) {
        return Err(BlockFault::OtherRun { seed: header.seed });
    }
    match expected.generation {
        Some(expected) if expected != header.generation => {
            Err(BlockFault::OtherGeneration { expected, found: header.generation })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<u8> {
        let mut block: Vec<u8> = (0..512u32).map(|n| (n * n / 8) as u8).collect();
        Stamp::new(7, 99).put(&mut block, 5, 3);
        block
    }

    fn kind(block: &[u8], lba: u64, expected: &Expected) -> Option<FaultKind> {
        check(block, lba, expected).err().map(|fault| fault.kind())
    }

    #[test]
    fn a_sound_block_passes() {
        let block = written();
        for expected in [
            Expected::default(),
            Expected { seed: Some(7), ..Expected::default() },
            Expected { seed: Some(7), run: Some(99), generation: Some(3) },
        ] {
            assert_eq!(check(&block, 5, &expected), Ok(()));
        }
    }

    #[test]
    fn the_kinds_are_told_apart() {
        let block = written();
        let any = Expected::default();
        assert_eq!(check(&block, 6, &any), Err(BlockFault::Misplaced { lba: 5 }));
        assert_eq!(check(&[0; 512], 5, &any), Err(BlockFault::Blank));
        assert_eq!(kind(&[1; 512], 5, &any), Some(FaultKind::Wrong));
        let expect = |generation| Expected { generation: Some(generation), ..any };
        assert_eq!(kind(&block, 5, &expect(4)), Some(FaultKind::Stale));
        assert_eq!(kind(&block, 5, &expect(2)), Some(FaultKind::Wrong));
        assert_eq!(kind(&block, 5, &Expected { run: Some(98), ..any }), Some(FaultKind::Stale));
        assert_eq!(kind(&block, 5, &Expected { seed: Some(8), ..any }), Some(FaultKind::Stale));
    }

    #[test]
    fn any_changed_bit_is_found() {
        let mut block = written();
        for bit in 0..512 * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(kind(&block, 5, &Expected::default()), Some(FaultKind::Wrong), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
