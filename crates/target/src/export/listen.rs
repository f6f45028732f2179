//! Listens, and distributes connections over the loops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::error::is_out_of_descriptors;
use weft_block::{Error, ErrorKind};
use weft_connection::refusals::Refusals;
use weft_io::accept::{Accept, Acceptor};
use weft_io::rdma::QueuePair;
use weft_io::{DriverId, Handle, RemoteLoop, Stream};

/// The listeners of one export, each with the URL of its configuration and the place at which
/// clients reach it. Dropping this closes them.
pub(crate) struct Listeners<P>(Lock<Vec<Listener<P>>>);

struct Listener<P> {
    url: String,
    place: P,
    open: Open,
}

/// A port that is listened at. Dropping this closes it.
pub(crate) struct Open {
    remote: RemoteLoop,
    driver: DriverId,
}

impl<P> Default for Listeners<P> {
    fn default() -> Self {
        Self(Lock::default())
    }
}

impl<P: Clone> Listeners<P> {
    /// Keeps a port open until it is removed.
    pub(crate) fn add(&self, url: &str, place: P, open: Open) {
        self.0.lock().push(Listener { url: url.to_owned(), place, open });
    }

    /// Closes the port of a URL; its connections stay. Whether there was one.
    pub(crate) fn remove(&self, url: &str) -> bool {
        let mut list = self.0.lock();
        let at = list.iter().position(|listener| listener.url == url);
        at.map(|at| list.remove(at)).is_some()
    }

    /// Where clients reach the export, in the order in which the ports were opened.
    pub(crate) fn places(&self) -> Vec<P> {
        self.0.lock().iter().map(|listener| listener.place.clone()).collect()
    }

    /// Stops accepting. Does not wait.
    pub(crate) fn close(&self) {
        self.0.lock().iter().for_each(|listener| listener.open.close());
    }
}

impl Open {
    /// Listens at `at` on the loop of `on`; port 0 picks a free port. `accepted` receives each
    /// connection, on that loop and not registered with it. Returns the listen address.
    pub(crate) fn tcp(
        on: &Handle,
        at: SocketAddr,
        accepted: impl FnMut(&Handle, Box<dyn Stream>) + 'static,
    ) -> Result<(SocketAddr, Self), Error> {
        let listener = on.listen(at).map_err(|e| cannot(&at.to_string(), e))?;
        let address = listener.local().parse().unwrap_or(at);
        Ok((address, Self::on(on, listener, &at.to_string(), accepted)?))
    }

    /// Like [`Open::tcp`], for queue pairs.
    pub(crate) fn rdma(
        on: &Handle,
        at: SocketAddr,
        accepted: impl FnMut(&Handle, Box<dyn QueuePair>) + 'static,
    ) -> Result<(SocketAddr, Self), Error> {
        let listener = on.listen_rdma(at).map_err(|e| cannot(&at.to_string(), e))?;
        let address = listener.local().parse().unwrap_or(at);
        Ok((address, Self::on(on, listener, &at.to_string(), accepted)?))
    }

    /// Like [`Open::tcp`], at the path of a Unix socket.
    #[cfg(unix)]
    pub(crate) fn unix(
        on: &Handle,
        at: &std::path::Path,
        accepted: impl FnMut(&Handle, Box<dyn Stream>) + 'static,
    ) -> Result<Self, Error> {
        let name = at.display().to_string();
        let cannot_here = |e: std::io::Error| {
            let hint = match e.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "; another program listens there, or left the socket: choose another path or remove it"
                }
                _ => "",
            };
            Error::io(format!("cannot listen at {name}: {e}{hint}"), e)
        };
        let brings = weft_io::socket_file::Brings::Bytes;
        let listener =
            weft_io::unix::UnixAcceptor::listen(at, None, brings).map_err(cannot_here)?;
        Self::on(on, Box::new(listener) as Box<dyn weft_io::Listener>, &name, accepted)
    }

    /// Not supported on systems without Unix sockets.
    #[cfg(not(unix))]
    pub(crate) fn unix(
        _: &Handle,
        at: &std::path::Path,
        _: impl FnMut(&Handle, Box<dyn Stream>) + 'static,
    ) -> Result<Self, Error> {
        Err(Error::new(
            ErrorKind::Unsupported,
            format!("cannot listen at {}: this system has no Unix sockets", at.display()),
        ))
    }

    /// Has a listener of any kind accept.
    pub(crate) fn on<L: Accept>(
        on: &Handle,
        listener: L,
        at: &str,
        accepted: impl FnMut(&Handle, L::Accepted) + 'static,
    ) -> Result<Self, Error> {
        // Peers that connect and disconnect at the limit can cause this as often as they like.
        let (lines, name) = (Refusals::default(), at.to_owned());
        let trouble = move |on: &Handle, e: &std::io::Error, pause: Duration| {
            let pause = pause.as_millis();
            let hint =
                if is_out_of_descriptors(e) { " (raise the limit of open files)" } else { "" };
            let name = &name;
            lines.log(on.now().since_epoch(), || {
                format!(
                    "cannot accept connections at {name}: {e}; trying again in {pause} ms{hint}"
                )
            });
        };
        let driver = Acceptor::spawn(on, listener, accepted, trouble).map_err(|e| cannot(at, e))?;
        Ok(Self { remote: on.remote(), driver })
    }

    /// What has a listener look whether it may accept.
    #[cfg(target_os = "linux")]
    pub(crate) fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let (remote, driver) = (self.remote.clone(), self.driver);
        move || remote.wake(driver)
    }

    /// Stops accepting. Does not wait.
    fn close(&self) {
        let driver = self.driver;
        self.remote.post(move |on| on.remove(driver));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.close();
    }
}

/// Why listening at `at` failed, and what to do.
fn cannot(at: &str, e: std::io::Error) -> Error {
    let hint = match e.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another program uses this port: choose another one, or 0 for a free one"
        }
        std::io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need privileges: choose a higher one"
        }
        std::io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    };
    Error::io(format!("cannot listen at {at}: {e}{hint}"), e)
}

/// The loops over which independent connections are distributed in turn.
#[derive(Clone)]
pub(crate) struct Homes {
    loops: Arc<[RemoteLoop]>,
    next: Arc<AtomicUsize>,
}

impl Homes {
    /// # Errors
    /// [`ErrorKind::Usage`] without any loop.
    pub(crate) fn new(loops: &[RemoteLoop]) -> Result<Self, Error> {
        if loops.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "an export needs at least one loop"));
        }
        Ok(Self { loops: loops.into(), next: Arc::default() })
    }

    /// The loop that listens.
    pub(crate) fn first(&self) -> &RemoteLoop {
        &self.loops[0]
    }

    /// The loop of the next connection, which is not registered with any loop yet.
    pub(crate) fn next(&self) -> &RemoteLoop {
        &self.loops[self.next.fetch_add(1, Ordering::Relaxed) % self.loops.len()]
    }
}
