//! Several loops that read and write the same blocks of a mirror by themselves, while legs are lost
//! and come back: nobody reads anything older than what was acknowledged or read before, and at the
//! end all legs are equal.

mod counted;
mod leg;

use crate::closing::close;
use leg::{LEG_BYTES, Leg};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use uuid::Uuid;
use weft_block::mirror::HotLimit;
use weft_block::mirror::{self, MirrorOptions, admin};
use weft_block::path::PathState;
use weft_block::testing::{Rig, TestPlan};
use weft_block::{BlockQueue, Completion, Device, Op, OpKind, Opening};
use weft_io::event_loop::spawn;
use weft_io::{Activity, Driver, DriverId, Handle, LoopConfig, RemoteLoop};
use weft_testing::wait::until;

/// Places that are written to; each is 4 KiB, and four have one lock.
const PLACES: u64 = 24;
const LOOPS: u64 = 3;
/// Operations of a loop at a time.
const DEPTH: usize = 8;

/// State of a place: all values only grow.
#[derive(Default)]
struct Place {
    /// The last version that somebody began to write...
    begun: AtomicU64,
    /// ...and that was acknowledged...
    written: AtomicU64,
    /// ...and that was read.
    read: AtomicU64,
}

struct Shared {
    places: Vec<Place>,
    /// Blocks from one place to the next one.
    stride: u64,
    /// Operations that are still to be done.
    left: AtomicU64,
}

/// Writes to its own places, and reads all.
struct User {
    number: u64,
    queue: Box<dyn BlockQueue>,
    shared: Arc<Shared>,
    random: u64,
    todo: VecDeque<Op>,
    done: Vec<Completion>,
    /// By the name of an operation: the place, and what had been written or read when it began.
    under_way: Vec<Option<(u64, u64)>>,
    ended: mpsc::Sender<()>,
    id: DriverId,
}

impl User {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn begin(&mut self, name: usize, on: &Handle) {
        let mut place = self.random(PLACES);
        let mut data = on.pool().take(4096).unwrap();
        let is_write = self.random(2) == 0;
        if is_write {
            place -= place % LOOPS;
            place += self.number;
        }
        let busy = |other: &Option<(u64, u64)>| other.is_some_and(|(at, _)| at == place);
        if is_write && self.under_way.iter().any(busy) {
            return;
        }
        let of = &self.shared.places[place as usize];
        let (kind, known) = if is_write {
            let version = of.begun.load(Ordering::SeqCst) + 1;
            of.begun.store(version, Ordering::SeqCst);
            data.chunks_mut(8).for_each(|word| word.copy_from_slice(&version.to_le_bytes()));
            (OpKind::Write { fua: false }, version)
        } else {
            let known = of.written.load(Ordering::SeqCst).max(of.read.load(Ordering::SeqCst));
            (OpKind::Read, known)
        };
        self.under_way[name] = Some((place, known));
        self.todo.push_back(Op::new(
            kind,
            place * self.shared.stride,
            8,
            name as u64,
            [data.into()].into(),
        ));
    }

    fn end(&mut self, completion: Completion) {
        let name = completion.op.user as usize;
        let (place, known) = self.under_way[name].take().unwrap();
        assert!(completion.outcome.is_success(), "{:?}", completion.outcome);
        let of = &self.shared.places[place as usize];
        if completion.op.kind != OpKind::Read {
            of.written.fetch_max(known, Ordering::SeqCst);
            return;
        }
        let bytes: Vec<u8> =
            completion.op.data.iter().flat_map(|segment| segment.iter().copied()).collect();
        let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes.chunks(8).all(|word| word == &bytes[..8]), "a mixture");
        let begun = of.begun.load(Ordering::SeqCst);
        assert!(
            (known..=begun).contains(&version),
            "place {place} holds {version}; {known} was known before, {begun} was begun"
        );
        of.read.fetch_max(version, Ordering::SeqCst);
    }
}

impl Driver for User {
    fn work(&mut self, on: &Handle) -> Activity {
        let mut done = core::mem::take(&mut self.done);
        self.queue.reap(&mut done);
        let some = !done.is_empty();
        done.drain(..).for_each(|completion| self.end(completion));
        self.done = done;
        while self.queue.change().is_some() {}
        for name in 0..DEPTH {
            let has_left = || {
                let less = |left: u64| left.checked_sub(1);
                self.shared.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
            };
            if self.under_way[name].is_none() && has_left() {
                self.begin(name, on);
            }
        }
        self.queue.submit(&mut self.todo);
        let is_over = self.under_way.iter().all(Option::is_none)
            && self.shared.left.load(Ordering::SeqCst) == 0;
        if is_over {
            let _ = self.ended.send(());
            on.remove(self.id);
        } else {
            on.wake(self.id);
        }
        Activity::busy_if(some)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.todo.drain(..).for_each(Op::give_up);
    }
}

fn event_loop() -> RemoteLoop {
    spawn(LoopConfig::default(), |_| ()).unwrap().1
}

