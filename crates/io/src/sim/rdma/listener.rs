//! Listeners for queue pairs.

use super::SimQueuePair;
use crate::event_loop::Registrar;
use crate::rdma::{QueuePair, QueuePairListener};
use crate::sim::net::SharedNet;
use crate::sim::stream::watch;
use std::io;
use std::net::SocketAddr;

pub(in crate::sim) struct SimQueuePairListener {
    pub(in crate::sim) net: SharedNet,
    pub(in crate::sim) host: usize,
    pub(in crate::sim) at: SocketAddr,
    pub(in crate::sim) id: u64,
}

impl QueuePairListener for SimQueuePairListener {
    fn accept(&mut self) -> io::Result<Box<dyn QueuePair>> {
        let (id, local, peer) = self.net.lock().rdma_accept(self.host, self.at.port(), self.id)?;
        Ok(Box::new(SimQueuePair::new(&self.net, id, 1, (local, peer))))
    }

    fn local(&self) -> String {
        self.at.to_string()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        let watch = watch(registrar)?;
        self.net.lock().rdma_watch_port(self.host, self.at.port(), self.id, Some(watch))
    }

    fn deregister(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        self.net.lock().rdma_watch_port(self.host, self.at.port(), self.id, None)
    }
}

impl Drop for SimQueuePairListener {
    fn drop(&mut self) {
        self.net.lock().rdma_close_port(self.host, self.at.port(), self.id);
    }
}
