//! Starts and stops exports of any protocol. All serve the same devices; those with a network have
//! their own ways to listen.

use super::hosts::ConnectedHost;
use super::running::{Export, ExportConfig, ListeningExport, stop_all};
#[cfg(target_os = "linux")]
use super::{fuse, ublk, vhost_user};
use super::{iscsi, nbd, nvme};
use crate::inventory::{Inventory, InventoryBuilder, InventoryError};
use std::net::SocketAddr;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind};
use weft_connection::capture::Capture;
use weft_connection::tls::TlsFiles;
use weft_connection::url::nbd::NBD_SCHEMES;
#[cfg(target_os = "linux")]
use weft_connection::url::{FUSE, UBLK, VHOST_USER};
use weft_connection::url::{ISCSI, NVME_SCHEMES};
use weft_io::RemoteLoop;

/// A protocol with a network, as [`start`] knows it.
struct Protocol {
    /// The prefix of its URLs.
    schemes: &'static [&'static str],
    /// Checks the text of a URL to listen at.
    check: fn(&str) -> Result<(), Error>,
    /// The TCP address of a URL to listen at, if it has one, which may be looked up; loads its
    /// certificates, too.
    place: fn(&str, &TlsFiles) -> Result<Option<SocketAddr>, Error>,
    /// Starts one export that listens nowhere yet.
    start: Start,
}

type Start =
    fn(config: &ExportConfig, loops: &[RemoteLoop]) -> Result<Box<dyn ListeningExport>, Error>;

/// All protocols that are listened to: those with a network, and disks of this system and of its
/// virtual machines.
const PROTOCOLS: &[Protocol] = &[
    Protocol { schemes: &NVME_SCHEMES, check: nvme::check, place: nvme::place, start: nvme::start },
    Protocol { schemes: &[ISCSI], check: iscsi::check, place: iscsi::place, start: iscsi::start },
    Protocol { schemes: &NBD_SCHEMES, check: nbd::check, place: nbd::place, start: nbd::start },
    #[cfg(target_os = "linux")]
    Protocol { schemes: &[UBLK], check: ublk::check, place: ublk::place, start: ublk::start },
    #[cfg(target_os = "linux")]
    Protocol { schemes: &[FUSE], check: fuse::check, place: fuse::place, start: fuse::start },
    #[cfg(target_os = "linux")]
    Protocol {
        schemes: &[VHOST_USER],
        check: vhost_user::check,
        place: vhost_user::place,
        start: vhost_user::start,
    },
];

/// The protocol of a URL.
fn protocol_of(url: &str) -> Result<usize, Error> {
    let speaks =
        |protocol: &Protocol| protocol.schemes.iter().any(|scheme| url.starts_with(scheme));
    PROTOCOLS.iter().position(speaks).ok_or_else(|| {
        let known: Vec<&str> =
            PROTOCOLS.iter().flat_map(|protocol| protocol.schemes).copied().collect();
        Error::new(
            ErrorKind::Usage,
            format!(
                "\"{url}\" is not an address to listen on: it must start with {}",
                known.join(" or ")
            ),
        )
    })
}

/// Checks that exports can listen at a URL, as far as its text shows.
///
/// # Errors
/// [`ErrorKind::Usage`] if it is not a URL to listen at.
pub fn check_listen(url: &str) -> Result<(), Error> {
    (PROTOCOLS[protocol_of(url)?].check)(url)
}

/// Returns the TCP address at which a URL makes a server listen; none for a Unix socket or RDMA.
/// Looks up names, and loads what TLS needs.
///
/// # Errors
/// [`ErrorKind::Usage`] if it is not a URL to listen at, or needs a certificate that is not named;
/// otherwise what makes listening impossible.
pub fn listen_address(url: &str, tls: &TlsFiles) -> Result<Option<SocketAddr>, Error> {
    (PROTOCOLS[protocol_of(url)?].place)(url, tls)
}

