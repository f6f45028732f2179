//! Settings of a mount.

/// Settings of a mount.
#[derive(Clone, Copy, Debug)]
pub struct MountSettings {
    /// Writes are refused.
    pub is_read_only: bool,
    /// Maximum data of a request in bytes: a power of two, and at least a page.
    pub request_bytes: u32,
    /// Requests come by `/dev/fuse` also from a kernel that offers io_uring for them.
    pub is_plain: bool,
}
