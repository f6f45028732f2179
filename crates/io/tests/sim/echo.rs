//! Data through an echo comes back in order and once, or the stream reports that it broke.

use crate::common::{no_trouble, serve_echo};
use crate::exchange::{Exchange, Outcome, Report};
use crate::sim::{all_seeds, seeds};
use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;
use weft_io::sim::{Cut, CutAt, NetConfig, PortAnswer, Rng, Side, World};
use weft_io::{Handle, LoopConfig};

const SERVER: &str = "10.0.0.1";
const PORT: &str = "10.0.0.1:7000";
const PATIENCE: Duration = Duration::from_secs(200);
const LIMIT: Duration = Duration::from_secs(10_000);

type Reports = Vec<Rc<RefCell<Report>>>;

/// A server with some loops, each with a port; clients on other hosts.
struct Scene {
    world: World,
    clients: Vec<Handle>,
    ports: Vec<String>,
}

fn scene(seed: u64, rng: &mut Rng, change: impl FnOnce(&mut NetConfig)) -> Scene {
    let mut world = World::new(seed);
    world.set_net(change);
    let config =
        LoopConfig { spin: Duration::from_nanos(rng.magnitude(50_000)), ..LoopConfig::default() };
    let server = world.host(SERVER);
    let loops: Vec<_> = (0..rng.within(1, 2)).map(|_| world.add_loop(server, &config)).collect();
    let ports = loops
        .iter()
        .enumerate()
        .map(|(i, &l)| serve_echo(&world.handle(l), &format!("{SERVER}:{}", 7000 + i), no_trouble));
    let ports = ports.collect();
    let hosts: Vec<_> = (0..rng.within(1, 2)).map(|i| world.host(&format!("10.0.1.{i}"))).collect();
    let clients = hosts.into_iter().map(|host| world.add_loop(host, &config)).collect::<Vec<_>>();
    let clients = clients.into_iter().map(|l| world.handle(l)).collect();
    Scene { world, clients, ports }
}

fn exchange(on: &Handle, to: &str, total: u64) -> Rc<RefCell<Report>> {
    let report = Rc::default();
    let stream = on.connect(to.parse().unwrap()).unwrap();
    Exchange::spawn(on, stream, total, PATIENCE, Rc::clone(&report));
    report
}

fn exchanges(scene: &Scene, rng: &mut Rng) -> Reports {
    let each = |_| {
        exchange(rng.pick(&scene.clients), rng.pick::<String>(&scene.ports), rng.magnitude(100_000))
    };
    (0..5).map(each).collect()
}

fn all_over(reports: &Reports) -> bool {
    reports.iter().all(|r| r.borrow().outcome.is_some())
}

fn outcome(report: &Rc<RefCell<Report>>) -> Outcome {
    report.borrow().outcome.clone().expect("it is over")
}

#[test]
fn all_comes_back_whatever_the_network() {
    for seed in seeds(150) {
        let mut rng = Rng::new(seed);
        let mut scene = scene(seed, &mut rng, |_| ());
        let reports = exchanges(&scene, &mut rng);
        assert!(scene.world.run_until(|_| all_over(&reports), LIMIT), "{:?}", reports);
        assert!(reports.iter().all(|r| outcome(r) == Outcome::Whole), "{:?}", reports);
        scene.world.run_for(Duration::from_secs(1));
        assert_eq!(scene.world.connections(), []);
    }
}

#[test]
fn a_cut_connection_errs_and_gives_no_wrong_byte() {
    let (mut whole, mut broken) = (0, 0);
    for seed in seeds(400) {
        let mut rng = Rng::new(seed);
        let mut scene = scene(seed, &mut rng, |net| {
            net.cut_one_in = 2;
            net.cut_within_bytes = 100_000;
            net.cuts = vec![
                Cut::Reset,
                Cut::Close,
                Cut::Silence,
                Cut::HalfOpen(Side::Client),
                Cut::HalfOpen(Side::Server),
            ];
        });
        let reports = exchanges(&scene, &mut rng);
        assert!(scene.world.run_until(|_| all_over(&reports), LIMIT), "{:?}", reports);
        for report in &reports {
            match outcome(report) {
                Outcome::Whole => whole += 1,
                Outcome::Ended | Outcome::Failed(_) | Outcome::Stalled => broken += 1,
                Outcome::Wrong(at) => panic!("wrong byte at {at}"),
            }
        }
    }
    eprintln!("{whole} whole, {broken} broken");
    assert!(!all_seeds() || whole > 100 && broken > 100, "{whole} whole, {broken} broken");
}

