//! Which hosts are connected, and what they use. For the cold path only.

use std::fmt;
use weft_proto::nvme::types::{Nqn, Nsid};

/// A host that is connected, and what it uses of one subsystem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectedHost {
    /// The protocol by which it is connected.
    pub protocol: HostProtocol,
    /// NVMe: the host's NQN, or its identifier if it gave none; iSCSI: the initiator's name; NBD:
    /// the client's address, as it has no name; in this system: the NQN that the host has.
    pub name: String,
    /// The subsystem to which it is connected.
    pub subsystem: Nqn,
    /// The namespaces that it sees; of NBD, the one that it chose.
    pub namespaces: Vec<Nsid>,
}

/// The protocol of a connected host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostProtocol {
    /// NVMe over Fabrics.
    Nvme,
    /// iSCSI.
    Iscsi,
    /// NBD.
    Nbd,
    /// None: a caller in the serving process.
    InProcess,
    /// None: this system, by its ublk driver.
    Ublk,
    /// None: this system, by FUSE.
    Fuse,
    /// Virtual machines of this system, by vhost-user.
    VhostUser,
}

impl HostProtocol {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::Iscsi => "iscsi",
            Self::Nbd => "nbd",
            Self::InProcess => "in-process",
            Self::Ublk => "ublk",
            Self::Fuse => "fuse",
            Self::VhostUser => "vhost-user",
        }
    }
}

impl fmt::Display for HostProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
