//! The stream pump: state, contract with its handler, life cycle.

use super::linger::{Departed, linger};
use super::receive::Moving;
use super::share::Share;
use super::stall::Stalls;
use super::transmit::Sending;
use crate::limits::RECEIVE_PIECES;
use smallvec::SmallVec;
use std::io::{self, IoSliceMut};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, DriverId, Handle, Stream, Time};
use weft_proto::stream::{HEADER_MAX, StreamEngine, Tag};

/// Whether to go on with the bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// Go on.
    Continue,
    /// Nothing more is parsed or received until [`StreamPump::resume`]: the layer above has no
    /// memory for what comes next.
    Pause,
}

/// What a pump asks of its source or export.
pub trait Handler<E: StreamEngine> {
    /// The memory of `tag` from `offset` on: at least one and at most `len` contiguous bytes.
    /// `None` throws the bytes away: the command was given up.
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]>;

    /// The memory of `tag` from `offset` on, up to `len` bytes, piece by piece and in order, to be
    /// received into at once. Fewer bytes than asked for are received by further calls.
    fn pieces_mut<'a>(&'a mut self, tag: Tag, offset: u32, len: u32, into: &mut Pieces<'a>) {
        into.extend(self.memory_mut(tag, offset, len).map(IoSliceMut::new));
    }

    /// The same for sending.
    ///
    /// # Panics
    /// May panic when the tag has no such memory: the engine sends only what the layer above
    /// offered.
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8];

    /// Whether a payload without digest, whose command has no memory of its own, is to be shown
    /// whole to [`Handler::place`]. It is no longer than
    /// [`WHOLE_BYTES_MAX`](crate::limits::WHOLE_BYTES_MAX).
    fn wants_whole(&self, tag: Tag) -> bool {
        let _ = tag;
        false
    }

    /// Takes the payload of a command for which [`Handler::wants_whole`] said so.
    fn place(&mut self, tag: Tag, payload: &[u8]) {
        let _ = (tag, payload);
    }

    /// Something happened on the connection.
    fn event(&mut self, on: &Handle, engine: &mut E, event: E::Event) -> Flow;

    /// The stream no longer needs the memory of `tag`.
    fn released(&mut self, on: &Handle, engine: &mut E, tag: Tag);
}

/// Memory to be received into by one call.
pub type Pieces<'a> = SmallVec<[IoSliceMut<'a>; RECEIVE_PIECES]>;

/// How a connection ended.
#[derive(Debug)]
pub enum End {
    /// The peer closed it.
    Peer,
    /// The engine ended it: the protocol was broken, on either side, or asked for it.
    Engine,
    /// The system reported an error.
    Error(io::Error),
}

/// One connection: socket, engine, and the data in transit between them.
pub struct StreamPump<E> {
    pub(super) stream: Box<dyn Stream>,
    /// The engine, for the layer above to submit to and complete on.
    pub engine: E,
    pub(super) state: State,
    /// Received and not yet used up: a part of a header, or all that came behind a pause.
    pub(super) carry: Vec<u8>,
    pub(super) moving: Option<Moving>,
    /// The socket was found empty by the last receive.
    pub(super) drained: bool,
    /// How much a turn receives.
    pub(super) share: Share,
    /// The last payload was a large one, and so may the next be: it is not to be staged.
    pub(super) large: bool,
    /// CRC32C of the payload that was moved last.
    pub(super) crc: u32,
    pub(super) sending: Option<Sending>,
    pub(super) stalls: Stalls,
    /// See [`StreamPump::heeding`].
    pub(super) heeds_end: bool,
    /// See [`StreamPump::resetting`].
    pub(super) owes_answers: Option<fn(&E) -> bool>,
    /// It is closed because its engine is.
    pub(super) engine_gave_up: bool,
    /// Who drives the pump, to be woken when its time comes or the connection ends.
    pub(super) driver: Option<DriverId>,
    pub(super) timer: TimerSlot,
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum State {
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
    Ended(End),
}

impl<E: StreamEngine> StreamPump<E> {
    /// A pump over a connected stream. Register the stream with [`StreamPump::register`].
    pub fn new(stream: Box<dyn Stream>, engine: E) -> Self {
        Self {
            stream,
            engine,
            state: State::Open,
            carry: Vec::with_capacity(HEADER_MAX),
            moving: None,
            drained: false,
            share: Share::default(),
            large: false,
            crc: 0,
            sending: None,
            stalls: Stalls::default(),
            heeds_end: false,
            owes_answers: None,
            engine_gave_up: false,
            driver: None,
            timer: TimerSlot::default(),
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

    /// Who encrypts the connection, if it is encrypted.
    pub fn encrypted_by(&self) -> Option<&'static str> {
        self.stream.encrypted_by()
    }

    /// How the connection ended, once it has.
    pub fn end(&self) -> Option<&End> {
        if let State::Ended(end) = &self.state { Some(end) } else { None }
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

    /// Whether something is still to be sent.
    pub fn has_unsent(&self) -> bool {
        self.sending.is_some() || self.engine.wants_transmit()
    }

    /// Whether nothing more can be received until the socket becomes readable again, which wakes
    /// the driver.
    pub fn is_drained(&self) -> bool {
        self.drained && matches!(self.state, State::Open)
    }

    /// Parses what was held back and receives again.
    pub fn resume(&mut self) {
        if matches!(self.state, State::Paused) {
            self.state = State::Resumed;
        }
    }

    /// Whether [`Flow::Pause`] is in force.
    pub fn is_paused(&self) -> bool {
        matches!(self.state, State::Paused)
    }

    /// Sends what the engine has and then closes; receives nothing more. A peer that does not take
    /// it within `CLOSE_S` seconds is cut off.
    pub fn close(&mut self) {
        if self.is_live() {
            self.state = State::Closing { by: None };
        }
    }

    /// Whether the connection ends once everything is sent.
    pub fn is_closing(&self) -> bool {
        matches!(self.state, State::Closing { .. })
    }

    /// Ends the connection without sending what is left: for a peer that does not take it.
    pub fn abort(&mut self) {
        self.finish(End::Engine);
    }

    /// Whether nothing is in transit in either direction: the pump may move to another loop.
    pub fn is_quiet(&self) -> bool {
        self.is_live() && self.sending.is_none() && self.moving.is_none() && self.carry.is_empty()
    }

    /// Whether it neither ends nor has ended.
    fn is_live(&self) -> bool {
        matches!(self.state, State::Open | State::Paused | State::Resumed)
    }

    /// Ends the connection, unless it has ended already.
    pub(super) fn finish(&mut self, end: End) {
        if self.end().is_none() {
            self.state = State::Ended(end);
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
        self.finish(End::Engine);
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
