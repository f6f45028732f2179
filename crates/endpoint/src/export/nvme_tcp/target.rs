//! Starting and stopping a target.

use super::connection::Connection;
use super::shared::Shared;
use crate::export::listen::Listeners;
use crate::export::serving::{Export, ExportConfig, stop_all};
use crate::identity::namespace_uuid;
use crate::limits::{CONNECTIONS_MAX, HANDSHAKE_S, POOL_PARTS, TRANSFER_BYTES_MAX};
use crate::loops::ask;
use crate::url::{NVME_TCP, NVME_TCP_PORT, NvmeTcpUrl};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockDevice, Error, ErrorKind};
use weft_io::limits::BUF_BYTES_MIN;
use weft_io::{Handle, Remote, Stream};
use weft_proto::nvme::controller::{ControllerKind, Namespace, Preferred, Subsystem, SubsystemConfig, Support};
use weft_proto::nvme::types::{Id128, Nqn, Nsid};

/// What to serve.
pub struct TargetConfig {
    /// Name of the subsystem.
    pub subsystem: Nqn,
    /// Hosts that may connect; `None`: all.
    pub allow_hosts: Option<Vec<Nqn>>,
    /// Namespaces 1, 2, …
    pub devices: Vec<Arc<dyn BlockDevice>>,
    /// Where to listen; port 0 picks a free port.
    pub listen: Vec<SocketAddr>,
}

/// Bounds that a target keeps to.
#[derive(Clone, Copy, Debug)]
pub struct TargetLimits {
    /// Connections; see [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// From accepting a connection to its Connect; see [`HANDSHAKE_S`].
    pub handshake: Duration,
}

impl Default for TargetLimits {
    fn default() -> Self {
        Self { connections: CONNECTIONS_MAX, handshake: Duration::from_secs(HANDSHAKE_S) }
    }
}

/// A running target.
pub struct Target {
    shared: Arc<Shared>,
    listeners: Listeners,
    addresses: Vec<SocketAddr>,
}

impl Target {
    /// Starts to listen; connections are spread over `loops`.
    pub fn start(config: TargetConfig, loops: &[Remote]) -> Result<Self, Error> {
        Self::start_limited(config, TargetLimits::default(), loops)
    }

    /// As [`Target::start`], within other bounds.
    pub fn start_limited(config: TargetConfig, limits: TargetLimits, loops: &[Remote]) -> Result<Self, Error> {
        let first = loops.first().ok_or_else(|| Error::new(ErrorKind::Usage, "a target needs at least one loop"))?;
        let loops = loops.to_vec();
        ask(first, move |on| Self::start_on(on, config, limits, loops))?
    }

    /// As [`Target::start_limited`], for a caller on the loop that is to listen.
    pub fn start_on(on: &Handle, config: TargetConfig, limits: TargetLimits, loops: Vec<Remote>) -> Result<Self, Error> {
        let shared = Arc::new(subsystems(&config, limits, on.pool().cap_bytes(), loops)?);
        let mut target = Self { shared, listeners: Listeners::default(), addresses: Vec::new() };
        for at in config.listen {
            let shared = Arc::clone(&target.shared);
            let address = target.listeners.tcp(on, at, move |on, stream| accept(on, stream, &shared))?;
            target.shared.add_listener(address);
            target.addresses.push(address);
        }
        Ok(target)
    }

    /// Where it listens, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.shared.seats.taken()
    }

    /// Takes no more connections or commands, lets those under way end (for a bounded time), closes, and makes durable what was
    /// written.
    pub fn stop(self) -> Result<(), Error> {
        stop_all(&[&self], &self.shared.devices)
    }

    /// The first half of [`Target::stop`]: takes no more connections or commands; lets those under way end. Does not wait.
    pub fn drain(&self) {
        self.listeners.close();
        self.shared.drain();
    }

    /// The second half of [`Target::stop`]: closes every connection as soon as no device holds anything of it. Does not wait.
    pub fn close(&self) {
        self.shared.stop();
    }

    /// I/O queues that are connected.
    pub fn io_queues(&self) -> usize {
        self.shared.io_queues()
    }
}

fn accept(on: &Handle, stream: Box<dyn Stream>, shared: &Arc<Shared>) {
    let Some(seat) = shared.seats.take(stream.as_ref()) else { return };
    let Ok(local) = stream.local().parse() else { return };
    let port = shared.port(local);
    if let Err(e) = Connection::accept(on, stream, shared, port, seat) {
        tracing::error!("cannot watch an accepted connection: {e}");
    }
}

