//! One or two targets over the same blocks, and a host that uses them as one device.

use crate::devices::{Knobs, Testing};
use crate::sim::protocols::{AnyScene, Protocol, second_port};
use crate::sim::scene::{NQN, Setup, options, port};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::path::PathStatus;
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, DeviceChange, Error, Op, OpKind, OpenOptions,
    Outcome, Presence,
};
use weft_endpoint::export::Export;
use weft_endpoint::export::nvme::TargetLimits;
use weft_endpoint::inventory::{InventoryBuilder, LiveInventory, NamespaceConfig, SubsystemConfig};
use weft_endpoint::reservations::ReservationTable;
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_io::sim::Cut;
use weft_io::{Activity, Driver, DriverId, Handle, LoopConfig};
use weft_proto::nvme::types::{Nqn, Nsid};

pub const S: Duration = Duration::from_secs(1);
pub const MS: Duration = Duration::from_millis(1);
pub const BLOCK: usize = 512;
pub const WRITE: OpKind = OpKind::Write { fua: false };

/// The second target.
const SECOND: &str = "10.0.0.2:4420";

/// The options of a host whose data nobody else writes.
pub fn only_writer() -> PathOptions {
    PathOptions { only_writer: true, ..PathOptions::default() }
}

/// Submits what it is given, and keeps what it is told.
struct User {
    queue: Box<dyn BlockQueue>,
    ops: Rc<RefCell<VecDeque<Op>>>,
    cancels: Rc<RefCell<Vec<u64>>>,
    done: Rc<RefCell<Vec<Completion>>>,
    changes: Rc<RefCell<Vec<DeviceChange>>>,
}

impl Driver for User {
    fn work(&mut self, _: &Handle) -> Activity {
        self.queue.submit(&mut self.ops.borrow_mut());
        self.cancels.borrow_mut().drain(..).for_each(|user| self.queue.cancel(user));
        let before = self.done.borrow().len();
        self.queue.reap(&mut self.done.borrow_mut());
        while let Some(change) = self.queue.change() {
            self.changes.borrow_mut().push(change);
        }
        Activity::busy_if(self.done.borrow().len() > before)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.ops.borrow_mut().drain(..).for_each(Op::give_up);
    }
}

pub struct Client {
    driver: DriverId,
    ops: Rc<RefCell<VecDeque<Op>>>,
    done: Rc<RefCell<Vec<Completion>>>,
}

pub struct Rig {
    pub scene: AnyScene,
    pub protocol: Protocol,
    /// Those of the first target's device, and of the second's.
    pub knobs: Vec<Arc<Knobs>>,
    /// The device that both serve.
    pub store: Device,
    _second: Option<Box<dyn Export>>,
    pub device: Option<Device>,
    pub changes: Rc<RefCell<Vec<DeviceChange>>>,
    ops: Rc<RefCell<VecDeque<Op>>>,
    cancels: Rc<RefCell<Vec<u64>>>,
    done: Rc<RefCell<Vec<Completion>>>,
    driver: Option<DriverId>,
    names: u64,
}

/// A device of a target, and its knobs.
type Served = (Arc<dyn BlockDevice>, Option<Arc<Knobs>>);

fn inventory(device: Arc<dyn BlockDevice>) -> Arc<LiveInventory> {
    LiveInventory::of_devices(SubsystemConfig::new(Nqn::new(NQN).unwrap()), vec![device]).unwrap()
}

impl Rig {
    /// One target.
    pub fn new(protocol: Protocol, paths: PathOptions) -> Self {
        Self::with(protocol, ConnectOptions { paths, ..options() }, 1)
    }

    /// One target that serves this device.
    pub fn over(protocol: Protocol, paths: PathOptions, device: Arc<dyn BlockDevice>) -> Self {
        Self::over_with(protocol, ConnectOptions { paths, ..options() }, device)
    }

    /// The same, opened with these options.
    pub fn over_with(
        protocol: Protocol,
        options: ConnectOptions,
        device: Arc<dyn BlockDevice>,
    ) -> Self {
        let store = Arc::clone(&device);
        Self::of(protocol, options, store, vec![(device, None)])
    }

    /// `targets` targets over one store, the second of which is a path of its own.
    pub fn with(protocol: Protocol, options: ConnectOptions, targets: usize) -> Self {
        let store = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        let testing = |_| {
            let device = Testing::over(Arc::clone(&store));
            let knobs = Arc::clone(&device.knobs);
            (device as Arc<dyn BlockDevice>, Some(knobs))
        };
        let devices = (0..targets).map(testing).collect();
        Self::of(protocol, options, store, devices)
    }

    /// One iSCSI target with two ports, each of which is a path.
    pub fn two_ports(options: ConnectOptions) -> Self {
        let mut paths = options.paths.clone();
        paths.further.push(Protocol::Iscsi.url_at("target", second_port().port()));
        let rig = Self::with(Protocol::Iscsi, ConnectOptions { paths, ..options }, 1);
        assert_eq!(rig.paths().len(), 2);
        rig
    }

