//! Concurrent work of loops and the home of a mirror, in every order that threads may take
//! (`loom`).

use super::locks::{LockRange, Locks, UNIT_BYTES};
use super::marks::Marks;
use super::permit::{Permit, Writers};
use super::waiting::{Waiter, Wanted};
use crate::mirror::bitmap::Bitmap;
use loom::cell::UnsafeCell as Cell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn one_lock() -> LockRange {
    LockRange::of(0, 1).unwrap()
}

/// Two legs, in which a write is executed one after the other; a target and its network carry what
/// happened before with them.
struct Legs([AtomicU32; 2]);

impl Legs {
    fn write(&self, value: u32) {
        self.0.iter().for_each(|leg| leg.store(value, Ordering::Release));
    }

    fn read(&self, leg: usize) -> u32 {
        self.0[leg].load(Ordering::Acquire)
    }
}

/// A reader of new data at one leg does not read old data at the other one, and a reader without a
/// lock and a write on another loop do not keep each other up.
#[test]
fn no_read_goes_back() {
    check(|| {
        let locks = Arc::new(Locks::new());
        let legs = Arc::new(Legs([AtomicU32::new(0), AtomicU32::new(0)]));
        let writer = {
            let (locks, legs) = (Arc::clone(&locks), Arc::clone(&legs));
            thread::spawn(move || {
                if locks.take(one_lock()).is_ok() {
                    legs.write(1);
                    let _ = locks.free(one_lock());
                }
            })
        };
        let read = |leg| {
            let seen = locks.look(one_lock())?;
            let value = legs.read(leg);
            locks.is_as_seen(one_lock(), &seen).then_some(value)
        };
        let (first, second) = (read(0), read(1));
        assert!(first != Some(1) || second != Some(0), "{first:?}, {second:?}");
        writer.join().unwrap();
        assert_eq!(legs.read(0), legs.read(1));
    });
}

/// Two holders never execute the code under a lock (accesses that `loom` watches) at once, and a
/// home that did not get it is notified when it is free.
#[test]
fn a_lock_has_one_holder_and_the_home_is_told() {
    check(|| {
        let locks = Arc::new(Locks::new());
        let blocks = Arc::new(Cell::new(()));
        let loops = [(); 2].map(|()| {
            let (locks, blocks) = (Arc::clone(&locks), Arc::clone(&blocks));
            thread::spawn(move || {
                locks.take(one_lock()).is_ok() && {
                    blocks.with_mut(|_| ());
                    locks.free(one_lock())
                }
            })
        });
        let has_it = locks.take_for_home(0);
        if has_it {
            blocks.with_mut(|_| ());
            locks.free_of_home(0);
        }
        let told = loops.map(|one| one.join().unwrap());
        assert!(has_it || told.contains(&true));
    });
}

/// Two loops have parts of one lock, and the home has none of it as long as one of them has its own;
/// whoever frees the last one tells it.
#[test]
fn parts_of_a_lock_have_a_holder_each_and_the_home_waits_for_all() {
    check(|| {
        let locks = Arc::new(Locks::new());
        let blocks = Arc::new([(); 2].map(|()| Cell::new(())));
        let loops = [0, 1].map(|nth| {
            let (locks, blocks) = (Arc::clone(&locks), Arc::clone(&blocks));
            thread::spawn(move || {
                let part = LockRange::of(nth as u64 * (UNIT_BYTES / 2), 1).unwrap();
                let taken = locks.take(part);
                taken.is_ok() && {
                    blocks[nth].with_mut(|_| ());
                    locks.free(part)
                }
            })
        });
        let has_it = locks.take_for_home(0);
        if has_it {
            blocks.iter().for_each(|block| block.with_mut(|_| ()));
            locks.free_of_home(0);
        }
        let told = loops.map(|one| one.join().unwrap());
        assert!(has_it || told.contains(&true));
    });
}

