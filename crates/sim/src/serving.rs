//! A host whose process serves something: a target with the store, or a gateway with what it has
//! opened itself.

use crate::config::{Config, SimProtocol};
use crate::every_run::control;
use crate::journal::SimJournal;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use weft_block::{BlockDevice, Device, Opening, Presence};
use weft_endpoint::export::nbd::{NbdLimits, NbdServer};
use weft_endpoint::export::{Export, iscsi, nvme};
use weft_endpoint::identity::Identities;
use weft_endpoint::inventory::{
    ControllerRange, Inventory, InventoryBuilder, InventoryError, LiveInventory, NamespaceConfig,
    Sharing, SubsystemConfig,
};
use weft_endpoint::reservations::ReservationTable;
use weft_endpoint::{ConnectOptions, Control};
use weft_io::sim::{HostId, LoopId, World};
use weft_io::{Handle, LoopConfig, RemoteLoop, Time};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Nqn, Nsid};

/// The subsystem that everybody serves.
pub const NQN: &str = "nqn.2026-01.example.weft:sim";
/// The iSCSI target that everybody serves.
pub const IQN: &str = "iqn.2026-01.example.weft:sim";

/// Controllers of each process, where several serve one subsystem.
const CONTROLLERS: u16 = 1000;

/// Pause before a gateway tries again to open what it serves.
const REOPEN: Duration = Duration::from_millis(300);

/// Contents of a process.
pub enum ServedContents {
    /// A device of its own, the same after each start.
    Own(Arc<dyn BlockDevice>),
    /// What these URLs name.
    Remote(Vec<String>, Box<ConnectOptions>),
}

/// What runs on the host.
enum Process {
    /// Nothing.
    Down,
    /// It waits before it opens what it serves.
    Waiting(Time),
    /// It opens what it serves.
    Opening(Pin<Box<Opening>>),
    /// It serves.
    Up(Running),
}

/// What lives as long as the process serves.
struct Running {
    exports: Vec<Box<dyn Export>>,
    inventory: Arc<LiveInventory>,
}

/// A host that serves.
pub struct ServingHost {
    /// For the journal.
    pub name: String,
    /// The host.
    pub host: HostId,
    /// Its address.
    pub at: SocketAddr,
    protocol: SimProtocol,
    /// Another protocol by which it serves the same, and where.
    also: Option<(SimProtocol, SocketAddr)>,
    range: ControllerRange,
    served: ServedContents,
    reservations: ReservationTable,
    /// What NVMe targets say (CQT).
    told: Duration,
    pool_bytes: usize,
    loop_count: usize,
    seed: u64,
    /// The loops of the process that runs now.
    pub loops: Vec<LoopId>,
    process: Process,
    starts: u64,
    control: Option<Control>,
}

impl ServingHost {
    /// A host at an address, where nothing runs yet.
    pub fn new(
        world: &mut World,
        name: &str,
        ip: &str,
        protocol: SimProtocol,
        served: ServedContents,
        config: &Config,
        seed: u64,
    ) -> Self {
        Self {
            name: name.to_owned(),
            host: world.host(ip),
            at: SocketAddr::new(ip.parse().expect("an address"), 4420),
            protocol,
            also: None,
            range: ControllerRange::default(),
            served,
            reservations: ReservationTable::volatile(),
            told: config.told(),
            pool_bytes: config.pool_bytes,
            loop_count: config.serving_loops,
            seed,
            loops: Vec::new(),
            process: Process::Down,
            starts: 0,
            control: None,
        }
    }

    /// Serves by another protocol as well, at the port behind.
    pub fn serve_also(&mut self, protocol: SimProtocol) {
        self.also = Some((protocol, SocketAddr::new(self.at.ip(), self.at.port() + 1)));
    }

    /// Returns the address for a protocol.
    pub fn place_of(&self, protocol: SimProtocol) -> SocketAddr {
        self.also.filter(|(also, _)| *also == protocol).map_or(self.at, |(_, at)| at)
    }

    /// Serves together with others, as the `n`th of them (`--shared`).
    pub fn share(&mut self, n: u16) {
        self.range = ControllerRange {
            cntlids: (n * CONTROLLERS + 1, (n + 1) * CONTROLLERS),
            sharing: Sharing::Blind,
        };
    }

    /// Serves as the `n`th gateway of a group, with the reservations that it is given before it
    /// starts.
    pub fn share_in_group(&mut self, n: u16) {
        self.share(n);
        self.range.sharing = Sharing::Group;
    }

