//! Delegation by every device over others, on virtual time: that a rate holds operations back, and
//! that operations are overdue. And devices of several go on without a member that hangs.

use crate::scratch::Scratch;
use core::cell::RefCell;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::filter::Filter;
use weft_block::mirror::HotLimit;
use weft_block::mirror::{self, LegSource, MirrorOptions, admin};
use weft_block::sharing::share;
use weft_block::testing::{Rig, TestPlan};
use weft_block::time_limit::{limited, limited_with_own_memory};
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, Error, Op, OpKind, OpenOptions, Opening, Outcome,
    Presence, open, split,
};
use weft_io::sim::{LoopId, NetConfig, World};
use weft_io::{Activity, Driver, DriverId, Handle, LoopConfig, Segments};

const LIMIT: Duration = Duration::from_secs(20);
const WRITE: OpKind = OpKind::Write { fua: false };
const LEG_BYTES: u64 = 9 << 20;

fn device(url: &str) -> Device {
    open(url, &OpenOptions::default()).unwrap_or_else(|e| panic!("{url}: {e}"))
}

/// A device that grants one queue, so that others share it.
struct OneQueue(Device);

impl Filter for OneQueue {
    fn inner(&self) -> &dyn BlockDevice {
        self.0.as_ref()
    }

    fn max_queues(&self) -> usize {
        1
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        self.0.open_queue(on, owner)
    }
}

#[derive(Default)]
struct Seen {
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    holds_back: bool,
    overdue: usize,
}

struct User {
    queue: Box<dyn BlockQueue>,
    seen: Rc<RefCell<Seen>>,
}

impl Driver for User {
    fn work(&mut self, _: &Handle) -> Activity {
        let seen = &mut *self.seen.borrow_mut();
        self.queue.submit(&mut seen.ops);
        let before = seen.done.len();
        self.queue.reap(&mut seen.done);
        while self.queue.change().is_some() {}
        seen.holds_back = self.queue.holds_back();
        seen.overdue = self.queue.overdue(&mut Vec::new());
        Activity::busy_if(seen.done.len() > before)
    }
}

/// A world with two loops: the home of what has one, and that of the user.
struct Stage {
    world: World,
    loops: [LoopId; 2],
}

/// A user of a device.
struct At {
    on: Handle,
    id: DriverId,
    seen: Rc<RefCell<Seen>>,
}

impl Stage {
    fn new() -> Self {
        let mut world = World::with_net(1, NetConfig::default());
        let host = world.host("10.0.0.1");
        let config = LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() };
        let loops = [(); 2].map(|()| world.add_loop(host, &config));
        Self { world, loops }
    }

    fn user(&mut self, device: &Device, at: usize) -> At {
        let (on, seen) = (self.world.handle(self.loops[at]), Rc::<RefCell<Seen>>::default());
        let id = on.spawn(|id| User {
            queue: device.open_queue(&on, id).unwrap(),
            seen: Rc::clone(&seen),
        });
        At { on, id, seen }
    }

    fn put(&mut self, user: &At, kind: OpKind, lba: u64) {
        let data = Segments::from_iter([user.on.pool().take(512).unwrap().into()]);
        user.seen.borrow_mut().ops.push_back(Op::new(kind, lba, 1, lba, data));
        user.on.wake(user.id);
        self.world.run_for(Duration::from_millis(5));
        // What another loop knows is seen in the turn after that.
        user.on.wake(user.id);
        self.world.run_for(Duration::from_millis(5));
    }

    fn mirror(&mut self, legs: Vec<Device>) -> Device {
        let source = |disk: Device| {
            let url = disk.url().to_owned();
            LegSource {
                url,
                is_remote: false,
                open: Box::new(move |_| Ok(Opening::ready(Ok(Arc::clone(&disk))))),
            }
        };
        let options = MirrorOptions {
            url: "mirror:test".into(),
            legs: legs.into_iter().map(source).collect(),
            state: None,
            force: false,
            settle: Duration::ZERO,
            patience: None,
            opener: Uuid::from_u128(1),
            host: "testhost".into(),
            time: 1_700_000_000,
            seed: 1,
            hot: HotLimit::default(),
            guard: Box::new(()),
        };
        let home = self.world.handle(self.loops[0]).remote();
        let mut opening = pin!(mirror::begin(&home, options).unwrap());
        for _ in 0..1000 {
            if let Poll::Ready(opened) =
                opening.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return opened.unwrap_or_else(|e| panic!("{e}"));
            }
            self.world.run_for(Duration::from_millis(100));
        }
        panic!("the mirror does not open");
    }
}

