//! Copies from one device to another that the server of both does itself, so that no data passes
//! through this process.

use crate::op::Outcome;
use uuid::Uuid;

/// Name of a device within its server, for another device that will receive its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffloadSource {
    /// The server: for NVMe the name of the subsystem.
    pub server: String,
    /// The number of the device there: for NVMe the namespace identifier.
    pub number: u32,
    /// UUID of the device, under any number.
    pub uuid: Uuid,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// A way to have blocks of another device of the same server copied to a device. Its calls wait for
/// the server, within the time limit of I/O. It ends with the connection on which it was begun:
/// when that is lost, everything fails from then on, and the caller reads and writes instead.
pub trait Offload: Send + Sync {
    /// Blocks that one call copies at most; at least 1.
    fn blocks_max(&self) -> u32;

    /// Calls at a time, from different threads; at least 1.
    fn calls_max(&self) -> usize;

    /// Copies `blocks` blocks from `from` on to `to` on. Where it fails, any of them may be copied.
    fn copy(&self, from: u64, to: u64, blocks: u32) -> Outcome;

    /// Makes all that completed before durable. Success says that the server has not lost any of it
    /// since this was begun.
    fn flush(&self) -> Outcome;
}
