//! The export to virtual machines of this system: disks of virtio by vhost-user, on Unix sockets.
//!
//! * `url`: where a socket is, and which disk it has.
//! * `front_end`: the driver of a connection of a virtual machine monitor, on `incoming` (messages
//!   in pieces), `dispatch` (what each message does) and `gate` (one at a time).
//! * `device`: the device as the guest sees it, on `vring` (a queue) and `work` (requests).
//! * `guest`: the guest's memory, and the requests in it.
//! * `socket_record`: what the next process has to know if this one is killed.
//!
//! Data is copied once, between the guest's memory and memory that goes to the device. A connection
//! lives on one loop with all its queues. To the inventory, this system is a host like any other,
//! under the name that it has as a host of NVMe.

mod device;
mod dispatch;
mod front_end;
mod gate;
mod guest;
mod incoming;
mod socket_record;
#[cfg(test)]
mod tests;
mod url;
mod vring;
mod work;

use super::hosts::{ConnectedHost, HostProtocol};
use super::listen::{Homes, Listeners, Open};
use super::local::hosts::{LocalHosts, Opened};
use super::running::{Export, ExportConfig, ListeningExport};
use front_end::FrontEnd;
use gate::Gate;
use socket_record::SocketDiskRecord;
use std::net::SocketAddr;
use std::sync::Arc;
use url::VhostUserUrl;
use weft_block::{Error, ErrorKind};
use weft_connection::identity::HostIdentity;
use weft_connection::loops::ask;
use weft_connection::settle::LateWriters;
use weft_connection::tls::TlsFiles;
use weft_io::guest::messages::{MessageListener, MessageSocket};
use weft_io::{Handle, RemoteLoop};

/// The running export.
struct VhostUser {
    hosts: Arc<LocalHosts>,
    homes: Homes,
    late_writers: LateWriters,
    /// With the URLs.
    listeners: Listeners<String>,
}

/// Checks the text of a URL.
pub(super) fn check(url: &str) -> Result<(), Error> {
    VhostUserUrl::parse(url).map(drop)
}

/// A socket has no address in the network.
pub(super) fn place(url: &str, _: &TlsFiles) -> Result<Option<SocketAddr>, Error> {
    check(url).map(|()| None)
}

/// Starts an export that listens nowhere yet.
pub(super) fn start(
    config: &ExportConfig,
    loops: &[RemoteLoop],
) -> Result<Box<dyn ListeningExport>, Error> {
    let hosts = LocalHosts::start(HostProtocol::VhostUser, &config.inventory);
    let (homes, listeners) = (Homes::new(loops)?, Listeners::default());
    let late_writers = config.late_writers.clone();
    Ok(Box::new(VhostUser { hosts, homes, late_writers, listeners }))
}

/// The namespace that a URL asks for.
fn find(hosts: &LocalHosts, url: &VhostUserUrl, host: &HostIdentity) -> Result<Opened, Error> {
    let missing = || {
        let text = format!("{}: nothing is served that this socket could have", url.path.display());
        Error::new(ErrorKind::NotFound, text)
    };
    let (nqn, nsid) = hosts.chosen(url.nqn.as_ref(), url.nsid).ok_or_else(missing)?;
    hosts.find(host.clone(), &nqn, nsid)
}

/// Serves a connection on the loop whose turn it is.
fn accepted(
    socket: MessageSocket,
    homes: &Homes,
    hosts: &Arc<LocalHosts>,
    (url, host): (&VhostUserUrl, &HostIdentity),
    (gate, kept): (&Gate, &Option<Arc<SocketDiskRecord>>),
) {
    let name: Arc<str> = format!("vhost-user:{}", url.path.display()).into();
    let (hosts, gate, url, host) = (Arc::clone(hosts), gate.clone(), url.clone(), host.clone());
    let kept = kept.clone();
    homes.next().post(move |on| {
        let started = find(&hosts, &url, &host).and_then(|opened| {
            FrontEnd::start(
                on,
                socket,
                (&hosts, &Arc::new(opened)),
                (gate.clone(), kept, Arc::clone(&name)),
            )
        });
        if let Err(e) = started {
            let now = on.now().since_epoch();
            gate.refusals().log(now, || format!("{name}: connection refused: {e}"));
        }
    });
}

impl VhostUser {
    fn open(
        &self,
        on: &Handle,
        (url, host): (VhostUserUrl, HostIdentity),
        kept: Option<Arc<SocketDiskRecord>>,
    ) -> Result<Open, Error> {
        let name = url.path.display().to_string();
        let cannot = |e: std::io::Error| {
            let hint = match e.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "; another program listens there, or the file is not a socket: choose another path or remove it"
                }
                std::io::ErrorKind::NotFound => "; create its directory first",
                _ => "",
            };
            Error::io(format!("cannot listen at {name}: {e}{hint}"), e)
        };
        let listener = MessageListener::listen(&url.path, url.mode).map_err(cannot)?;
        let (homes, hosts) = (self.homes.clone(), Arc::clone(&self.hosts));
        let gate = Gate::default();
        let (listener, of_socket) = (gate.before(listener), gate.clone());
        let open = Open::on(on, listener, &name, move |_, socket| {
            accepted(socket, &homes, &hosts, (&url, &host), (&of_socket, &kept));
        })?;
        gate.wakes(open.waker());
        Ok(open)
    }
}

impl Export for VhostUser {
    fn hosts(&self) -> Vec<ConnectedHost> {
        self.hosts.connected()
    }

    fn connections(&self) -> usize {
        self.hosts.members.open()
    }

    fn drain(&self) {
        self.listeners.close();
        self.hosts.members.drain();
    }

    fn draining(&self) -> usize {
        self.hosts.members.serving()
    }

    fn close(&self) {
        self.hosts.members.stop();
    }
}

impl ListeningExport for VhostUser {
    fn listen(&self, text: &str) -> Result<(), Error> {
        let (url, host) = (VhostUserUrl::parse(text)?, HostIdentity::of_this_host()?);
        // What cannot be served now is said now.
        let opened = find(&self.hosts, &url, &host)?;
        let view = opened
            .view(&self.hosts.inventory.now())
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "the namespace is no longer there"))?;
        // A front end stands still while it is connected and not answered, so what a process before
        // this one has left is waited for before that.
        let kept = SocketDiskRecord::begin(&url.path, &view, &self.late_writers).map(Arc::new);
        let this = Self {
            hosts: Arc::clone(&self.hosts),
            homes: self.homes.clone(),
            late_writers: self.late_writers.clone(),
            listeners: Listeners::default(),
        };
        let of_socket = kept.clone();
        let open = ask(self.homes.first(), move |on| this.open(on, (url, host), of_socket))??;
        kept.iter().for_each(|kept| kept.serve());
        self.listeners.add(text, text.to_owned(), open);
        Ok(())
    }

    fn unlisten(&self, url: &str) -> bool {
        self.listeners.remove(url)
    }

    fn urls(&self) -> Vec<String> {
        self.listeners.places()
    }

    fn attach_hint(&self) -> Option<(&'static str, String)> {
        None
    }
}
