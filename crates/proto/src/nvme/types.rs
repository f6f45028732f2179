//! The small numbers of NVMe, each a type of its own so that none is mistaken for another.

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
    /// Command identifier (Base §3.3.3.1): unique among the outstanding commands of its submission queue.
    Cid(u16)
);
number!(
    /// Queue identifier: 0 is the admin queue.
    Qid(u16)
);
number!(
    /// Controller identifier; FFFFh in Connect asks for one of the controller's choice (dynamic controller model).
    Cntlid(u16)
);
number!(
    /// Logical block address, in blocks of the namespace's format.
    Lba(u64)
);

impl Nsid {
    /// "All namespaces".
    pub const ALL: Self = Self(0xffff_ffff);
}

impl Cntlid {
    /// Connect: "any controller" (dynamic controller model).
    pub const DYNAMIC: Self = Self(0xffff);
    /// Connect: "any controller that has been allocated" (static controller model).
    pub const STATIC: Self = Self(0xfffe);
}

/// An NVMe qualified name (Base §4.7): at most 223 bytes of UTF-8, starting with `nqn.`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nqn(String);

/// Why a text is not a qualified name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// Longer than [`Nqn::MAX_BYTES`].
    #[error("an NQN has at most 223 bytes")]
    TooLong,
    /// Does not start with `nqn.yyyy-mm.` as Base §4.7 asks.
    #[error("an NQN starts with nqn.YYYY-MM. and a reversed domain name, as in nqn.2014-08.org.example:disk1")]
    Form,
    /// Holds a NUL or another control character, or white space.
    #[error("an NQN holds no white space and no control characters")]
    Character,
}

impl Nqn {
    /// Longest name in bytes, without a terminating NUL.
    pub const MAX_BYTES: usize = 223;
    /// The well-known name of discovery subsystems (Base §3.1.3.2).
    pub const DISCOVERY: &'static str = "nqn.2014-08.org.nvmexpress.discovery";

    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, NqnError> {
        if name.len() > Self::MAX_BYTES {
            return Err(NqnError::TooLong);
        }
        if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(NqnError::Character);
        }
        let bytes = name.as_bytes();
        let dated = bytes.len() > 12
            && name.starts_with("nqn.")
            && bytes[4..8].iter().all(u8::is_ascii_digit)
            && bytes[8] == b'-'
            && bytes[9..11].iter().all(u8::is_ascii_digit)
            && bytes[11] == b'.';
        if dated { Ok(Self(name.to_owned())) } else { Err(NqnError::Form) }
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

    /// Writes the name into a field and fills the rest with NUL. The field must be longer than the name.
    pub fn put(&self, field: &mut [u8]) {
        let bytes = self.0.as_bytes();
        field[..bytes.len()].copy_from_slice(bytes);
        field[bytes.len()..].fill(0);
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A 128-bit host identifier or namespace UUID, in the byte order of RFC 9562 (the one in which it is sent).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id128(pub [u8; 16]);

impl Id128 {
    /// Whether all bytes are zero, which NVMe reads as "none".
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }
}
