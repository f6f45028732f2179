//! On virtual time, over the `error:` filter, which hangs as it is told to.

use super::limited;
use crate::{
    AccessState, BlockQueue, Completion, Device, DeviceChange, Op, OpKind, OpenOptions, Outcome,
    Presence, Status, StatusKind, open,
};
use core::cell::RefCell;
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_io::sim::{LoopId, NetConfig, World};
use weft_io::{Activity, Driver, DriverId, Handle, LoopConfig, Segments};

const LIMIT: Duration = Duration::from_secs(20);
const WRITE: OpKind = OpKind::Write { fua: false };
const OVERDUE: Outcome = Outcome::unsettled(Status::new(StatusKind::TimedOut));
const REFUSED: Outcome = Outcome::NotSent(Status::new(StatusKind::TimedOut));

#[derive(Default)]
struct UserLog {
    ops: VecDeque<Op>,
    cancel: Vec<u64>,
    done: Vec<Completion>,
    changes: Vec<DeviceChange>,
    overdue: usize,
    given_back: Vec<Segments>,
    in_flight: usize,
}

struct User {
    queue: Box<dyn BlockQueue>,
    seen: Rc<RefCell<UserLog>>,
}

impl Driver for User {
    fn work(&mut self, _: &Handle) -> Activity {
        let seen = &mut *self.seen.borrow_mut();
        self.queue.submit(&mut seen.ops);
        seen.cancel.drain(..).for_each(|user| self.queue.cancel(user));
        let before = seen.done.len();
        self.queue.reap(&mut seen.done);
        seen.changes.extend(core::iter::from_fn(|| self.queue.change()));
        seen.overdue = self.queue.overdue(&mut seen.given_back);
        seen.in_flight = self.queue.in_flight();
        Activity::busy_if(seen.done.len() > before)
    }
}

/// A world with a device and a queue of it on each of two loops.
struct TwoLoops {
    world: World,
    device: Device,
    users: [(Handle, DriverId, Rc<RefCell<UserLog>>); 2],
}

impl TwoLoops {
    fn new(fault: &str) -> Self {
        Self::over(&format!("error:{fault},ram:1MiB"))
    }

    fn over(source: &str) -> Self {
        let device = limited(open(source, &OpenOptions::default()).unwrap(), LIMIT);
        let mut world = World::with_net(1, NetConfig::default());
        let host = world.host("10.0.0.1");
        let config = LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() };
        let loops: [LoopId; 2] = [(); 2].map(|()| world.add_loop(host, &config));
        let users = loops.map(|at| {
            let (on, seen) = (world.handle(at), Rc::<RefCell<UserLog>>::default());
            let id = on.spawn(|id| User {
                queue: device.open_queue(&on, id).unwrap(),
                seen: Rc::clone(&seen),
            });
            (on, id, seen)
        });
        Self { world, device, users }
    }

    fn put(&mut self, user: usize, name: u64, kind: OpKind) {
        let (on, id, seen) = &self.users[user];
        let data = Segments::from_iter(
            (kind.data_factor() > 0).then(|| on.pool().take(512).unwrap().into()),
        );
        seen.borrow_mut().ops.push_back(Op::new(
            kind,
            name,
            u32::from(kind != OpKind::Flush),
            name,
            data,
        ));
        on.wake(*id);
        self.run(Duration::from_millis(1));
    }

    fn run(&mut self, time: Duration) {
        self.world.run_for(time);
    }

    /// Returns the operations that have ended since the last call: name, outcome, and whether its
    /// memory came with it.
    fn ended(&self, user: usize) -> Vec<(u64, Outcome, bool)> {
        let done = core::mem::take(&mut self.users[user].2.borrow_mut().done);
        done.into_iter()
            .map(|Completion { op, outcome }| (op.user, outcome, !op.data.is_empty()))
            .collect()
    }

    fn held(&self, user: usize) -> (usize, usize) {
        let seen = self.users[user].2.borrow();
        (seen.overdue, seen.given_back.len())
    }

    fn pool_bytes(&self) -> usize {
        self.users[0].0.pool().taken_bytes()
    }
}

