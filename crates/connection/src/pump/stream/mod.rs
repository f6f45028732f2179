//! The stream pump: state, contract with its handler, life cycle.

mod abandoned;
mod receive;
mod tapped;
mod transmit;

use super::gather::Sending;
use super::linger::{Departed, linger};
use super::payload::Moving;
use super::share::Share;
use crate::capture::Tap;
use crate::limits::{CLOSE_S, STALL_BYTES_MIN, STALL_S};
use crate::pump::handler::{Flow, Handler};
use std::io;
use std::io::{Error, ErrorKind};
use std::time::Duration;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, DriverId, Handle, Stream, Time};
use weft_proto::stream::{HEADER_MAX, StreamEngine};

/// Reason why a connection ended.
#[derive(Debug)]
pub enum ConnectionEnd {
    /// The peer closed it.
    Peer,
    /// The engine ended it: the protocol was broken, on either side, or asked for it.
    Engine,
    /// The system reported an error.
    Error(io::Error),
}

/// One connection: socket, engine, and the data in transit between them.
pub struct StreamPump<E> {
    stream: Box<dyn Stream>,
    /// The engine, for the layer above to submit to and complete on.
    pub engine: E,
    state: ConnectionState,
    /// Received and not yet used up: a part of a header, or all that came behind a pause.
    carry: Vec<u8>,
    moving: Option<Moving>,
    /// The socket was found empty by the last receive.
    drained: bool,
    /// How much a turn receives.
    share: Share,
    /// The last payload was a large one, and so may the next be: it is not to be staged.
    large: bool,
    /// CRC32C of the payload that was moved last.
    crc: u32,
    sending: Option<Sending>,
    /// What the engine had taken before `sending`; see [`StreamPump::sent`].
    sent: u64,
    stalls: Stalls,
    /// See [`StreamPump::heeding`].
    heeds_end: bool,
    /// See [`StreamPump::resetting`].
    owes_answers: Option<fn(&E) -> bool>,
    /// It is closed because its engine is.
    engine_gave_up: bool,
    /// Who drives the pump, to be woken when its time comes or the connection ends.
    driver: Option<DriverId>,
    timer: TimerSlot,
    /// What passes is captured.
    tap: Option<Box<Tap>>,
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum ConnectionState {
    /// It receives and sends.
    Open,
    /// The layer above wants nothing more for now: nothing is parsed or received. What has come
    /// behind is in `carry`.
    Paused,
    /// The layer above wants more again: the next receive starts with what is in `carry`.
    Resumed,
    /// Nothing more is received. It ends once everything is sent, and is cut off at `by`, which the
    /// next send sets.
    Closing { by: Option<Time> },
    /// It is over.
    Ended(ConnectionEnd),
}

impl<E: StreamEngine> StreamPump<E> {
    /// A pump over a connected stream. Register the stream with [`StreamPump::register`].
    pub fn new(stream: Box<dyn Stream>, engine: E) -> Self {
        Self {
            stream,
            engine,
            state: ConnectionState::Open,
            carry: Vec::with_capacity(HEADER_MAX),
            moving: None,
            drained: false,
            share: Share::default(),
            large: false,
            crc: 0,
            sending: None,
            sent: 0,
            stalls: Stalls::default(),
            heeds_end: false,
            owes_answers: None,
            engine_gave_up: false,
            driver: None,
            timer: TimerSlot::default(),
            tap: None,
        }
    }

    /// Has the loop wake `driver` when the socket becomes ready, when the engine's time comes, and
    /// when the connection ends.
    pub fn register(&mut self, on: &Handle, driver: DriverId) -> io::Result<()> {
        on.registrar(driver, |r| self.stream.register(r))?;
        (self.driver, self.timer) = (Some(driver), TimerSlot::default());
        // What has come is received before time passes; that starts the limits of a new engine.
        on.wake(driver);
        Ok(())
    }

    /// Undoes [`StreamPump::register`]: the pump may then move to another thread, if its engine
    /// may.
    pub fn deregister(&mut self, on: &Handle, driver: DriverId) -> io::Result<()> {
        self.driver = None;
        on.registrar(driver, |r| self.stream.deregister(r))
    }

    /// The other end, for people.
    pub fn peer(&self) -> String {
        self.stream.peer()
    }

    /// Returns the name of the part that encrypts the connection; none if it is not encrypted.
    pub fn encrypted_by(&self) -> Option<&'static str> {
        self.stream.encrypted_by()
    }

    /// Returns the reason why the connection ended, once it has.
    pub fn end(&self) -> Option<&ConnectionEnd> {
        if let ConnectionState::Ended(end) = &self.state { Some(end) } else { None }
    }

