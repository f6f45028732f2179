//! The network's sockets.

use super::net::{ConnId, SharedNet, Watch};
use crate::event_loop::Registrar;
use crate::stream::{Listener, Stream};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;

/// Registry for streams: the loop's number.
pub(super) struct Registry(pub(super) usize);

pub(super) fn watch(registrar: &Registrar<'_>) -> io::Result<Watch> {
    let registry: &Registry = registrar.other().ok_or(io::ErrorKind::Unsupported)?;
    Ok(Watch { on_loop: registry.0, driver: registrar.driver() })
}

pub(super) struct SimStream {
    pub(super) net: SharedNet,
    pub(super) id: ConnId,
    /// 0: the client's, 1: the server's.
    pub(super) end: usize,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) resets: bool,
}

impl Stream for SimStream {
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.net.lock().recv(self.id, self.end, bufs)
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.net.lock().send(self.id, self.end, bufs)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.net.lock().shutdown(self.id, self.end)
    }

    fn reset_when_dropped(&mut self) {
        self.resets = true;
    }

    fn connected(&mut self) -> io::Result<bool> {
        self.net.lock().connected(self.id, self.end)
    }

    fn peer(&self) -> String {
        self.peer.to_string()
    }

    fn local(&self) -> String {
        self.local.to_string()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        self.net.lock().watch(self.id, self.end, Some(watch(registrar)?))
    }

    fn deregister(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        self.net.lock().watch(self.id, self.end, None)
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.net.lock().close(self.id, self.end, self.resets);
    }
}

pub(super) struct SimListener {
    pub(super) net: SharedNet,
    pub(super) host: usize,
    pub(super) at: SocketAddr,
    pub(super) id: u64,
}

impl Listener for SimListener {
    fn accept(&mut self) -> io::Result<Box<dyn Stream>> {
        let (id, local, peer) = self.net.lock().accept(self.host, self.at.port(), self.id)?;
        Ok(Box::new(SimStream { net: self.net.clone(), id, end: 1, local, peer, resets: false }))
    }

    fn local(&self) -> String {
        self.at.to_string()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        let watch = watch(registrar)?;
        self.net.lock().watch_port(self.host, self.at.port(), self.id, Some(watch))
    }

    fn deregister(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        self.net.lock().watch_port(self.host, self.at.port(), self.id, None)
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.net.lock().close_port(self.host, self.at.port(), self.id);
    }
}
