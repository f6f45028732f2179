//! Storage protocol engines without I/O.
//!
//! This crate uses no socket, clock or thread, and no engine owns payload memory. An engine is a
//! value: its inputs are bytes, times and completions; its outputs are the names of what to
//! receive, send and do (`docs/contributing/contracts.md`). Time is always a parameter: a
//! [`core::time::Duration`] since an epoch of the caller's choice.
//!
//! * [`stream`]: the interface of all byte-stream engines.
//! * [`nvme`]: the command layer: commands, status, identify, the host and controller state
//!   machines. It does not depend on a transport.
//! * [`nbd`]: both ends of an NBD connection.
//! * [`nvme_tcp`]: PDU framing of both ends of an NVMe/TCP connection.
//! * [`nvme_rdma`]: both ends of an NVMe over RDMA queue pair.
//! * [`scsi`]: commands, sense data, the logical units of a target, and the initiator's side. It
//!   does not depend on a transport.
//! * [`iscsi`]: PDUs, text and authentication of iSCSI.
//! * [`reservation`]: the reservations of a namespace, for hosts and initiators of all protocols.
//! * [`virtio`]: virtqueues and block devices of VIRTIO; [`vhost_user`]: the messages of a virtual
//!   machine monitor that has another process serve them.
//! * [`capture`]: captures of traffic: files of packets, without secrets.
//! * [`printable`]: how to print text of a peer.
#![forbid(unsafe_code)]

pub mod capture;
pub mod crc32c;
pub mod iscsi;
pub mod limits;
pub mod nbd;
pub mod nvme;
pub mod nvme_rdma;
pub mod nvme_tcp;
pub mod printable;
pub mod reservation;
pub mod scsi;
mod slab;
pub mod stream;
pub mod vhost_user;
pub mod virtio;
