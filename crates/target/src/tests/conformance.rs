//! Tests that hold over every transport.

use super::checker::{Checker, Ledger, Plan, Progress, SharedLedger};
use super::place::{Messages, Rdma, Serving, Tcp, Transport, connect, open};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use weft_block::testing::conformance;
use weft_block::{BlockDevice, ErrorKind, OpenOptions};
use weft_connection::identity::Identities;
use weft_connection::loops::ask;
use weft_initiator::Control;
use weft_initiator::Names;
use weft_initiator::source::ConnectOptions;
use weft_initiator::source::nvme::device::NvmeDevice;
use weft_initiator::source::nvme::transport::OpenLink;
use weft_io::LoopConfig;
use weft_io::sim::{LoopId, RdmaCounts, Rng, World};
use weft_proto::limits::HANDSHAKE_S;
use weft_proto::nvme::identify::Cns;
use weft_proto::nvme::types::Nsid;

/// Virtual time within which everything has ended.
const LIMIT: Duration = Duration::from_secs(600);

fn local(url: &str) -> Arc<dyn BlockDevice> {
    weft_block::open(url, &OpenOptions::default()).unwrap()
}

/// On loops that take the machine's time, the contract of a block device.
fn is_a_block_device<T: Transport>(url: &'static str) {
    let stage = T::stage();
    let spread = stage.target.to_vec();
    let (place, kept) =
        ask(&stage.target[0], move |on| T::serve(on, spread, local(url), 1)).unwrap();
    let options = ConnectOptions { nr_io_queues: 4, queue_size: 32, ..stage.options.clone() };
    let device: Arc<dyn BlockDevice> = open::<T::Link>(place, &options).wait().unwrap();
    conformance(
        &device,
        weft_block::testing::TestPlan { rounds: 20, compare_blocks: 1, ..Default::default() },
    );
    drop((device, kept));
}

/// A session names what there is, runs admin commands, and says what is missing.
fn a_session_is_there_for_admin_commands<T: Transport>() {
    let stage = T::stage();
    let spread = stage.target[..1].to_vec();
    let (place, kept) =
        ask(&stage.target[0], move |on| T::serve(on, spread, local("ram:16MiB"), 1)).unwrap();
    let session = connect::<T::Link>(place, &stage.options).wait().unwrap();
    assert_eq!(session.namespaces().iter().map(|ns| ns.nsid).collect::<Vec<_>>(), [Nsid(1)]);
    let size = session.identify(Cns::NAMESPACE.0, Nsid(1)).unwrap();
    assert_eq!(u64::from_le_bytes(size[..8].try_into().unwrap()), (16 << 20) / 512);
    assert_eq!(session.identify(0xff, Nsid(1)).unwrap_err().kind(), ErrorKind::NotFound);
    let missing = session
        .device(Some(Nsid(9)), |nsid| nsid.to_string())
        .err()
        .expect("there is no such namespace");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    drop(kept);
}

/// A simulated target and host.
struct Scene<T: Transport> {
    world: World,
    target_loops: Vec<LoopId>,
    host_loops: Vec<LoopId>,
    place: <T::Link as OpenLink>::Place,
    target: Box<dyn Serving>,
}

impl<T: Transport> Scene<T> {
    fn new(seed: u64, pool_bytes: usize) -> Self {
        let mut world = World::new(seed);
        let (target_host, host) = (world.host("10.0.0.1"), world.host("10.0.1.1"));
        let config = LoopConfig { spin: Duration::from_micros(2), ..LoopConfig::default() };
        let small = LoopConfig { pool_bytes, ..config.clone() };
        let target_loops: Vec<_> = (0..2).map(|_| world.add_loop(target_host, &small)).collect();
        let host_loops = (0..3).map(|_| world.add_loop(host, &config)).collect();
        let remotes = target_loops.iter().map(|&on| world.handle(on).remote()).collect();
        let (place, target) =
            T::serve(&world.handle(target_loops[0]), remotes, local("ram:16MiB"), seed);
        Self { world, target_loops, host_loops, place, target }
    }

