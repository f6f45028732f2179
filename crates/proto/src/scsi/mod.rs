//! SCSI as block devices speak it (SAM-5, SPC-4, SBC-3): commands, status and sense data, the logical units of a target, and what an
//! initiator asks and understands. It knows no transport and moves no bytes.
//!
//! * [`cdb`]: command descriptor blocks, decoded and encoded by one table.
//! * [`status`] and [`sense`]: how a command ended.
//! * [`lun`]: the target's side: targets, logical units, nexuses.
//! * [`initiator`]: what a host asks, and what it makes of answers.
//! * [`translation`]: between the statuses of NVMe and of SCSI.

pub(crate) mod bytes;
pub mod cdb;
pub mod initiator;
pub mod lun;
pub mod opcode;
pub mod sense;
pub mod status;
pub mod translation;
