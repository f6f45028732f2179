//! The stream pump: state, contract with its handler, life cycle.

use super::receive::{Moving, RECEIVE_PIECES};
use super::transmit::Sending;
use smallvec::SmallVec;
use std::io::{self, IoSliceMut};
use weft_io::{Activity, DriverId, Handle, Stream};
use weft_proto::stream::{StreamEngine, Tag};

/// Whether to go on with the bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// Go on.
    Continue,
    /// Nothing more is parsed or received until [`StreamPump::resume`]: the layer above has no memory for what comes next.
    Pause,
}

/// What a pump asks of its source or export.
pub trait Handler<E: StreamEngine> {
    /// The memory of `tag` from `offset` on: at least one and at most `len` contiguous bytes. `None` throws the bytes away: the
    /// command was given up.
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]>;

    /// The memory of `tag` from `offset` on, up to `len` bytes, piece by piece and in order, to be received into at once. Fewer bytes
    /// than asked for are received by further calls.
    fn pieces_mut<'a>(&'a mut self, tag: Tag, offset: u32, len: u32, into: &mut Pieces<'a>) {
        into.extend(self.memory_mut(tag, offset, len).map(IoSliceMut::new));
    }

    /// The same for sending.
    ///
    /// # Panics
    /// May panic when the tag has no such memory: the engine sends only what the layer above offered.
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8];

    /// Whether a payload without digest, whose command has no memory of its own, is to be shown whole to [`Handler::place`]. It is no
    /// longer than `WHOLE_BYTES_MAX`.
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

/// The longest payload, in bytes, that is shown whole.
pub const WHOLE_BYTES_MAX: u32 = 64 << 10;

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

/// One connection: socket, engine, and what is on its way between them.
pub struct StreamPump<E> {
    pub(super) stream: Box<dyn Stream>,
    /// The engine, for the layer above to submit to and complete on.
    pub engine: E,
    /// Received and not yet used up: a part of a header, or all that came behind a pause.
    pub(super) carry: Vec<u8>,
    /// A pause stopped parsing: `carry` may hold whole commands.
    pub(super) held_back: bool,
    pub(super) moving: Option<Moving>,
    /// The last payload was a large one, and so may the next be: it is not to be staged.
    pub(super) large: bool,
    /// CRC32C of the payload that was moved last.
    pub(super) crc: u32,
    pub(super) sending: Option<Sending>,
    pub(super) paused: bool,
    /// The engine wants to close once everything is sent.
    pub(super) closing: bool,
    pub(super) end: Option<End>,
}

impl<E: StreamEngine> StreamPump<E> {
    /// A pump over a connected stream. Register the stream with [`StreamPump::register`].
    pub fn new(stream: Box<dyn Stream>, engine: E) -> Self {
        Self {
            stream,
            engine,
            carry: Vec::new(),
            held_back: false,
            moving: None,
            large: false,
            crc: 0,
            sending: None,
            paused: false,
            closing: false,
            end: None,
        }
    }

    /// Has the loop wake `driver` when the socket becomes ready.
    pub fn register(&mut self, on: &Handle, driver: DriverId) -> io::Result<()> {
        on.registrar(driver, |r| self.stream.register(r))
    }

    /// Undoes [`StreamPump::register`]: the pump may then move to another thread, if its engine may.
    pub fn deregister(&mut self, on: &Handle, driver: DriverId) -> io::Result<()> {
        on.registrar(driver, |r| self.stream.deregister(r))
    }

    /// The other end, for people.
    pub fn peer(&self) -> String {
        self.stream.peer()
    }

    /// How the connection ended, once it has.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Puts the stream into another one, that of TLS say, and goes on with that. Nothing may be on its way in either direction: see
    /// [`StreamPump::is_quiet`].
    pub fn wrap<F>(self, wrapping: impl FnOnce(Box<dyn Stream>) -> Result<Box<dyn Stream>, F>) -> Result<Self, F> {
        Ok(Self { stream: wrapping(self.stream)?, ..self })
    }

    /// Whether something is still to be sent.
    pub fn has_unsent(&self) -> bool {
        self.sending.is_some() || self.engine.wants_transmit()
    }

    /// Parses what was held back and receives again.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// Whether [`Flow::Pause`] is in force.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Sends what the engine has and then closes; receives nothing more.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Whether the connection ends once everything is sent.
    pub fn is_closing(&self) -> bool {
        self.closing && self.end.is_none()
    }

    /// Ends the connection without sending what is left: for a peer that does not take it.
    pub fn abort(&mut self) {
        self.end.get_or_insert(End::Engine);
    }

    /// Whether nothing is on its way in either direction: the pump may move to another loop.
    pub fn is_quiet(&self) -> bool {
        self.end.is_none() && !self.closing && self.sending.is_none() && self.moving.is_none() && self.carry.is_empty()
    }

    pub(super) fn fail(&mut self, error: io::Error) {
        if self.end.is_none() {
            self.end = Some(End::Error(error));
        }
    }

    /// After the last byte of a closing connection went out.
    pub(super) fn finish_closing(&mut self) -> Activity {
        if !self.closing || self.end.is_some() {
            return Activity::Idle;
        }
        // The peer may be gone already; either way the connection is over.
        let _ = self.stream.shutdown();
        self.end = Some(End::Engine);
        Activity::Busy
    }
}