fn opened(legs: &[Leg], hot: HotLimit) -> (Device, mpsc::Receiver<()>) {
    let (guard, closed) = mpsc::channel();
    let options = MirrorOptions {
        url: "mirror:test".into(),
        legs: legs.iter().map(Leg::source).collect(),
        state: None,
        force: false,
        settle: Duration::ZERO,
        patience: None,
        opener: Uuid::from_u128(1),
        host: "testhost".into(),
        time: 1_700_000_000,
        seed: 1,
        hot,
        guard: Box::new(guard),
    };
    let device = mirror::begin(&event_loop(), options).and_then(Opening::wait);
    (device.unwrap_or_else(|e| panic!("{e}")), closed)
}

fn is_whole(device: &Device) -> bool {
    device.paths().iter().all(|leg| leg.state == PathState::Live)
}

fn data(leg: &Leg, stride: u64) -> Vec<u8> {
    let rig = Rig::new(&leg.disk, TestPlan::default());
    let bytes = (0..PLACES).flat_map(|place| rig.read(0, place * stride, 8)).collect();
    rig.end();
    bytes
}

#[test]
fn nothing_goes_back_whatever_happens_to_legs() {
    loops_use_legs_that_fail(8, HotLimit::default());
}

/// Each place is in a region of its own, and only a few of them are marked at a time.
#[test]
fn nothing_goes_back_whatever_is_evicted() {
    loops_use_legs_that_fail(256, HotLimit::Regions(4));
}

fn loops_use_legs_that_fail(stride: u64, hot: HotLimit) {
    let areas =
        admin::create(Uuid::from_u128(5), &[LEG_BYTES; 3], None, 512, 3, admin::Holding::TheSame)
            .unwrap();
    let legs: Vec<Leg> = areas.iter().map(|area| Leg::new(area)).collect();
    let (device, closed) = opened(&legs, hot);
    until("the legs are equal", || is_whole(&device));
    let places = (0..PLACES).map(|_| Place::default()).collect();
    let shared = Arc::new(Shared { places, stride, left: AtomicU64::new(60_000) });
    let (ended, ends) = mpsc::channel();
    for number in 0..LOOPS {
        let (device, shared, ended) = (Arc::clone(&device), Arc::clone(&shared), ended.clone());
        event_loop().post(move |on| {
            on.spawn(|id| User {
                number,
                queue: device.open_queue(on, id).unwrap(),
                shared,
                random: 0x9e37_79b9_7f4a_7c15 ^ number,
                todo: VecDeque::new(),
                done: Vec::new(),
                under_way: vec![None; DEPTH],
                ended,
                id,
            });
        });
    }
    drop(ended);
    // One of three is away at a time: an error of a leg that the mirror cannot do without is its
    // user's.
    let (mut lost, mut over, mut is_due) = (0, 0, true);
    while over < LOOPS {
        match ends.recv_timeout(Duration::from_millis(20)) {
            Ok(()) => over += 1,
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("a user has failed"),
            Err(mpsc::RecvTimeoutError::Timeout) if is_whole(&device) => {
                if is_due {
                    lost += 1;
                    let leg = &legs[lost % legs.len()];
                    if lost % 2 == 0 { leg.lose() } else { leg.fail_once() }
                }
                is_due = legs[lost % legs.len()].has_come_back();
            }
            Err(mpsc::RecvTimeoutError::Timeout) => legs.iter().for_each(Leg::come_back),
        }
    }
    legs.iter().for_each(Leg::come_back);
    until("all legs are in sync", || is_whole(&device));
    close(device, &closed);
    assert!(legs.iter().all(|leg| data(leg, stride) == data(&legs[0], stride)), "the legs differ");
}

/// A leg in sync that cannot read some blocks gets them from another one, whichever leg the home
/// would have read.
#[test]
fn what_a_leg_cannot_read_is_written_there_again() {
    let areas =
        admin::create(Uuid::from_u128(5), &[LEG_BYTES; 2], None, 512, 3, admin::Holding::TheSame)
            .unwrap();
    let legs: Vec<Leg> = areas.iter().map(|area| Leg::new(area)).collect();
    let (device, closed) = opened(&legs, HotLimit::default());
    until("the legs are equal", || is_whole(&device));
    let blocks = device.geometry().blocks;
    let rig = Rig::new(&device, TestPlan::default());
    let bytes: Vec<u8> = (0..blocks * 512).map(|at| (at / 512) as u8).collect();
    for (n, part) in (0..).zip(bytes.chunks(64 << 10)) {
        rig.write(0, n * 128, part);
    }
    // In each region, on the leg that a loop reads which reads nothing else.
    let bad: Vec<u64> = (0..blocks).step_by(32).collect();
    legs[0].make_unreadable(bad.iter().copied());
    until("what cannot be read was written again", || {
        for &lba in &bad {
            assert_eq!(rig.read(0, lba, 1), [lba as u8; 512]);
        }
        legs[0].unreadable().is_empty()
    });
    rig.end();
    close(device, &closed);
}
