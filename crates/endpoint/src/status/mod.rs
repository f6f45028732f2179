//! What a status of a block device is called in each protocol, both ways: one table per protocol,
//! over the one list of [`weft_block::StatusKind`].
//!
//! What came from a protocol keeps its words ([`weft_block::Raw`]). They come out unchanged where
//! the same protocol is spoken on the other side, and between NVMe and SCSI by their standard
//! translation. Everything else goes by its kind.

#[cfg(target_os = "linux")]
pub(crate) mod fuse;
pub(crate) mod nbd;
pub(crate) mod nvme;
pub(crate) mod scsi;
#[cfg(test)]
mod tests;
#[cfg(target_os = "linux")]
pub(crate) mod ublk;
