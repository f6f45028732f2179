//! A queue of a remote device on the loop of its user: the connection's driver, and the
//! [`BlockQueue`] that shares its state.
//!
//! [`Commands`] turns operations into those of the protocol; a [`DeviceLink`] carries them. A
//! connection that ends takes its queue with it: every operation under way is given back with a
//! truthful outcome, at once or when it can no longer be executed ([`super::settle`]), later ones
//! are refused as not sent, and the owner is notified that the device is gone.

use super::link::DeviceLink;
use crate::paths::Failover;
use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use weft_block::{BlockQueue, Completion, DeviceChange, DeviceChanges, Error, Op, Outcome};
use weft_connection::limits::SEND_AHEAD_BYTES;
use weft_connection::settle::lost_writes::{GONE, LostWrites};
use weft_io::event_loop::TimerSlot;
use weft_io::segment::total_len;
use weft_io::{Activity, Driver, DriverId, Handle, Time};

/// Whether operations are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueGate {
    /// They are.
    Open,
    /// Not before something is known; until then they stay with whoever submits them.
    Held,
    /// They are refused as not sent.
    Shut,
}

/// The operations of one connection, as commands of its protocol.
pub(crate) trait Commands: Sized + 'static {
    /// What carries them.
    type Link: DeviceLink<Self>;

    /// Whether operations are taken now.
    #[inline]
    fn gate(&self) -> QueueGate {
        QueueGate::Open
    }

    /// Starts an operation. One for which there is no room is given back; one that cannot be done
    /// is completed at once.
    fn offer(&mut self, engine: &mut EngineOf<Self>, on: &Handle, op: Op) -> Option<Op>;

    /// Operations that have ended and were not reaped yet.
    fn done(&mut self) -> &mut Vec<Completion>;

    /// Operations taken and not ended.
    fn running(&self) -> usize;

    /// Asks for the end of an operation, where the protocol can.
    fn cancel(&mut self, engine: &mut EngineOf<Self>, user: u64);

    /// Looks after time limits, and keeps the connection alive where the protocol wants that;
    /// called in each turn of the driver `driver`, which it has woken in time for the next look.
    ///
    /// # Errors
    /// Why the connection has to be ended.
    fn watch(
        &mut self,
        engine: &mut EngineOf<Self>,
        on: &Handle,
        driver: DriverId,
    ) -> Result<(), String>;

    /// A change of the device that was not told yet; asked for until there is none.
    fn change(&mut self) -> Option<DeviceChange>;

    /// What the peer did wrong, if that ended the connection and the link does not know it.
    fn violation(&self, engine: &EngineOf<Self>) -> Option<String> {
        let _ = engine;
        None
    }

    /// The connection is over: ends everything with [`GONE`], as not sent or as perhaps executed;
    /// but what may change the device and may still be executed is lost. The engine is not used any
    /// more.
    fn connection_ended(&mut self, engine: &EngineOf<Self>, on: &Handle, lost: &mut LostWrites);

    /// When what was lost cannot be executed any more, as far as is known now. Asked in each turn
    /// after the connection has ended.
    fn settled_at(&self) -> Time;

    /// Nobody uses the connection any more: it is for the next queue.
    fn give_back(&mut self, link: Self::Link);

    /// The connection has ended, and why.
    fn lost(&mut self, why: String);

    /// The loop ends while the connection is on it, and closes it.
    fn loop_ended(&mut self) {}
}

/// What commands are submitted to.
pub(crate) type EngineOf<C> = <<C as Commands>::Link as DeviceLink<C>>::Engine;

/// The part that the driver and the queue share.
struct QueueState<C: Commands> {
    /// Taken out when the connection ends or goes back.
    link: Option<C::Link>,
    commands: C,
    lost: LostWrites,
    owner: DriverId,
    changes: DeviceChanges,
    /// The owner was not woken for the last of them yet: it is woken once, whenever it takes them.
    is_news: bool,
    /// Operations were left with their owner, as the gate was not open.
    held: bool,
    /// The queue was dropped.
    abandoned: bool,
}

impl<C: Commands> Drop for QueueState<C> {
    fn drop(&mut self) {
        if self.link.take().is_some() {
            self.commands.loop_ended();
        }
    }
}

/// The device's queue.
pub(crate) struct RemoteQueue<C: Commands> {
    inner: Rc<RefCell<QueueState<C>>>,
    on: Handle,
    driver: DriverId,
}

/// The connection's driver.
struct Connection<C: Commands> {
    inner: Rc<RefCell<QueueState<C>>>,
    id: DriverId,
}

impl<C: Commands> RemoteQueue<C> {
    /// Brings a connection to this loop; `commands` makes the table of its commands, and is told
    /// which driver they have.
    pub(crate) fn open(
        on: &Handle,
        owner: DriverId,
        mut link: C::Link,
        failover: Failover,
        commands: impl FnOnce(&mut EngineOf<C>, DriverId) -> C,
    ) -> Result<Self, Error> {
        let mut shared = None;
        let driver = on.try_spawn(|id| {
            let mut commands = commands(link.engine(), id);
            if let Err(e) = link.register(on, id) {
                commands.lost(e.to_string());
                return Err(Error::io(format!("cannot watch a connection: {e}"), e));
            }
            let lost = LostWrites::new(failover == Failover::Safe);
            let inner = QueueState {
                link: Some(link),
                commands,
                lost,
                owner,
                changes: DeviceChanges::default(),
                is_news: false,
                held: false,
                abandoned: false,
            };
            let inner = Rc::new(RefCell::new(inner));
            shared = Some(Rc::clone(&inner));
            Ok(Connection { inner, id })
        })?;
        let inner = shared.expect("the driver was made");
        Ok(Self { inner, on: on.clone(), driver })
    }
}

