//! Names of what is counted.

use weft_proto::nvme::types::{Nqn, Nsid};

/// A namespace, by its subsystem and its identifier.
pub type NamespaceName = (Nqn, Nsid);

/// Names of a connection that are known when it begins to serve commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionName {
    /// `nvme+tcp`, `nvme+rdma`, `iscsi`, `nbd` or `in-process`.
    pub protocol: &'static str,
    /// The host: its NQN, its initiator name, or the address of an NBD client; in this process: the NQN given.
    pub host: String,
    /// The other end's address.
    pub peer: String,
    /// The identifier of its I/O queue, for NVMe.
    pub queue: Option<u16>,
    /// NVMe/TCP with TLS: `kernel` or `user space`, whichever has its records.
    pub tls: Option<&'static str>,
}