#[test]
fn what_hangs_is_answered_at_the_limit_and_its_memory_comes_when_the_device_gives_it() {
    let mut stage = TwoLoops::new("rate=1,after=1,kind=hang,for=60s");
    stage.put(0, 1, WRITE);
    assert_eq!(stage.ended(0), [(1, Outcome::SUCCESS, true)]);
    stage.put(0, 2, WRITE);
    stage.run(LIMIT - Duration::from_millis(100));
    assert_eq!((stage.ended(0), stage.device.presence()), (vec![], Presence::Here));
    stage.run(Duration::from_millis(200));
    assert_eq!(
        (stage.ended(0), stage.device.presence()),
        (vec![(2, OVERDUE, false)], Presence::Away)
    );
    assert_eq!((stage.held(0), stage.users[0].2.borrow().in_flight), ((1, 0), 1));
    let held = stage.pool_bytes();
    assert!(held > 0, "the device has it");
    stage.run(Duration::from_secs(60));
    assert_eq!(
        (stage.held(0), stage.device.presence(), stage.ended(0)),
        ((0, 1), Presence::Here, vec![])
    );
    stage.users[0].2.borrow_mut().given_back.clear();
    assert_eq!(stage.pool_bytes(), 0);
    assert_eq!(stage.users[0].2.borrow().changes, [DeviceChange::Away, DeviceChange::Back]);
}

#[test]
fn nothing_passes_an_overdue_operation_on_any_queue() {
    let mut stage = TwoLoops::new("rate=1,after=1,kind=hang,for=60s");
    stage.put(0, 1, WRITE);
    stage.put(0, 2, WRITE);
    stage.run(LIMIT);
    assert_eq!(stage.ended(0).len(), 2);
    for user in [0, 1] {
        for (name, kind) in [(3, OpKind::Read), (4, WRITE), (5, OpKind::Flush)] {
            stage.put(user, name, kind);
            assert_eq!(stage.ended(user), [(name, REFUSED, kind != OpKind::Flush)]);
        }
    }
    assert_eq!(stage.users[1].2.borrow().changes, [DeviceChange::Away]);
    stage.run(Duration::from_secs(60));
    stage.put(1, 6, WRITE);
    assert_eq!(
        (stage.ended(1), stage.device.presence()),
        (vec![(6, Outcome::SUCCESS, true)], Presence::Here)
    );
    assert_eq!(stage.users[1].2.borrow().changes, [DeviceChange::Away, DeviceChange::Back]);
}

#[test]
fn a_device_that_never_answers_stays_away() {
    let mut stage = TwoLoops::new("rate=1,kind=hang,ops=read");
    stage.put(0, 1, OpKind::Read);
    stage.put(1, 2, OpKind::Read);
    stage.run(Duration::from_secs(24 * 3600));
    assert_eq!(
        (stage.ended(0), stage.ended(1)),
        (vec![(1, OVERDUE, false)], vec![(2, OVERDUE, false)])
    );
    assert_eq!(
        (stage.held(0), stage.held(1), stage.device.presence()),
        ((1, 0), (1, 0), Presence::Away)
    );
    assert_eq!(stage.device.access_state(), AccessState::Optimized);
}

#[test]
fn a_device_that_cancels_is_back_at_once() {
    let mut stage = TwoLoops::new("rate=1,kind=timeout,ops=read");
    stage.put(0, 1, OpKind::Read);
    stage.run(LIMIT);
    assert_eq!((stage.ended(0), stage.held(0)), (vec![(1, OVERDUE, false)], (0, 1)));
    assert_eq!(stage.device.presence(), Presence::Here);
}

#[test]
fn waiting_for_a_rate_is_not_hanging() {
    let mut stage = TwoLoops::over("readonly:limit:iops=1,ram:1MiB");
    (0..60).for_each(|name| stage.put(0, name, OpKind::Read));
    stage.run(Duration::from_secs(90));
    let ended = stage.ended(0);
    assert_eq!(ended.len(), 60);
    assert!(ended.iter().all(|(_, outcome, _)| *outcome == Outcome::SUCCESS), "{ended:?}");
    assert_eq!(stage.device.presence(), Presence::Here);
}

#[test]
fn a_cancel_before_the_limit_is_passed_on() {
    let mut stage = TwoLoops::new("rate=1,kind=timeout,ops=read");
    stage.put(0, 7, OpKind::Read);
    stage.users[0].2.borrow_mut().cancel.push(7);
    stage.users[0].0.wake(stage.users[0].1);
    stage.run(Duration::from_millis(1));
    assert_eq!(stage.ended(0), [(7, Outcome::NotSent(Status::new(StatusKind::Aborted)), true)]);
}
