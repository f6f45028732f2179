//! A queue of a remote device on the loop of its user: the connection's driver, and the [`BlockQueue`] that shares its state.
//!
//! What the protocol makes of operations is its [`Commands`]. A connection that ends takes its queue with it: every operation under
//! way is given back with a truthful outcome, later ones are refused as not sent, and the owner is told that the device is gone.

use super::idle::Idle;
use crate::pump::{End, Handler, StreamPump};
use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockQueue, Change, Completion, Error, Op, Outcome, Status, StatusKind};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Time};
use weft_proto::stream::StreamEngine;

/// The operations of one connection, as commands of its protocol.
pub(crate) trait Commands: Handler<Self::Engine> + 'static {
    /// The protocol's engine.
    type Engine: StreamEngine + Send + 'static;

    /// Starts an operation. One for which there is no room is given back; one that cannot be done is completed at once.
    fn offer(&mut self, engine: &mut Self::Engine, on: &Handle, op: Op) -> Option<Op>;

    /// Operations that have ended and were not reaped yet.
    fn done(&mut self) -> &mut Vec<Completion>;

    /// Operations taken and not ended.
    fn running(&self) -> usize;

    /// Asks for the end of an operation, where the protocol can.
    fn cancel(&mut self, engine: &mut Self::Engine, user: u64);

    /// The connection is over: ends everything, as not sent or as perhaps executed. The engine is not used any more.
    fn fail_all(&mut self, engine: &Self::Engine, status: Status);

    /// Looks after time limits, and keeps the connection alive where the protocol wants that; called in each turn of the driver
    /// `driver`, which it has woken in time for the next look.
    ///
    /// # Errors
    /// Why the connection has to be ended.
    fn watch(&mut self, engine: &mut Self::Engine, on: &Handle, driver: DriverId) -> Result<(), String>;

    /// A change of the device that was not told yet.
    fn change(&mut self) -> Option<Change>;

    /// What the peer did wrong, if that ended the connection.
    fn violation(&self, engine: &Self::Engine) -> Option<String>;
}

/// The part that the driver and the queue share.
struct Inner<C: Commands> {
    /// Taken out when the connection ends or goes back.
    pump: Option<StreamPump<C::Engine>>,
    commands: C,
    idle: Arc<Idle<C::Engine>>,
    owner: DriverId,
    changed: Option<Change>,
    /// The queue was dropped.
    abandoned: bool,
}

/// The device's queue.
pub(crate) struct RemoteQueue<C: Commands> {
    inner: Rc<RefCell<Inner<C>>>,
    on: Handle,
    driver: DriverId,
}

/// The connection's driver.
struct Connection<C: Commands> {
    inner: Rc<RefCell<Inner<C>>>,
    id: DriverId,
}

impl<C: Commands> RemoteQueue<C> {
    /// Brings an idle connection to this loop; `commands` makes the table of its commands.
    pub(crate) fn open(
        on: &Handle,
        owner: DriverId,
        idle: &Arc<Idle<C::Engine>>,
        commands: impl FnOnce(&C::Engine) -> C,
    ) -> Result<Self, Error> {
        let mut pump = idle.take()?;
        let mut shared = None;
        let spawned = on.try_spawn(|id| {
            pump.register(on, id)?;
            let (commands, idle) = (commands(&pump.engine), Arc::clone(idle));
            let inner = Inner { pump: Some(pump), commands, idle, owner, changed: None, abandoned: false };
            let inner = Rc::new(RefCell::new(inner));
            shared = Some(Rc::clone(&inner));
            Ok::<_, std::io::Error>(Connection { inner, id })
        });
        let driver = spawned.map_err(|e| {
            idle.lost(e.to_string());
            Error::io(format!("cannot watch a connection: {e}"), e)
        })?;
        let inner = shared.expect("the driver was made");
        Ok(Self { inner, on: on.clone(), driver })
    }
}

impl<C: Commands> BlockQueue for RemoteQueue<C> {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let inner = &mut *self.inner.borrow_mut();
        let Some(pump) = &mut inner.pump else {
            let status = Outcome::NotSent(Status::new(StatusKind::Gone));
            inner.commands.done().extend(ops.drain(..).map(|op| op.done(status)));
            self.on.wake(inner.owner);
            return;
        };
        while let Some(op) = ops.pop_front() {
            if let Some(op) = inner.commands.offer(&mut pump.engine, &self.on, op) {
                ops.push_front(op);
                break;
            }
        }
        self.on.wake(self.driver);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(self.inner.borrow_mut().commands.done());
    }

    fn cancel(&mut self, user: u64) {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(pump) = &mut inner.pump {
            inner.commands.cancel(&mut pump.engine, user);
            self.on.wake(self.driver);
        }
    }

    fn in_flight(&self) -> usize {
        let inner = &mut *self.inner.borrow_mut();
        inner.commands.running() + inner.commands.done().len()
    }

    fn change(&mut self) -> Option<Change> {
        self.inner.borrow_mut().changed.take()
    }
}