    /// Wraps the stream in another one, for example TLS, and continues with that. Nothing may be in
    /// transit in either direction: see [`StreamPump::is_quiet`].
    pub fn wrap<F>(
        mut self,
        wrapping: impl FnOnce(Box<dyn Stream>) -> Result<Box<dyn Stream>, F>,
    ) -> Result<Self, F> {
        let departed = Departed::of(&*self.stream);
        self.stream = wrapping(core::mem::replace(&mut self.stream, departed))?;
        Ok(self)
    }

    /// Returns whether there is unsent data.
    pub fn has_unsent(&self) -> bool {
        self.sending.is_some() || self.engine.wants_transmit()
    }

    /// Returns how much of the data that the engine has taken ([`StreamEngine::taken`]) was given
    /// to the system.
    pub fn sent(&self) -> u64 {
        if self.sending.is_some() { self.sent } else { self.engine.taken() }
    }

    /// Returns whether nothing more can be received until the socket becomes readable again, which
    /// wakes the driver.
    pub fn is_drained(&self) -> bool {
        self.drained && matches!(self.state, ConnectionState::Open)
    }

    /// Parses what was held back and receives again.
    pub fn resume(&mut self) {
        if matches!(self.state, ConnectionState::Paused) {
            self.state = ConnectionState::Resumed;
        }
    }

    /// Returns whether [`Flow::Pause`](super::Flow::Pause) is in force.
    pub fn is_paused(&self) -> bool {
        matches!(self.state, ConnectionState::Paused)
    }

    /// Sends what the engine has and then closes; receives nothing more. A peer that does not take
    /// it within `CLOSE_S` seconds is cut off.
    pub fn close(&mut self) {
        if self.is_live() {
            self.state = ConnectionState::Closing { by: None };
        }
    }

    /// Returns whether the connection ends once everything is sent.
    pub fn is_closing(&self) -> bool {
        matches!(self.state, ConnectionState::Closing { .. })
    }

    /// Ends the connection without sending what is left: for a peer that does not take it.
    pub fn abort(&mut self) {
        self.finish(ConnectionEnd::Engine);
    }

    /// Returns whether nothing is in transit in either direction: the pump may move to another
    /// loop.
    pub fn is_quiet(&self) -> bool {
        self.is_live() && self.sending.is_none() && self.moving.is_none() && self.carry.is_empty()
    }

    /// Whether it neither ends nor has ended.
    fn is_live(&self) -> bool {
        matches!(
            self.state,
            ConnectionState::Open | ConnectionState::Paused | ConnectionState::Resumed
        )
    }

    /// Ends the connection, unless it has ended already.
    pub(super) fn finish(&mut self, end: ConnectionEnd) {
        if self.end().is_none() {
            self.state = ConnectionState::Ended(end);
        }
    }

    /// After the last byte of a closing connection went out.
    pub(super) fn finish_closing(&mut self, on: &Handle) -> Activity {
        if !self.is_closing() {
            return Activity::Idle;
        }
        // The peer may be gone already; either way the connection is over.
        if self.stream.shutdown().is_ok() && self.engine.is_closed() {
            self.reset_if_owed();
            self.part_with_stream(on);
        }
        self.finish(ConnectionEnd::Engine);
        Activity::Busy
    }

    /// The engine ended the connection, and has told the peer why: that is to be heard.
    #[cold]
    fn part_with_stream(&mut self, on: &Handle) {
        let Some(driver) = self.driver else { return };
        let departed = Departed::of(&*self.stream);
        if self.deregister(on, driver).is_ok() {
            self.driver = Some(driver);
            linger(on, core::mem::replace(&mut self.stream, departed));
        }
    }
}

// Peers that stop half-way: that stop sending data which they announced or were asked for, or stop
// taking what is sent to them. Memory is held in the meantime, so the time for that is limited.

impl<E: StreamEngine> StreamPump<E> {
    /// Has the connection end when its peer stops half-way for [`STALL_S`] seconds. For exports: a
    /// source has limits of its own for what it waits for.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.stalls.is_watched = true;
        self
    }

    /// When to look next at whether the peer has stalled. The connection ends here if it has.
    #[inline]
    fn stall_limit(&mut self, on: &Handle) -> Option<Time> {
        if !self.stalls.is_watched {
            return None;
        }
        // What is not received because of a pause is not the peer's debt.
        let receives = matches!(self.state, ConnectionState::Open)
            && (self.moving.is_some() || self.engine.awaits_data());
        if self.stalls.received.has_stalled(on.now(), receives) {
            self.end_stalled("sent too little of the data that it announced or was asked for");
        }
        if self.stalls.sent.has_stalled(on.now(), self.sending.is_some()) {
            self.end_stalled("does not receive responses");
        }
        [self.stalls.received.by, self.stalls.sent.by].into_iter().flatten().min()
    }

    #[cold]
    fn end_stalled(&mut self, what: &str) {
        self.finish(ConnectionEnd::Error(Error::new(
            ErrorKind::TimedOut,
            format!("the peer {what} for {STALL_S} s"),
        )));
    }
}

