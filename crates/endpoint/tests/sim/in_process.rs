//! Hosts in this process, on virtual time: what a server does for all hosts, without a network.

use crate::devices::Testing;
use crate::sim::host_limits::start;
use crate::sim::scene::run_ops;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::limit::Limit;
use weft_block::time_limit::limited;
use weft_block::{Device, Op, OpKind, OpenOptions, StatusKind, open};
use weft_endpoint::export::Export;
use weft_endpoint::export::in_process::InProcess;
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_io::sim::World;
use weft_io::{Handle, LoopConfig};
use weft_proto::nvme::types::{Id128, Nqn, Nsid};

const S: Duration = Duration::from_secs(1);
const WRITE: OpKind = OpKind::Write { fua: false };

fn nqn(name: &str) -> Nqn {
    Nqn::new(&format!("nqn.2026-01.example:{name}")).unwrap()
}

/// A device, on a loop with so much memory.
struct Stage {
    world: World,
    on: Handle,
    inventory: Arc<LiveInventory>,
    export: InProcess,
}

impl Stage {
    fn new(device: Device, pool_bytes: usize) -> Self {
        let mut world = World::new(1);
        let host = world.host("10.0.0.1");
        let on = world.add_loop(host, &LoopConfig { pool_bytes, ..LoopConfig::default() });
        let on = world.handle(on);
        let subsystem = SubsystemConfig::new(nqn("served"));
        let inventory = LiveInventory::of_devices(subsystem, vec![device]).unwrap();
        let export = InProcess::start(&inventory);
        Self { world, on, inventory, export }
    }

    fn open(&self, by: &str) -> Device {
        let host = HostIdentity { nqn: nqn(by), id: Id128([by.len() as u8; 16]) };
        self.export.open(host, &nqn("served"), Nsid(1)).unwrap()
    }

    fn load(&self, by: &str, kind: OpKind, bytes: u32, depth: u64) -> Rc<Cell<u64>> {
        start(&self.on, &self.open(by), kind, bytes, depth)
    }
}

fn local(url: &str) -> Device {
    open(url, &OpenOptions::default()).unwrap()
}

#[test]
fn a_host_has_its_limit_and_others_have_none() {
    let mut stage = Stage::new(local("delay:read=1ms,ram:64MiB"), 64 << 20);
    let limits = [(nqn("limited").to_string(), Limit { operations: 1000, bytes: 0 })];
    stage.inventory.change(|to| to.limit_hosts(limits).map(drop)).unwrap();
    let limited = stage.load("limited", OpKind::Read, 4096, 16);
    let other = stage.load("other", OpKind::Read, 4096, 16);
    stage.world.run_for(S / 2);
    assert!((450..=540).contains(&limited.get()), "{}", limited.get());
    assert!(other.get() > 4000, "{}", other.get());
}

/// The callers themselves have taken all memory of the loop: one command at a time goes on all the
/// same, and all come to their turn.
#[test]
fn commands_wait_for_memory_and_go_on() {
    let mut stage = Stage::new(local("delay:write=1ms,ram:64MiB"), 8 << 20);
    let loads = ["one", "second"].map(|by| stage.load(by, WRITE, 1 << 20, 4));
    stage.world.run_for(S);
    for load in loads {
        assert!(load.get() > 50, "{}", load.get());
    }
}

/// The command ends in time, with its memory; its connection ends when the device has let go.
#[test]
fn an_overdue_operation_is_waited_for_at_the_end_alone() {
    let testing = Testing::new("ram:16MiB");
    let knobs = Arc::clone(&testing.knobs);
    let mut stage = Stage::new(limited(testing, S), 64 << 20);
    knobs.freeze(true);
    let device = stage.open("host");
    let buf = stage.on.pool().take(512).unwrap();
    let op = Op::new(WRITE, 0, 1, 1, [buf.into()].into_iter().collect());
    let done = run_ops(&mut stage.world, &stage.on, &*device, vec![op]);
    assert_eq!(done[0].outcome.status().kind, StatusKind::TimedOut);
    assert_eq!(done[0].op.data.len(), 1, "with its memory");
    drop(done);
    stage.export.drain();
    stage.export.close();
    stage.world.run_for(5 * S);
    assert_eq!(stage.export.connections(), 1, "the device has the write yet");
    knobs.freeze(false);
    stage.world.run_for(5 * S);
    assert_eq!((stage.export.connections(), stage.export.draining()), (0, 0));
    assert_eq!(stage.on.pool().taken_bytes(), 0);
}
