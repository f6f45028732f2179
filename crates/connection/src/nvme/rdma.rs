//! Common work of both ends of a connection over RDMA: a queue pair of `weft_io`, an engine of
//! `weft_proto`, and what passes between them.

use crate::limits::RDMA_EVENTS_PER_TURN;
use crate::refusals::Refusals;
use std::io;
use weft_io::event_loop::TimerSlot;
use weft_io::rdma::{DeviceLimits, NotLent, QueuePair, QueuePairEvent};
use weft_io::{Activity, DriverId, Handle, Segments};
use weft_proto::nvme_rdma::{
    QueuePairEngine, QueuePairLimits, ReceiveBuffer, Received, Work, WorkError, WorkId, WorkOutcome,
};
use weft_proto::stream::Tag;

/// Memory that cannot be registered, for the log.
static COPIED: Refusals = Refusals::new();

/// Work that could not be done, for the log.
pub static FAILED: Refusals = Refusals::new();

/// An engine on its queue pair, whose commands are with `C`: what both ends of a connection do
/// alike in a turn.
pub trait Turn<C> {
    /// The engine.
    type Queue: QueuePairEngine;

    /// Both parts.
    fn parts(&mut self) -> (&mut Wire, &mut Self::Queue);

    /// Tells commands what there is for them; whether there was something.
    fn tell(&mut self, on: &Handle, commands: &mut C) -> bool;

    /// Does one thing that the engine asks for.
    fn act(&mut self, commands: &mut C, work: Work) -> Result<(), NoMemoryNow>;

    /// Does what the engine asks for; whether there was something.
    #[inline]
    fn work(&mut self, commands: &mut C) -> bool {
        let mut some = false;
        loop {
            let (wire, end) = self.parts();
            if let Some(held) = wire.held.take_if(|_| end.is_closed()) {
                end.give_up(held);
            }
            let Some(work) = wire.held.take().or_else(|| end.next_work()) else { return some };
            if self.act(commands, work).is_err() {
                self.parts().0.held = Some(work);
                return some;
            }
            some = true;
        }
    }

    /// Works, and tells what came of it, until there is nothing left.
    #[inline]
    fn turn(&mut self, on: &Handle, commands: &mut C) -> Activity {
        let (wire, end) = self.parts();
        wire.keep_time(on, end);
        let (mut some, mut told) = (false, false);
        // What is told may ask for work, and work that is done at once has something to tell.
        loop {
            let (worked, tells) = (self.work(commands), self.tell(on, commands));
            if !worked && !tells {
                break;
            }
            (some, told) = (true, told | tells);
        }
        let (wire, end) = self.parts();
        if some && (end.has_ended() || wire.pair.has_own_event()) {
            wire.wake(on);
        }
        // Who has the commands goes on with what was told in the next turn. Whatever else it waits
        // for wakes the driver.
        Activity::busy_if(some).or_settled_if(!told)
    }
}

/// A queue pair and who is woken for it.
pub struct Wire {
    /// The queue pair.
    pub pair: Box<dyn QueuePair>,
    driver: Option<DriverId>,
    timer: TimerSlot,
    /// Nothing more comes from it.
    destroyed: bool,
    /// The connection was not accepted, or failed before it stood.
    refused: bool,
    /// The error of the system that ended it, if one did.
    pub error: Option<io::Error>,
    slots: Vec<TagMemory>,
    /// Work that waits for memory.
    pub held: Option<Work>,
}

/// What memory the slot of a tag has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagMemory {
    Empty,
    Own,
    Lent,
}

/// No memory can be had for work now, but what is in use comes back.
pub struct NoMemoryNow;

impl Wire {
    /// Makes one for commands of `slots` tags.
    pub fn new(pair: Box<dyn QueuePair>, slots: u16) -> Self {
        let (driver, timer, slots) =
            (None, TimerSlot::default(), vec![TagMemory::Empty; slots.into()]);
        Self {
            pair,
            driver,
            timer,
            destroyed: false,
            refused: false,
            error: None,
            slots,
            held: None,
        }
    }

    /// Lets a driver be woken for what happens on the queue pair.
    ///
    /// # Errors
    /// The loop cannot wait for its events.
    pub fn register(&mut self, on: &Handle, driver: DriverId) -> io::Result<()> {
        on.registrar(driver, |r| self.pair.register(r))?;
        (self.driver, self.timer) = (Some(driver), TimerSlot::default());
        on.wake(driver);
        Ok(())
    }

    /// Lets nobody be woken for it.
    ///
    /// # Errors
    /// As those of the system call.
    pub fn deregister(&mut self, on: &Handle, driver: DriverId) -> io::Result<()> {
        self.driver = None;
        on.registrar(driver, |r| self.pair.deregister(r))
    }

    /// Returns true if the other end, or the network, refused the connection.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Passes on what there is, for one turn. Settled: the driver is woken for more.
    #[inline]
    pub fn receive(&mut self, on: &Handle, end: &mut impl QueuePairEngine) -> Activity {
        let mut activity = Activity::Idle;
        for _ in 0..RDMA_EVENTS_PER_TURN {
            if self.destroyed {
                return activity;
            }
            match self.pair.poll(on) {
                Ok(None) => return activity.or_settled_if(true),
                Ok(Some(event)) => self.pass(event, end),
                Err(e) => {
                    self.error = Some(e);
                    self.destroy(end);
                }
            }
            activity = Activity::Busy;
        }
        activity
    }

