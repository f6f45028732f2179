//! Files by completion: io_uring where it is allowed, a thread pool elsewhere.

/// Which way files are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskMode {
    /// io_uring where the system allows it, else threads.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// A thread pool.
    Threads,
}

/// The disks of one loop.
pub struct Service {
    mode: DiskMode,
}

impl Service {
    pub(crate) fn new(mode: DiskMode) -> Self {
        Self { mode }
    }

    /// Which way was asked for.
    pub fn mode(&self) -> DiskMode {
        self.mode
    }
}
