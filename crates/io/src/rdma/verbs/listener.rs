//! Listeners of rdma-core.

use super::cm::{Channel, Id};
use super::errors;
use super::ffi::cm_event;
use super::queue_pair::VerbsQueuePair;
use crate::event_loop::Registrar;
use crate::limits::RDMA_BACKLOG;
use crate::rdma::{QueuePair, QueuePairListener};
use mio::unix::SourceFd;
use std::io;
use std::net::SocketAddr;

/// Waits for connections.
pub(super) struct VerbsListener {
    /// Dropped before its channel. `None` after the device is gone: it is to listen again when
    /// there is one.
    id: Option<Id>,
    channel: Channel,
    at: SocketAddr,
}

impl VerbsListener {
    pub(super) fn listen(at: SocketAddr) -> io::Result<Self> {
        let channel = Channel::new()?;
        let id = Id::new(&channel)?;
        id.listen(at, RDMA_BACKLOG)?;
        let at = id.source().unwrap_or(at);
        Ok(Self { id: Some(id), channel, at })
    }

    /// Listens again after the device was gone.
    fn renew(&mut self) -> io::Result<()> {
        if self.id.is_none() {
            let id = Id::new(&self.channel)?;
            id.listen(self.at, RDMA_BACKLOG)?;
            self.id = Some(id);
        }
        Ok(())
    }
}

impl QueuePairListener for VerbsListener {
    fn accept(&mut self) -> io::Result<Box<dyn QueuePair>> {
        self.renew()?;
        while let Some(mut reported) = self.channel.next()? {
            if let Some(id) = reported.request.take() {
                return Ok(Box::new(VerbsQueuePair::requested(id, reported)?));
            }
            if reported.event == cm_event::DEVICE_REMOVAL {
                // An identifier without a device never gets another one.
                self.id = None;
                return Err(errors::error(-libc::ENODEV));
            }
            // What else concerns requests that were given up before they were looked at.
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn local(&self) -> String {
        self.at.to_string()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.register_mio(&mut SourceFd(&self.channel.fd()))
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.deregister_mio(&mut SourceFd(&self.channel.fd()))
    }
}