#[test]
fn a_cut_falls_behind_the_byte_that_was_named() {
    for after_bytes in 0..200 {
        for how in [Cut::Reset, Cut::Close] {
            let mut rng = Rng::new(after_bytes);
            let mut scene = scene(after_bytes, &mut rng, |_| ());
            scene
                .world
                .plan(PORT.parse().unwrap(), Some(CutAt { from: Side::Server, after_bytes, how }));
            let report = exchange(&scene.clients[0], PORT, 200);
            assert!(scene.world.run_until(|_| report.borrow().outcome.is_some(), LIMIT));
            let back = report.borrow().back;
            match how {
                Cut::Close => assert_eq!((back, outcome(&report)), (after_bytes, Outcome::Ended)),
                _ => assert!(
                    back <= after_bytes && matches!(outcome(&report), Outcome::Failed(_)),
                    "{report:?}"
                ),
            }
        }
    }
}

#[test]
fn a_partition_delays_and_a_long_one_breaks() {
    for (seed, seconds) in seeds(20).zip([1, 60, 100, 150].into_iter().cycle()) {
        let mut rng = Rng::new(seed);
        let mut scene = scene(seed, &mut rng, |_| ());
        let (server, client) = (scene.world.host(SERVER), scene.world.host("10.0.1.0"));
        let report = exchange(&scene.clients[0], PORT, 1 << 18);
        assert!(scene.world.run_until(|_| report.borrow().back > 1000, LIMIT));
        scene.world.partition(server, client);
        scene.world.run_for(Duration::from_secs(seconds));
        scene.world.heal(server, client);
        assert!(scene.world.run_until(|_| report.borrow().outcome.is_some(), LIMIT));
        let whole = outcome(&report) == Outcome::Whole;
        assert_eq!(whole, seconds < 127, "{seconds} s: {report:?}");
    }
}

#[test]
fn a_host_that_lost_its_power_knows_nobody() {
    for seed in seeds(50) {
        let mut rng = Rng::new(seed);
        let mut scene = scene(seed, &mut rng, |_| ());
        let server = scene.world.host(SERVER);
        let report = exchange(&scene.clients[0], PORT, 1 << 18);
        assert!(scene.world.run_until(|_| report.borrow().back > 1000, LIMIT));
        scene.world.crash(server);
        scene.world.run_for(Duration::from_secs(5));
        assert_eq!(report.borrow().outcome, None);
        scene.world.power_on(server);
        assert!(scene.world.run_until(|_| report.borrow().outcome.is_some(), LIMIT));
        assert!(matches!(outcome(&report), Outcome::Failed(_)), "{report:?}");
    }
}

#[test]
fn a_killed_process_closes_its_connections() {
    for seed in seeds(50) {
        let mut rng = Rng::new(seed);
        let mut scene = scene(seed, &mut rng, |_| ());
        let server = scene.world.host(SERVER);
        let report = exchange(&scene.clients[0], PORT, 1 << 18);
        assert!(scene.world.run_until(|_| report.borrow().back > 1000, LIMIT));
        scene.world.kill(server);
        assert!(
            scene.world.run_until(|_| report.borrow().outcome.is_some(), Duration::from_secs(5))
        );
        assert!(matches!(outcome(&report), Outcome::Failed(_) | Outcome::Ended), "{report:?}");
    }
}

#[test]
fn one_seed_is_one_history() {
    let run = |seed| {
        let mut rng = Rng::new(seed);
        let mut scene = scene(seed, &mut rng, |net| {
            net.cut_one_in = 3;
            net.cut_within_bytes = 50_000;
        });
        scene.world.set_answer(
            "10.0.0.1:7001".parse().unwrap(),
            *rng.pick(&[PortAnswer::Usual, PortAnswer::Refuse]),
        );
        let reports = exchanges(&scene, &mut rng);
        assert!(scene.world.run_until(|_| all_over(&reports), LIMIT));
        (scene.world.trace_hash(), scene.world.now(), scene.world.trace_tail())
    };
    let mut hashes = std::collections::BTreeSet::new();
    for seed in seeds(50) {
        let first = run(seed);
        assert_eq!(first, run(seed));
        assert!(hashes.insert(first.0), "two seeds, one history");
    }
}