/// Exports that serve the same devices.
pub struct Exports {
    config: ExportConfig,
    loops: Vec<RemoteLoop>,
    /// By the number of their protocol.
    listening: Lock<Vec<(usize, Arc<dyn ListeningExport>)>>,
    /// Those that have no network.
    local: Lock<Vec<Arc<dyn Export>>>,
    /// Held during a change of the listeners.
    changing: Lock<()>,
    /// Captures their connections.
    capture: Lock<Option<Capture>>,
}

/// Listens at all of `urls`, of any protocols. Connections are distributed over `loops`. A device
/// with a limited number of queues is shared by all connections ([`weft_block::sharing`]).
///
/// # Errors
/// [`ErrorKind::Usage`] for an invalid URL; otherwise the error of listening. Nothing listens then.
pub fn start(
    config: &ExportConfig,
    urls: &[String],
    loops: &[RemoteLoop],
) -> Result<Exports, Error> {
    start_captured(config, urls, loops, None)
}

/// Like [`start`]; a capture shows what passes on the connections from the beginning.
///
/// # Errors
/// As those of [`start`].
pub fn start_captured(
    config: &ExportConfig,
    urls: &[String],
    loops: &[RemoteLoop],
    capture: Option<Capture>,
) -> Result<Exports, Error> {
    urls.iter().try_for_each(|url| protocol_of(url).map(drop))?;
    config.inventory.share_on(loops);
    let exports = Exports {
        config: config.clone(),
        loops: loops.to_vec(),
        listening: Lock::default(),
        local: Lock::default(),
        changing: Lock::default(),
        capture: Lock::new(capture),
    };
    // Exports that already listen end when they are dropped.
    urls.iter().try_for_each(|url| exports.listen(url))?;
    Ok(exports)
}

/// URLs at which is listened no longer when this is dropped: until a change is made those that it
/// adds, then those that it removes.
struct Closing<'a> {
    of: &'a Exports,
    urls: Vec<String>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.urls.iter().for_each(|url| self.of.unlisten(url));
    }
}

impl Exports {
    /// Those that listen, in the order of the protocols.
    fn listening(&self) -> Vec<Arc<dyn ListeningExport>> {
        self.listening.lock().iter().map(|(_, export)| Arc::clone(export)).collect()
    }

    /// All exports: those that listen, in the order of the protocols, then the others.
    fn each(&self) -> Vec<Arc<dyn Export>> {
        let listening = self.listening().into_iter().map(|export| export as Arc<dyn Export>);
        listening.chain(self.local.lock().iter().cloned()).collect()
    }

    /// Adds an export of the same inventory that does not listen: it ends with the others.
    pub fn add(&self, export: Arc<dyn Export>) {
        self.local.lock().push(export);
    }

    /// Listens at one more URL. An export of its protocol starts with its first URL, and stays.
    fn listen(&self, url: &str) -> Result<(), Error> {
        let protocol = protocol_of(url)?;
        let mut listening = self.listening.lock();
        if let Some((_, export)) = listening.iter().find(|(of, _)| *of == protocol) {
            return export.listen(url);
        }
        let export: Arc<dyn ListeningExport> =
            (PROTOCOLS[protocol].start)(&self.config, &self.loops)?.into();
        if let Some(capture) = &*self.capture.lock() {
            export.capture(capture);
        }
        export.listen(url)?;
        listening.push((protocol, export));
        listening.sort_by_key(|(of, _)| *of);
        Ok(())
    }

    /// Stops listening at a URL. Connections that came through it stay.
    fn unlisten(&self, url: &str) {
        self.listening().iter().for_each(|export| _ = export.unlisten(url));
    }

    /// One change of the inventory, together with its listen addresses: listens at all that `edit`
    /// adds to them, and no more at those that it removes. Connections stay.
    ///
    /// # Errors
    /// The builder's error, or that of listening. All is as before then.
    pub fn change(
        &self,
        edit: impl Fn(&mut InventoryBuilder) -> Result<(), InventoryError>,
    ) -> Result<Arc<Inventory>, Error> {
        self.change_if(edit, || Ok(()))
    }

