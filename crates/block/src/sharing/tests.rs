use super::*;
use crate::testing::{Rig, TestPlan, conformance_of};
use crate::{
    Completion, DeviceChange, Features, Geometry, Op, OpKind, OpenOptions, Outcome, StatusKind,
    open,
};
use std::collections::VecDeque;
use weft_base::lock::Lock;
use weft_io::{Activity, Driver, Loop, LoopConfig, Segments};

/// A test's view of a [`Few`], and turns.
#[derive(Default)]
struct Knobs {
    open: AtomicUsize,
    most_open: AtomicUsize,
    opened: AtomicUsize,
    /// Operations that a queue holds at most; 0: any number.
    room: AtomicUsize,
    /// Operations in all lists that a queue was given.
    offered: AtomicUsize,
    /// Operations that may still end.
    may_end: AtomicUsize,
    /// First blocks of the operations that ended, in order.
    ended: Lock<Vec<u64>>,
    cancelled: AtomicUsize,
    changes: Lock<Vec<DeviceChange>>,
}

/// A device that grants a limited number of queues.
struct Few {
    inner: Device,
    queues: usize,
    knobs: Arc<Knobs>,
}

struct FewQueue {
    inner: Box<dyn BlockQueue>,
    knobs: Arc<Knobs>,
    held: VecDeque<Op>,
    changes_told: usize,
    on: Handle,
    owner: DriverId,
}

fn few(url: &str, queues: usize) -> (Device, Arc<Knobs>) {
    let knobs = Arc::new(Knobs { may_end: AtomicUsize::new(usize::MAX), ..Knobs::default() });
    let inner = open(url, &OpenOptions::default()).unwrap();
    (Arc::new(Few { inner, queues, knobs: Arc::clone(&knobs) }), knobs)
}

impl BlockDevice for Few {
    fn url(&self) -> &str {
        self.inner.url()
    }
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn renew_size(&self) -> Result<crate::SizeAnswer, crate::Error> {
        self.inner.renew_size()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }
    fn max_queues(&self) -> usize {
        self.queues
    }
    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let open = self.knobs.open.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(open <= self.queues, "a queue more than was granted");
        self.knobs.most_open.fetch_max(open, Ordering::SeqCst);
        self.knobs.opened.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(FewQueue {
            inner: self.inner.open_queue(on, owner)?,
            knobs: Arc::clone(&self.knobs),
            held: VecDeque::new(),
            changes_told: 0,
            on: on.clone(),
            owner,
        }))
    }
}

impl FewQueue {
    fn may_end(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.knobs.may_end.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

impl BlockQueue for FewQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.knobs.offered.fetch_add(ops.len(), Ordering::SeqCst);
        let room = match self.knobs.room.load(Ordering::SeqCst) {
            0 => usize::MAX,
            room => room,
        };
        while self.in_flight() < room {
            let Some(op) = ops.pop_front() else { break };
            self.held.push_back(op);
        }
        self.on.wake(self.owner);
    }
    fn reap(&mut self, done: &mut Vec<Completion>) {
        while !self.held.is_empty() && self.may_end() {
            let Some(op) = self.held.pop_front() else { return };
            self.knobs.ended.lock().push(op.lba);
            self.inner.submit(&mut VecDeque::from([op]));
        }
        self.inner.reap(done);
    }
    fn cancel(&mut self, user: u64) {
        if let Some(at) = self.held.iter().position(|op| op.user == user) {
            self.knobs.cancelled.fetch_add(1, Ordering::SeqCst);
            // It ends like any other, and out of turn.
            let op = self.held.remove(at).unwrap();
            self.inner.submit(&mut VecDeque::from([op]));
            self.on.wake(self.owner);
        }
    }
    fn in_place(&mut self) -> Option<&mut dyn crate::InPlace> {
        self.inner.in_place()
    }
    fn in_flight(&self) -> usize {
        self.held.len() + self.inner.in_flight()
    }
    fn change(&mut self) -> Option<DeviceChange> {
        let change = self.knobs.changes.lock().get(self.changes_told).copied()?;
        self.changes_told += 1;
        Some(change)
    }
}

impl Drop for FewQueue {
    fn drop(&mut self) {
        self.knobs.open.fetch_sub(1, Ordering::SeqCst);
        self.held.drain(..).for_each(Op::give_up);
    }
}

/// One loop, on the test's thread, with a device that is shared there.
struct SharedUser {
    event_loop: Loop,
    device: Device,
    knobs: Arc<Knobs>,
}