    fn open(&mut self, options: &ConnectOptions) -> Arc<NvmeDevice<T::Link>> {
        let remote = self.world.handle(self.host_loops[0]).remote();
        let control = Control::on(remote, Names::default(), Identities::seeded(1));
        let mut pending = pin!(open::<T::Link>(
            self.place.clone(),
            &ConnectOptions { control, ..options.clone() }
        ));
        let (mut context, mut opened) = (Context::from_waker(Waker::noop()), None);
        let ended = self.world.run_until(
            |_| {
                if let Poll::Ready(outcome) = pending.as_mut().poll(&mut context) {
                    opened = Some(outcome);
                }
                opened.is_some()
            },
            LIMIT,
        );
        assert!(ended, "opening does not end");
        opened.unwrap().unwrap()
    }

    fn start(
        &self,
        device: &NvmeDevice<T::Link>,
        ledgers: &[SharedLedger],
        plan: Plan,
        rng: &mut Rng,
    ) -> Vec<Rc<RefCell<Progress>>> {
        let run = |(n, ledger): (usize, &SharedLedger)| {
            Checker::spawn(
                &self.world.handle(self.host_loops[1 + n]),
                device,
                ledger,
                plan,
                rng.fork(),
            )
            .ok()
        };
        ledgers.iter().enumerate().filter_map(run).collect()
    }

    fn finish(&mut self, runs: &[Rc<RefCell<Progress>>]) {
        assert!(
            self.world.run_until(|_| runs.iter().all(|run| run.borrow().over), LIMIT),
            "{runs:?}"
        );
    }

    /// Nothing stays of any connection.
    fn settle(&mut self) {
        let loops = [&self.target_loops[..], &self.host_loops].concat();
        let on: Vec<_> = loops.iter().map(|&it| self.world.handle(it)).collect();
        let left = || on.iter().map(|on| on.pool().taken_bytes()).sum::<usize>();
        let drivers = || on.iter().map(|on| on.live_drivers()).sum::<usize>();
        // At most the listener stays.
        let quiet = self.world.run_until(|_| left() == 0 && drivers() <= 1, LIMIT);
        assert!(quiet, "{} bytes, {} drivers stay", left(), drivers());
    }
}

fn ledgers() -> Vec<SharedLedger> {
    (0..2).map(|n| Ledger::new(n * 1024, 24, 40, 512)).collect()
}

fn options(rng: &mut Rng) -> ConnectOptions {
    let (queue_size, rdma_shared_key) = (rng.within(2, 32) as u16, rng.one_in(3));
    ConnectOptions { nr_io_queues: 2, queue_size, rdma_shared_key, ..ConnectOptions::default() }
}

/// In a simulation, with much memory at the target and with little.
fn every_block_comes_back<T: Transport>() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let pool_bytes = *rng.pick(&[128 << 10, 16 << 20]);
        let mut scene = Scene::<T>::new(seed, pool_bytes as usize);
        let ledgers = ledgers();
        for plan in [Plan::Chance(300), Plan::Sweep] {
            let device = scene.open(&options(&mut rng));
            let runs = scene.start(&device, &ledgers, plan, &mut rng);
            scene.finish(&runs);
            assert!(runs.len() == 2 && runs.iter().all(|run| !run.borrow().lost), "seed {seed}");
            drop(device);
            scene.settle();
        }
    }
}

/// Connections are cut in the middle: what was acknowledged is there afterwards, and nothing stays
/// behind.
fn cut_connections_lose_nothing<T: Transport>() {
    let mut lost = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut scene = Scene::<T>::new(seed, 16 << 20);
        let ledgers = ledgers();
        for round in 0..3 {
            let device = scene.open(&options(&mut rng));
            let runs = scene.start(&device, &ledgers, Plan::Chance(200), &mut rng);
            scene.world.run_for(Duration::from_micros(rng.below(2_000)));
            if !T::cut(&scene.place, round * 3 + rng.below(3) as usize) {
                let open: Vec<_> = scene.world.connections().iter().map(|it| it.id).collect();
                scene.world.cut(*rng.pick(&open), weft_io::sim::Cut::Reset);
            }
            scene.finish(&runs);
            lost += runs.iter().filter(|run| run.borrow().lost).count();
            drop(device);
            scene.settle();
        }
        let device = scene.open(&options(&mut rng));
        let runs = scene.start(&device, &ledgers, Plan::Sweep, &mut rng);
        scene.finish(&runs);
        assert!(runs.len() == 2 && runs.iter().all(|run| !run.borrow().lost), "seed {seed}");
    }
    assert!(lost > 40, "{lost} queues lost something");
}