    /// Like [`Exports::change`]. `agree` is called when everything that can fail has been done, and
    /// may refuse the change.
    ///
    /// # Errors
    /// Those of [`Exports::change`], and that of `agree`. After `agree`, only if a device changes
    /// at the same moment so that what `edit` asks for is impossible.
    pub fn change_if<E: From<Error>>(
        &self,
        edit: impl Fn(&mut InventoryBuilder) -> Result<(), InventoryError>,
        agree: impl FnOnce() -> Result<(), E>,
    ) -> Result<Arc<Inventory>, E> {
        let _one_at_a_time = self.changing.lock();
        let mut agree = Some(agree);
        let mut closing = Closing { of: self, urls: Vec::new() };
        let missing = |of: &Inventory, than: &Inventory| -> Vec<String> {
            of.listeners().iter().filter(|url| !than.listeners().contains(url)).cloned().collect()
        };
        loop {
            let before = self.config.inventory.now();
            let next = self.config.inventory.prepare(&before, &edit).map_err(Error::from)?;
            for url in missing(&next, &before) {
                if !closing.urls.contains(&url) {
                    self.listen(&url)?;
                    closing.urls.push(url);
                }
            }
            agree.take().map_or(Ok(()), |agree| agree())?;
            let removed = missing(&before, &next);
            // A device may have changed in the meantime: then the next value begins with that.
            if let Some(now) = self.config.inventory.swap(&before, next) {
                closing.urls = removed;
                return Ok(now);
            }
        }
    }

    /// Checks that a capture can begin.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while another one shows the connections.
    pub fn may_capture(&self) -> Result<(), Error> {
        let present = self.capture.lock();
        let Some(other) = present.as_ref().filter(|other| other.is_running()) else {
            return Ok(());
        };
        let path = other.path().display();
        let text = format!("traffic is captured to {path} already; wait for its end, or end it");
        Err(Error::new(ErrorKind::InUse, text))
    }

    /// Has a capture show what passes on the connections of all exports, from now on.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while another one does.
    pub fn capture(&self, capture: &Capture) -> Result<(), Error> {
        self.may_capture()?;
        *self.capture.lock() = Some(capture.clone());
        self.listening().iter().for_each(|export| export.capture(capture));
        Ok(())
    }

    /// The hosts that are connected, and what they use, of all exports.
    pub fn hosts(&self) -> Vec<ConnectedHost> {
        self.each().iter().flat_map(|export| export.hosts()).collect()
    }

    /// The URLs at which clients reach what is served, of all exports that listen.
    pub fn urls(&self) -> Vec<String> {
        self.listening().iter().flat_map(|export| export.urls()).collect()
    }

    /// Commands that attach what is served on a host, one of each export that has one: the
    /// operating system, and the command.
    pub fn attach_hints(&self) -> Vec<(&'static str, String)> {
        self.listening().iter().filter_map(|export| export.attach_hint()).collect()
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.each().iter().map(|export| export.connections()).sum()
    }

    /// Tells hosts that what is served is no longer reached here. Before [`Exports::stop`], unless
    /// another process takes over.
    pub fn withdraw(&self) {
        self.each().iter().for_each(|export| export.withdraw());
    }

    /// Closes all connections, as soon as no device holds any of their operations. Does not wait.
    /// Hosts may come back at once.
    pub fn disconnect(&self) {
        self.each().iter().for_each(|export| export.close());
    }

    /// Stops all: accepts no more connections or commands, lets commands in flight end (for a
    /// bounded time), closes, and flushes.
    pub fn stop(&self) -> Result<(), Error> {
        let each = self.each();
        let each: Vec<&dyn Export> = each.iter().map(AsRef::as_ref).collect();
        stop_all(&each, &self.config.inventory.now().devices())
    }
}