struct Nobody;

impl Driver for Nobody {
    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

impl SharedUser {
    fn new() -> Self {
        let event_loop = Loop::new(LoopConfig::default()).unwrap();
        let (device, knobs) = few("ram:16MiB", 1);
        let device = share(device, &[event_loop.handle().remote()]);
        Self { event_loop, device, knobs }
    }

    fn join(&self) -> Box<dyn BlockQueue> {
        let on = self.event_loop.handle();
        let owner = on.spawn(|_| Nobody);
        self.device.open_queue(on, owner).unwrap()
    }

    fn reads(&self, lbas: impl IntoIterator<Item = u64>) -> VecDeque<Op> {
        let memory =
            || Segments::from_iter([self.event_loop.handle().pool().take(512).unwrap().into()]);
        lbas.into_iter().map(|lba| Op::new(OpKind::Read, lba, 1, lba, memory())).collect()
    }

    fn turns(&mut self, count: usize) {
        for _ in 0..count {
            let _ = self.event_loop.turn(false).unwrap();
        }
    }

    fn live_drivers(&self) -> usize {
        self.event_loop.handle().live_drivers()
    }
}

fn names(done: &[Completion]) -> Vec<u64> {
    done.iter().map(|completion| completion.op.user).collect()
}

#[test]
fn however_few_queues_there_are_every_loop_has_one() {
    for (queues, loops) in [(1, 1), (1, 2), (2, 4), (3, 2)] {
        let (device, knobs) = few("ram:16MiB,block=4096", queues);
        let plan = TestPlan { loops, rounds: 100, ..TestPlan::default() };
        let rig = Rig::with(plan, |loops| share(device, loops));
        conformance_of(rig);
        assert_eq!(
            knobs.most_open.load(Ordering::SeqCst),
            queues.min(loops),
            "{queues} queues, {loops} loops"
        );
        assert_eq!(knobs.open.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn queues_that_are_granted_are_all_used() {
    let (device, knobs) = few("ram:16MiB", 2);
    let rig = Rig::with(TestPlan { loops: 4, ..TestPlan::default() }, |loops| share(device, loops));
    (0..4).for_each(|on_loop| drop(rig.read(on_loop, 0, 1)));
    assert_eq!(knobs.open.load(Ordering::SeqCst), 2);
    rig.end();
}

#[test]
fn a_loop_that_is_none_of_those_gets_a_queue_too() {
    let (device, knobs) = few("ram:16MiB", 1);
    let home = weft_io::event_loop::spawn(LoopConfig::default(), |_| ()).unwrap();
    let shared = share(device, std::slice::from_ref(&home.1));
    let rig = Rig::new(&shared, TestPlan { loops: 2, ..TestPlan::default() });
    rig.write(0, 9, &[7; 512]);
    assert_eq!(rig.read(1, 9, 1), [7; 512]);
    rig.end();
    drop(shared);
    while knobs.open.load(Ordering::SeqCst) > 0 {
        std::thread::yield_now();
    }
    home.1.post(|on| {
        assert_eq!(on.live_drivers(), 0);
        on.stop();
    });
    home.2.join().unwrap().unwrap();
}

#[test]
fn what_the_loop_of_the_queue_takes_with_it_completes_all_the_same() {
    let (device, _) = few("error:rate=1,kind=timeout,ops=read,ram:16MiB", 1);
    let home = weft_io::event_loop::spawn(LoopConfig::default(), |_| ()).unwrap();
    let shared = share(device, std::slice::from_ref(&home.1));
    let rig = Rig::new(&shared, TestPlan::default());
    let reads = rig.start(0, (0..3).map(|n| rig.request(OpKind::Read, n, vec![0; 512])).collect());
    rig.write(0, 9, &[1; 512]);
    home.1.post(|on| on.stop());
    for answer in rig.wait(0, &reads) {
        assert!(
            matches!(answer.outcome, Outcome::MayHaveExecuted { status, settled: false } if status.kind == StatusKind::Gone)
        );
    }
    assert_eq!(rig.change(0), DeviceChange::Gone);
    home.2.join().unwrap().unwrap();
    let late =
        rig.run(0, vec![rig.request(OpKind::Write { fua: false }, 9, vec![2; 512])]).remove(0);
    assert!(matches!(late.outcome, Outcome::NotSent(status) if status.kind == StatusKind::Gone));
    rig.end();
}

#[test]
fn every_sharer_on_every_loop_is_told_of_changes() {
    let (device, knobs) = few("ram:16MiB", 2);
    let rig = Rig::with(TestPlan { loops: 3, ..TestPlan::default() }, |loops| share(device, loops));
    // The queue of a loop without one of its own is there by the time it has answered.
    (0..3).for_each(|on_loop| drop(rig.read(on_loop, 0, 1)));
    knobs.changes.lock().push(DeviceChange::Resized { blocks: 77 });
    (0..2).for_each(|on_loop| drop(rig.read(on_loop, 0, 1)));
    for on_loop in 0..3 {
        assert_eq!(rig.change(on_loop), DeviceChange::Resized { blocks: 77 });
    }
    rig.end();
    let mut one = SharedUser::new();
    let mut sharers = [one.join(), one.join()];
    one.knobs.changes.lock().extend([1, 2, 3].map(|blocks| DeviceChange::Resized { blocks }));
    one.knobs.changes.lock().push(DeviceChange::Gone);
    one.turns(2);
    for sharer in &mut sharers {
        assert_eq!(sharer.change(), Some(DeviceChange::Resized { blocks: 3 }), "the last size");
        assert_eq!([sharer.change(), sharer.change()], [Some(DeviceChange::Gone), None]);
    }
}

#[test]
fn a_device_that_is_gone_leaves_the_others_of_its_loop() {
    let mut one = SharedUser::new();
    let (other, others_knobs) = few("ram:16MiB", 1);
    let other = share(other, &[one.event_loop.handle().remote()]);
    let mut gone = one.join();
    let first = std::mem::replace(&mut one.device, other);
    let (mut kept, mut done) = (one.join(), Vec::new());
    one.knobs.changes.lock().push(DeviceChange::Gone);
    one.turns(2);
    assert_eq!((gone.change(), kept.change()), (Some(DeviceChange::Gone), None));
    kept.submit(&mut one.reads(0..3));
    one.turns(3);
    kept.reap(&mut done);
    assert_eq!(names(&done), [0, 1, 2]);
    // Who comes later joins its queue still.
    drop(one.join());
    assert_eq!(others_knobs.opened.load(Ordering::SeqCst), 1);
    drop(first);
}

#[test]
fn sharers_of_a_loop_have_one_queue_and_their_own_completions() {
    let mut one = SharedUser::new();
    let drivers = one.live_drivers();
    let mut sharers: Vec<_> = (0..5).map(|_| one.join()).collect();
    for (n, sharer) in (0..).zip(&mut sharers) {
        sharer.submit(&mut one.reads(n * 100..n * 100 + 7));
    }
    one.turns(3);
    let mut done = Vec::new();
    for (n, sharer) in (0..).zip(&mut sharers) {
        assert_eq!(sharer.in_flight(), 7);
        sharer.reap(&mut done);
        assert_eq!(names(&done), Vec::from_iter(n * 100..n * 100 + 7));
        assert!(done.drain(..).all(|completion| completion.outcome.is_success()));
        assert_eq!(sharer.in_flight(), 0);
    }
    assert_eq!(
        (one.knobs.opened.load(Ordering::SeqCst), one.knobs.open.load(Ordering::SeqCst)),
        (1, 1)
    );
    drop(sharers);
    assert_eq!(one.knobs.open.load(Ordering::SeqCst), 0, "closed with the last, in the same turn");
    one.turns(1);
    // Those of the sharers themselves stay.
    assert_eq!(one.live_drivers(), drivers + 5);
    drop(one.join());
    assert_eq!(one.knobs.opened.load(Ordering::SeqCst), 2, "and opened again for the next");
}

#[test]
fn those_who_wait_are_served_in_turn() {
    let mut one = SharedUser::new();
    one.knobs.room.store(2, Ordering::SeqCst);
    let (mut greedy, mut modest, mut late) = (one.join(), one.join(), one.join());
    greedy.submit(&mut one.reads(0..50));
    modest.submit(&mut one.reads(100..104));
    late.submit(&mut one.reads(200..202));
    assert_eq!((greedy.in_flight(), modest.in_flight(), late.in_flight()), (50, 4, 2));
    let mut done = Vec::new();
    for _ in 0..100 {
        one.turns(1);
        [&mut greedy, &mut modest, &mut late].iter_mut().for_each(|sharer| sharer.reap(&mut done));
    }
    assert_eq!(done.len(), 56);
    let ended = one.knobs.ended.lock();
    // One of each in turn, but for what had been taken when the others came.
    assert!(
        [100, 101, 102, 103, 200, 201].iter().all(|lba| ended[..14].contains(lba)),
        "{ended:?}"
    );
    assert!(ended.iter().filter(|lba| **lba < 50).is_sorted(), "{ended:?}");
}

/// A full queue is not asked again by each of those who wait.
#[test]
fn waiting_costs_the_same_for_each_operation_however_many_wait() {
    let mut one = SharedUser::new();
    one.knobs.room.store(4, Ordering::SeqCst);
    let mut sharers: Vec<_> = (0..64).map(|_| one.join()).collect();
    let mut done = Vec::new();
    for round in 1..=10 {
        sharers.iter_mut().for_each(|sharer| sharer.submit(&mut one.reads([1, 2])));
        for _ in 0..64 {
            one.turns(1);
            sharers.iter_mut().for_each(|sharer| sharer.reap(&mut done));
        }
        assert_eq!(done.len(), round * 2 * 64);
    }
    assert!(one.knobs.offered.load(Ordering::SeqCst) <= 8 * done.len());
}

#[test]
fn one_sharer_cancels_and_leaves_and_the_others_go_on() {
    let mut one = SharedUser::new();
    one.knobs.room.store(3, Ordering::SeqCst);
    one.knobs.may_end.store(0, Ordering::SeqCst);
    let (mut stays, mut leaves) = (one.join(), one.join());
    stays.submit(&mut one.reads(0..2));
    leaves.submit(&mut one.reads(0..4));
    one.turns(1);
    // The one that waits has not been sent; of equal names each has its own.
    stays.cancel(3);
    leaves.cancel(3);
    let mut done = Vec::new();
    stays.reap(&mut done);
    assert!(done.is_empty());
    leaves.reap(&mut done);
    assert!(
        names(&done) == [3]
            && matches!(done[0].outcome, Outcome::NotSent(status) if status.kind == StatusKind::Aborted)
    );
    stays.cancel(0);
    assert_eq!(one.knobs.cancelled.load(Ordering::SeqCst), 1);
    one.turns(1);
    done.clear();
    stays.reap(&mut done);
    assert_eq!(names(&done), [0]);
    done.clear();
    drop(leaves);
    assert_eq!(one.knobs.open.load(Ordering::SeqCst), 1);
    assert!(one.knobs.cancelled.load(Ordering::SeqCst) >= 2, "what was in flight is asked to end");
    one.knobs.may_end.store(usize::MAX, Ordering::SeqCst);
    one.turns(3);
    stays.reap(&mut done);
    assert_eq!((names(&done), stays.in_flight()), (vec![1], 0));
    done.clear();
    assert_eq!(one.event_loop.handle().pool().taken_bytes(), 0, "all memory is back");
    drop(stays);
    assert_eq!(one.knobs.open.load(Ordering::SeqCst), 0);
}

#[test]
fn a_queue_with_something_in_flight_closes_when_that_has_ended() {
    let mut one = SharedUser::new();
    one.knobs.may_end.store(0, Ordering::SeqCst);
    let mut first = one.join();
    first.submit(&mut one.reads(0..1));
    drop(first);
    assert_eq!(one.knobs.open.load(Ordering::SeqCst), 1);
    // Somebody who comes meanwhile gets the same queue: the device has no other.
    let mut second = one.join();
    assert_eq!((second.in_flight(), one.knobs.opened.load(Ordering::SeqCst)), (0, 1));
    second.submit(&mut one.reads(5..6));
    drop(second);
    one.knobs.may_end.store(usize::MAX, Ordering::SeqCst);
    one.turns(3);
    assert_eq!(
        (one.knobs.open.load(Ordering::SeqCst), one.event_loop.handle().pool().taken_bytes()),
        (0, 0)
    );
}

#[test]
fn memory_of_the_device_passes() {
    let one = SharedUser::new();
    let mut sharer = one.join();
    let own = sharer.in_place().unwrap();
    assert_eq!(own.store(8, 8, &[9; 4096]), Outcome::SUCCESS);
    let mut lent = Segments::new();
    assert!(own.stores() && own.lend(8, 8, &mut lent) && lent[0].iter().all(|&byte| byte == 9));
    let (limited, _) = few("error:rate=0,ram:16MiB", 1);
    let shared = share(limited, &[one.event_loop.handle().remote()]);
    let owner = one.event_loop.handle().spawn(|_| Nobody);
    assert!(shared.open_queue(one.event_loop.handle(), owner).unwrap().in_place().is_some());
}
