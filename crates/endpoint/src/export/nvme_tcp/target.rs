//! Starting and stopping a target.

use super::transport::{link, port};
use crate::export::listen::Listeners;
use crate::export::reach::reachable;
use crate::export::serving::{Export, ExportConfig, stop_all};
use crate::inventory::LiveInventory;
use crate::loops::ask;
use crate::nvme::target::TargetLimits;
use crate::nvme::target::connection::Connection;
use crate::nvme::target::shared::Shared;
use crate::url::{HostPort, NVME_TCP_PORT, NvmeTcpUrl};
use std::net::SocketAddr;
use std::sync::Arc;
use weft_block::{Error, ErrorKind};
use weft_io::{Handle, Remote, Stream};
use weft_proto::nvme::types::Nqn;

/// What to serve.
pub struct TargetConfig {
    /// Subsystems, namespaces, and access. `listen` says where to listen.
    pub inventory: Arc<LiveInventory>,
    /// Addresses to listen on; port 0 picks a free port.
    pub listen: Vec<SocketAddr>,
}

/// A running target.
pub struct Target {
    shared: Arc<Shared>,
    listeners: Listeners,
    addresses: Vec<SocketAddr>,
}

impl Target {
    /// Starts to listen; connections are distributed over `loops`.
    pub fn start(config: TargetConfig, loops: &[Remote]) -> Result<Self, Error> {
        Self::start_limited(config, TargetLimits::default(), loops)
    }

    /// Like [`Target::start`], with other limits.
    pub fn start_limited(config: TargetConfig, limits: TargetLimits, loops: &[Remote]) -> Result<Self, Error> {
        let first = loops.first().ok_or_else(|| Error::new(ErrorKind::Usage, "a target needs at least one loop"))?;
        let loops = loops.to_vec();
        ask(first, move |on| Self::start_on(on, config, limits, loops))?
    }

    /// Like [`Target::start_limited`], for a caller on the loop that is to listen.
    pub fn start_on(on: &Handle, config: TargetConfig, limits: TargetLimits, loops: Vec<Remote>) -> Result<Self, Error> {
        let shared = Shared::new(config.inventory, limits, on.pool().cap_bytes(), loops);
        let mut target = Self { shared, listeners: Listeners::default(), addresses: Vec::new() };
        for at in config.listen {
            let shared = Arc::clone(&target.shared);
            let address = target.listeners.tcp(on, at, move |on, stream| accept(on, stream, &shared))?;
            // A wildcard address is useless in discovery: a host gets the address at which it connected.
            if !address.ip().is_unspecified() {
                target.shared.port(&port(address));
            }
            target.addresses.push(address);
        }
        Ok(target)
    }

    /// The listen addresses, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.shared.members.open()
    }

    /// Stops the target: accepts no more connections or commands, lets commands in flight end (for a bounded time), closes, and
    /// flushes.
    pub fn stop(self) -> Result<(), Error> {
        stop_all(&[&self], &self.shared.inventory.now().devices())
    }

    /// The first half of [`Target::stop`]: accepts no more connections or commands; lets commands in flight end. Does not wait.
    pub fn drain(&self) {
        self.listeners.close();
        self.shared.members.drain();
    }

    /// The second half of [`Target::stop`]: closes every connection as soon as no device holds any of its operations. Does not
    /// wait.
    pub fn close(&self) {
        self.shared.members.stop();
    }

    /// Connected I/O queues.
    pub fn io_queues(&self) -> usize {
        self.shared.members.serving()
    }
}

fn accept(on: &Handle, stream: Box<dyn Stream>, shared: &Arc<Shared>) {
    let Ok(local) = stream.local().parse() else { return };
    let port = shared.port(&port(local));
    Connection::accept(on, link(stream, shared.limits.handshake), shared, port);
}

/// Starts a target at `nvme+tcp://` URLs.
pub(in crate::export) fn start(config: &ExportConfig, urls: &[&str], loops: &[Remote]) -> Result<Box<dyn Export>, Error> {
    let listen = urls.iter().map(|url| address(url)).collect::<Result<_, _>>()?;
    let config = TargetConfig { inventory: Arc::clone(&config.inventory), listen };
    Ok(Box::new(Target::start(config, loops)?))
}

/// The address of a listen URL.
fn address(url: &str) -> Result<SocketAddr, Error> {
    let parsed = NvmeTcpUrl::parse(url, NVME_TCP_PORT)?;
    if parsed.subsystem.is_some() {
        let text =
            format!("--listen \"{url}\" contains a subsystem NQN; set it with --nqn, because all ports serve the same subsystem");
        return Err(Error::new(ErrorKind::Usage, text));
    }
    parsed.address.resolve_first()
}

/// A URL at which a subsystem is reached.
fn url(address: SocketAddr, nqn: &Nqn) -> String {
    let address = reachable(address);
    let address = HostPort { host: address.ip().to_string(), port: address.port() };
    NvmeTcpUrl { address, subsystem: Some(nqn.clone()), nsid: None }.to_string()
}

/// Quotes a name for a shell.
fn word(nqn: &Nqn) -> String {
    let is_plain = nqn.as_str().bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:@".contains(&b));
    if is_plain { nqn.to_string() } else { format!("'{}'", nqn.to_string().replace('\'', r"'\''")) }
}

impl Export for Target {
    fn urls(&self) -> Vec<String> {
        let inventory = self.shared.inventory.now();
        let names = || inventory.subsystems().iter().map(|subsystem| &subsystem.nqn);
        self.addresses.iter().flat_map(|address| names().map(move |nqn| url(*address, nqn))).collect()
    }

    fn attach_hint(&self) -> Option<(&'static str, String)> {
        let inventory = self.shared.inventory.now();
        let (address, nqn) = (reachable(*self.addresses.first()?), &inventory.subsystems().first()?.nqn);
        Some(("Linux", format!("nvme connect -t tcp -a {} -s {} -n {}", address.ip(), address.port(), word(nqn))))
    }

    fn connections(&self) -> usize {
        Self::connections(self)
    }

    fn drain(&self) {
        Self::drain(self);
    }

    fn draining(&self) -> usize {
        self.io_queues()
    }

    fn close(&self) {
        Self::close(self);
    }
}
