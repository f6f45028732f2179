//! A target host and a client host in one world.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use weft_block::{BlockDevice, BlockQueue, Completion, Device, DeviceChange, Error, Op, Pending};
use weft_endpoint::export::Export;
use weft_endpoint::export::nvme::{Target, TargetConfig, TargetLimits};
use weft_endpoint::identity::{HostIdentity, Identities};
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::source::nvme::tcp::{NvmeTcpDevice, begin};
use weft_endpoint::url::NvmeUrl;
use weft_endpoint::{ConnectOptions, Control, NameTable, Names, PathOptions};
use weft_io::sim::{HostId, LoopId, World};
use weft_io::{Activity, Driver, Handle, LoopConfig, RemoteLoop};
use weft_proto::nvme::types::{Id128, Nqn};

pub const PORT: &str = "10.0.0.1:4420";
pub const NQN: &str = "nqn.2026-01.example.weft:sim";

/// Setup of a scene.
pub struct Setup {
    pub seed: u64,
    pub target_loops: usize,
    pub client_loops: usize,
    pub target_pool_bytes: usize,
    pub devices: Vec<Arc<dyn BlockDevice>>,
    pub limits: TargetLimits,
    /// An iSCSI target has another port.
    pub has_second_port: bool,
}

impl Setup {
    pub fn new(seed: u64, device: Arc<dyn BlockDevice>) -> Self {
        // Targets whose CQT is 0: the quiesce time of the options stands in its place.
        let limits = TargetLimits { quiesce: Duration::ZERO, ..TargetLimits::default() };
        let (devices, target_pool_bytes) = (vec![device], 64 << 20);
        Self {
            seed,
            target_loops: 1,
            client_loops: 1,
            target_pool_bytes,
            devices,
            limits,
            has_second_port: false,
        }
    }
}

pub struct Scene<T = Target> {
    pub world: World,
    /// The names that the client knows.
    pub names: NameTable,
    /// The inventory that the target serves.
    pub inventory: Arc<LiveInventory>,
    pub target: T,
    pub target_host: HostId,
    pub target_loops: Vec<LoopId>,
    pub client_host: HostId,
    /// The first holds admin connections, the others I/O.
    pub client_loops: Vec<LoopId>,
    /// The control of the client host, on the first of its loops.
    pub control: Control,
}

pub fn port() -> SocketAddr {
    PORT.parse().unwrap()
}

pub fn url() -> NvmeUrl {
    NvmeUrl::parse(&format!("nvme+tcp://{PORT}/{NQN}")).unwrap()
}

pub fn host(name: &str) -> HostIdentity {
    HostIdentity {
        nqn: Nqn::new(&format!("nqn.2026-01.example.host:{name}")).unwrap(),
        id: Id128([7; 16]),
    }
}

/// Those of devices that end with their connections.
pub fn options() -> ConnectOptions {
    ConnectOptions {
        host: Some(host("sim")),
        paths: PathOptions::once(),
        ..ConnectOptions::default()
    }
}

type Opened = Result<Arc<NvmeTcpDevice>, Error>;

/// Questions of a scene to a target.
pub trait Connections {
    fn connections(&self) -> usize;
}

impl Connections for Target {
    fn connections(&self) -> usize {
        Self::connections(self)
    }
}

impl Connections for Box<dyn Export> {
    fn connections(&self) -> usize {
        self.as_ref().connections()
    }
}

impl Scene {
    pub fn new(setup: Setup) -> Self {
        Self::with(setup, |on, inventory, limits, remotes| {
            let config = TargetConfig {
                inventory,
                listen: vec![port()],
                identities: Identities::seeded(1),
                tls: weft_endpoint::TlsFiles::default(),
            };
            Target::start_on(on, config, limits, remotes).unwrap()
        })
    }

    /// Opens the namespace, however long that takes within twice the limit.
    pub fn open(&mut self, options: &ConnectOptions) -> Opened {
        let options = self.on_client(options);
        self.await_opened(begin(&url(), &options).unwrap(), &options)
    }
}

impl<T: Connections> Scene<T> {
    /// A scene with whatever target `start` starts.
    pub fn with(
        setup: Setup,
        start: impl FnOnce(&Handle, Arc<LiveInventory>, TargetLimits, Vec<RemoteLoop>) -> T,
    ) -> Self {
        let mut world = World::new(setup.seed);
        let (target_host, client_host) = (world.host("10.0.0.1"), world.host("10.0.1.1"));
        let idle = LoopConfig { spin: Duration::from_micros(2), ..LoopConfig::default() };
        let config = LoopConfig { pool_bytes: setup.target_pool_bytes, ..idle.clone() };
        let target_loops: Vec<_> =
            (0..setup.target_loops).map(|_| world.add_loop(target_host, &config)).collect();
        let client_loops = (0..=setup.client_loops)
            .map(|_| world.add_loop(client_host, &idle))
            .collect::<Vec<_>>();
        let remotes = target_loops.iter().map(|&l| world.handle(l).remote()).collect();
        let inventory =
            LiveInventory::of_devices(SubsystemConfig::new(Nqn::new(NQN).unwrap()), setup.devices)
                .unwrap();
        let target =
            start(&world.handle(target_loops[0]), Arc::clone(&inventory), setup.limits, remotes);
        let names = NameTable::from([("target".to_owned(), vec![port().ip()])]);
        let looks = Names::Table(names.clone());
        let control = Control::on(
            world.handle(client_loops[0]).remote(),
            looks,
            Identities::seeded(setup.seed),
        );
        Self {
            world,
            names,
            inventory,
            target,
            target_host,
            target_loops,
            client_host,
            client_loops,
            control,
        }
    }

