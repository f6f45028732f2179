//! What this crate refuses to open, one variant each.

use crate::error::ErrorKind;
use crate::limits::{FILTER_DEPTH, LIST_SOURCES};
use crate::units::{UnitError, format_size};

/// Why a URL opens no device. The text says what is wrong and what to do; [`crate::Error`] puts the URL before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nobody knows the scheme.
    #[error("there is no source of the kind {scheme}:; choose one such as ram:1GiB, file:/PATH or nvme+tcp://HOST/NQN")]
    UnknownScheme {
        /// The scheme, without its colon.
        scheme: String,
    },
    /// There is no scheme, and no root, drive or directory at the beginning.
    #[error("this is neither a URL nor a path; a file in this directory is written ./{text}")]
    NeitherUrlNorPath {
        /// All of it.
        text: String,
    },
    /// More than [`FILTER_DEPTH`] filters.
    #[error("there are more than {FILTER_DEPTH} filters over each other; leave some out")]
    TooManyFilters,
    /// More than [`LIST_SOURCES`] sources.
    #[error("a list has at most {LIST_SOURCES} sources; leave some out")]
    TooManySources,
    /// A filter at the end of a list.
    #[error("the source behind the filter is missing; write its URL last")]
    FilterWithoutSource,
    /// A list of nothing.
    #[error("a list has no sources; write them last, with commas between them")]
    NoSources,
    /// A list within a list.
    #[error("a list cannot stand in another; give it a name in a configuration file")]
    ListInList,
    /// The main part should be a size and is none.
    #[error(transparent)]
    NotASize(#[from] UnitError),
    /// No whole number of blocks, or none at all.
    #[error("{} is not a whole number of blocks of {block_bytes} bytes; choose another size", format_size(*bytes))]
    NotWholeBlocks {
        /// The size, bytes.
        bytes: u64,
        /// Size of a block, bytes.
        block_bytes: u32,
    },
    /// A file that ends within a block.
    #[error(
        "the file has {bytes} bytes, which is not a whole number of blocks of {block_bytes} bytes; lengthen it with zeroes (`truncate -s \
         %{block_bytes} FILE`)"
    )]
    OddFile {
        /// The size, bytes.
        bytes: u64,
        /// Size of a block, bytes.
        block_bytes: u32,
    },
    /// An option that this source or filter does not have.
    #[error("{name}= is not an option here; there are {}= (a path that ends like an option is followed by one more comma)", known.join("=, "))]
    UnknownOption {
        /// The option.
        name: String,
        /// Those that there are.
        known: Vec<&'static str>,
    },
    /// The same option twice.
    #[error("{name}= is given twice; give it once")]
    OptionTwice {
        /// The option.
        name: &'static str,
    },
    /// The value of an option cannot be understood.
    #[error("{name}={value}: {why}")]
    OptionValue {
        /// The option.
        name: &'static str,
        /// What was given.
        value: String,
        /// What can be given.
        why: String,
    },
    /// An option without which there is no such filter.
    #[error("{name}= is missing; write {example}, say")]
    OptionMissing {
        /// The option.
        name: &'static str,
        /// The option with a value.
        example: &'static str,
    },
    /// Options that exclude each other.
    #[error("{why}")]
    Contradiction {
        /// Which, and what to do.
        why: &'static str,
    },
    /// `file:` and nothing behind it.
    #[error("the path is missing; write file:/path/to/disk.img")]
    NoPath,
    /// A directory, a pipe, a character device.
    #[error("this is neither a file nor a disk; name one that is")]
    NeitherFileNorDisk,
    /// There is no file, and no size with which to create one.
    #[error("there is no such file; add ,size=1GiB (or another size) to create it")]
    NoSuchFile,
    /// `size=` differs from what is there.
    #[error("it has {}, not {}; leave out size= or name another file", format_size(*has), format_size(*asked))]
    OtherSize {
        /// The file's size, bytes.
        has: u64,
        /// The size that was asked for, bytes.
        asked: u64,
    },
    /// Another process, or this one, has it locked.
    #[error("{by} serves it already; end that first, or serve it once and connect twice")]
    InUse {
        /// Who holds it.
        by: String,
    },
    /// `direct=on`, and the system cannot.
    #[error("its cache cannot be bypassed with blocks of {block_bytes} bytes here; use block=4096 or direct=auto")]
    NotDirect {
        /// Size of a block, bytes.
        block_bytes: u32,
    },
    /// A RAM disk larger than what the system gives.
    #[error("the system does not have {} of memory; choose a smaller size", format_size(*bytes))]
    NoMemory {
        /// The size, bytes.
        bytes: u64,
    },
}

impl Refusal {
    /// What kind of problem it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSuchFile => ErrorKind::NotFound,
            Self::InUse { .. } => ErrorKind::InUse,
            Self::NotDirect { .. } => ErrorKind::Unsupported,
            Self::NoMemory { .. } => ErrorKind::NoResources,
            _ => ErrorKind::Usage,
        }
    }
}