    /// Has these reservations after the next start.
    pub fn reserve_in(&mut self, table: ReservationTable) {
        self.reservations = table;
    }

    /// Serves something else after the next start.
    pub fn serve_instead(&mut self, served: ServedContents) {
        self.served = served;
    }

    /// The URL by which initiators reach it.
    pub fn url(&self) -> String {
        let at = self.at;
        match self.protocol {
            SimProtocol::NvmeRdma => format!("nvme+rdma://{at}/{NQN}"),
            SimProtocol::NvmeTcp => format!("nvme+tcp://{at}/{NQN}"),
            SimProtocol::Iscsi => format!("iscsi://{at}/{IQN}/0"),
            SimProtocol::Nbd => format!("nbd://{at}/1"),
        }
    }

    /// Starts the process.
    pub fn start(&mut self, world: &mut World, journal: &SimJournal) {
        let config = LoopConfig {
            spin: Duration::from_micros(2),
            pool_bytes: self.pool_bytes,
            ..LoopConfig::default()
        };
        self.loops = (0..self.loop_count).map(|_| world.add_loop(self.host, &config)).collect();
        self.starts += 1;
        // The system has closed the descriptors of the process before.
        world.set_exhausted(self.host, false);
        journal.tell(&self.name, format_args!("starts"));
        if let ServedContents::Own(device) = &self.served {
            let device = Arc::clone(device);
            self.serve(world, device);
        } else {
            let on = world
                .add_loop(self.host, &LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() });
            self.control = Some(control(world, on, Identities::seeded(self.seed)));
            self.loops.push(on);
            self.open(journal);
        }
    }

    /// Returns whether a process runs, whatever it does.
    pub fn is_running(&self) -> bool {
        !matches!(self.process, Process::Down)
    }

    /// The process ends without ceremony. Peers hear of it from the system.
    pub fn kill(&mut self, world: &mut World, journal: &SimJournal) {
        journal.tell(&self.name, format_args!("is killed"));
        world.kill(self.host);
        self.ended();
    }

    /// The host loses its power. Peers hear nothing.
    pub fn lose_power(&mut self, world: &mut World, journal: &SimJournal) {
        journal.tell(&self.name, format_args!("loses its power"));
        world.crash(self.host);
        self.ended();
    }

    /// Nothing is left of the process.
    pub fn ended(&mut self) {
        self.process = Process::Down;
        self.reservations = ReservationTable::volatile();
        self.control = None;
        self.loops.clear();
    }

    fn open(&mut self, journal: &SimJournal) {
        let (ServedContents::Remote(urls, options), Some(control)) = (&self.served, &self.control)
        else {
            return;
        };
        let options = ConnectOptions { control: control.clone(), ..(**options).clone() };
        let url = &urls
            [if options.paths.further.is_empty() { self.starts as usize % urls.len() } else { 0 }];
        journal.tell(&self.name, format_args!("opens {url}"));
        let opening =
            weft_endpoint::begin(url, &options).unwrap_or_else(|e| Opening::ready(Err(e)));
        self.process = Process::Opening(Box::pin(opening));
    }

    fn serve(&mut self, world: &World, device: Device) {
        let on = world.handle(self.loops[0]);
        let remotes: Vec<RemoteLoop> =
            self.loops[..self.loop_count].iter().map(|&id| world.handle(id).remote()).collect();
        let nqn = Nqn::new(NQN).expect("a name");
        let is_own = matches!(self.served, ServedContents::Own(_));
        let device = if is_own { device } else { weft_block::sharing::share(device, &remotes) };
        let inventory = inventory(nqn, device, self.range).expect("one device");
        let inventory = LiveInventory::with_reservations(inventory, self.reservations.clone())
            .expect("they have been read");
        let both = [(self.protocol, self.at)].into_iter().chain(self.also);
        let exports = both.map(|(protocol, at)| {
            start(
                (protocol, at),
                &on,
                Arc::clone(&inventory),
                remotes.clone(),
                (self.seed, self.told),
            )
        });
        self.process = Process::Up(Running { exports: exports.collect(), inventory });
    }

    /// Looks after a process that opens what it serves.
    pub fn look_after(&mut self, world: &mut World, journal: &SimJournal) {
        match &mut self.process {
            Process::Opening(opening) => {
                match opening.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(device)) => {
                        journal.tell(&self.name, format_args!("serves {}", device.url()));
                        // A server that cannot listen ends, and is started again until it can.
                        world.set_exhausted(self.host, false);
                        self.serve(world, device);
                    }
                    Poll::Ready(Err(e)) => {
                        journal.tell(&self.name, format_args!("cannot open what it serves: {e}"));
                        (self.process, self.starts) =
                            (Process::Waiting(world.now() + REOPEN), self.starts + 1);
                    }
                }
            }
            Process::Waiting(until) if *until <= world.now() => self.open(journal),
            Process::Up(running)
                if running.inventory.now().namespaces().any(|it| it.presence == Presence::Gone) =>
            {
                journal.tell(&self.name, format_args!("has lost what it serves"));
                self.kill(world, journal);
                self.start(world, journal);
            }
            _ => {}
        }
    }

    /// Changes of what is served.
    pub fn inventory(&self) -> Option<&Arc<LiveInventory>> {
        match &self.process {
            Process::Up(running) => Some(&running.inventory),
            _ => None,
        }
    }

    /// How many listeners it has.
    fn listeners(&self) -> usize {
        // NVMe over RDMA comes with NVMe/TCP.
        1 + usize::from(self.also.is_some()) + usize::from(self.protocol == SimProtocol::NvmeRdma)
    }

    /// Returns a text with the remains of connections; `counts_drivers`: also drivers beyond those
    /// of the listeners.
    pub fn remains(&self, world: &World, counts_drivers: bool) -> Option<String> {
        let (connections, drivers, bytes) = self.left(world);
        let is_more = connections > 0 || counts_drivers && drivers > self.listeners() || bytes > 0;
        is_more.then(|| {
            format!(
                "{connections} connections, {drivers} drivers and {bytes} bytes of memory on {}",
                self.name
            )
        })
    }

    /// What is left of connections: their number, drivers and listeners, memory.
    fn left(&self, world: &World) -> (usize, usize, usize) {
        let Process::Up(running) = &self.process else { return (0, 0, 0) };
        let loops = || self.loops[..self.loop_count].iter().map(|&id| world.handle(id));
        let drivers = loops().map(|on| on.live_drivers()).sum::<usize>();
        (
            running.exports.iter().map(|export| export.connections()).sum(),
            drivers,
            loops().map(|on| on.pool().taken_bytes()).sum(),
        )
    }
}

