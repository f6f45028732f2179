//! The reasons why this crate refuses to open a URL.

use crate::limits::{FILTER_DEPTH, LIST_SOURCES, STRIPE_CHUNK_BYTES_MIN};
use crate::outcome::error_kind::ErrorKind;
use crate::units::{QuantityError, format_size};

/// Why a URL cannot be opened. The text says what is wrong and what to do; [`crate::Error`] puts
/// the URL in front of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Unknown scheme.
    #[error(
        "there is no source type {scheme}:; use for example ram:1GiB, file:/PATH or nvme+tcp://HOST/NQN"
    )]
    UnknownScheme {
        /// The scheme, without its colon.
        scheme: String,
    },
    /// A scheme that is like a known one, or a known one without its two slashes.
    #[error("this is not the URL of a source; did you mean {meant}?")]
    LikeAnotherScheme {
        /// The probable intention.
        meant: String,
    },
    /// There is no scheme, and the text does not begin like a path.
    #[error("this is neither a URL nor a path; for a file in this directory use ./{text}")]
    NeitherUrlNorPath {
        /// The whole text.
        text: String,
    },
    /// More than [`FILTER_DEPTH`] filters.
    #[error("there are more than {FILTER_DEPTH} nested filters; remove some")]
    TooManyFilters,
    /// More than [`LIST_SOURCES`] sources.
    #[error("a list has at most {LIST_SOURCES} sources; remove some")]
    TooManySources,
    /// A list ends with a filter.
    #[error("the source after the filter is missing; its URL comes last")]
    FilterWithoutSource,
    /// A list without sources.
    #[error("the list has no sources; they come last, separated by commas")]
    NoSources,
    /// A list within a list.
    #[error("a list cannot contain another list; give it a name in a configuration file")]
    ListInList,
    /// A member of a list cannot be used in it.
    #[error("{url}: {why}")]
    Member {
        /// Its URL.
        url: String,
        /// Why not.
        why: String,
    },
    /// The size of a chunk is not a multiple of the block size, or too small.
    #[error(
        "a chunk of {} is not possible; use a multiple of {multiple} bytes, at least {}, as in stripe:64KiB,URL,URL",
        format_size(*bytes),
        format_size(STRIPE_CHUNK_BYTES_MIN)
    )]
    Chunk {
        /// The size, bytes.
        bytes: u64,
        /// The required divisor, bytes.
        multiple: u32,
    },
    /// The main part must be a size and is not.
    #[error(transparent)]
    NotASize(#[from] QuantityError),
    /// The size is zero, or not a whole number of blocks.
    #[error(
        "{} of {block_bytes} bytes; choose another size",
        if *bytes == 0 { "it is empty, and has to have blocks".into() } else { format!("{} is not a whole number of blocks", format_size(*bytes)) }
    )]
    NotWholeBlocks {
        /// The size, bytes.
        bytes: u64,
        /// Size of a block, bytes.
        block_bytes: u32,
    },
    /// A file whose size is not a whole number of blocks would be written to.
    #[error(
        "the file has {bytes} bytes, which is not a whole number of blocks of {block_bytes} bytes; lengthen it with zeroes (`truncate -s \
         %{block_bytes} FILE`), or put readonly: in front of it"
    )]
    OddFile {
        /// The size, bytes.
        bytes: u64,
        /// Size of a block, bytes.
        block_bytes: u32,
    },
    /// A device whose size is not a whole number of blocks would be written to.
    #[error(
        "it has {bytes} bytes, which is not a whole number of blocks of {block_bytes} bytes, so that it can only be read; put readonly: in \
         front of it, and zeroes follow its last byte"
    )]
    OddSize {
        /// The size, bytes.
        bytes: u64,
        /// Size of a block, bytes.
        block_bytes: u32,
    },
    /// Unknown option.
    #[error("{name}= is not an option here; there are {}= (a path that ends like an option is followed by one more comma)", known.join("=, "))]
    UnknownOption {
        /// The option.
        name: String,
        /// The known options.
        known: Vec<&'static str>,
    },
    /// A duplicate option.
    #[error("{name}= is given twice; use it once")]
    OptionTwice {
        /// The option.
        name: &'static str,
    },
    /// The value of an option is invalid.
    #[error("{name}={value}: {why}")]
    OptionValue {
        /// The option.
        name: &'static str,
        /// The given value.
        value: String,
        /// The valid values.
        why: String,
    },
    /// A required option of a filter is missing.
    #[error("{name}= is missing; example: {example}")]
    OptionMissing {
        /// The option.
        name: &'static str,
        /// An example.
        example: &'static str,
    },
    /// Options that exclude each other.
    #[error("{why}")]
    Contradiction {
        /// Which options, and what to do.
        why: &'static str,
    },
    /// `file:` without a path.
    #[error("the path is missing; example: file:/path/to/disk.img")]
    NoPath,
    /// The path is a directory, a pipe or a character device.
    #[error("this is neither a file nor a disk")]
    NeitherFileNorDisk,
    /// The file does not exist, and there is no size to create it with.
    #[error("there is no such file; add ,size=1GiB (or another size) to create it")]
    NoSuchFile,
    /// `size=` differs from the size of the file.
    #[error("it has {}, not {}; omit size= or use another file", format_size(*has), format_size(*asked))]
    OtherSize {
        /// The file's size, bytes.
        has: u64,
        /// The requested size, bytes.
        asked: u64,
    },
    /// This process has locked the file.
    #[error("this process uses it already; give it once")]
    InUseHere,
    /// Another process has locked the file.
    #[error("{by} already serves it; end that first, or serve it once and connect twice")]
    InUse {
        /// The holder of the lock.
        by: String,
    },
    /// The disk is mounted, or used in another way that excludes writing to it.
    #[error("{by}; end that, or put readonly: in front of the source")]
    Busy {
        /// Its user: `it is mounted at /srv`.
        by: String,
    },
    /// The system refuses to write to the disk.
    #[error(
        "the disk is read-only; put readonly: in front of the source, or allow writing (`blockdev --setrw`, Windows: `Set-Disk -IsReadOnly 0`)"
    )]
    ReadOnlyDisk,
    /// The disk cannot transfer blocks as short as these.
    #[error("the disk has blocks of {disk_bytes} bytes; omit block=")]
    ShortBlocks {
        /// Bytes of a block of the disk.
        disk_bytes: u32,
    },
    /// Disks cannot be opened on this system.
    #[error("weft opens disks on Linux and Windows only; on this system use a file")]
    NoDisks,
    /// A device of Windows of another kind.
    #[error(
        "this device is neither a drive nor a volume; use for example \\\\.\\PhysicalDrive1, E: or a file"
    )]
    NeitherDriveNorVolume,
    /// A drive or volume that the running Windows needs.
    #[error(
        "{volume} is on it, a volume of the running system; use another one, or put readonly: in front of the source"
    )]
    RunningSystem {
        /// Where the volume is mounted, or its name.
        volume: String,
    },
    /// A RAM disk for several processes.
    #[error("no other process can serve the same RAM disk; share a file or a disk")]
    NotShared,
    /// `direct=on` is not possible here.
    #[error(
        "the page cache cannot be bypassed here with blocks of {block_bytes} bytes; use block=4096 or direct=auto"
    )]
    NotDirect {
        /// Size of a block, bytes.
        block_bytes: u32,
    },
    /// The system does not provide enough memory for a RAM disk.
    #[error("the system does not have {} of memory; choose a smaller size", format_size(*bytes))]
    NoMemory {
        /// The size, bytes.
        bytes: u64,
    },
}

impl Refusal {
    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSuchFile => ErrorKind::NotFound,
            Self::InUse { .. }
            | Self::InUseHere
            | Self::Busy { .. }
            | Self::RunningSystem { .. } => ErrorKind::InUse,
            Self::ReadOnlyDisk => ErrorKind::PermissionDenied,
            Self::NotDirect { .. } | Self::NoDisks | Self::NeitherDriveNorVolume => {
                ErrorKind::Unsupported
            }
            Self::NoMemory { .. } => ErrorKind::NoResources,
            _ => ErrorKind::Usage,
        }
    }
}
