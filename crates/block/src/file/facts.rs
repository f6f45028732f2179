//! What a system tells of a disk.

/// What does not change while it is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Bytes of the shortest possible transfer.
    pub(super) logical_bytes: Option<u32>,
    /// Bytes of what the disk writes at once without reading it before.
    pub(super) physical_bytes: Option<u32>,
    /// Whether discards do something.
    pub(super) discards: bool,
    /// Whether the disk itself has a volatile cache.
    pub(super) volatile_cache: bool,
    /// Whether the system refuses to write to it.
    pub(super) read_only: bool,
    /// A name that the disk, or the mapping, has on every machine, with the number of the
    /// partition.
    pub(super) name: Option<String>,
    /// Whether it was opened so that I/O bypasses the cache of the system.
    pub(super) unbuffered: bool,
    pub(super) serial: Option<String>,
    pub(super) model: Option<String>,
}
