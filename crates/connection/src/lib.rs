//! The parts that initiators and targets share.
//!
//! * [`pump`]: the only drivers of protocol engines; [`memory`]: the memory of their payloads.
//! * [`capture`]: files of what passes on connections, for network analysers.
//! * [`mod@url`]: URLs; [`identity`]: permanent names; [`TlsFiles`] and [`TlsPsk`]: files of TLS.
//! * [`loops`]: event loops on threads; [`BlockingDisk`]: a device with blocking calls.
//! * [`statistics`]: what exports have done, by namespace, host and connection.
//! * [`settle`]: commands that a peer may still execute when their connection, or this process, is
//!   gone.
//! * `status`: translates status codes between protocols.
#![deny(unreachable_pub)]
#![forbid(unsafe_code)]

mod blocking_disk;
pub mod capture;
pub mod identity;
pub mod iscsi_remarks;
pub mod limits;
pub mod loops;
pub mod memory;
mod name_files;
mod naming;
pub mod nvme;
pub mod psk;
pub mod pump;
pub mod refusals;
pub mod renewal;
pub mod reported;
pub mod reservation_kind;
pub mod settle;
pub mod statistics;
pub mod status;
pub mod tls;
pub mod url;

pub use blocking_disk::BlockingDisk;
pub use psk::TlsPsk;
pub use renewal::Renewed;
pub use tls::TlsFiles;
