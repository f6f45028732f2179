//! A mirror of two legs, and a stripe of two members, each a disk of a target of its own: counted on
//! the loop that uses them, and on the one that is the mirror's home, which has nothing to do while
//! loops write by themselves.

use crate::sim::counts::measure::{
    BLOCK_BYTES, Cost, FEW_POINTS, Judge, Limit, Point, READ, WRITE, costs, like_the_loopback,
};
use crate::sim::counts::protocols::CALLS;
use crate::sim::protocols::{AnyScene, Protocol};
use crate::sim::scene::{NQN, Setup, options, run_ops};
use std::time::Duration;
use uuid::Uuid;
use weft_block::mirror::admin::{self, Holding};
use weft_block::{Device, Op, OpKind, OpenOptions};
use weft_endpoint::export::Export;
use weft_endpoint::export::nvme::TargetLimits;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_io::LoopConfig;
use weft_proto::nvme::types::Nqn;

const DISK_BYTES: u64 = 32 << 20;

/// Disks that a composite consists of.
const DISKS: f64 = 2.0;

/// What a loop that has nothing to do costs.
const NOTHING: Limit = Limit { calls: 0.0, copies: 0.0 };

/// How long a mirror needs until its loops write by themselves, and nothing else is to be done.
const SETTLED: Duration = Duration::from_secs(30);

/// What is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Composite {
    Mirror,
    Stripe,
}

/// Two targets with a disk each.
struct Two {
    scene: AnyScene,
    disks: [Device; 2],
    urls: [String; 2],
    _second: Box<dyn Export>,
}

impl Two {
    fn new() -> Self {
        let disk = format!("ram:{DISK_BYTES},block={BLOCK_BYTES}");
        let disks = [(); 2].map(|()| weft_block::open(&disk, &OpenOptions::default()).unwrap());
        let protocol = Protocol::NvmeTcp;
        let mut scene = protocol.scene(Setup::new(7, disks[0].clone()));
        like_the_loopback(&mut scene);
        let host = scene.world.host("10.0.0.2");
        let config = LoopConfig { spin: Duration::from_micros(2), ..LoopConfig::default() };
        let second = scene.world.add_loop(host, &config);
        let on = scene.world.handle(second);
        let nqn = format!("{NQN}-2");
        let subsystem = SubsystemConfig::new(Nqn::new(&nqn).unwrap());
        let inventory = LiveInventory::of_devices(subsystem, vec![disks[1].clone()]).unwrap();
        let address = "10.0.0.2:4420".parse().unwrap();
        let limits = TargetLimits::default();
        let _second = protocol.start(&on, inventory, limits, vec![on.remote()], address);
        let urls = [protocol.url(), protocol.url_at("10.0.0.2", 4420).replace(NQN, &nqn)];
        Self { scene, disks, urls, _second }
    }

    /// Gives the disks the labels of a mirror.
    fn label(&mut self) {
        let (uuid, on) = (Uuid::from_u128(9), self.scene.io_loop(0));
        let areas =
            admin::create(uuid, &[DISK_BYTES; 2], None, BLOCK_BYTES, 7, Holding::TheSame).unwrap();
        let (offset, bytes) = admin::area(DISK_BYTES).unwrap();
        for (disk, area) in self.disks.iter().zip(areas) {
            let mut data = on.pool().take(bytes).unwrap();
            data.copy_from_slice(&area);
            let (lba, blocks) = (offset / u64::from(BLOCK_BYTES), bytes as u32 / BLOCK_BYTES);
            let write = OpKind::Write { fua: true };
            let op = Op::new(write, lba, blocks, 0, [data.into()].into());
            let done = run_ops(&mut self.scene.world, &on, disk.as_ref(), vec![op]);
            assert!(done[0].outcome.is_success());
        }
    }

    fn open(&mut self, composite: Composite) -> Device {
        let [first, second] = &self.urls;
        let url = match composite {
            Composite::Mirror => format!("mirror:{first},{second}"),
            Composite::Stripe => format!("stripe:64KiB,{first},{second}"),
        };
        if composite == Composite::Mirror {
            self.label();
        }
        let options = ConnectOptions { paths: PathOptions::default(), ..options() };
        self.scene.open_url(&url, &options).unwrap()
    }
}

/// What an operation costs the loop that uses the composite, and the loop that holds control
/// connections and the mirror's home.
fn of_loops(composite: Composite, point: Point) -> [Cost; 2] {
    let mut two = Two::new();
    let device = two.open(composite);
    let (home, from) = (two.scene.client_loops[0], two.scene.client_loops[1]);
    if composite == Composite::Mirror {
        // The first write of a region has it marked, by the home.
        let on = two.scene.world.handle(from);
        let data = on.pool().take(BLOCK_BYTES as usize).unwrap();
        let op = Op::new(WRITE, 0, 1, 0, [data.into()].into());
        run_ops(&mut two.scene.world, &on, device.as_ref(), vec![op]);
        two.scene.world.run_for(SETTLED);
    }
    costs(&mut two.scene, from, device.as_ref(), point, [from, home])
}

fn judge(judge: &mut Judge, composite: Composite, point: Point, user: Limit, home: Limit) {
    let found = of_loops(composite, point);
    for ((at, found), limit) in ["user", "home"].into_iter().zip(found).zip([user, home]) {
        judge.judge(&format!("{composite:?}, {point:?}, {at}"), found, limit);
    }
}

#[test]
fn calls_and_copies_of_a_stripe_are_few() {
    let mut faults = Judge::default();
    for point in FEW_POINTS {
        // Short operations that lie side by side are on one member.
        let limit = Limit { calls: DISKS * point.calls(CALLS), copies: point.copies() };
        judge(&mut faults, Composite::Stripe, point, limit, NOTHING);
    }
    faults.end();
}

#[test]
fn calls_and_copies_of_a_mirror_are_few() {
    let mut faults = Judge::default();
    for point in FEW_POINTS {
        let of_write = Limit { calls: DISKS * point.calls(CALLS), copies: 1.0 };
        let of_read = Limit { calls: point.calls(CALLS), copies: point.copies() };
        let limit = if point.kind == READ { of_read } else { of_write };
        judge(&mut faults, Composite::Mirror, point, limit, NOTHING);
    }
    faults.end();
}

#[test]
fn counts_of_a_mirror_and_a_stripe_do_not_depend_on_the_run() {
    for composite in [Composite::Mirror, Composite::Stripe] {
        let point = Point::new(WRITE, 4, 32);
        assert_eq!(of_loops(composite, point), of_loops(composite, point), "{composite:?}");
    }
}