    fn of(
        protocol: Protocol,
        options: ConnectOptions,
        store: Device,
        devices: Vec<Served>,
    ) -> Self {
        let targets = devices.len();
        let (devices, knobs): (Vec<_>, Vec<_>) = devices.into_iter().unzip();
        let knobs = knobs.into_iter().flatten().collect();
        let has_second_port = !options.paths.further.is_empty();
        let mut scene =
            protocol.scene(Setup { has_second_port, ..Setup::new(1, Arc::clone(&devices[0])) });
        let second = devices.get(1).map(|device| {
            let host = scene.world.host("10.0.0.2");
            let on = scene
                .world
                .add_loop(host, &LoopConfig { spin: 2 * MS / 1000, ..LoopConfig::default() });
            let on = scene.world.handle(on);
            let address: SocketAddr = SECOND.parse().unwrap();
            protocol.start(
                &on,
                inventory(Arc::clone(device)),
                TargetLimits::default(),
                vec![on.remote()],
                address,
            )
        });
        let mut paths = options.paths.clone();
        if second.is_some() {
            paths.further.push(protocol.url_at("10.0.0.2", 4420));
        }
        let device = scene.open_url(&protocol.url(), &ConnectOptions { paths, ..options }).unwrap();
        let mut rig = Self {
            scene,
            protocol,
            knobs,
            store,
            _second: second,
            device: Some(device),
            changes: Rc::default(),
            ops: Rc::default(),
            cancels: Rc::default(),
            done: Rc::default(),
            driver: None,
            names: 0,
        };
        rig.use_it();
        if targets == 2 {
            assert!(rig.until(S, |rig| {
                rig.paths().iter().all(|path| path.state == weft_block::path::PathState::Live)
            }));
        }
        rig
    }

    pub fn use_it(&mut self) {
        let on = self.scene.io_loop(0);
        let device = Arc::clone(self.device.as_ref().unwrap());
        let (ops, cancels) = (Rc::clone(&self.ops), Rc::clone(&self.cancels));
        let (done, changes) = (Rc::clone(&self.done), Rc::clone(&self.changes));
        let user = |id| {
            Ok::<_, Error>(User { queue: device.open_queue(&on, id)?, ops, cancels, done, changes })
        };
        self.driver = Some(on.try_spawn(user).unwrap());
    }

    pub fn submit(&mut self, kind: OpKind, lba: u64, value: u8) -> u64 {
        let on = self.scene.io_loop(0);
        let mut op = Op::bare(kind, lba, u32::from(kind != OpKind::Flush), self.names);
        if kind.data_factor() > 0 {
            let mut data = on.pool().take(BLOCK * kind.data_factor()).unwrap();
            data.fill(value);
            op.data.push(data.into());
        }
        self.names += 1;
        self.ops.borrow_mut().push_back(op);
        on.wake(self.driver.unwrap());
        self.names - 1
    }

    pub fn write(&mut self, lba: u64, value: u8) -> u64 {
        self.submit(WRITE, lba, value)
    }

    pub fn read(&mut self, lba: u64) -> u64 {
        self.submit(OpKind::Read, lba, 0)
    }

    pub fn cancel(&mut self, user: u64) {
        self.cancels.borrow_mut().push(user);
        self.scene.io_loop(0).wake(self.driver.unwrap());
    }

    /// Operations that the queue has not taken yet.
    pub fn left(&self) -> usize {
        self.ops.borrow().len()
    }

    pub fn completions(&self) -> usize {
        self.done.borrow().len()
    }

    /// The outcome of an operation, if it has completed; it must have done so once.
    pub fn outcome(&self, name: u64) -> Option<Outcome> {
        let done = self.done.borrow();
        let mut mine = done.iter().filter(|completion| completion.op.user == name);
        let first = mine.next().map(|completion| completion.outcome);
        assert!(mine.next().is_none(), "operation {name} completed twice");
        first
    }

    /// Returns the first byte that a completed read has read.
    pub fn value(&self, name: u64) -> u8 {
        let done = self.done.borrow();
        let completion =
            done.iter().find(|completion| completion.op.user == name).expect("it has completed");
        assert_eq!(completion.outcome, Outcome::SUCCESS);
        completion.op.data[0][0]
    }

    pub fn until(&mut self, limit: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let end = self.scene.world.now() + limit;
        while !condition(self) {
            if self.scene.world.now() >= end {
                return false;
            }
            self.scene.world.run_for(MS);
        }
        true
    }

    /// Waits for an operation; how long it took.
    pub fn wait(&mut self, name: u64) -> (Outcome, Duration) {
        let start = self.scene.world.now();
        assert!(
            self.until(200 * S, |rig| rig.outcome(name).is_some()),
            "operation {name} does not complete"
        );
        (self.outcome(name).unwrap(), self.scene.world.now() - start)
    }

    pub fn succeed(&mut self, name: u64) -> Duration {
        let (outcome, took) = self.wait(name);
        assert_eq!(outcome, Outcome::SUCCESS);
        took
    }

    pub fn run_for(&mut self, span: Duration) {
        self.scene.world.run_for(span);
    }