    /// The options, with the control of the client host.
    pub fn on_client(&self, options: &ConnectOptions) -> ConnectOptions {
        ConnectOptions { control: self.control.clone(), ..options.clone() }
    }

    /// Opens what any URL names.
    pub fn open_url(&mut self, url: &str, options: &ConnectOptions) -> Result<Device, Error> {
        let options = self.on_client(options);
        self.await_opened(weft_endpoint::begin(url, &options).unwrap(), &options)
    }

    /// Lets time pass until something is open, or not; that may not take longer than the options
    /// say.
    pub fn await_opened<D: Send + 'static>(
        &mut self,
        pending: Pending<D>,
        options: &ConnectOptions,
    ) -> Result<D, Error> {
        let (mut pending, mut context) = (Box::pin(pending), Context::from_waker(Waker::noop()));
        let mut opened = None;
        let limit = options.connect_timeout + Duration::from_millis(100);
        let ended = self.world.run_until(
            |_| {
                if let Poll::Ready(outcome) = pending.as_mut().poll(&mut context) {
                    opened = Some(outcome);
                }
                opened.is_some()
            },
            limit,
        );
        assert!(ended, "opening does not end");
        opened.unwrap()
    }

    pub fn admin_loop(&self) -> Handle {
        self.world.handle(self.client_loops[0])
    }

    pub fn io_loop(&self, n: usize) -> Handle {
        self.world.handle(self.client_loops[1 + n])
    }

    /// Waits until nothing is left of any connection, no driver and no memory.
    pub fn settle(&mut self, limit: Duration) {
        let Self { world, target, target_loops, client_loops, .. } = self;
        let targets: Vec<_> = target_loops.iter().map(|&l| world.handle(l)).collect();
        let clients: Vec<_> = client_loops.iter().map(|&l| world.handle(l)).collect();
        let drivers = |loops: &[Handle]| loops.iter().map(Handle::live_drivers).sum::<usize>();
        let taken =
            |loops: &[Handle]| loops.iter().map(|on| on.pool().taken_bytes()).sum::<usize>();
        // One driver stays: the listener.
        let left = || {
            (
                target.connections(),
                drivers(&targets) - 1,
                drivers(&clients),
                taken(&targets),
                taken(&clients),
            )
        };
        let quiet = world.run_until(|_| left() == (0, 0, 0, 0, 0), limit);
        assert!(
            quiet,
            "connections, drivers of target and host, memory of target and host stay: {:?}",
            left()
        );
    }
}

/// Holds a queue, and notes the changes of the device that it receives.
pub struct Watcher {
    queue: Box<dyn BlockQueue>,
    told: Rc<RefCell<Vec<DeviceChange>>>,
}

impl Watcher {
    pub fn spawn(on: &Handle, device: &dyn BlockDevice) -> Rc<RefCell<Vec<DeviceChange>>> {
        let told = Rc::<RefCell<Vec<DeviceChange>>>::default();
        on.try_spawn(|id| {
            Ok::<_, Error>(Self { queue: device.open_queue(on, id)?, told: Rc::clone(&told) })
        })
        .unwrap();
        told
    }
}

impl Driver for Watcher {
    fn work(&mut self, _: &Handle) -> Activity {
        let before = self.told.borrow().len();
        while let Some(change) = self.queue.change() {
            self.told.borrow_mut().push(change);
        }
        Activity::busy_if(self.told.borrow().len() > before)
    }
}

/// Submits operations and waits for all of them, in the order in which they complete.
pub fn run_ops(
    world: &mut World,
    on: &Handle,
    device: &dyn BlockDevice,
    ops: Vec<Op>,
) -> Vec<Completion> {
    struct Once {
        queue: Box<dyn BlockQueue>,
        ops: VecDeque<Op>,
        done: Rc<RefCell<Vec<Completion>>>,
    }
    impl Driver for Once {
        fn work(&mut self, _: &Handle) -> Activity {
            self.queue.submit(&mut self.ops);
            let before = self.done.borrow().len();
            self.queue.reap(&mut self.done.borrow_mut());
            Activity::busy_if(self.done.borrow().len() > before)
        }
    }
    let (count, done) = (ops.len(), Rc::<RefCell<Vec<Completion>>>::default());
    let make = |id| {
        Ok::<_, Error>(Once {
            queue: device.open_queue(on, id)?,
            ops: ops.into(),
            done: Rc::clone(&done),
        })
    };
    let driver = on.try_spawn(make).unwrap();
    assert!(
        world.run_until(|_| done.borrow().len() == count, Duration::from_secs(600)),
        "{:?}",
        done.borrow()
    );
    on.remove(driver);
    done.take()
}