impl<C: Commands> Drop for RemoteQueue<C> {
    fn drop(&mut self) {
        self.inner.borrow_mut().abandoned = true;
        self.on.wake(self.driver);
    }
}

impl<C: Commands> Inner<C> {
    /// Tells the owner what there is to reap, and that there is room again.
    #[inline]
    fn wake_owner(&mut self, on: &Handle) {
        if !self.commands.done().is_empty() || self.changed.is_some() {
            on.wake(self.owner);
        }
    }

    /// Looks whether the connection ended or has to, and whether the device changed.
    #[inline]
    fn look_around(&mut self, on: &Handle, id: DriverId) {
        let Some(pump) = &mut self.pump else { return };
        let watched = self.commands.watch(&mut pump.engine, on, id);
        let why = match (watched, pump.end()) {
            (_, Some(end)) => self.commands.violation(&pump.engine).unwrap_or_else(|| describe(end)),
            (Err(why), None) => why,
            (Ok(()), None) => {
                if let Some(change) = self.commands.change() {
                    self.changed = Some(change);
                }
                return;
            }
        };
        self.finish(why);
    }

    fn finish(&mut self, why: String) {
        // The memory goes back to its owner: nothing may be sent from it any more, nor received into it.
        if let Some(pump) = self.pump.take() {
            self.commands.fail_all(&pump.engine, Status::new(StatusKind::Gone));
            self.idle.lost(why);
        }
        self.changed = Some(Change::Gone);
    }
}

fn describe(end: &End) -> String {
    match end {
        End::Peer => "the peer closed it".into(),
        End::Engine => "it was closed".into(),
        End::Error(e) => e.to_string(),
    }
}

impl<C: Commands> Connection<C> {
    /// The queue was dropped and nothing is under way: the connection goes back for the next queue, unless it is over.
    fn retire(&self, on: &Handle) {
        let inner = &mut *self.inner.borrow_mut();
        on.remove(self.id);
        let Some(mut pump) = inner.pump.take() else { return };
        if pump.is_quiet() && pump.deregister(on, self.id).is_ok() {
            inner.idle.give(pump);
        } else {
            inner.idle.lost("it ended while nobody used it".into());
        }
    }
}

impl<C: Commands> Driver for Connection<C> {
    #[inline]
    fn receive(&mut self, on: &Handle) -> Activity {
        let inner = &mut *self.inner.borrow_mut();
        let Some(pump) = &mut inner.pump else { return Activity::Idle };
        let activity = pump.receive(on, &mut inner.commands);
        inner.wake_owner(on);
        activity
    }

    #[inline]
    fn work(&mut self, on: &Handle) -> Activity {
        let finished = {
            let inner = &mut *self.inner.borrow_mut();
            inner.look_around(on, self.id);
            if inner.abandoned {
                inner.commands.done().clear();
            }
            inner.wake_owner(on);
            inner.abandoned && inner.commands.running() == 0
        };
        if finished {
            self.retire(on);
            return Activity::Busy;
        }
        Activity::Idle
    }

    #[inline]
    fn send(&mut self, on: &Handle) -> Activity {
        let inner = &mut *self.inner.borrow_mut();
        let Some(pump) = &mut inner.pump else { return Activity::Idle };
        let activity = pump.send(on, &mut inner.commands);
        inner.wake_owner(on);
        activity
    }
}

/// Looks after a time limit of operations: four times per limit, not in each turn.
pub(crate) struct Watchdog {
    limit: Duration,
    looked: Time,
    timer: TimerSlot,
}

impl Watchdog {
    pub(crate) fn new(on: &Handle, limit: Duration) -> Self {
        Self { limit, looked: on.now(), timer: TimerSlot::default() }
    }

    /// Whether it is time to look, while something is under way. Then gives the time before which nothing may have started.
    #[inline]
    pub(crate) fn due(&mut self, on: &Handle, driver: DriverId) -> Option<Time> {
        let next = self.looked + self.limit / 4;
        if on.now() < next {
            self.timer.arm(on, driver, next);
            return None;
        }
        self.looked = on.now();
        self.timer.arm(on, driver, on.now() + self.limit / 4);
        Some(Time::from_epoch(on.now().since_epoch().saturating_sub(self.limit)))
    }
}
