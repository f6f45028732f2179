//! Why this machine has no RDMA, in one sentence each that says what to do.

use std::io;

/// Why there is no RDMA here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Not Linux.
    #[error("RDMA needs Linux, because weft uses rdma-core")]
    NotLinux,
    /// The loop is not one of a system.
    #[error("this event loop has no RDMA")]
    NotOnThisLoop,
    /// The libraries are missing.
    #[error(
        "RDMA needs the libraries of rdma-core: install rdma-core, libibverbs1, librdmacm1 and ibverbs-providers (Debian, Ubuntu), or \
         rdma-core and librdmacm (Fedora, RHEL) ({0})"
    )]
    NoLibrary(String),
    /// There is nothing that they could use.
    #[error(
        "this machine has no RDMA device, or its drivers are not loaded: `rdma link` shows devices, and `modprobe rdma_ucm` loads what they need ({0})"
    )]
    NoDevice(String),
    /// Memory cannot be registered.
    #[error(
        "{bytes} bytes of memory cannot be registered with {device}, as too little may be locked: raise `ulimit -l`, or LimitMEMLOCK= of the \
         service"
    )]
    LockedMemory {
        /// Bytes that were asked for.
        bytes: usize,
        /// The device.
        device: String,
    },
}

impl From<Unavailable> for io::Error {
    fn from(why: Unavailable) -> Self {
        let kind = match why {
            Unavailable::NotLinux
            | Unavailable::NotOnThisLoop
            | Unavailable::NoLibrary(_)
            | Unavailable::NoDevice(_) => io::ErrorKind::Unsupported,
            Unavailable::LockedMemory { .. } => io::ErrorKind::OutOfMemory,
        };
        Self::new(kind, why)
    }
}
