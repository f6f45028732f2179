//! Delay until a busy loop finds the poller's events.

use super::*;
use crate::event_loop::Ready;
use crate::event_loop::registrar::RegistryRef;
use crate::limits::TURNS_PER_POLL;
use crate::stream::{Listener, Stream};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Next result of a poller, and the number of polls.
#[derive(Default)]
struct Said {
    ready: RefCell<Vec<Ready>>,
    polls: Cell<u32>,
}

/// A poller in whose time a turn takes a millisecond.
struct Poller {
    now: Time,
    said: Rc<Said>,
}

impl Backend for Poller {
    fn now(&mut self) -> Time {
        self.now = self.now + Duration::from_millis(1);
        self.now
    }

    fn poll(&mut self, _: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<bool> {
        self.said.polls.set(self.said.polls.get() + 1);
        ready.append(&mut self.said.ready.borrow_mut());
        Ok(false)
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
        Arc::new(|| ())
    }
}

/// Has always something to do.
struct Busy;

impl Driver for Busy {
    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Busy
    }
}

/// Has something to do when it is woken, and is not tried again where a turn is long.
struct Now(Rc<Cell<u32>>);

impl Driver for Now {
    fn receive(&mut self, _: &Handle) -> Activity {
        self.0.set(self.0.get() + 1);
        Activity::Idle
    }

    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// A loop with a busy driver and another, whose receives are counted.
fn a_busy_loop() -> (Loop, Rc<Said>, DriverId, Rc<Cell<u32>>) {
    let said = Rc::new(Said::default());
    let poller = Poller { now: Time::ZERO, said: Rc::clone(&said) };
    let event_loop = Loop::with_backend(&LoopConfig::default(), Box::new(poller));
    let received = Rc::new(Cell::new(0));
    let on = event_loop.handle();
    let busy = on.spawn(|_| Busy);
    on.wake(busy);
    let other = on.spawn(|id| {
        on.registrar(id, |_| ());
        Now(Rc::clone(&received))
    });
    on.wake(other);
    (event_loop, said, other, received)
}

#[test]
fn what_comes_waits_no_longer_than_it_was_quiet() {
    for quiet in [1, 2, 3, 5, 8, 13, 40] {
        let (mut event_loop, said, other, received) = a_busy_loop();
        let mut turn = || event_loop.turn(true).unwrap();
        let _ = turn();
        assert_eq!(received.get(), 1, "it is tried once, and then quiet");
        (0..quiet).for_each(|_| _ = turn());
        said.ready.borrow_mut().push(Ready { driver: other, closed: false });
        let mut waited = 0;
        while received.get() == 1 {
            let _ = turn();
            waited += 1;
        }
        let most = (quiet + 1).min(TURNS_PER_POLL + 1);
        assert!(waited <= most, "quiet for {quiet} turns, found after {waited}");
    }
}

/// A driver that the poller cannot wake causes no polls.
#[test]
fn a_driver_without_a_source_is_not_looked_for() {
    let (mut event_loop, said, _, _) = a_busy_loop();
    let on = event_loop.handle().clone();
    let alone = on.spawn(|_| Now(Rc::default()));
    let turns = 100 * TURNS_PER_POLL;
    for _ in 0..turns {
        on.wake(alone);
        let _ = event_loop.turn(true).unwrap();
    }
    let most = turns / TURNS_PER_POLL + 5;
    assert!(said.polls.get() <= most, "{} polls in {turns} turns", said.polls.get());
}

#[test]
fn a_loop_whose_poller_finds_nothing_seldom_asks_it() {
    let (mut event_loop, said, _, _) = a_busy_loop();
    let turns = 100 * TURNS_PER_POLL;
    for _ in 0..turns {
        let _ = event_loop.turn(true).unwrap();
    }
    let most = turns / TURNS_PER_POLL + 5;
    assert!(said.polls.get() <= most, "{} polls in {turns} turns", said.polls.get());
}