// Time: the engine's limits, that of a peer which stops half-way, and that of one which does not
// take the last that there is for it.

impl<E: StreamEngine> StreamPump<E> {
    /// Tells the engine the time, if something was `received` or its time has come, and the handler
    /// what came of it.
    #[inline]
    fn pass_time<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H, received: bool) {
        if received || self.engine.deadline().is_some_and(|at| at <= on.now().since_epoch()) {
            self.tick(on, handler);
        }
    }

    fn tick<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) {
        if self.end().is_some() {
            return;
        }
        self.engine.tick(on.now().since_epoch());
        while let Some(event) = self.engine.poll_event() {
            if handler.event(on, &mut self.engine, event) == Flow::Pause
                && matches!(self.state, ConnectionState::Open | ConnectionState::Resumed)
            {
                self.state = ConnectionState::Paused;
            }
        }
        if self.engine.is_closed() {
            self.engine_gave_up = true;
            self.close();
        }
    }

    /// Has the driver woken when time is up next. A connection that is closing for too long ends
    /// here.
    #[inline]
    fn arm(&mut self, on: &Handle) {
        let (closes, stalls) = (self.close_limit(on), self.stall_limit(on));
        let Some(driver) = self.driver else { return };
        let next = match &self.state {
            ConnectionState::Ended(_) => None,
            ConnectionState::Closing { .. } => closes,
            ConnectionState::Open | ConnectionState::Paused | ConnectionState::Resumed => {
                let deadline = self.engine.deadline().map(Time::from_epoch);
                [deadline, stalls].into_iter().flatten().min()
            }
        };
        if let Some(at) = next.filter(|at| *at > on.now()) {
            self.timer.arm(on, driver, at);
        }
    }

    /// When a closing connection is cut off; does so if that is now.
    #[inline]
    fn close_limit(&mut self, on: &Handle) -> Option<Time> {
        let ConnectionState::Closing { by } = &mut self.state else { return None };
        let by = *by.get_or_insert_with(|| on.now() + Duration::from_secs(CLOSE_S));
        if on.now() >= by {
            self.finish(ConnectionEnd::Engine);
        }
        Some(by)
    }
}

// Progress of a peer in each direction, and the time by which it has to make more.

/// Progress of a peer in one direction, and the time by which it has to make more.
#[derive(Default)]
struct Progress {
    bytes: u64,
    /// What `bytes` was when the time began.
    before: u64,
    by: Option<Time>,
}

impl Progress {
    /// So many bytes have moved.
    #[inline]
    fn moved(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Whether the peer, which `owes` something or does not, has moved too little. The time counts
    /// while it owes something all along.
    #[inline]
    fn has_stalled(&mut self, now: Time, owes: bool) -> bool {
        if !owes {
            self.by = None;
            return false;
        }
        match self.by {
            Some(by) if now < by => return false,
            Some(_) if self.bytes - self.before < STALL_BYTES_MIN => return true,
            _ => {}
        }
        (self.before, self.by) = (self.bytes, Some(now + Duration::from_secs(STALL_S)));
        false
    }
}

/// Both directions of a connection whose peer is watched.
#[derive(Default)]
struct Stalls {
    received: Progress,
    sent: Progress,
    is_watched: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(STALL_S);

    const MOMENT: Duration = Duration::from_millis(1);

    fn at(after: Duration) -> Time {
        Time::from_epoch(after)
    }

    #[test]
    fn who_moves_enough_has_not_stalled() {
        let mut progress = Progress::default();
        assert!(!progress.has_stalled(at(LIMIT), true));
        assert!(!progress.has_stalled(at(LIMIT * 2 - MOMENT), true));
        progress.moved(STALL_BYTES_MIN as usize);
        assert!(!progress.has_stalled(at(LIMIT * 2), true));
        progress.moved(STALL_BYTES_MIN as usize - 1);
        assert!(!progress.has_stalled(at(LIMIT * 3 - MOMENT), true));
        assert!(progress.has_stalled(at(LIMIT * 3), true), "a trickle");
    }

    #[test]
    fn who_owes_nothing_has_not_stalled() {
        let mut progress = Progress::default();
        assert!(!progress.has_stalled(at(LIMIT), true));
        assert!(!progress.has_stalled(at(LIMIT + MOMENT), false));
        // A new debt has its own time.
        assert!(!progress.has_stalled(at(LIMIT * 5), true));
        assert!(!progress.has_stalled(at(LIMIT * 6 - MOMENT), true));
        assert!(progress.has_stalled(at(LIMIT * 6), true));
    }
}
