//! Connections that come to be, do not, or take their time; listeners that outlive trouble.

use crate::common::{Echo, no_trouble, serve_echo};
use crate::exchange::{Exchange, Outcome, Report};
use crate::sim::seeds;
use core::time::Duration;
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use weft_io::accept::Acceptor;
use weft_io::connect::{ConnectFailure, connect};
use weft_io::sim::{PortAnswer, World};
use weft_io::{Handle, LoopConfig, Time};

const LIMIT: Duration = Duration::from_secs(5);

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

struct Scene {
    world: World,
    server: Handle,
    client: Handle,
}

fn scene(seed: u64) -> Scene {
    let mut world = World::new(seed);
    let [server, client] = ["10.0.0.1", "10.0.0.2"].map(|ip| {
        let host = world.host(ip);
        let on_loop = world.add_loop(host, &LoopConfig::default());
        world.handle(on_loop)
    });
    Scene { world, server, client }
}

/// Outcome of an attempt, and its time.
type Ended = Rc<RefCell<Option<(Result<String, ConnectFailure>, Time)>>>;

fn attempt(on: &Handle, to: &[&str], limit: Duration) -> Ended {
    let ended = Ended::default();
    let to: Vec<_> = to.iter().map(|t| addr(t)).collect();
    let note = Rc::clone(&ended);
    connect(on, &to, limit, move |on, result| {
        assert!(note.borrow().is_none(), "called twice");
        *note.borrow_mut() = Some((result.map(|stream| stream.peer()), on.now()));
    });
    ended
}

fn wait(world: &mut World, ended: &Ended) -> (Result<String, ConnectFailure>, Time) {
    assert!(world.run_until(|_| ended.borrow().is_some(), Duration::from_secs(1000)));
    ended.take().expect("it ended")
}

#[test]
fn the_first_that_answers_is_taken() {
    for seed in seeds(50) {
        let mut scene = scene(seed);
        serve_echo(&scene.server, "10.0.0.1:7000", no_trouble);
        let dead_first =
            attempt(&scene.client, &["10.9.9.9:7000", "10.0.0.1:7001", "10.0.0.1:7000"], LIMIT);
        let (result, at) = wait(&mut scene.world, &dead_first);
        assert_eq!(result.unwrap(), "10.0.0.1:7000");
        // One stagger and a few round trips: far from the limit.
        assert!(at < Time::ZERO + Duration::from_secs(1), "{at:?}");
    }
}

#[test]
fn who_refuses_is_named_and_who_is_silent_costs_the_limit() {
    for seed in seeds(50) {
        let mut scene = scene(seed);
        scene.world.set_answer(addr("10.0.0.1:7002"), PortAnswer::Never);
        let refused = attempt(&scene.client, &["10.0.0.1:7000", "10.0.0.1:7001"], LIMIT);
        let (result, at) = wait(&mut scene.world, &refused);
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(
            error.to_string().contains("10.0.0.1:7000")
                && error.to_string().contains("10.0.0.1:7001"),
            "{error}"
        );
        assert!(at < Time::ZERO + LIMIT);

        let begun = scene.world.now();
        let silent = attempt(&scene.client, &["10.0.0.1:7001", "10.0.0.1:7002"], LIMIT);
        let (result, at) = wait(&mut scene.world, &silent);
        let error = result.unwrap_err();
        assert!(matches!(&error, ConnectFailure::TimedOut { silent, failed, .. }
            if *silent == [addr("10.0.0.1:7002")] && failed.len() == 1));
        assert_eq!(error.to_string(), "no answer from 10.0.0.1:7002 within 5s");
        assert!(at >= begun + LIMIT && at <= begun + LIMIT + Duration::from_millis(10), "{at:?}");
        assert_eq!(scene.world.connections(), []);
    }
}