/// The home decides nothing while a loop writes by a permit.
#[test]
fn nobody_writes_while_the_home_decides() {
    check(|| {
        let permit = Arc::new(Permit::new());
        permit.give();
        let writers = [(); 2].map(|()| Arc::new(Writers::new()));
        // What a permit depends on.
        let state = Arc::new(Cell::new(()));
        let loops = writers.clone().map(|writers| {
            let (permit, state) = (Arc::clone(&permit), Arc::clone(&state));
            thread::spawn(move || {
                let seen = permit.see();
                if writers.begin(&permit, seen) {
                    state.with(|_| ());
                    writers.end(seen);
                }
            })
        });
        permit.withdraw();
        if writers.iter().all(|one| one.is_none()) {
            state.with_mut(|_| ());
            permit.give();
        }
        loops.into_iter().for_each(|one| one.join().unwrap());
    });
}

/// A write to a region that has seen its mark has ended before the bit of the region is cleared,
/// also if the mark was set again and taken back a second time in the meantime.
#[test]
fn a_bit_is_not_cleared_while_somebody_writes_by_its_mark() {
    check(|| {
        let permit = Arc::new(Permit::new());
        permit.give();
        let marks = Arc::new(Marks::new(1));
        marks.set(&Bitmap::full(1));
        let writers = Arc::new(Writers::new());
        // The bit, on which a write depends.
        let bit = Arc::new(Cell::new(()));
        let one = {
            let (permit, marks) = (Arc::clone(&permit), Arc::clone(&marks));
            let (writers, bit) = (Arc::clone(&writers), Arc::clone(&bit));
            thread::spawn(move || {
                let seen = permit.see();
                if writers.begin(&permit, seen) {
                    if marks.has_all(0..1) {
                        bit.with(|_| ());
                    }
                    writers.end(seen);
                }
            })
        };
        for _ in 0..2 {
            marks.set(&Bitmap::new(1));
            if writers.is_past(&permit) {
                permit.turn();
                if writers.is_past(&permit) {
                    bit.with_mut(|_| ());
                }
            }
            marks.set(&Bitmap::full(1));
        }
        one.join().unwrap();
    });
}

/// A loop that waits for a mark finds it, or is woken for it, also if something else was published
/// just before.
#[test]
fn nobody_waits_for_a_mark_that_is_there() {
    check(|| {
        let marks = Arc::new(Marks::new(1));
        let waiter = Arc::new(Waiter::new());
        // Each wake makes the loop look again if its word was taken.
        let wakes = Arc::new(AtomicU32::new(0));
        let one = {
            let (marks, waiter) = (Arc::clone(&marks), Arc::clone(&waiter));
            let wakes = Arc::clone(&wakes);
            thread::spawn(move || {
                waiter.wait();
                let has_mark = marks.has_all(0..1);
                let _ = wakes.swap(0, Ordering::SeqCst);
                if has_mark || waiter.is_waiting() {
                    return has_mark;
                }
                waiter.wait();
                marks.has_all(0..1)
            })
        };
        for regions in [Bitmap::new(1), Bitmap::full(1)] {
            marks.set(&regions);
            if waiter.take() {
                wakes.fetch_add(1, Ordering::SeqCst);
            }
        }
        let has_mark = one.join().unwrap();
        assert!(has_mark || wakes.load(Ordering::SeqCst) > 0);
    });
}

/// The home gets every region that a loop asks for, if it looks after it was woken.
#[test]
fn no_wish_for_a_mark_is_lost() {
    check(|| {
        let wanted = Arc::new(Wanted::new(2));
        let loops = [0, 1].map(|region| {
            let wanted = Arc::clone(&wanted);
            thread::spawn(move || wanted.add(region..region + 1))
        });
        let mut all = Bitmap::new(2);
        wanted.take().iter().for_each(|some| all.add(some));
        loops.into_iter().for_each(|one| one.join().unwrap());
        wanted.take().iter().for_each(|some| all.add(some));
        assert_eq!(all.count(), 2);
    });
}
