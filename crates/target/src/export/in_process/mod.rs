//! The export without a network: disks for callers in this process, which have them through all
//! that a server does.
//!
//! A caller opens a namespace under the name and the identifier of a host, and gets a
//! [`BlockDevice`] (`disk`). Each queue of that is a connection.

mod disk;

use super::hosts::{ConnectedHost, HostProtocol};
use super::local::hosts::LocalHosts;
use super::running::Export;
use crate::inventory::LiveInventory;
use disk::ServedDisk;
use std::sync::Arc;
use weft_block::{BlockDevice, Error};
use weft_connection::identity::HostIdentity;
use weft_proto::nvme::types::{Nqn, Nsid};

/// The running export. A clone is the same one.
#[derive(Clone)]
pub struct InProcess(Arc<LocalHosts>);

impl InProcess {
    /// An export of an inventory. It ends with the others if it is given to
    /// [`Exports::add`](crate::export::Exports::add).
    pub fn start(inventory: &Arc<LiveInventory>) -> Self {
        Self(LocalHosts::start(HostProtocol::InProcess, inventory))
    }

    /// Opens a namespace for a caller that is this host. The device is gone for good when the host
    /// no longer sees the namespace, when other data takes its place, or when the export ends.
    ///
    /// # Errors
    /// There is no such namespace, the host does not see it, or the identifier is another's.
    pub fn open(
        &self,
        host: HostIdentity,
        subsystem: &Nqn,
        nsid: Nsid,
    ) -> Result<Arc<dyn BlockDevice>, Error> {
        Ok(Arc::new(ServedDisk::new(&self.0, self.0.find(host, subsystem, nsid)?)))
    }
}

impl Export for InProcess {
    fn hosts(&self) -> Vec<ConnectedHost> {
        self.0.connected()
    }

    fn connections(&self) -> usize {
        self.0.members.open()
    }

    fn drain(&self) {
        self.0.members.drain();
    }

    fn draining(&self) -> usize {
        self.0.members.serving()
    }

    fn close(&self) {
        self.0.members.stop();
    }
}
