//! The configuration of a loop.

use crate::disk::DiskMode;
use crate::limits;
use crate::listening::Listening;
use core::time::Duration;

/// Configuration of a loop.
#[derive(Clone, Debug)]
pub struct LoopConfig {
    /// Name of the thread.
    pub name: String,
    /// Time to keep polling after the last work, if polling pays. [`Duration::MAX`] never sleeps.
    pub spin: Duration,
    /// Cap of the loop's payload memory, bytes.
    pub pool_bytes: usize,
    /// Core to run on.
    pub cpu: Option<usize>,
    /// I/O method for files.
    pub disk: DiskMode,
    /// Listening sockets of the process.
    pub listening: Listening,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            name: "weft-loop".into(),
            spin: Duration::from_micros(limits::SPIN_US_DEFAULT),
            pool_bytes: limits::POOL_BYTES_DEFAULT,
            cpu: None,
            disk: DiskMode::Auto,
            listening: Listening::default(),
        }
    }
}
