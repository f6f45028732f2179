//! The export without a network: disks for callers in this process, which have them through all
//! that a server does.
//!
//! A caller opens a namespace under the name and the identifier of a host, and gets a
//! [`BlockDevice`]. Each queue of that is a connection.

use super::hosts::{ConnectedHost, HostProtocol};
use super::local::hosts::LocalHosts;
use super::running::Export;
use crate::export::local::hosts::{NamespaceView, Opened};
use crate::export::local::queue::LocalQueue;
use crate::inventory::LiveInventory;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{
    AccessState, BlockDevice, BlockQueue, Error, Features, Geometry, Identity, Presence, SizeAnswer,
};
use weft_connection::identity::HostIdentity;
use weft_io::{DriverId, Handle};
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

/// A namespace as its caller sees it.
struct ServedDisk {
    url: String,
    hosts: Arc<LocalHosts>,
    opened: Arc<Opened>,
}

impl ServedDisk {
    fn new(hosts: &Arc<LocalHosts>, opened: Opened) -> Self {
        let url = format!("in-process:{}/{}", opened.subsystem, opened.namespace.nsid);
        Self { url, hosts: Arc::clone(hosts), opened: Arc::new(opened) }
    }

    fn view(&self) -> Option<NamespaceView> {
        self.opened.view(&self.hosts.inventory.now())
    }

    /// What the host sees now, or saw when it opened what is gone since.
    fn last_view(&self) -> NamespaceView {
        self.view().unwrap_or_else(|| {
            NamespaceView::of(&self.opened.namespace, AccessState::PersistentLoss)
        })
    }

    fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::clone(&self.last_view().namespace.device)
    }
}

impl BlockDevice for ServedDisk {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        self.last_view().geometry
    }

    /// That of the namespace, after its own device was asked.
    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        let answer = self.last_view().namespace.given().renew_size()?;
        self.hosts.inventory.look_at_devices();
        Ok(answer)
    }

    fn features(&self) -> Features {
        self.last_view().features
    }

    fn identity(&self) -> Identity {
        Identity { uuid: Some(self.opened.namespace.uuid), ..Identity::default() }
    }

    fn presence(&self) -> Presence {
        self.view().map_or(Presence::Gone, |view| view.namespace.presence)
    }

    fn access_state(&self) -> AccessState {
        self.last_view().access
    }

    fn cache_epoch(&self) -> Option<u64> {
        self.device().cache_epoch()
    }

    fn late_writes_bound(&self) -> Option<Duration> {
        self.device().late_writes_bound()
    }

    fn trouble(&self) -> Option<String> {
        self.device().trouble()
    }

    fn losses(&self) -> u64 {
        self.device().losses()
    }

    fn max_queues(&self) -> usize {
        self.device().max_queues()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let queue = LocalQueue::open(&self.hosts, &self.opened, on, owner);
        Ok(Box::new(queue.map_err(|e| e.of(&self.url))?))
    }
}
