//! Starting and stopping exports of any protocol: all serve the same devices, each listens in its own way.

use super::{iscsi, nbd, nvme_tcp};
use crate::disk::Disk;
use crate::inventory::LiveInventory;
use crate::limits::{DRAIN_CLOSE_S, DRAIN_S, DRAIN_STEP_MS};
use crate::tls::TlsFiles;
use crate::url::nbd::NBD_SCHEMES;
use crate::url::{ISCSI, NVME_TCP};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_block::{BlockDevice, Error, ErrorKind};
use weft_io::Remote;

/// What exports of any protocol are told.
#[derive(Clone)]
pub struct ExportConfig {
    /// What to serve: NVMe subsystems, logical units of iSCSI, exports by name of NBD, the first of them also under the empty name. Where to
    /// listen is said by the URLs.
    pub inventory: Arc<LiveInventory>,
    /// What is said of the iSCSI target.
    pub iscsi: iscsi::Settings,
    /// Certificates, for places with TLS.
    pub tls: TlsFiles,
}

/// A running export. Stopping it takes [`Export::drain`], a wait, [`Export::close`] and another wait: see [`stop_all`].
pub trait Export: Send {
    /// The URLs by which a client reaches what is served.
    fn urls(&self) -> Vec<String>;

    /// A command that attaches the first of them to this or another host, if there is one: who from, and the command.
    fn attach_hint(&self) -> Option<(&'static str, String)>;

    /// Connections that are open, in whatever state.
    fn connections(&self) -> usize;

    /// Takes no more connections or commands; lets those under way end. Does not wait.
    fn drain(&self);

    /// Connections that, after [`Export::drain`], still have commands under way or answers to send.
    fn draining(&self) -> usize;

    /// Closes every connection as soon as no device holds anything of it. Does not wait.
    fn close(&self);
}

/// One protocol of [`start`].
struct Protocol {
    /// What its URLs start with.
    schemes: &'static [&'static str],
    /// Starts one export that listens at all of `urls`.
    start: Start,
}

type Start = fn(config: &ExportConfig, urls: &[&str], loops: &[Remote]) -> Result<Box<dyn Export>, Error>;

/// Every protocol that can be listened with.
const PROTOCOLS: [Protocol; 3] = [
    Protocol { schemes: &[NVME_TCP], start: nvme_tcp::start },
    Protocol { schemes: &[ISCSI], start: iscsi::start },
    Protocol { schemes: &NBD_SCHEMES, start: nbd::start },
];

/// The protocol of a URL.
fn protocol_of(url: &str) -> Result<usize, Error> {
    let speaks = |protocol: &Protocol| protocol.schemes.iter().any(|scheme| url.starts_with(scheme));
    PROTOCOLS.iter().position(speaks).ok_or_else(|| {
        let known: Vec<&str> = PROTOCOLS.iter().flat_map(|protocol| protocol.schemes).copied().collect();
        Error::new(
            ErrorKind::Usage,
            format!("\"{url}\" is not an address to listen on: it must start with {}", known.join(" or ")),
        )
    })
}

/// Exports that serve the same devices.
pub struct Exports {
    each: Vec<Box<dyn Export>>,
    inventory: Arc<LiveInventory>,
}

/// Listens at all of `urls`, of whatever protocols. Connections are spread over `loops`. A device that grants only so many queues is
/// shared by all connections ([`weft_block::sharing`]).
///
/// # Errors
/// [`ErrorKind::Usage`] for a URL that is wrong; otherwise what listening says. Then nothing listens.
pub fn start(config: &ExportConfig, urls: &[String], loops: &[Remote]) -> Result<Exports, Error> {
    let mut of_protocol = [const { Vec::new() }; PROTOCOLS.len()];
    for url in urls {
        of_protocol[protocol_of(url)?].push(url.as_str());
    }
    config.inventory.share_on(loops);
    let mut exports = Exports { each: Vec::new(), inventory: Arc::clone(&config.inventory) };
    for (protocol, urls) in PROTOCOLS.iter().zip(&of_protocol).filter(|(_, urls)| !urls.is_empty()) {
        // Those that listen already end when they are dropped.
        exports.each.push((protocol.start)(config, urls, loops)?);
    }
    Ok(exports)
}

impl Exports {
    /// Each export.
    pub fn each(&self) -> &[Box<dyn Export>] {
        &self.each
    }

    /// The URLs by which clients reach what is served, of all exports.
    pub fn urls(&self) -> Vec<String> {
        self.each.iter().flat_map(|export| export.urls()).collect()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.each.iter().map(|export| export.connections()).sum()
    }

    /// Takes no more connections or commands, lets those under way end (for a bounded time), closes, and makes durable what was
    /// written.
    pub fn stop(self) -> Result<(), Error> {
        let each: Vec<&dyn Export> = self.each.iter().map(AsRef::as_ref).collect();
        stop_all(&each, &self.inventory.now().devices())
    }
}

/// Stops exports in order; then flushes each of their devices, whatever becomes of the others, and gives the first problem.
pub fn stop_all(exports: &[&dyn Export], devices: &[Arc<dyn BlockDevice>]) -> Result<(), Error> {
    exports.iter().for_each(|export| export.drain());
    wait(Duration::from_secs(DRAIN_S), || exports.iter().all(|export| export.draining() == 0));
    exports.iter().for_each(|export| export.close());
    wait(Duration::from_secs(DRAIN_CLOSE_S), || exports.iter().all(|export| export.connections() == 0));
    let devices = devices.iter().filter(|device| device.features().volatile_cache);
    let flush = |device| Disk::on(Arc::clone(device))?.flush_within(Duration::from_secs(DRAIN_S));
    devices.map(flush).collect::<Vec<_>>().into_iter().collect()
}

fn wait(limit: Duration, until: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !until() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(DRAIN_STEP_MS));
    }
}