/// Who says nothing is let go when Connect is due, and not before.
fn a_silent_host_is_let_go<T: Transport>() {
    let mut scene = Scene::<T>::new(1, 16 << 20);
    let connection = T::connect(&scene.world.handle(scene.host_loops[0]), &scene.place);
    scene.world.run_for(Duration::from_secs(HANDSHAKE_S - 1));
    assert_eq!(scene.target.connections(), 1);
    scene.world.run_for(Duration::from_secs(2));
    assert_eq!(scene.target.connections(), 0);
    drop(connection);
    scene.settle();
}

/// A target that ends lets I/O queues finish what they have, and the admin queue goes after them;
/// who has not come in yet goes at once.
fn a_target_that_ends_finishes_what_it_has<T: Transport>() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut scene = Scene::<T>::new(seed, 16 << 20);
        let device = scene.open(&options(&mut rng));
        let silent = T::connect(&scene.world.handle(scene.host_loops[0]), &scene.place);
        let ledgers = ledgers();
        let runs = scene.start(&device, &ledgers, Plan::Chance(100_000), &mut rng);
        scene.world.run_for(Duration::from_micros(rng.below(2_000)));
        let open = scene.target.connections();
        assert!(open >= 3, "seed {seed}: {open} connections");
        scene.target.drain();
        // The admin queue may stay, for Aborts and Keep Alive.
        let left = scene
            .world
            .run_until(|_| scene.target.connections() <= 1, Duration::from_secs(HANDSHAKE_S / 2));
        assert!(left, "seed {seed}: {} connections stay", scene.target.connections());
        scene.target.close();
        scene.finish(&runs);
        assert!(scene.world.run_until(|_| scene.target.connections() == 0, LIMIT), "seed {seed}");
        drop((device, silent));
        scene.settle();
    }
}

macro_rules! over_each_transport {
    ($($name:ident: $transport:ty),*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn is_a_block_device() {
                super::is_a_block_device::<$transport>("ram:16MiB");
                super::is_a_block_device::<$transport>("ram:16MiB,block=4096");
            }

            #[test]
            fn a_session_is_there_for_admin_commands() {
                super::a_session_is_there_for_admin_commands::<$transport>();
            }

            #[test]
            fn every_block_comes_back() {
                super::every_block_comes_back::<$transport>();
            }

            #[test]
            fn cut_connections_lose_nothing() {
                super::cut_connections_lose_nothing::<$transport>();
            }

            #[test]
            fn a_silent_host_is_let_go() {
                super::a_silent_host_is_let_go::<$transport>();
            }

            #[test]
            fn a_target_that_ends_finishes_what_it_has() {
                super::a_target_that_ends_finishes_what_it_has::<$transport>();
            }
        }
    )*};
}

over_each_transport!(tcp: Tcp, messages: Messages, rdma: Rdma);

/// Both ends keep their credits: no SEND ever finds no receive. And what waits for memory gets it.
#[test]
fn every_send_finds_a_receive() {
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let mut scene = Scene::<Rdma>::new(seed, 16 << 20);
        scene.world.set_rdma(|rdma| (rdma.has_windows, rdma.no_memory_one_in) = (seed % 2 == 0, 4));
        let device = scene.open(&ConnectOptions {
            nr_io_queues: 2,
            queue_size: 32,
            ..ConnectOptions::default()
        });
        let runs = scene.start(&device, &ledgers(), Plan::Chance(500), &mut rng);
        scene.finish(&runs);
        assert!(runs.iter().all(|run| !run.borrow().lost), "seed {seed}");
        let RdmaCounts { not_ready, no_memory, lent } = scene.world.rdma_counts();
        assert!(
            not_ready == 0 && no_memory > 10,
            "seed {seed}: {not_ready} SENDs found no receive, {no_memory} no memory"
        );
        assert!(lent > 10, "seed {seed}: {lent} results were sent from where they are");
    }
}

#[test]
fn sends_are_refused_and_tried_again() {
    let mut rng = Rng::new(7);
    let mut scene = Scene::<Messages>::new(7, 16 << 20);
    let device = scene.open(&ConnectOptions {
        nr_io_queues: 2,
        queue_size: 32,
        ..ConnectOptions::default()
    });
    let runs = scene.start(&device, &ledgers(), Plan::Chance(500), &mut rng);
    scene.finish(&runs);
    assert!(scene.place.refused() > 100, "{} sends were refused", scene.place.refused());
    assert_eq!(scene.place.pairs(), 3);
}
