//! Listeners of rdma-core.

use super::cm::{Channel, Id};
use super::ffi::cm_event;
use super::queue_pair::VerbsQueuePair;
use super::trouble;
use crate::event_loop::Registrar;
use crate::limits::RDMA_BACKLOG;
use crate::rdma::{QueuePair, QueuePairListener};
use mio::unix::SourceFd;
use std::io;
use std::net::SocketAddr;

/// Waits for connections.
pub(super) struct VerbsListener {
    /// Dropped before its channel.
    id: Id,
    channel: Channel,
}

impl VerbsListener {
    pub(super) fn listen(at: SocketAddr) -> io::Result<Self> {
        let channel = Channel::new()?;
        let id = Id::new(&channel)?;
        id.listen(at, RDMA_BACKLOG)?;
        Ok(Self { id, channel })
    }
}

impl QueuePairListener for VerbsListener {
    fn accept(&mut self) -> io::Result<Box<dyn QueuePair>> {
        while let Some(mut reported) = self.channel.next()? {
            if let Some(id) = reported.request.take() {
                return Ok(Box::new(VerbsQueuePair::requested(id, reported)?));
            }
            if reported.event == cm_event::DEVICE_REMOVAL {
                return Err(trouble::error(-libc::ENODEV));
            }
            // What else concerns requests that were given up before they were looked at.
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn local(&self) -> String {
        self.id.source().map_or_else(|| "unknown".into(), |address| address.to_string())
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.register_mio(&mut SourceFd(&self.channel.fd()))
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.deregister_mio(&mut SourceFd(&self.channel.fd()))
    }
}
