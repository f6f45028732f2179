//! What a file system is mounted with.

/// What is mounted.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Nobody writes to it.
    pub is_read_only: bool,
    /// The most data of a request, bytes: a power of two, and at least a page.
    pub request_bytes: u32,
}
