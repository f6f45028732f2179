//! The protocol of a loop that goes to sleep and of others that post to it, in every order that
//! threads may take (`loom`): no post is slept through.

use super::registrar::Ready;
use super::{Backend, Driver, Handle, Loop, LoopConfig, RegistryRef};
use crate::event_loop::Activity;
use crate::stream::{Listener, Stream};
use crate::time::Time;
use core::time::Duration;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A poller that knows wake-ups only; like the system's it remembers one that comes before the
/// wait.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    ring: Condvar,
}

struct Poller(Arc<Bell>);

impl Backend for Poller {
    fn now(&mut self) -> Time {
        Time::ZERO
    }

    fn poll(&mut self, wait: Option<Duration>, _: &mut Vec<Ready>) -> io::Result<bool> {
        let mut rung = self.0.rung.lock().unwrap();
        while wait.is_none() && !*rung {
            rung = self.0.ring.wait(rung).unwrap();
        }
        Ok(core::mem::take(&mut *rung))
    }

    fn connect(&mut self, _: SocketAddr) -> io::Result<Box<dyn Stream>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn listen(&mut self, _: SocketAddr) -> io::Result<Box<dyn Listener>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn registry(&self) -> RegistryRef<'_> {
        RegistryRef::Other(&())
    }

    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let bell = Arc::clone(&self.0);
        Arc::new(move || {
            *bell.rung.lock().unwrap() = true;
            bell.ring.notify_one();
        })
    }
}

fn event_loop() -> Loop {
    let config = LoopConfig { spin: Duration::ZERO, pool_bytes: 1 << 20, ..LoopConfig::default() };
    Loop::with_backend(&config, Box::new(Poller(Arc::default())))
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A loop that slept through a task would wait for ever, which `loom` reports.
#[test]
fn no_task_is_slept_through() {
    check(|| {
        let mut event_loop = event_loop();
        let remote = event_loop.handle().remote();
        let posts = [1, 2].map(|_| {
            let remote = remote.clone();
            thread::spawn(move || {
                remote.post(|on: &Handle| {
                    // The second one ends the loop.
                    if LEFT.with(|left| left.replace(left.get() - 1)) == 1 {
                        on.stop();
                    }
                });
            })
        });
        LEFT.with(|left| left.set(2));
        event_loop.run().unwrap();
        posts.into_iter().for_each(|post| post.join().unwrap());
    });
}

loom::thread_local! {
    static LEFT: Cell<u32> = Cell::new(0);
}

/// Stops its loop when it is woken for the second time: the first is that it was spawned.
struct Woken(Rc<Cell<u32>>);

impl Driver for Woken {
    fn receive(&mut self, on: &Handle) -> Activity {
        if self.0.replace(self.0.get() + 1) == 1 {
            on.stop();
        }
        Activity::Idle
    }

    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }

    fn send(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// Wakes of a driver, which may be ones that come while it is being left alone.
#[test]
fn no_driver_is_left_asleep() {
    check(|| {
        let mut event_loop = event_loop();
        let remote = event_loop.handle().remote();
        let driver = event_loop.handle().spawn(|_| Woken(Rc::new(Cell::new(0))));
        let _ = event_loop.turn(false).unwrap();
        let wake = thread::spawn(move || remote.wake(driver));
        event_loop.run().unwrap();
        wake.join().unwrap();
    });
}

/// A task posted to a loop that ends is run or dropped, and never kept.
#[test]
fn a_loop_that_ends_keeps_no_task() {
    check(|| {
        let task = Arc::new(());
        let held = Arc::downgrade(&task);
        let event_loop = event_loop();
        let remote = event_loop.handle().remote();
        let post = thread::spawn(move || remote.post(move |_: &Handle| drop(task)));
        drop(event_loop);
        post.join().unwrap();
        assert!(held.upgrade().is_none());
    });
}
