//! Directions of operations, and the patterns that have them.

use core::fmt;
use core::str::FromStr;

/// Direction of an operation's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
    /// No data: blocks are discarded.
    Trim,
}

impl Direction {
    /// All, in fio's order.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Trim];

    /// As an index into an array over [`Direction::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// fio's name.
    pub const fn name(self) -> &'static str {
        ["read", "write", "trim"][self as usize]
    }
}

/// The pattern of a job (`rw`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rw {
    /// `read`: sequential reads.
    Read,
    /// `write`: sequential writes.
    Write,
    /// `trim`: sequential discards.
    Trim,
    /// `randread`: random reads.
    RandRead,
    /// `randwrite`: random writes.
    RandWrite,
    /// `randtrim`: random discards.
    RandTrim,
    /// `rw`, `readwrite`: sequential reads and writes mixed by `rwmixread`, each with its own
    /// position.
    ReadWrite,
    /// `randrw`: random reads and writes mixed by `rwmixread`.
    RandRw,
}

impl Rw {
    pub(super) const NAMES: [(&'static str, Self); 9] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("trim", Self::Trim),
        ("randread", Self::RandRead),
        ("randwrite", Self::RandWrite),
        ("randtrim", Self::RandTrim),
        ("rw", Self::ReadWrite),
        ("readwrite", Self::ReadWrite),
        ("randrw", Self::RandRw),
    ];

    /// Returns whether the order is random.
    pub const fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandTrim | Self::RandRw)
    }

    /// Returns whether the job mixes reads and writes.
    pub const fn is_mixed(self) -> bool {
        matches!(self, Self::ReadWrite | Self::RandRw)
    }

    /// Returns whether the job has operations of this direction.
    pub const fn has(self, direction: Direction) -> bool {
        match direction {
            Direction::Read => matches!(self, Self::Read | Self::RandRead) || self.is_mixed(),
            Direction::Write => matches!(self, Self::Write | Self::RandWrite) || self.is_mixed(),
            Direction::Trim => matches!(self, Self::Trim | Self::RandTrim),
        }
    }

    /// The direction of a job that is not mixed; reads for one that is.
    pub(crate) const fn first_direction(self) -> Direction {
        match self {
            Self::Write | Self::RandWrite => Direction::Write,
            Self::Trim | Self::RandTrim => Direction::Trim,
            _ => Direction::Read,
        }
    }
}

impl fmt::Display for Rw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, rw)| rw == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}

impl FromStr for Rw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, rw)| *rw).ok_or_else(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("rw must be one of {}, not {text:?}", names.join(", "))
        })
    }
}
