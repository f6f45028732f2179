//! A simulated loop's view of the world.

use super::net::SharedNet;
use super::rdma::{SimQueuePair, SimQueuePairListener};
use super::stream::{Registry, SimListener, SimStream};
use crate::event_loop::{Backend, Ready, RegistryRef};
use crate::rdma::{QueuePair, QueuePairListener};
use crate::stream::{Listener, Stream};
use crate::time::Time;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

pub(super) struct SimBackend {
    pub(super) net: SharedNet,
    pub(super) host: usize,
    pub(super) registry: Registry,
}

impl Backend for SimBackend {
    fn now(&mut self) -> Time {
        self.net.lock().now_on(self.host)
    }

    /// Never waits: the world runs a loop when there is something for it, which is when a wait
    /// would have ended.
    fn poll(&mut self, _: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<bool> {
        self.net.lock().take_ready(self.registry.0, ready);
        Ok(false)
    }

    fn connect(&mut self, to: SocketAddr) -> io::Result<Box<dyn Stream>> {
        let (id, local) = self.net.lock().connect(self.host, to)?;
        Ok(Box::new(SimStream {
            net: self.net.clone(),
            id,
            end: 0,
            local,
            peer: to,
            resets: false,
        }))
    }

    fn listen(&mut self, at: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let (at, id) = self.net.lock().listen(self.host, at)?;
        Ok(Box::new(SimListener { net: self.net.clone(), host: self.host, at, id }))
    }

    fn connect_rdma(&mut self, to: SocketAddr) -> io::Result<Box<dyn QueuePair>> {
        let (id, local) = self.net.lock().connect_rdma(self.host, to)?;
        Ok(Box::new(SimQueuePair::new(&self.net, id, 0, (local, to))))
    }

    fn listen_rdma(&mut self, at: SocketAddr) -> io::Result<Box<dyn QueuePairListener>> {
        let (at, id) = self.net.lock().listen_rdma(self.host, at)?;
        Ok(Box::new(SimQueuePairListener { net: self.net.clone(), host: self.host, at, id }))
    }

    fn registry(&self) -> RegistryRef<'_> {
        RegistryRef::Other(&self.registry)
    }

    /// Nothing to end: what was posted is seen by the world.
    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        Arc::new(|| ())
    }
}
