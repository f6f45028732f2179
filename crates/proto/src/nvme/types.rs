//! The small numbers of NVMe, each with its own type so that they cannot be confused.

use crate::printable::Printable;
use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Namespace identifier (Base §3.2.1): 1-based; 0 means none and FFFFFFFFh all.
    Nsid(u32)
);
number!(
    /// Command identifier (Base §3.3.3.1): unique among the outstanding commands of its submission
    /// queue.
    Cid(u16)
);
number!(
    /// Queue identifier: 0 is the admin queue.
    Qid(u16)
);
number!(
    /// Controller identifier; FFFFh in Connect asks for one of the controller's choice (dynamic
    /// controller model).
    Cntlid(u16)
);
number!(
    /// Logical block address, in blocks of the namespace's format.
    Lba(u64)
);

impl Nsid {
    /// "All namespaces".
    pub const ALL: Self = Self(0xffff_ffff);

    /// That of a namespace, in decimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self).filter(|nsid| ![Self(0), Self::ALL].contains(nsid))
    }
}

impl Cntlid {
    /// Connect: "any controller" (dynamic controller model).
    pub const DYNAMIC: Self = Self(0xffff);
    /// Connect: "any controller that has been allocated" (static controller model).
    pub const STATIC: Self = Self(0xfffe);
}

/// The name of a subsystem or host (Base §4.7): 1 to 223 bytes of UTF-8 without NUL. The
/// specification also requires a date and a reversed domain name ([`Nqn::is_qualified`]); names
/// without them are in use and harmless.
///
/// It is displayed with control characters escaped; as data it is [`Nqn::as_str`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nqn(String);

/// Why a text cannot be the name of a subsystem or host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// Longer than [`Nqn::MAX_BYTES`].
    #[error("an NQN has at most 223 bytes")]
    TooLong,
    /// Has no bytes.
    #[error("an NQN is not empty: one is nqn.2014-08.org.example:disk1")]
    Empty,
    /// Holds a NUL, or is not UTF-8.
    #[error("an NQN is UTF-8 text without NUL")]
    Character,
}

impl Nqn {
    /// Longest name in bytes, without a terminating NUL.
    pub const MAX_BYTES: usize = 223;
    /// The well-known name of discovery subsystems (Base §3.1.3.2).
    pub const DISCOVERY: &'static str = "nqn.2014-08.org.nvmexpress.discovery";

    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, NqnError> {
        match name.len() {
            0 => Err(NqnError::Empty),
            1..=Self::MAX_BYTES if name.contains('\0') => Err(NqnError::Character),
            1..=Self::MAX_BYTES => Ok(Self(name.to_owned())),
            _ => Err(NqnError::TooLong),
        }
    }

    /// Returns whether the name is one as Base §4.7 asks for: `nqn.`, year and month, a reversed
    /// domain name and whatever its owner likes, but no white space and no control characters.
    pub fn is_qualified(&self) -> bool {
        let bytes = self.0.as_bytes();
        bytes.len() > 12
            && bytes.starts_with(b"nqn.")
            && bytes[4..8].iter().all(u8::is_ascii_digit)
            && bytes[8] == b'-'
            && bytes[9..11].iter().all(u8::is_ascii_digit)
            && bytes[11] == b'.'
            && !self.0.chars().any(|c| c.is_control() || c.is_whitespace())
    }

    /// Reads the NUL-terminated field of a data structure (256 bytes in Connect and Identify).
    pub fn from_field(field: &[u8]) -> Result<Self, NqnError> {
        let end = field.iter().position(|&b| b == 0).ok_or(NqnError::TooLong)?;
        Self::new(core::str::from_utf8(&field[..end]).map_err(|_| NqnError::Character)?)
    }

    /// The well-known discovery name.
    pub fn discovery() -> Self {
        Self(Self::DISCOVERY.to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Writes the name into a field and fills the rest with NUL. The field must be longer than the
    /// name.
    pub fn put(&self, field: &mut [u8]) {
        let bytes = self.0.as_bytes();
        field[..bytes.len()].copy_from_slice(bytes);
        field[bytes.len()..].fill(0);
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Printable(&self.0), f)
    }
}

/// A 128-bit host identifier or namespace UUID, in the byte order of RFC 9562 (the one in which it
/// is sent).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id128(pub [u8; 16]);

impl fmt::Display for Id128 {
    /// As RFC 9562 writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if [4, 6, 8, 10].contains(&at) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl Id128 {
    /// Returns whether all bytes are zero, which NVMe reads as "none".
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }
}
