//! Names of the statuses of a block device in each protocol, both ways: one table per protocol,
//! over the one list of [`weft_block::StatusKind`].
//!
//! A status that came from a protocol keeps its words ([`weft_block::Raw`]). They come out
//! unchanged where the same protocol is spoken on the other side, and between NVMe and SCSI by
//! their standard translation. Everything else goes by its kind.

#[cfg(target_os = "linux")]
pub mod fuse;
pub mod nbd;
pub mod nvme;
pub mod scsi;
#[cfg(test)]
mod tests;
#[cfg(target_os = "linux")]
pub mod ublk;