#[test]
fn no_address_no_time_and_no_descriptor_are_answered_too() {
    let mut scene = scene(1);
    let nobody = attempt(&scene.client, &[], LIMIT);
    assert!(matches!(wait(&mut scene.world, &nobody).0, Err(ConnectFailure::NoAddress)));
    let no_time = attempt(&scene.client, &["10.0.0.1:7000"], Duration::ZERO);
    assert!(matches!(wait(&mut scene.world, &no_time).0, Err(ConnectFailure::TimedOut { .. })));
    let host = scene.world.host("10.0.0.2");
    scene.world.set_exhausted(host, true);
    let no_descriptor = attempt(&scene.client, &["10.0.0.1:7000"], LIMIT);
    let refused = wait(&mut scene.world, &no_descriptor).0;
    assert!(matches!(refused, Err(ConnectFailure::Failed(f)) if f.len() == 1));
}

#[test]
fn giving_up_calls_nobody_and_leaves_nothing() {
    let mut scene = scene(1);
    scene.world.set_answer(addr("10.0.0.1:7000"), PortAnswer::Never);
    let called = Rc::new(Cell::new(false));
    let note = Rc::clone(&called);
    let driver =
        connect(&scene.client, &[addr("10.0.0.1:7000")], LIMIT, move |_, _| note.set(true));
    scene.world.run_for(Duration::from_secs(1));
    scene.client.remove(driver);
    scene.world.run_for(LIMIT);
    assert!(!called.get());
    assert_eq!((scene.client.live_drivers(), scene.world.connections().len()), (0, 0));
}

#[test]
fn a_connection_serves_its_new_owner_on_another_loop() {
    for seed in seeds(50) {
        let mut scene = scene(seed);
        let host = scene.world.host("10.0.0.1");
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let id = scene.world.add_loop(host, &LoopConfig::default());
                scene.world.handle(id).remote()
            })
            .collect();
        let listener = scene.server.listen(addr("10.0.0.1:7000")).unwrap();
        let mut next = workers.into_iter().cycle();
        let hand_over = move |_: &Handle, stream| {
            let worker = next.next().expect("a cycle does not end");
            worker.post(move |on| Echo::spawn(on, stream));
        };
        Acceptor::spawn(&scene.server, listener, hand_over, no_trouble).unwrap();
        let report = Rc::new(RefCell::new(Report::default()));
        for _ in 0..4 {
            let report = Rc::clone(&report);
            *report.borrow_mut() = Report::default();
            let theirs = Rc::clone(&report);
            connect(&scene.client, &[addr("10.0.0.1:7000")], LIMIT, move |on, stream| {
                Exchange::spawn(on, stream.unwrap(), 20_000, Duration::from_secs(100), theirs);
            });
            assert!(
                scene
                    .world
                    .run_until(|_| report.borrow().outcome.is_some(), Duration::from_secs(1000))
            );
            assert_eq!(report.borrow().outcome, Some(Outcome::Whole));
        }
        assert_eq!(scene.server.counters().snapshot().accepts, 4);
    }
}

#[test]
fn a_listener_without_descriptors_sleeps_and_recovers() {
    for seed in seeds(50) {
        let mut scene = scene(seed);
        let troubles = Rc::new(RefCell::new(Vec::new()));
        let note = Rc::clone(&troubles);
        serve_echo(&scene.server, "10.0.0.1:7000", move |_, error, pause| {
            note.borrow_mut().push((error.raw_os_error(), pause));
        });
        let host = scene.world.host("10.0.0.1");
        scene.world.set_exhausted(host, true);
        let waiting: Vec<_> =
            (0..100).map(|_| attempt(&scene.client, &["10.0.0.1:7000"], LIMIT)).collect();
        scene.world.run_for(Duration::from_secs(60));
        assert!(
            waiting.iter().all(|w| matches!(*w.borrow(), Some((Ok(_), _)))),
            "the system queues them"
        );
        let (count, last) = (troubles.borrow().len(), troubles.borrow().last().map(|t| t.1));
        assert!((60..80).contains(&count), "{count}");
        assert_eq!(last, Some(Duration::from_secs(1)));
        assert_eq!(scene.server.counters().snapshot().accepts, 0);
        scene.world.set_exhausted(host, false);
        scene.world.run_for(Duration::from_secs(2));
        assert_eq!(scene.server.counters().snapshot().accepts, 100);
    }
}
