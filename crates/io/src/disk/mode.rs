//! I/O modes for files.

/// I/O method for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskMode {
    /// io_uring if available, otherwise threads.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// A thread pool.
    Threads,
}
