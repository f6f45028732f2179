//! The shape of an engine on a byte stream, and the gather list that it fills.
//!
//! The pump (in `endpoint`) owns sockets and memory. It stages received bytes and shows them to
//! [`StreamEngine::receive`], which uses up *headers only* and says what comes next on the stream. Payload is never shown to
//! the engine: it is named by ([`Tag`], offset, length), and the pump moves it into the tag's memory, from the staged bytes or
//! by receiving straight into place. For sending, [`StreamEngine::transmit`] drains many commands or completions into one
//! [`Transmit`] list of header bytes and payload names, which the pump turns into one vectored send.
//!
//! Time is told to an engine, too: it says when it wants to be called next ([`StreamEngine::deadline`]), and [`StreamEngine::tick`]
//! tells it what time it is. Every limit that is the protocol's is kept by the engine, which closes itself when one has passed.

use core::time::Duration;

/// The slot of a command in its engine, `0..capacity`. The pump keeps the payload memory of the command under the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u16);

impl Tag {
    /// The tag as a table index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What comes next on the received stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rx<E> {
    /// The staged bytes hold no whole header: call again when at least `need` bytes are there (counted from the first byte
    /// that was not used up). `need` never exceeds [`HEADER_MAX`].
    More {
        /// Bytes, at least one more than were shown.
        need: usize,
    },
    /// The next `len` bytes (more than zero) belong at `offset` of the memory of `tag`. The engine has counted them as
    /// received: the next call of `receive` starts behind them.
    Payload {
        /// Whose memory.
        tag: Tag,
        /// First byte in it.
        offset: u32,
        /// Bytes.
        len: u32,
        /// Whether a CRC32C over exactly these bytes will be asked for by the [`Rx::Digest`] that follows.
        digest: bool,
    },
    /// The next `len` bytes (more than zero) are of no interest; throw them away. Counted as received, like payload.
    Discard {
        /// Bytes.
        len: u32,
    },
    /// The digest behind the last [`Rx::Payload`] has arrived: compare it with the CRC32C of those bytes and tell the engine
    /// by [`StreamEngine::payload_checked`] before the next `receive`.
    Digest {
        /// The digest as it was received.
        expected: u32,
    },
    /// Something for the layer above.
    Event(E),
    /// Nothing more will be read: the peer broke the protocol or ended the connection. What `transmit` still gives (a
    /// TermReq, say) is to be sent, then the connection closed.
    Closed,
}

/// The longest header, in bytes, that an engine asks to see in one piece ([`Rx::More`]).
pub const HEADER_MAX: usize = 256;

/// One end of a connection over a byte stream.
pub trait StreamEngine {
    /// What the layer above is told.
    type Event;

    /// Uses up headers at the front of `bytes`; returns how many bytes were used and what comes next. Makes progress or asks
    /// for more bytes; never loops on the same input. Zero-length payloads are never reported.
    fn receive(&mut self, bytes: &[u8]) -> (usize, Rx<Self::Event>);

    /// The answer to [`Rx::Digest`]. Gives the event that became due (data complete, or a digest error), if any.
    fn payload_checked(&mut self, matches: bool) -> Option<Self::Event>;

    /// The event that a completely received [`Rx::Payload`] or [`Rx::Discard`] without digest made due, if any. The pump calls
    /// it when it has moved the last byte of it.
    fn payload_received(&mut self) -> Option<Self::Event>;

    /// Appends what is to be sent to `out`, until nothing is left or `out` is full.
    fn transmit(&mut self, out: &mut Transmit);

    /// Whether `transmit` would append anything.
    fn wants_transmit(&self) -> bool;

    /// Time passes. `now` counts from an epoch of the caller's choice and never goes back. The first call says when the connection
    /// began; later ones come at the latest at [`deadline`](Self::deadline), and behind the [`receive`](Self::receive) of what had
    /// come by then: what has arrived counts before silence does. A limit that has passed closes the engine
    /// ([`is_closed`](Self::is_closed)); there may be something to send, and events ([`poll_event`](Self::poll_event)).
    fn tick(&mut self, now: Duration);

    /// When [`tick`](Self::tick) is to be called next, if nothing else happens; `None`: never. It may change with every other call. One
    /// that stays in the past after a tick means: as soon as something else has happened.
    fn deadline(&self) -> Option<Duration>;

    /// Takes an event that nothing received made due: that of a [`tick`](Self::tick), or of a call by the layer above. To be asked
    /// after these until there is none.
    fn poll_event(&mut self) -> Option<Self::Event> {
        None
    }

    /// Whether the layer above holds memory for payload that the peer was asked for and that has not begun to come. The pump knows of
    /// payload that has.
    fn awaits_data(&self) -> bool {
        false
    }

    /// Whether this end has closed the connection: [`receive`](Self::receive) would say [`Rx::Closed`].
    fn is_closed(&self) -> bool;
}