impl<C: Commands> BlockQueue for RemoteQueue<C> {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let inner = &mut *self.inner.borrow_mut();
        let gate = inner.commands.gate();
        let Some(link) = inner.link.as_mut().filter(|_| gate != QueueGate::Shut) else {
            if !ops.is_empty() {
                inner
                    .commands
                    .done()
                    .extend(ops.drain(..).map(|op| op.done(Outcome::NotSent(GONE))));
                self.on.wake(inner.owner);
            }
            return;
        };
        if gate == QueueGate::Held {
            inner.held |= !ops.is_empty();
            return;
        }
        let mut written = 0;
        while let Some(op) = ops.pop_front() {
            let bytes = if op.kind.is_write() { total_len(&op.data) } else { 0 };
            if let Some(op) = inner.commands.offer(link.engine(), &self.on, op) {
                ops.push_front(op);
                break;
            }
            written += bytes;
        }
        if written >= SEND_AHEAD_BYTES {
            let _ = link.send(&self.on, &mut inner.commands);
        }
        self.on.wake(self.driver);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(self.inner.borrow_mut().commands.done());
    }

    fn cancel(&mut self, user: u64) {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(link) = &mut inner.link {
            inner.commands.cancel(link.engine(), user);
            self.on.wake(self.driver);
        }
    }

    fn in_flight(&self) -> usize {
        let inner = &mut *self.inner.borrow_mut();
        inner.commands.running() + inner.lost.count() + inner.commands.done().len()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.inner.borrow_mut().changes.take()
    }
}

impl<C: Commands> Drop for RemoteQueue<C> {
    fn drop(&mut self) {
        self.inner.borrow_mut().abandoned = true;
        self.on.wake(self.driver);
    }
}

impl<C: Commands> QueueState<C> {
    /// Tells the owner what there is to reap, and that there is room again.
    #[inline]
    fn wake_owner(&mut self, on: &Handle) {
        let freed = self.held && self.commands.gate() != QueueGate::Held;
        if freed || !self.commands.done().is_empty() || core::mem::take(&mut self.is_news) {
            self.held &= !freed;
            on.wake(self.owner);
        }
    }

    /// Looks whether the connection ended or has to, and whether the device changed.
    #[inline]
    fn look_around(&mut self, on: &Handle, id: DriverId) {
        let Some(link) = &mut self.link else { return self.settle(on, id) };
        let why = if link.has_ended() {
            self.commands.violation(link.engine()).unwrap_or_else(|| link.why_ended())
        } else if let Err(why) = self.commands.watch(link.engine(), on, id) {
            why
        } else {
            while let Some(change) = self.commands.change() {
                self.add_change(change);
            }
            return;
        };
        self.finish(on, id, why);
    }

    #[cold]
    fn finish(&mut self, on: &Handle, id: DriverId, why: String) {
        // The memory goes back to its owner: nothing may be sent from it any more, nor received
        // into it.
        if let Some(mut link) = self.link.take() {
            self.commands.connection_ended(link.engine(), on, &mut self.lost);
            self.commands.lost(why);
        }
        self.add_change(DeviceChange::Gone);
        self.held = false;
        self.settle(on, id);
    }

    fn settle(&mut self, on: &Handle, id: DriverId) {
        if self.lost.count() > 0 {
            let at = self.commands.settled_at();
            self.lost.settle(on, id, at, self.commands.done());
        }
    }

    fn add_change(&mut self, change: DeviceChange) {
        self.changes.add(change);
        self.is_news = true;
    }
}

impl<C: Commands> Connection<C> {
    /// The queue was dropped and nothing is under way: the connection goes back for the next queue,
    /// unless it is over.
    fn retire(&self, on: &Handle) {
        let inner = &mut *self.inner.borrow_mut();
        on.remove(self.id);
        let Some(mut link) = inner.link.take() else { return };
        if link.is_quiet() && link.deregister(on, self.id).is_ok() {
            inner.commands.give_back(link);
        } else {
            inner.commands.lost("it ended while nobody used it".into());
        }
    }
}

impl<C: Commands> Driver for Connection<C> {
    #[inline]
    fn receive(&mut self, on: &Handle) -> Activity {
        let inner = &mut *self.inner.borrow_mut();
        let Some(link) = &mut inner.link else { return Activity::Idle };
        let activity = link.receive(on, &mut inner.commands);
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
            // Without a connection nothing touches the memory of what waits to be settled, and
            // nobody waits for it.
            inner.abandoned && (inner.link.is_none() || inner.commands.running() == 0)
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
        let Some(link) = &mut inner.link else { return Activity::Idle };
        let activity = link.send(on, &mut inner.commands);
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

    /// Whether it is time to look, while something is under way. Then gives the time before which
    /// nothing may have started.
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
