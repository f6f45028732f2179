//! URLs of network sources and exports, a file for each protocol.

mod host_port;
mod iscsi;
mod matching;
pub mod nbd;
mod nvme;
mod percent;
mod secret;

pub use host_port::HostPort;
pub use iscsi::{DigestWish, ISCSI, ISCSI_PORT, IscsiUrl, LUN_MAX};
pub use matching::means;
pub use nvme::{
    NVME_RDMA, NVME_RDMA_PORT, NVME_SCHEMES, NVME_TCP, NVME_TCP_DISCOVERY_PORT, NVME_TCP_PORT,
    NvmeTransport, NvmeUrl,
};
pub use secret::without_secret;
