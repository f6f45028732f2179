//! On virtual time, so that every time is exact.

use crate::testing::{Rig, TestPlan};
use crate::{BlockQueue, Completion, Device, Op, OpKind, OpenOptions, Refusal, open};
use core::cell::RefCell;
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_io::sim::{LoopId, NetConfig, World};
use weft_io::{Activity, Driver, Handle, LoopConfig, Segments, Time};

const WRITE: OpKind = OpKind::Write { fua: false };

fn device(options: &str) -> Device {
    open(&format!("delay:{options},ram:1MiB"), &OpenOptions::default())
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Submits all at once, and notes when what completed.
struct User {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    cancel: Vec<u64>,
    seen: Rc<RefCell<Vec<(u64, Time)>>>,
}

impl Driver for User {
    fn work(&mut self, on: &Handle) -> Activity {
        self.queue.submit(&mut self.ops);
        self.cancel.drain(..).for_each(|user| self.queue.cancel(user));
        self.queue.reap(&mut self.done);
        let busy = !self.done.is_empty();
        let seen = self.done.drain(..).map(|completion| {
            assert!(completion.outcome.is_success());
            (completion.op.user, on.clock())
        });
        self.seen.borrow_mut().extend(seen);
        Activity::busy_if(busy)
    }
}

fn world() -> (World, [LoopId; 2]) {
    let mut world = World::with_net(1, NetConfig::default());
    let host = world.host("10.0.0.1");
    let loops = [(); 2].map(|()| {
        world.add_loop(host, &LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() })
    });
    (world, loops)
}

type CompletionTimes = Rc<RefCell<Vec<(u64, Time)>>>;

fn start(
    world: &World,
    at: LoopId,
    device: &Device,
    kinds: &[OpKind],
    cancel: &[u64],
) -> CompletionTimes {
    let on = world.handle(at);
    let op = |(user, kind): (u64, &OpKind)| {
        let data = Segments::from_iter(
            (kind.data_factor() > 0).then(|| on.pool().take(512).unwrap().into()),
        );
        Op::new(*kind, user, u32::from(*kind != OpKind::Flush), user + 100, data)
    };
    let ops = (0..).zip(kinds).map(op).collect();
    let seen = CompletionTimes::default();
    let id = on.spawn(|id| User {
        queue: device.open_queue(&on, id).unwrap(),
        ops,
        done: Vec::new(),
        cancel: cancel.to_vec(),
        seen: Rc::clone(&seen),
    });
    on.wake(id);
    seen
}

/// When each operation ended, in whole units of `unit` since the beginning: a turn of a loop takes
/// far less.
fn ends(seen: &CompletionTimes, start: Time, unit: Duration) -> Vec<(u64, u128)> {
    seen.borrow()
        .iter()
        .map(|(user, at)| (user - 100, (*at - start).as_nanos() / unit.as_nanos()))
        .collect()
}

#[test]
fn so_many_are_served_at_a_time_and_each_takes_its_time() {
    let (mut world, [one, _]) = world();
    let begin = world.now();
    let seen = start(
        &world,
        one,
        &device("read=400us,write=100us,depth=2"),
        &[OpKind::Read, WRITE, WRITE, OpKind::Flush],
        &[],
    );
    world.run_for(Duration::from_millis(10));
    // The read takes one place, the others follow one another in the other.
    assert_eq!(ends(&seen, begin, Duration::from_micros(100)), [(1, 1), (2, 2), (3, 3), (0, 4)]);
}

#[test]
fn queues_share_the_depth_of_their_device() {
    let (mut world, [one, two]) = world();
    let (begin, device) = (world.now(), device("read=1ms,depth=4"));
    let seen = [one, two].map(|at| start(&world, at, &device, &[OpKind::Read; 40], &[]));
    world.run_for(Duration::from_millis(100));
    let mut all: Vec<_> = seen
        .iter()
        .flat_map(|seen| ends(seen, begin, Duration::from_millis(1)))
        .map(|(_, end)| end)
        .collect();
    all.sort_unstable();
    // 80 reads of 1 ms, four at a time.
    assert_eq!(all, (1..=20).flat_map(|ms| [ms; 4]).collect::<Vec<_>>());
}

