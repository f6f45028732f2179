//! Verified I/O by every protocol on networks that are slow, ragged, and cut connections.

use crate::checker::{Checker, Ledger, Plan, Progress, SharedLedger};
use crate::devices::Testing;
use crate::sim::protocols::{AnyScene, PROTOCOLS, Protocol};
use crate::sim::scene::{Setup, options};
use crate::sim::seeds;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockDevice, ErrorKind};
use weft_endpoint::ConnectOptions;
use weft_io::sim::{Cut, NetConfig, Rng, Side};

/// Virtual time within which everything under way has ended, one way or another.
const LIMIT: Duration = Duration::from_secs(600);

const CUTS: [Cut; 5] = [
    Cut::Reset,
    Cut::Close,
    Cut::Silence,
    Cut::HalfOpen(Side::Client),
    Cut::HalfOpen(Side::Server),
];

/// The cuts that both ends hear of, whatever they do.
const HEARD_CUTS: [Cut; 2] = [Cut::Reset, Cut::Close];

/// A world, what was written in it, and chance.
struct Story {
    protocol: Protocol,
    scene: AnyScene,
    ledgers: Vec<SharedLedger>,
    options: ConnectOptions,
    rng: Rng,
}

impl Story {
    fn new(protocol: Protocol, seed: u64, net: impl FnOnce(&mut NetConfig)) -> Self {
        let mut rng = Rng::new(seed);
        let device = Testing::new(rng.pick::<&str>(&["ram:64MiB", "ram:64MiB,block=4096"]));
        if rng.one_in(2) {
            device.knobs.set_delay(Duration::from_nanos(rng.magnitude(3_000_000)));
        }
        device.knobs.honour_cancel(rng.one_in(2));
        // NBD cannot announce the blocks of a disk: its client takes them for the smallest that
        // there are, and the server puts together what is written of a longer one.
        let block_bytes =
            if protocol == Protocol::Nbd { 512 } else { device.geometry().block_bytes };
        let queues = rng.within(1, 3) as usize;
        let mut setup = Setup::new(seed, device);
        setup.target_loops = rng.within(1, 2) as usize;
        setup.client_loops = queues;
        let pool_bytes = *rng.pick(&[64 << 10, 1 << 20, 64 << 20]);
        setup.target_pool_bytes = pool_bytes as usize;
        let mut scene = protocol.scene(setup);
        scene.world.set_net(net);
        let slots = rng.magnitude(48) as u32;
        // A quarter of the pool is the largest transfer.
        let slot_blocks = rng.magnitude(64.min(pool_bytes / 4 / u64::from(block_bytes))) as u32;
        let ledger =
            |n| Ledger::new(n * u64::from(slots * slot_blocks), slots, slot_blocks, block_bytes);
        let options = ConnectOptions {
            nr_io_queues: queues as u16,
            queue_size: rng.within(2, 128) as u16,
            hdr_digest: rng.one_in(2),
            data_digest: rng.one_in(2),
            connect_timeout: Duration::from_secs(30),
            ..options()
        };
        Self { protocol, scene, ledgers: (0..queues as u64).map(ledger).collect(), options, rng }
    }

    /// One opening: opens, runs a plan on every queue, closes. Tells whether it went through
    /// without a loss.
    fn associate(&mut self, plan: Plan) -> bool {
        let device = match self.scene.open_url(&self.protocol.url(), &self.options) {
            Ok(device) => device,
            Err(e) => {
                let told =
                    [ErrorKind::TimedOut, ErrorKind::Refused, ErrorKind::Io, ErrorKind::Protocol];
                assert!(told.contains(&e.kind()), "{:?}: {e}", e.kind());
                return false;
            }
        };
        let runs = self.start(&device, plan);
        let over = |run: &Rc<RefCell<Progress>>| run.borrow().over;
        assert!(self.scene.world.run_until(|_| runs.iter().all(over), LIMIT), "{runs:?}");
        !runs.is_empty() && runs.iter().all(|run| !run.borrow().lost)
    }

    fn start(&mut self, device: &Arc<dyn BlockDevice>, plan: Plan) -> Vec<Rc<RefCell<Progress>>> {
        let Self { scene, ledgers, rng, .. } = self;
        let mut run = |(n, ledger)| {
            Checker::spawn(&scene.io_loop(n), device.as_ref(), ledger, plan, rng.fork())
        };
        ledgers.iter().enumerate().filter_map(|it| run(it).ok()).collect()
    }

    fn count(&self, of: impl Fn(&Ledger) -> u64) -> u64 {
        self.ledgers.iter().map(|ledger| of(&ledger.borrow())).sum()
    }
}

/// Runs a test for each protocol with its seeds; most of them for NVMe/TCP.
fn each(seeds_of_nvme: u64, test: impl Fn(Protocol, u64)) {
    for protocol in PROTOCOLS {
        let count = if protocol == Protocol::NvmeTcp { seeds_of_nvme } else { seeds_of_nvme / 2 };
        eprintln!("{protocol:?}");
        seeds(count).for_each(|seed| test(protocol, seed));
    }
}

#[test]
fn every_block_comes_back_whatever_the_network() {
    each(60, |protocol, seed| {
        let mut story = Story::new(protocol, seed, |_| ());
        assert!(story.associate(Plan::Chance(200)));
        assert_eq!(story.count(|l| l.failed + l.unknown + l.not_sent), 0);
        story.scene.settle(LIMIT);
        assert!(story.associate(Plan::Sweep));
        story.scene.settle(LIMIT);
    });
}

#[test]
fn cut_connections_lose_nothing_that_was_acknowledged() {
    let counts = Cell::new([0; 3]);
    each(120, |protocol, seed| {
        let mut story = Story::new(protocol, seed, |net| {
            net.cut_one_in = 2;
            net.cut_within_bytes = 300_000;
            // NBD has no message by which a server could find out that nobody is there any more.
            net.cuts = if protocol == Protocol::Nbd { HEARD_CUTS.to_vec() } else { CUTS.to_vec() };
        });
        let mut lost = 0;
        for _ in 0..4 {
            lost += u64::from(!story.associate(Plan::Chance(100)));
            // What an earlier association wrote late must not hit what a later one writes.
            story.scene.settle(LIMIT);
        }
        story.scene.world.set_net(|net| net.cut_one_in = 0);
        assert!(story.associate(Plan::Sweep), "a healed network serves");
        story.scene.settle(LIMIT);
        let [losses, unknown, not_sent] = counts.get();
        counts.set([
            losses + lost,
            unknown + story.count(|l| l.unknown),
            not_sent + story.count(|l| l.not_sent),
        ]);
    });
    let [lost, unknown, not_sent] = counts.get();
    eprintln!("{lost} devices lost, {unknown} operations unknown, {not_sent} not sent");
    assert!(std::env::var_os("WEFT_SEED").is_some() || lost > 50 && unknown > 50 && not_sent > 50);
}

#[test]
fn one_seed_is_one_history() {
    let run = |protocol, seed| {
        let mut story = Story::new(protocol, seed, |net| {
            net.cut_one_in = 3;
            net.cut_within_bytes = 200_000;
        });
        let whole = story.associate(Plan::Chance(100));
        (whole, story.scene.world.trace_hash(), story.scene.world.now())
    };
    each(10, |protocol, seed| assert_eq!(run(protocol, seed), run(protocol, seed)));
}
