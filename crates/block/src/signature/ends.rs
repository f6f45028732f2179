//! The searched parts of a disk, and the result.

use core::fmt;

/// Bytes at the start of a disk that are looked at. VMFS puts its number behind the first MiB.
pub const START_BYTES: u64 = (1 << 20) + (64 << 10);

/// Bytes at the end of a disk that are looked at.
pub const END_BYTES: u64 = 1 << 20;

/// The start and the end of a disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskEnds<'a> {
    /// The first [`START_BYTES`], or the whole disk if it is shorter.
    pub start: &'a [u8],
    /// The last [`END_BYTES`], or the whole disk if it is shorter.
    pub end: &'a [u8],
    /// Bytes of the whole disk.
    pub bytes: u64,
}

impl<'a> DiskEnds<'a> {
    /// Bytes from an offset on the disk, if they were read.
    pub(super) fn at(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        let within = |bytes: &'a [u8], first: u64| {
            let from = usize::try_from(offset.checked_sub(first)?).ok()?;
            bytes.get(from..from.checked_add(len)?)
        };
        within(self.start, 0)
            .or_else(|| within(self.end, self.bytes.checked_sub(self.end.len() as u64)?))
    }

    pub(super) fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.at(offset, magic.len()) == Some(magic)
    }

    pub(super) fn u32_le(&self, offset: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.at(offset, 4)?.try_into().ok()?))
    }
}

/// Contents of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// With its article: `an ext4 file system`.
    pub what: &'static str,
    /// Its label, if it has one.
    pub label: Option<String>,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            // With escapes: it may contain anything.
            Some(label) => write!(f, "{} (label {label:?})", self.what),
            None => f.write_str(self.what),
        }
    }
}
