//! A namespace as its caller sees it.

use crate::export::local::hosts::{LocalHosts, NamespaceView, Opened};
use crate::export::local::queue::LocalQueue;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{
    AccessState, BlockDevice, BlockQueue, Error, Features, Geometry, Identity, Presence, SizeAnswer,
};
use weft_io::{DriverId, Handle};

/// See the module.
pub(super) struct ServedDisk {
    url: String,
    hosts: Arc<LocalHosts>,
    opened: Arc<Opened>,
}

impl ServedDisk {
    pub(super) fn new(hosts: &Arc<LocalHosts>, opened: Opened) -> Self {
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