/// One namespace, which NBD clients find by its number.
fn inventory(
    nqn: Nqn,
    device: Device,
    range: ControllerRange,
) -> Result<Inventory, InventoryError> {
    let mut builder = InventoryBuilder::default();
    builder.set_range(range)?.add_subsystem(SubsystemConfig::new(nqn.clone()))?;
    builder.add_namespace(&nqn, Nsid(1), NamespaceConfig::named(device, "1"))?;
    builder.build()
}

/// Serves by a protocol at an address. `quiesce`: what NVMe targets say.
fn start(
    (protocol, at): (SimProtocol, SocketAddr),
    on: &Handle,
    inventory: Arc<LiveInventory>,
    loops: Vec<RemoteLoop>,
    (seed, quiesce): (u64, Duration),
) -> Box<dyn Export> {
    match protocol {
        SimProtocol::NvmeTcp | SimProtocol::NvmeRdma => {
            // Each start has numbers of its own.
            let identities = Identities::seeded(seed ^ on.now().since_epoch().as_nanos() as u64);
            let config = nvme::TargetConfig {
                inventory,
                listen: vec![at],
                identities,
                tls: weft_endpoint::TlsFiles::default(),
            };
            let limits = nvme::TargetLimits { quiesce, ..nvme::TargetLimits::default() };
            let target = nvme::Target::start_on(on, config, limits, loops).expect("a free port");
            if protocol == SimProtocol::NvmeRdma {
                target.listen_on(on, &format!("nvme+rdma://{at}")).expect("a free port");
            }
            Box::new(target)
        }
        SimProtocol::Iscsi => {
            let name = Some(Name::new(IQN).expect("a name"));
            let settings = iscsi::Settings {
                name,
                identities: Identities::seeded(seed),
                ..iscsi::Settings::default()
            };
            let subsystem = Nqn::new(NQN).expect("a name");
            let config = iscsi::TargetConfig { settings, subsystem, inventory, listen: vec![at] };
            Box::new(
                iscsi::Target::start_on(on, config, iscsi::TargetLimits::default(), &loops)
                    .expect("a free port"),
            )
        }
        SimProtocol::Nbd => {
            let url = format!("nbd://{at}");
            Box::new(
                NbdServer::start_on(on, inventory, &[&url], NbdLimits::default(), &loops)
                    .expect("a free port"),
            )
        }
    }
}