#[test]
fn what_is_cancelled_is_not_kept_back() {
    let (mut world, [one, _]) = world();
    let begin = world.now();
    let seen = start(&world, one, &device("read=1h,depth=1"), &[OpKind::Read; 3], &[101, 900]);
    world.run_for(Duration::from_secs(1));
    assert_eq!(ends(&seen, begin, Duration::from_secs(1)), [(1, 0)]);
    world.run_for(Duration::from_secs(4 * 3600));
    assert_eq!(ends(&seen, begin, Duration::from_secs(3600)), [(1, 0), (0, 1), (2, 3)]);
}

#[test]
fn it_takes_more_when_there_is_room_again() {
    let device = device("read=20us,depth=64");
    let rig = Rig::new(&device, TestPlan::default());
    let reads = (0..5000).map(|n| rig.request(OpKind::Read, n % 2048, vec![0; 512])).collect();
    assert!(rig.run(0, reads).iter().all(|answer| answer.outcome.is_success()));
    rig.end();
}

#[test]
fn nothing_is_done_in_place() {
    let (world, [one, _]) = world();
    let on = world.handle(one);
    let id = on.spawn(|_| Nobody);
    assert!(
        open("ram:1MiB", &OpenOptions::default())
            .unwrap()
            .open_queue(&on, id)
            .unwrap()
            .in_place()
            .is_some()
    );
    assert!(device("read=1us").open_queue(&on, id).unwrap().in_place().is_none());
}

struct Nobody;

impl Driver for Nobody {
    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

#[test]
fn mistakes_are_told() {
    type Is = fn(&Refusal) -> bool;
    let mistakes: &[(&str, Is)] = &[
        ("read=fast,", |r| matches!(r, Refusal::OptionValue { name: "read", .. })),
        ("depth=0,", |r| matches!(r, Refusal::OptionValue { name: "depth", .. })),
        ("depth=1000000,", |r| matches!(r, Refusal::OptionValue { name: "depth", .. })),
        ("rate=fast,", |r| matches!(r, Refusal::OptionValue { name: "rate", .. })),
        ("depth=x,", |r| matches!(r, Refusal::OptionValue { name: "depth", .. })),
        (
            "speed=9,",
            |r| matches!(r, Refusal::UnknownOption { name, known } if name == "speed" && known[..] == ["read", "write", "rate", "depth", "spread", "tail", "seed"]),
        ),
    ];
    for (options, says) in mistakes {
        let error = open(&format!("delay:{options}ram:1MiB"), &OpenOptions::default())
            .err()
            .expect(options);
        assert!(says(error.refusal().unwrap()), "{options}: {error}");
    }
    let plain = open("delay:ram:1MiB", &OpenOptions::default()).unwrap();
    assert_eq!((plain.url(), plain.geometry().blocks), ("delay:ram:1MiB", 2048));
    assert!(open("error:rate=0,delay:read=1us,ram:1MiB", &OpenOptions::default()).is_ok());
}

#[test]
fn mistakes_in_the_spread_are_told() {
    let refusal =
        |url: &str| open(url, &OpenOptions::default()).err().unwrap().refusal().cloned().unwrap();
    assert!(matches!(
        refusal("delay:spread=wide,ram:1MiB"),
        Refusal::OptionValue { name: "spread", .. }
    ));
    assert!(matches!(
        refusal("delay:spread=lognormal,tail=0.5,ram:1MiB"),
        Refusal::OptionValue { name: "tail", .. }
    ));
    assert!(matches!(refusal("delay:tail=5,ram:1MiB"), Refusal::Contradiction { .. }));
    assert!(
        open("delay:read=1us,spread=lognormal,tail=9.5,seed=3,ram:1MiB", &OpenOptions::default())
            .is_ok()
    );
}
