//! Storage protocol engines without I/O.
//!
//! Nothing in this crate knows a socket, a clock or a thread, and no engine owns payload memory. An engine is a value:
//! bytes, times and completions go in; the names of what to receive, send and do come out (`docs/ARCHITECTURE.md`). Time is
//! always a parameter: a [`core::time::Duration`] since an epoch of the caller's choice.
//!
//! * [`stream`]: the shape that all byte-stream engines share.
//! * [`nvme`]: the command layer: commands, status, identify, the host and controller state machines. It knows no transport.
//! * [`nbd`]: both ends of an NBD connection.
//! * [`nvme_tcp`]: PDU framing of both ends of an NVMe/TCP connection.
//! * [`scsi`]: commands, sense data, the logical units of a target, and an initiator's view of them. It knows no transport.
//! * [`iscsi`]: PDUs, text and authentication of iSCSI.
//! * [`printable`]: how text of a peer is shown.
#![forbid(unsafe_code)]

pub mod crc32c;
pub mod iscsi;
pub mod limits;
pub mod nbd;
pub mod nvme;
pub mod nvme_tcp;
pub mod printable;
pub mod scsi;
pub mod stream;
