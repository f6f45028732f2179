//! Starting and stopping a target.

use super::connection::Connection;
use super::shared::Shared;
use crate::disk::Disk;
use crate::identity::namespace_uuid;
use crate::limits::{CONNECTIONS_MAX, DRAIN_S, HANDSHAKE_S, POOL_PARTS, TRANSFER_BYTES_MAX};
use crate::loops::ask;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_block::{BlockDevice, Error, ErrorKind};
use weft_io::accept::Acceptor;
use weft_io::limits::BUF_BYTES_MIN;
use weft_io::{DriverId, Handle, Remote, Stream};
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
    listeners: Vec<(Remote, DriverId)>,
    addresses: Vec<SocketAddr>,
}

/// How long stopping waits between two looks.
const STEP: Duration = Duration::from_millis(2);

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
        let mut target = Self { shared, listeners: Vec::new(), addresses: Vec::new() };
        for at in config.listen {
            match listen(on, at, &target.shared) {
                Ok((driver, address)) => {
                    target.shared.add_listener(address);
                    target.listeners.push((on.remote(), driver));
                    target.addresses.push(address);
                }
                Err(e) => {
                    target.stop_listening();
                    return Err(e);
                }
            }
        }
        Ok(target)
    }

    /// Where it listens, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.shared.open_connections()
    }

    /// Takes no more connections or commands, lets those under way end (for a bounded time), closes, and makes durable what was
    /// written.
    pub fn stop(self) -> Result<(), Error> {
        self.drain();
        wait(Duration::from_secs(DRAIN_S), || self.shared.io_queues() == 0);
        self.close();
        wait(Duration::from_secs(1), || self.connections() == 0);
        let devices = self.shared.devices.iter().filter(|device| device.features().volatile_cache);
        let flush = |device| Disk::on(Arc::clone(device))?.flush_within(Duration::from_secs(DRAIN_S));
        // Each of them, whatever becomes of the others; then the first problem.
        devices.map(flush).collect::<Vec<_>>().into_iter().collect()
    }

    /// The first half of [`Target::stop`]: takes no more connections or commands; lets those under way end. Does not wait.
    pub fn drain(&self) {
        self.stop_listening();
        self.shared.drain();
    }

    /// The second half of [`Target::stop`]: closes every connection as soon as no device holds anything of it. Does not wait.
    pub fn close(&self) {
        self.shared.stop();
    }

    fn stop_listening(&self) {
        for (remote, driver) in &self.listeners {
            let driver = *driver;
            remote.post(move |on| on.remove(driver));
        }
    }

    /// I/O queues that are connected.
    pub fn io_queues(&self) -> usize {
        self.shared.io_queues()
    }
}

fn wait(limit: Duration, until: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !until() && Instant::now() < deadline {
        std::thread::sleep(STEP);
    }
}

fn listen(on: &Handle, at: SocketAddr, shared: &Arc<Shared>) -> Result<(DriverId, SocketAddr), Error> {
    let cannot = |e: std::io::Error| {
        let hint = match e.kind() {
            std::io::ErrorKind::AddrInUse => "; another program listens there: choose another port, or 0 for a free one",
            std::io::ErrorKind::PermissionDenied => "; ports below 1024 need privileges: choose a higher one",
            std::io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
            _ => "",
        };
        Error::io(format!("cannot listen at {at}: {e}{hint}"), e)
    };
    let listener = on.listen(at).map_err(cannot)?;
    let address = listener.local().parse().unwrap_or(at);
    let shared = Arc::clone(shared);
    let accepted = move |on: &Handle, stream: Box<dyn Stream>| accept(on, stream, &shared);
    let trouble = |_: &Handle, e: &std::io::Error, pause: Duration| {
        tracing::error!(
            "cannot accept connections: {e}; trying again in {} ms (raise the limit of open files?)",
            pause.as_millis()
        );
    };
    let driver = Acceptor::spawn(on, listener, accepted, trouble).map_err(cannot)?;
    Ok((driver, address))
}

fn accept(on: &Handle, stream: Box<dyn Stream>, shared: &Arc<Shared>) {
    let max = shared.limits.connections;
    if shared.open_connections() >= max {
        return tracing::warn!("{}: refused, {max} connections are open already", stream.peer());
    }
    let Ok(local) = stream.local().parse() else { return };
    let port = shared.port(local);
    if let Err(e) = Connection::accept(on, stream, shared, port) {
        tracing::error!("cannot watch an accepted connection: {e}");
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