    /// Cuts all connections of the first target.
    pub fn cut(&mut self, how: Cut) {
        self.cut_from(0, how);
    }

    /// Cuts all connections to a target.
    pub fn cut_from(&mut self, target: usize, how: Cut) {
        let address = [port(), SECOND.parse().unwrap()][target];
        for connection in self.scene.world.connections() {
            if connection.server == address {
                self.scene.world.cut(connection.id, how);
            }
        }
    }

    pub fn paths(&self) -> Vec<PathStatus> {
        self.device.as_ref().unwrap().paths()
    }

    pub fn presence(&self) -> Presence {
        self.device.as_ref().unwrap().presence()
    }

    /// Ends the first target's process, with whatever its connections had.
    pub fn kill_target(&mut self) {
        let host = self.scene.target_host;
        self.scene.world.kill(host);
    }

    /// Starts another one in its place.
    pub fn start_target(&mut self, device: Arc<dyn BlockDevice>) {
        self.start_target_at(port(), device);
    }

    /// Starts another one in its place, which knows these reservations.
    pub fn start_target_knowing(
        &mut self,
        device: Arc<dyn BlockDevice>,
        reservations: ReservationTable,
    ) {
        let nqn = Nqn::new(NQN).unwrap();
        let mut builder = InventoryBuilder::default();
        builder.add_subsystem(SubsystemConfig::new(nqn.clone())).unwrap();
        builder.add_namespace(&nqn, Nsid(1), NamespaceConfig::named(device, "1")).unwrap();
        self.start_serving(
            port(),
            LiveInventory::with_reservations(builder.build().unwrap(), reservations).unwrap(),
        );
    }

    /// Starts another one on the host of this address.
    pub fn start_target_at(&mut self, address: SocketAddr, device: Arc<dyn BlockDevice>) {
        self.start_serving(address, inventory(device));
    }

    fn start_serving(&mut self, address: SocketAddr, inventory: Arc<LiveInventory>) {
        let host = self.scene.world.host(&address.ip().to_string());
        let on = self
            .scene
            .world
            .add_loop(host, &LoopConfig { spin: 2 * MS / 1000, ..LoopConfig::default() });
        let on = self.scene.world.handle(on);
        self.scene.inventory = inventory;
        let serving = Arc::clone(&self.scene.inventory);
        let target =
            self.protocol.start(&on, serving, TargetLimits::default(), vec![on.remote()], address);
        drop(core::mem::replace(&mut self.scene.target, target));
    }

    /// Returns the first byte of a block of the store.
    pub fn stored(&mut self, lba: u64) -> u8 {
        let on = self.scene.io_loop(0);
        let data = on.pool().take(BLOCK).unwrap();
        let op = Op::new(OpKind::Read, lba, 1, 0, [data.into()].into());
        let done =
            crate::sim::scene::run_ops(&mut self.scene.world, &on, self.store.as_ref(), vec![op]);
        done[0].op.data[0][0]
    }

    pub fn stop(&mut self) {
        let on = self.scene.io_loop(0);
        on.remove(self.driver.take().unwrap());
        self.run_for(100 * MS);
    }

    pub fn client(&mut self, device: &Device) -> Client {
        let on = self.scene.io_loop(0);
        let (ops, done) =
            (Rc::<RefCell<VecDeque<Op>>>::default(), Rc::<RefCell<Vec<Completion>>>::default());
        let (given, ended) = (Rc::clone(&ops), Rc::clone(&done));
        let user = |id| {
            let queue = device.open_queue(&on, id)?;
            Ok::<_, Error>(User {
                queue,
                ops: given,
                cancels: Rc::default(),
                done: ended,
                changes: Rc::default(),
            })
        };
        Client { driver: on.try_spawn(user).unwrap(), ops, done }
    }

    pub fn ask(&mut self, client: &mut Client, kind: OpKind, lba: u64, value: u8) -> Outcome {
        let on = self.scene.io_loop(0);
        let mut op = Op::bare(kind, lba, u32::from(kind != OpKind::Flush), 0);
        if kind.data_factor() > 0 {
            let mut data = on.pool().take(BLOCK * kind.data_factor()).unwrap();
            data.fill(value);
            op.data.push(data.into());
        }
        client.ops.borrow_mut().push_back(op);
        on.wake(client.driver);
        let done = Rc::clone(&client.done);
        assert!(self.until(200 * S, |_| !done.borrow().is_empty()));
        done.borrow_mut().pop().unwrap().outcome
    }

    pub fn leave(&mut self, client: Client) {
        self.scene.io_loop(0).remove(client.driver);
    }

    pub fn reopen(&mut self) {
        let on = self.scene.io_loop(0);
        on.remove(self.driver.take().unwrap());
        self.run_for(100 * MS);
        self.use_it();
    }

    /// Drops the queue and the device.
    pub fn close(&mut self) {
        let on = self.scene.io_loop(0);
        on.remove(self.driver.take().unwrap());
        self.device = None;
        self.done.borrow_mut().clear();
    }
}
