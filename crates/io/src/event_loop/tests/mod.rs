mod polling;

use super::*;
use crate::Time;
use core::time::Duration;
use std::cell::{Cell, RefCell};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::rc::Rc;
use weft_testing::wait::PATIENCE;

/// Sends back what it receives.
struct Echo {
    stream: Box<dyn crate::Stream>,
    id: DriverId,
    held: Vec<u8>,
}

impl Driver for Echo {
    fn receive(&mut self, on: &Handle) -> Activity {
        let mut bytes = [0; 4096];
        match self.stream.recv(&mut [IoSliceMut::new(&mut bytes)]) {
            Ok(0) => {
                on.remove(self.id);
                on.stop();
                Activity::Busy
            }
            Ok(n) => {
                self.held.extend_from_slice(&bytes[..n]);
                Activity::Busy
            }
            Err(_) => Activity::Idle,
        }
    }

    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }

    fn send(&mut self, _: &Handle) -> Activity {
        if self.held.is_empty() {
            return Activity::Idle;
        }
        let n = self.stream.send(&[IoSlice::new(&self.held)]).unwrap();
        self.held.drain(..n);
        Activity::Busy
    }
}

struct Accepter(Box<dyn crate::Listener>);

impl Driver for Accepter {
    fn work(&mut self, on: &Handle) -> Activity {
        let Ok(mut stream) = self.0.accept() else { return Activity::Idle };
        on.spawn(|id| {
            on.registrar(id, |r| stream.register(r)).unwrap();
            Echo { stream, id, held: Vec::new() }
        });
        Activity::Busy
    }
}

#[test]
fn echo_over_tcp_from_another_thread() {
    let (address, _remote, thread) = spawn(LoopConfig::default(), |on| {
        let mut listener = on.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local();
        on.spawn(|id| {
            on.registrar(id, |r| listener.register(r)).unwrap();
            Accepter(listener)
        });
        address
    })
    .unwrap();
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    for round in 0..100u8 {
        stream.write_all(&[round; 1000]).unwrap();
        let mut back = [0; 1000];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, [round; 1000]);
    }
    drop(stream);
    thread.join().unwrap().unwrap();
}

struct Ticker {
    id: DriverId,
    ticks: Rc<RefCell<Vec<Time>>>,
    timer: TimerSlot,
    next: Time,
}

impl Driver for Ticker {
    fn work(&mut self, on: &Handle) -> Activity {
        if on.now() < self.next {
            self.timer.arm(on, self.id, self.next);
            return Activity::Idle;
        }
        self.ticks.borrow_mut().push(on.now());
        self.next = on.now() + Duration::from_millis(2);
        self.timer.arm(on, self.id, self.next);
        // On a busy machine a timer may be due before the loop sleeps.
        let ticks = self.ticks.borrow().len();
        if ticks == 1000 || ticks >= 5 && on.counters().snapshot().wakeups_timer >= 4 {
            on.stop();
        }
        Activity::Busy
    }
}

#[test]
fn timers_wake_a_sleeping_loop() {
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let ticks = Rc::new(RefCell::default());
    let seen = Rc::clone(&ticks);
    event_loop.handle().spawn(|id| Ticker {
        id,
        ticks,
        timer: TimerSlot::default(),
        next: Time::ZERO,
    });
    event_loop.run().unwrap();
    let (ticks, counters) = (seen.borrow().len() as u64, event_loop.handle().counters().snapshot());
    assert!((4..=2 * ticks).contains(&counters.wakeups_timer), "{ticks} ticks, {counters:?}");
}

#[test]
fn posting_wakes_a_sleeping_loop() {
    let (_, remote, thread) =
        spawn(LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() }, |_| ()).unwrap();
    let (give, take) = std::sync::mpsc::channel();
    for n in 0..50 {
        let give = give.clone();
        remote.post(move |_| give.send(n).unwrap());
        assert_eq!(take.recv_timeout(PATIENCE).unwrap(), n);
    }
    remote.post(|on| on.stop());
    thread.join().unwrap().unwrap();
}

/// Wakes another driver and counts its own runs.
struct Pair {
    other: Rc<Cell<Option<DriverId>>>,
    runs: Rc<Cell<u32>>,
    id: DriverId,
}

impl Driver for Pair {
    fn work(&mut self, on: &Handle) -> Activity {
        self.runs.set(self.runs.get() + 1);
        match self.other.get() {
            Some(other) if self.runs.get() < 3 => on.wake(other),
            _ => on.remove(self.id),
        }
        Activity::Busy
    }
}

#[test]
fn drivers_wake_each_other_and_slots_are_reused_under_new_names() {
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let on = event_loop.handle().clone();
    let runs = Rc::new(Cell::new(0));
    let first_name = Rc::new(Cell::new(None));
    let none = Rc::new(Cell::new(None));
    let first = on.spawn(|id| Pair { other: none, runs: Rc::clone(&runs), id });
    first_name.set(Some(first));
    let second = on.spawn(|id| Pair { other: Rc::clone(&first_name), runs: Rc::clone(&runs), id });
    for _ in 0..10 {
        let _ = event_loop.turn(false).unwrap();
    }
    assert!(runs.get() >= 3);
    on.remove(second);
    assert_eq!(on.live_drivers(), 0);
    let third = on.spawn(|id| Pair { other: Rc::default(), runs: Rc::clone(&runs), id });
    assert_ne!(third, first);
    assert_ne!(third, second);
    let _ = event_loop.turn(false).unwrap();
    on.wake(first);
    on.remove(first);
    assert_eq!(on.live_drivers(), 0);
}

#[test]
fn a_driver_may_be_removed_while_it_is_made() {
    let event_loop = Loop::new(LoopConfig::default()).unwrap();
    let on = event_loop.handle();
    let dropped = Rc::new(());
    let held = Rc::clone(&dropped);
    struct Holder(#[expect(dead_code)] Rc<()>);
    impl Driver for Holder {
        fn work(&mut self, _: &Handle) -> Activity {
            Activity::Idle
        }
    }
    on.spawn(|id| {
        on.remove(id);
        Holder(held)
    });
    assert_eq!((Rc::strong_count(&dropped), on.live_drivers()), (1, 0));
    let failed = on.try_spawn(|id| {
        on.remove(id);
        Err::<Holder, ()>(())
    });
    assert_eq!((failed, on.live_drivers()), (Err(()), 0));
}

#[test]
fn tasks_end_with_their_loop() {
    let event_loop = Loop::new(LoopConfig::default()).unwrap();
    let remote = event_loop.handle().remote();
    let waited_for = std::sync::Arc::new(());
    let post = || {
        let held = std::sync::Arc::clone(&waited_for);
        remote.post(move |_| drop(held));
    };
    post();
    drop(event_loop);
    assert_eq!(std::sync::Arc::strong_count(&waited_for), 1, "posted before the end");
    post();
    assert_eq!(std::sync::Arc::strong_count(&waited_for), 1, "posted after the end");
}