/// Two RAM disks with the labels of a new mirror, whose legs are equal.
fn labelled() -> [Device; 2] {
    let legs = [(); 2].map(|()| device(&format!("ram:{LEG_BYTES}")));
    let areas =
        admin::create(Uuid::from_u128(5), &[LEG_BYTES; 2], None, 512, 3, admin::Holding::TheSame)
            .unwrap();
    for (leg, area) in legs.iter().zip(areas) {
        let rig = Rig::new(leg, TestPlan::default());
        rig.write(0, admin::area(LEG_BYTES).unwrap().0 / 512, &area);
        rig.end();
    }
    legs
}

/// `filter`, which is the beginning of a URL, over a device that is open.
fn over(filter: &str, inner: &Device) -> Device {
    let resolver = |url: &str| (url == "other:").then(|| Opening::ready(Ok(Arc::clone(inner))));
    open(&format!("{filter}other:"), &OpenOptions::with_resolver(&resolver))
        .unwrap_or_else(|e| panic!("{filter}: {e}"))
}

/// All devices over others, and on which loop their user is.
fn wrapped(inner: &Device, stage: &Stage) -> Vec<(&'static str, Device, usize)> {
    let home = stage.world.handle(stage.loops[0]).remote();
    let one_queue = || Arc::new(OneQueue(Arc::clone(inner))) as Device;
    let mut all: Vec<_> = [
        "readonly:",
        "stats:",
        "delay:read=1us,",
        "error:rate=0,",
        "limit:iops=1000,",
        "stripe:ram:1MiB,",
    ]
    .map(|filter| (filter, over(filter, inner), 1))
    .into();
    all.extend([
        ("split", split::up_to(Arc::clone(inner), 64 << 20), 1),
        ("time limit", limited(Arc::clone(inner), LIMIT * 100), 1),
        ("time limit with memory", limited_with_own_memory(Arc::clone(inner), LIMIT * 100), 1),
        ("telling of losses", weft_block::losses::report_losses(Arc::clone(inner)), 1),
        ("shared on its loop", share(one_queue(), core::slice::from_ref(&home)), 0),
        ("shared with another loop", share(one_queue(), &[home]), 1),
    ]);
    all
}

#[test]
fn every_device_over_others_says_that_a_rate_holds_operations_back() {
    let mut stage = Stage::new();
    let inner = device("limit:iops=1,ram:1MiB");
    for (name, device, at) in wrapped(&inner, &stage) {
        let user = stage.user(&device, at);
        // Blocks of the second member of a stripe with chunks of 64 KiB.
        (130..134).for_each(|lba| stage.put(&user, OpKind::Read, lba));
        assert!(user.seen.borrow().holds_back, "{name}");
        stage.world.run_for(Duration::from_secs(60));
        user.on.wake(user.id);
        stage.world.run_for(Duration::from_secs(1));
        assert_eq!(
            (user.seen.borrow().done.len(), user.seen.borrow().holds_back),
            (4, false),
            "{name}"
        );
    }
}