    #[inline]
    fn pass(&mut self, event: QueuePairEvent, end: &mut impl QueuePairEngine) {
        match event {
            QueuePairEvent::Received { buffer, immediate, invalidated } => {
                let bytes = self.pair.received(buffer);
                end.received(&Received {
                    buffer: ReceiveBuffer(buffer),
                    bytes,
                    immediate,
                    invalidated,
                });
            }
            QueuePairEvent::WorkEnded { id, ended } => match WorkId::from_number(id) {
                Some(id) => end.completed(id, ended),
                None => end.disconnected(),
            },
            QueuePairEvent::ReceiveEnded { buffer, error } => {
                end.receive_ended(ReceiveBuffer(buffer), error)
            }
            QueuePairEvent::Established => end.established(self.pair.private_data()),
            QueuePairEvent::Disconnected => end.disconnected(),
            QueuePairEvent::Rejected | QueuePairEvent::Failed => {
                self.refused = true;
                self.destroy(end);
            }
            QueuePairEvent::DeviceRemoved => self.destroy(end),
            QueuePairEvent::Resolved => {}
        }
    }

    /// Ends everything at once.
    #[cold]
    pub fn destroy(&mut self, end: &mut impl QueuePairEngine) {
        self.destroyed = true;
        self.pair.destroy();
        end.destroyed();
    }

    /// Tells the time, and has the driver woken when it is to be told again.
    #[inline]
    pub(crate) fn keep_time(&self, on: &Handle, end: &mut impl QueuePairEngine) {
        end.tick(on.now().since_epoch());
        if let (Some(at), Some(driver)) = (end.deadline(), self.driver) {
            self.timer.arm(on, driver, weft_io::Time::from_epoch(at));
        }
    }

    /// Has the driver called again, whatever comes.
    pub(crate) fn wake(&self, on: &Handle) {
        if let Some(driver) = self.driver {
            on.wake(driver);
        }
    }

    /// Gives the slot of a tag memory.
    pub fn prepare(&mut self, tag: Tag, bytes: u32) -> Result<Result<(), NoMemoryNow>, io::Error> {
        self.release(tag);
        match self.pair.prepare(tag.0, bytes) {
            Ok(()) => {
                self.slots[tag.index()] = TagMemory::Own;
                Ok(Ok(()))
            }
            // Memory of another slot comes back, and may suffice then.
            Err(_) if self.slots.contains(&TagMemory::Own) => Ok(Err(NoMemoryNow)),
            Err(e) => Err(e),
        }
    }

    /// Returns true if the slot of a tag has memory of its own.
    #[inline]
    pub fn has_memory(&self, tag: Tag) -> bool {
        self.slots[tag.index()] == TagMemory::Own
    }

    /// Frees the memory of the slot of a tag, if it has some of its own.
    #[inline]
    pub fn release(&mut self, tag: Tag) {
        if self.has_memory(tag) {
            self.slots[tag.index()] = TagMemory::Empty;
            self.pair.release(tag.0);
        }
    }

    /// Lends memory to the slot of a tag. Where that is impossible it comes back, and the user
    /// copies.
    #[inline]
    pub fn lend(&mut self, tag: Tag, memory: Segments) -> Result<(), Segments> {
        match self.pair.lend(tag.0, memory) {
            Ok(()) => {
                self.slots[tag.index()] = TagMemory::Lent;
                Ok(())
            }
            Err(NotLent { memory, why }) => {
                if let Some(why) = why {
                    COPIED.log_now(|| {
                        format!("memory of devices that cannot be registered is copied: {why}")
                    });
                }
                Err(memory)
            }
        }
    }

    /// Returns true if memory was lent to the slot of a tag.
    #[inline]
    pub fn is_lent(&self, tag: Tag) -> bool {
        self.slots[tag.index()] == TagMemory::Lent
    }

    /// The memory that was lent to the slot of a tag, of which all work has ended.
    #[inline]
    pub fn take_back(&mut self, tag: Tag) -> Option<Segments> {
        if !self.is_lent(tag) {
            return None;
        }
        self.slots[tag.index()] = TagMemory::Empty;
        self.pair.take_back(tag.0)
    }

    /// Copies to the slot of a tag what `piece` gives of the bytes from `offset` on.
    #[inline]
    pub fn copy_in<'a>(
        &mut self,
        tag: Tag,
        offset: u32,
        bytes: u32,
        piece: impl Fn(u32, u32) -> &'a [u8],
    ) {
        let mut at = 0;
        while at < bytes {
            let from = piece(offset + at, bytes - at);
            self.pair.copy_in(tag.0, offset + at, from);
            at += from.len() as u32;
        }
    }

    /// Work that could not be done: for the engine it has failed.
    #[cold]
    pub fn fail(&mut self, id: WorkId, why: io::Error, end: &mut impl QueuePairEngine) {
        FAILED.log_now(|| format!("{}: {why}", self.pair.peer()));
        self.error.get_or_insert(why);
        end.completed(id, WorkOutcome::Failed(WorkError::LocalProtection));
    }
}

/// The limits of a queue pair whose send queue has `send_queue` entries, for the engine.
pub fn limits(device: &DeviceLimits, send_queue: u16) -> QueuePairLimits {
    QueuePairLimits {
        send_queue,
        reads: u16::from(device.reads).max(1),
        message_bytes: device.message_bytes,
        // A capsule, and the memory of a slot, which is in one piece.
        sges: 2,
        ..QueuePairLimits::default()
    }
}