/// Starts a target at `nvme+tcp://` URLs.
pub(in crate::export) fn start(config: &ExportConfig, urls: &[&str], loops: &[Remote]) -> Result<Box<dyn Export>, Error> {
    let listen = urls.iter().map(|url| address(url)).collect::<Result<_, _>>()?;
    let (subsystem, allow_hosts) = (config.subsystem.clone(), config.allow_hosts.clone());
    let config = TargetConfig { subsystem, allow_hosts, devices: config.bare_devices(), listen };
    Ok(Box::new(Target::start(config, loops)?))
}

/// The address that a URL to listen at means.
fn address(url: &str) -> Result<SocketAddr, Error> {
    let parsed = NvmeTcpUrl::parse(url, NVME_TCP_PORT)?;
    if parsed.subsystem.is_some() {
        let text = format!("--listen \"{url}\" names a subsystem; give that with --nqn, as all ports serve the same one");
        return Err(Error::new(ErrorKind::Usage, text));
    }
    parsed.address.resolve_first()
}

impl Export for Target {
    fn urls(&self) -> Vec<String> {
        let nqn = self.shared.subsystem_nqn();
        self.addresses.iter().map(|address| format!("{NVME_TCP}{address}/{nqn}")).collect()
    }

    fn attach_hint(&self) -> Option<(&'static str, String)> {
        let (address, nqn) = (self.addresses.first()?, self.shared.subsystem_nqn());
        Some(("Linux", format!("nvme connect -t tcp -a {} -s {} -n {nqn}", address.ip(), address.port())))
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

/// The largest transfer on loops whose pools hold so much.
fn transfer_bytes(pool_bytes: usize) -> u32 {
    let part = (pool_bytes / POOL_PARTS).clamp(BUF_BYTES_MIN, TRANSFER_BYTES_MAX as usize);
    1 << part.ilog2()
}

/// The NVM subsystem with its namespaces, and the discovery subsystem.
fn subsystems(config: &TargetConfig, limits: TargetLimits, pool_bytes: usize, loops: Vec<Remote>) -> Result<Shared, Error> {
    let now = Duration::ZERO;
    let mut nvm = SubsystemConfig::new(ControllerKind::Io, config.subsystem.clone());
    nvm.hosts.clone_from(&config.allow_hosts);
    nvm.serial = serial(&config.subsystem);
    nvm.transfer_bytes_max =
        config.devices.iter().map(|device| device.geometry().max_transfer_bytes).fold(transfer_bytes(pool_bytes), u32::min);
    let mut subsystem = Subsystem::new(now, nvm);
    for (nsid, device) in (1..).zip(&config.devices) {
        let added = subsystem.set_namespace(namespace(&config.subsystem, nsid, device.as_ref()));
        added.map_err(|e| Error::new(ErrorKind::Unsupported, format!("{}: cannot be namespace {nsid}: {e}", device.url())))?;
    }
    let discovery = Subsystem::new(now, SubsystemConfig::new(ControllerKind::Discovery, Nqn::discovery()));
    Ok(Shared::new(subsystem, discovery, config.devices.clone(), loops, limits))
}

/// A serial number that lasts as the name does: 16 hexadecimal digits.
fn serial(subsystem: &Nqn) -> String {
    namespace_uuid(subsystem, 0).simple().to_string()[..16].to_owned()
}

fn namespace(subsystem: &Nqn, nsid: u32, device: &dyn BlockDevice) -> Namespace {
    let (geometry, features) = (device.geometry(), device.features());
    let uuid = device.identity().uuid.unwrap_or_else(|| namespace_uuid(subsystem, nsid));
    let mut namespace = Namespace::new(Nsid(nsid), geometry.block_bytes, geometry.blocks, Id128(*uuid.as_bytes()));
    namespace.nguid = namespace.uuid;
    namespace.read_only = !features.write;
    namespace.support = Support {
        discard: features.discard,
        write_zeroes: features.write_zeroes,
        compare: features.compare,
        volatile_cache: features.volatile_cache,
        discarded_reads_zero: features.discard_zeroes,
    };
    namespace.atomic_power_fail_blocks = geometry.atomic_write_blocks;
    if features.compare {
        namespace.compare_write_blocks = geometry.atomic_write_blocks.max(1);
    }
    if geometry.optimal_blocks > 1 {
        namespace.preferred = Preferred {
            write_granularity: geometry.optimal_blocks,
            write_alignment: geometry.optimal_blocks,
            ..Preferred::default()
        };
    }
    namespace
}
