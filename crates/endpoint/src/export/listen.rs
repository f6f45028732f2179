//! Listens, and distributes connections over the loops.

use super::refusals::Refusals;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_io::accept::Acceptor;
use weft_io::{DriverId, Handle, Listener, Remote, Stream};

/// The listeners of one export. Dropping this closes them.
#[derive(Default)]
pub(crate) struct Listeners(Vec<(Remote, DriverId)>);

impl Listeners {
    /// Listens at `at` on the loop of `on`; port 0 picks a free port. `accepted` receives each connection, on that loop and not
    /// registered with it. Returns the listen address.
    pub(crate) fn tcp(
        &mut self,
        on: &Handle,
        at: SocketAddr,
        accepted: impl FnMut(&Handle, Box<dyn Stream>) + 'static,
    ) -> Result<SocketAddr, Error> {
        let listener = on.listen(at).map_err(|e| cannot(&at.to_string(), e))?;
        let address = listener.local().parse().unwrap_or(at);
        self.add(on, listener, &at.to_string(), accepted)?;
        Ok(address)
    }

    /// Like [`Listeners::tcp`], at the path of a Unix socket.
    #[cfg(unix)]
    pub(crate) fn unix(
        &mut self,
        on: &Handle,
        at: &std::path::Path,
        accepted: impl FnMut(&Handle, Box<dyn Stream>) + 'static,
    ) -> Result<(), Error> {
        let name = at.display().to_string();
        let listener = weft_io::unix::UnixAcceptor::listen(at).map_err(|e| cannot(&name, e))?;
        self.add(on, Box::new(listener), &name, accepted)
    }

    /// Not supported on systems without Unix sockets.
    #[cfg(not(unix))]
    pub(crate) fn unix(
        &mut self,
        _: &Handle,
        at: &std::path::Path,
        _: impl FnMut(&Handle, Box<dyn Stream>) + 'static,
    ) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unsupported, format!("cannot listen at {}: this system has no Unix sockets", at.display())))
    }

    fn add(
        &mut self,
        on: &Handle,
        listener: Box<dyn Listener>,
        at: &str,
        accepted: impl FnMut(&Handle, Box<dyn Stream>) + 'static,
    ) -> Result<(), Error> {
        // Peers that connect and disconnect at the limit can cause this as often as they like.
        let lines = Refusals::default();
        let trouble = move |on: &Handle, e: &std::io::Error, pause: Duration| {
            let pause = pause.as_millis();
            lines.log(on.now().since_epoch(), || {
                format!("cannot accept connections: {e}; trying again in {pause} ms (raise the limit of open files)")
            });
        };
        let driver = Acceptor::spawn(on, listener, accepted, trouble).map_err(|e| cannot(at, e))?;
        self.0.push((on.remote(), driver));
        Ok(())
    }

    /// Stops accepting. Does not wait.
    pub(crate) fn close(&self) {
        for (remote, driver) in &self.0 {
            let driver = *driver;
            remote.post(move |on| on.remove(driver));
        }
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.close();
    }
}

/// Why listening at `at` failed, and what to do.
fn cannot(at: &str, e: std::io::Error) -> Error {
    let hint = match e.kind() {
        std::io::ErrorKind::AddrInUse => "; another program uses this port: choose another one, or 0 for a free one",
        std::io::ErrorKind::PermissionDenied => "; ports below 1024 need privileges: choose a higher one",
        std::io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    };
    Error::io(format!("cannot listen at {at}: {e}{hint}"), e)
}

/// The loops over which independent connections are distributed in turn.
#[derive(Clone)]
pub(crate) struct Homes {
    loops: Arc<[Remote]>,
    next: Arc<AtomicUsize>,
}

impl Homes {
    /// # Errors
    /// [`ErrorKind::Usage`] without any loop.
    pub(crate) fn new(loops: &[Remote]) -> Result<Self, Error> {
        if loops.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "an export needs at least one loop"));
        }
        Ok(Self { loops: loops.into(), next: Arc::default() })
    }

    /// The loop that listens.
    pub(crate) fn first(&self) -> &Remote {
        &self.loops[0]
    }

    /// The loop of the next connection, which is not registered with any loop yet.
    pub(crate) fn next(&self) -> &Remote {
        &self.loops[self.next.fetch_add(1, Ordering::Relaxed) % self.loops.len()]
    }
}