/// A time limit that starts with the first tick: for what a peer has to do before anything else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartLimit {
    limit: Duration,
    ends_at: Option<Duration>,
}

impl StartLimit {
    pub const fn new(limit: Duration) -> Self {
        Self { limit, ends_at: None }
    }

    /// Whether it has passed. The first call starts it.
    #[inline]
    pub fn has_passed(&mut self, now: Duration) -> bool {
        now >= *self.ends_at.get_or_insert_with(|| now.saturating_add(self.limit))
    }

    /// When it passes: at once, to be started, before the first tick.
    #[inline]
    pub fn deadline(&self) -> Duration {
        self.ends_at.unwrap_or(Duration::ZERO)
    }

    /// How long it is.
    pub const fn limit(&self) -> Duration {
        self.limit
    }
}

/// A piece of a [`Transmit`] list, in stream order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The next `len` bytes of [`Transmit::headers`].
    Header {
        /// Bytes.
        len: u32,
    },
    /// `len` bytes from `offset` of the memory of `tag`. With `digest`, the next four header bytes are a place holder for the
    /// CRC32C of exactly these bytes, which the pump puts there in little-endian order before sending.
    Payload {
        /// Whose memory.
        tag: Tag,
        /// First byte in it.
        offset: u32,
        /// Bytes.
        len: u32,
        /// See above.
        digest: bool,
    },
    /// Once everything before this part has been sent the stream needs the memory of `tag` no longer; the pump then tells the
    /// engine (its `sent`).
    Release {
        /// Whose memory.
        tag: Tag,
    },
}

/// A gather list: header bytes in one arena, and the order of what is to be sent.
#[derive(Debug, Default)]
pub struct Transmit {
    /// Header bytes, in order, without the payload between them.
    pub headers: Vec<u8>,
    /// What to send, in order.
    pub parts: Vec<Part>,
    part_limit: usize,
}

impl Transmit {
    /// An empty list that counts as full from `part_limit` parts on. Allocates once, here; an engine appends a command or
    /// completion only while `is_full` is false, and at most [`Self::PARTS_PER_STEP`] parts and [`Self::HEADERS_PER_STEP`] header bytes
    /// between two looks at it.
    pub fn new(part_limit: usize) -> Self {
        Self {
            headers: Vec::with_capacity(Self::header_bytes(part_limit)),
            parts: Vec::with_capacity(part_limit + Self::PARTS_PER_STEP),
            part_limit,
        }
    }

    /// Bytes of memory that a list of so many parts takes, and never exceeds.
    pub const fn bytes(part_limit: usize) -> usize {
        Self::header_bytes(part_limit) + (part_limit + Self::PARTS_PER_STEP) * size_of::<Part>()
    }

    const fn header_bytes(part_limit: usize) -> usize {
        part_limit * 64 + Self::HEADERS_PER_STEP
    }

    /// Parts that one engine step may append, at most.
    pub const PARTS_PER_STEP: usize = 8;

    /// Header bytes that one engine step may append, at most.
    pub const HEADERS_PER_STEP: usize = 512;

    /// Whether an engine should stop appending.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.parts.len() >= self.part_limit || self.headers.len() >= self.part_limit * 64
    }

    /// Whether nothing is to be sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends header bytes; neighbours grow together, across a [`Part::Release`] too, which then waits for a few bytes more.
    #[inline]
    pub fn header(&mut self, bytes: &[u8]) {
        self.headers.extend_from_slice(bytes);
        let last = self.parts.iter_mut().rev().find(|part| !matches!(part, Part::Release { .. }));
        if let Some(Part::Header { len }) = last {
            *len += bytes.len() as u32;
        } else {
            self.parts.push(Part::Header { len: bytes.len() as u32 });
        }
    }

    /// Appends a payload and, where `digest` is set, the place for its digest.
    #[inline]
    pub fn payload(&mut self, tag: Tag, offset: u32, len: u32, digest: bool) {
        self.parts.push(Part::Payload { tag, offset, len, digest });
        if digest {
            self.header(&[0; 4]);
        }
    }

    /// Appends a [`Part::Release`].
    #[inline]
    pub fn release(&mut self, tag: Tag) {
        self.parts.push(Part::Release { tag });
    }

    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        self.headers.clear();
        self.parts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_full_has_room_for_one_more_step() {
        let mut list = Transmit::new(10);
        let taken = |list: &Transmit| list.headers.capacity() + list.parts.capacity() * size_of::<Part>();
        assert_eq!(taken(&list), Transmit::bytes(10));
        while !list.is_full() {
            list.header(&[0; 64]);
            list.payload(Tag(0), 0, 1, false);
        }
        list.header(&[0; Transmit::HEADERS_PER_STEP]);
        (1..Transmit::PARTS_PER_STEP).for_each(|_| list.release(Tag(0)));
        assert_eq!(taken(&list), Transmit::bytes(10), "it has not grown");
    }
}
