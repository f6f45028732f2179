//! Waiting for overdue operations ends when they have come back, whoever has looked at them.

use super::super::session::Session;
use super::super::target_state::{TargetState, Verdict};
use crate::export::budget::Budget;
use crate::export::device_side::DeviceSide;
use crate::export::devices::OpenDevices;
use crate::export::dialect::Dialect;
use crate::inventory::{LiveInventory, SubsystemConfig};
use crate::reservations::PendingChange;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, Error, Features, Geometry, Op, OpKind,
    OpenOptions, Outcome, Status, StatusKind,
};
use weft_connection::identity::Identities;
use weft_io::sim::World;
use weft_io::{Activity, Driver, DriverId, Handle, LoopConfig, Segments};
use weft_proto::iscsi::pdu::Isid;
use weft_proto::iscsi::target::{IscsiTargetConfig, Login, Portals, SessionKind, TargetConnection};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::Nqn;

/// A device that completes writes at once as timed out and owes their memory for a while, and
/// flushes never.
struct Owing {
    ram: Device,
    owed: Arc<AtomicUsize>,
}

struct OwingQueue {
    owed: Arc<AtomicUsize>,
    done: Vec<Completion>,
    kept: Vec<Op>,
}

impl BlockDevice for Owing {
    fn url(&self) -> &str {
        self.ram.url()
    }

    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        self.ram.renew_size()
    }

    fn features(&self) -> Features {
        self.ram.features()
    }

    fn open_queue(&self, _: &Handle, _: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let owed = Arc::clone(&self.owed);
        Ok(Box::new(OwingQueue { owed, done: Vec::new(), kept: Vec::new() }))
    }
}

impl BlockQueue for OwingQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        for op in ops.drain(..) {
            if op.kind == OpKind::Flush {
                self.kept.push(op);
                continue;
            }
            self.owed.fetch_add(1, SeqCst);
            self.done.push(op.done(Outcome::unsettled(Status::new(StatusKind::TimedOut))));
        }
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }

    fn cancel(&mut self, _: u64) {}

    fn in_flight(&self) -> usize {
        self.kept.len() + self.done.len() + self.owed.load(SeqCst)
    }

    fn overdue(&mut self, _: &mut Vec<Segments>) -> usize {
        self.owed.load(SeqCst)
    }
}

impl Drop for OwingQueue {
    fn drop(&mut self) {
        self.kept.drain(..).for_each(Op::give_up);
    }
}

struct Nobody;

impl Driver for Nobody {
    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// A session of which a device owes an operation.
struct Stage {
    _world: World,
    on: Handle,
    session: Session,
    engine: TargetConnection,
    owed: Arc<AtomicUsize>,
}

impl Stage {
    fn new() -> Self {
        let mut world = World::new(1);
        let host = world.host("10.0.0.1");
        let on = world.add_loop(host, &LoopConfig::default());
        let on = world.handle(on);
        let owed = Arc::<AtomicUsize>::default();
        let ram = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        let device = Arc::new(Owing { ram, owed: Arc::clone(&owed) }) as Device;
        let nqn = Nqn::new("nqn.2026-01.example.weft:reset").unwrap();
        let subsystem = SubsystemConfig::new(nqn.clone());
        let inventory = LiveInventory::of_devices(subsystem, vec![device]).unwrap();
        let name = |text: &str| Name::new(text).unwrap();
        let config = IscsiTargetConfig::new(name("iqn.2026-01.example.weft:reset"));
        let identities = Identities::seeded(1);
        let state = TargetState::new(inventory, nqn, config, 10, identities, None, 1 << 20);
        let initiator = name("iqn.2026-01.example.host:reset");
        let (isid, kind) = (Isid::random([1; 3], 1), SessionKind::Normal);
        let login = Login { initiator, isid, tsih: 0, cid: 1, kind, user: None };
        let mailbox = Arc::default();
        let Verdict::Enter { nexus, view, .. } = state.enter(&login, 1, &mailbox, None) else {
            panic!("it is let in")
        };
        let portals = Portals::one("10.0.0.1:3260");
        let engine = TargetConnection::new(state.config(), portals, state.identities.random());
        let owner = on.spawn(|_| Nobody);
        let devices = OpenDevices::open(&view.devices, None, &on, owner).unwrap();
        let budget = Budget::new(&on, "10.0.0.2:1");
        let meter = state.meter(&login.initiator, "10.0.0.2:1", engine.tags(), &view);
        let side = DeviceSide::new(devices, engine.tags().into(), budget, meter);
        let session = Session::new(nexus, state, mailbox, side);
        let mut stage = Self { _world: world, on, session, engine, owed };
        stage.session.side.push(0, Op::bare(OpKind::Write { fua: false }, 0, 1, 0));
        for completion in stage.session.side.reap().unwrap() {
            assert!(stage.session.side.completed(&completion), "it is overdue");
        }
        stage
    }

    /// Another host preempts the reservation of this one; whether it waits tells the result.
    fn preempt(&mut self) -> Weak<PendingChange> {
        let pending = Arc::<PendingChange>::default();
        let waits = Arc::downgrade(&pending);
        self.session.preempted(&mut self.engine, pending);
        waits
    }

    fn work(&mut self) {
        self.session.work(&self.on, &mut self.engine);
    }

    /// The device gives the operation back.
    fn settle(&self) {
        self.owed.store(0, SeqCst);
    }
}

fn waits(pending: &Weak<PendingChange>) -> bool {
    pending.strong_count() > 0
}

#[test]
fn a_preemption_ends_although_another_one_has_looked_first() {
    let mut stage = Stage::new();
    let first = stage.preempt();
    stage.work();
    assert!(waits(&first), "the device has the operation yet");
    stage.settle();
    let second = stage.preempt();
    assert!(!waits(&second), "there is nothing to wait for any more");
    stage.work();
    assert!(!waits(&first), "nor is there for the first one");
}

#[test]
fn a_preemption_ends_while_other_operations_are_under_way() {
    let mut stage = Stage::new();
    stage.session.side.push(0, Op::bare(OpKind::Flush, 0, 0, 1));
    let pending = stage.preempt();
    stage.work();
    assert!(waits(&pending));
    stage.settle();
    assert!(!stage.session.is_quiet(), "a flush is under way");
    stage.work();
    assert!(!waits(&pending), "which nobody waits for");
    assert!(!stage.session.is_quiet());
}