#[test]
fn every_device_over_others_tells_of_overdue_operations() {
    for nth in 0..wrapped(&device("ram:1MiB"), &Stage::new()).len() {
        let mut stage = Stage::new();
        let inner = limited_with_own_memory(
            device("error:rate=1,kind=hang,for=60s,ops=read,ram:1MiB"),
            LIMIT,
        );
        let (name, device, at) = wrapped(&inner, &stage).swap_remove(nth);
        // A time limit knows its own.
        if name.starts_with("time limit") {
            continue;
        }
        let user = stage.user(&device, at);
        stage.put(&user, OpKind::Read, 130);
        stage.world.run_for(LIMIT + Duration::from_secs(1));
        {
            let seen = user.seen.borrow();
            assert_eq!((seen.done.len(), seen.overdue), (1, 1), "{name}");
            assert!(
                matches!(seen.done[0].outcome, Outcome::MayHaveExecuted { settled: false, .. }),
                "{name}"
            );
            assert!(!seen.done[0].op.data.is_empty(), "{name}: it has its memory");
        }
        stage.world.run_for(Duration::from_secs(60));
        user.on.wake(user.id);
        stage.world.run_for(Duration::from_secs(1));
        assert_eq!(user.seen.borrow().overdue, 0, "{name}");
    }
}

/// The memory of an overdue operation stays with a disk, unless it is one of several that make a
/// device.
#[test]
fn a_disk_of_several_gives_memory_back_when_it_hangs() {
    let file = Scratch::new();
    std::fs::write(&file.0, vec![0; 1 << 20]).unwrap();
    let url = format!("error:rate=1,kind=hang,for=60s,ops=read,{}", file.url("block=512"));
    for in_composite in [false, true] {
        let options = OpenOptions::default().time_limit(LIMIT).in_composite(in_composite);
        let mut stage = Stage::new();
        let user = stage.user(&open(&url, &options).unwrap(), 1);
        stage.put(&user, OpKind::Read, 0);
        stage.world.run_for(LIMIT + Duration::from_secs(1));
        let seen = user.seen.borrow();
        assert_eq!((seen.done.len(), seen.overdue), (1, 1));
        assert_eq!(!seen.done[0].op.data.is_empty(), in_composite);
    }
}

#[test]
fn a_mirror_goes_on_without_a_leg_that_hangs() {
    let [good, bad] = labelled();
    let mut stage = Stage::new();
    // It answers the opening, and hangs then.
    let bad =
        limited_with_own_memory(over("error:rate=1,kind=hang,ops=write,after=20,", &bad), LIMIT);
    let mirror = stage.mirror(vec![good, bad]);
    let user = stage.user(&mirror, 1);
    for lba in 0..40 {
        stage.put(&user, WRITE, lba * 300);
    }
    stage.world.run_for(LIMIT * 2);
    (0..20).for_each(|lba| stage.put(&user, OpKind::Read, lba * 300));
    let done = core::mem::take(&mut user.seen.borrow_mut().done);
    assert_eq!(done.len(), 60);
    assert!(done.iter().all(|completion| completion.outcome.is_success()), "{done:?}");
    assert_eq!(mirror.presence(), Presence::Here);
}

#[test]
fn a_leg_that_is_slow_by_a_rate_stays_in_sync() {
    let [good, slow] = labelled();
    let mut stage = Stage::new();
    let slow = limited_with_own_memory(over("limit:iops=4,", &slow), Duration::from_secs(2));
    let mirror = stage.mirror(vec![good, slow]);
    let user = stage.user(&mirror, 1);
    (0..40).for_each(|lba| stage.put(&user, WRITE, lba));
    stage.world.run_for(Duration::from_secs(60));
    let done = core::mem::take(&mut user.seen.borrow_mut().done);
    assert_eq!(done.len(), 40);
    assert!(done.iter().all(|completion| completion.outcome.is_success()), "{done:?}");
    assert!(
        mirror.paths().iter().all(|leg| leg.errors == 0 && leg.why.is_none()),
        "{:?}",
        mirror.paths()
    );
}
