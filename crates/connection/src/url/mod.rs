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

/// The prefix of disks of this system by the ublk driver of Linux: `ublk:[N][/NSID][?nqn=NQN]`.
pub const UBLK: &str = "ublk:";

/// The prefix of files of this system by FUSE: `fuse:DIRECTORY[?nsid=NSID][&nqn=NQN]`.
pub const FUSE: &str = "fuse:";

/// The prefix of disks of virtual machines on this system: `vhost-user:PATH`.
pub const VHOST_USER: &str = "vhost-user:";

/// Returns whether a text to listen at is a URL of its own, and not the place of an NVMe/TCP one.
pub fn is_listen_url(text: &str) -> bool {
    text.contains("://") || [UBLK, FUSE, VHOST_USER].iter().any(|prefix| text.starts_with(prefix))
}
