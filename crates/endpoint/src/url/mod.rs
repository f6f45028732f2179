//! URLs of network sources and exports, a file for each protocol.

mod host_port;
mod iscsi;
pub mod nbd;
mod nvme_tcp;
mod percent;

pub use host_port::HostPort;
pub use iscsi::{DigestWish, ISCSI, ISCSI_PORT, IscsiUrl, LUN_MAX, without_secret};
pub use nvme_tcp::{NVME_TCP, NVME_TCP_DISCOVERY_PORT, NVME_TCP_PORT, NvmeTcpUrl};
