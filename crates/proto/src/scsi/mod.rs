//! SCSI for block devices (SAM-5, SPC-4, SBC-3): commands, status and sense data, the logical units
//! of a target, and the initiator's side. It does not depend on a transport and moves no bytes.
//!
//! * [`cdb`]: command descriptor blocks; one table defines decoding and encoding.
//! * [`status`] and [`sense`]: the result of a command.
//! * [`lun`]: the target's side: targets, logical units, nexuses.
//! * [`initiator`]: the queries of a host, and the evaluation of responses.
//! * [`translation`]: between NVMe status and SCSI status.

pub(crate) mod bytes;
pub mod cdb;
pub mod initiator;
pub mod lun;
pub mod opcode;
pub mod sense;
pub mod status;
pub mod translation;
