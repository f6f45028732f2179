//! Starts and stops exports of any protocol. All serve the same devices; each has its own way to listen.

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

/// Configuration of exports of any protocol.
#[derive(Clone)]
pub struct ExportConfig {
    /// What to serve: NVMe subsystems; iSCSI logical units; NBD exports by name, the first also under the empty name. The URLs
    /// say where to listen.
    pub inventory: Arc<LiveInventory>,
    /// The settings of the iSCSI target.
    pub iscsi: iscsi::Settings,
    /// Certificates, for listen addresses with TLS.
    pub tls: TlsFiles,
}

/// A running export. To stop it, call [`Export::drain`], wait, call [`Export::close`] and wait again: see [`stop_all`].
pub trait Export: Send {
    /// The URLs at which clients reach the export.
    fn urls(&self) -> Vec<String>;

    /// A command that attaches the first of them on a host, if there is one: the operating system, and the command.
    fn attach_hint(&self) -> Option<(&'static str, String)>;

    /// Open connections, in any state.
    fn connections(&self) -> usize;

    /// Accepts no more connections or commands; lets commands in flight end. Does not wait.
    fn drain(&self);

    /// Connections that, after [`Export::drain`], still have commands in flight or responses to send.
    fn draining(&self) -> usize;

    /// Closes every connection as soon as no device holds any of its operations. Does not wait.
    fn close(&self);
}

/// One protocol of [`start`].
struct Protocol {
    /// The prefix of its URLs.
    schemes: &'static [&'static str],
    /// Starts one export that listens at all of `urls`.
    start: Start,
}

type Start = fn(config: &ExportConfig, urls: &[&str], loops: &[Remote]) -> Result<Box<dyn Export>, Error>;

/// All protocols of exports.
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

/// Listens at all of `urls`, of any protocols. Connections are distributed over `loops`. A device with a limited number of queues
/// is shared by all connections ([`weft_block::sharing`]).
///
/// # Errors
/// [`ErrorKind::Usage`] for an invalid URL; otherwise the error of listening. Nothing listens then.
pub fn start(config: &ExportConfig, urls: &[String], loops: &[Remote]) -> Result<Exports, Error> {
    let mut of_protocol = [const { Vec::new() }; PROTOCOLS.len()];
    for url in urls {
        of_protocol[protocol_of(url)?].push(url.as_str());
    }
    config.inventory.share_on(loops);
    let mut exports = Exports { each: Vec::new(), inventory: Arc::clone(&config.inventory) };
    for (protocol, urls) in PROTOCOLS.iter().zip(&of_protocol).filter(|(_, urls)| !urls.is_empty()) {
        // Exports that already listen end when they are dropped.
        exports.each.push((protocol.start)(config, urls, loops)?);
    }
    Ok(exports)
}

impl Exports {
    /// Each export.
    pub fn each(&self) -> &[Box<dyn Export>] {
        &self.each
    }

    /// The URLs at which clients reach what is served, of all exports.
    pub fn urls(&self) -> Vec<String> {
        self.each.iter().flat_map(|export| export.urls()).collect()
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.each.iter().map(|export| export.connections()).sum()
    }

    /// Stops all: accepts no more connections or commands, lets commands in flight end (for a bounded time), closes, and flushes.
    pub fn stop(self) -> Result<(), Error> {
        let each: Vec<&dyn Export> = self.each.iter().map(AsRef::as_ref).collect();
        stop_all(&each, &self.inventory.now().devices())
    }
}

/// Stops exports in order, then flushes each of their devices, even if another fails, and returns the first error.
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
