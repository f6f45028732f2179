//! The interface of an engine on a byte stream, and the gather list that it fills.
//!
//! The pump (in `endpoint`) owns sockets and memory. It passes staged bytes to
//! [`StreamEngine::receive`], which consumes *headers only* and returns what follows on the stream.
//! The engine never sees payload: it refers to it by ([`Tag`], offset, length), and the pump moves
//! it into the tag's memory, from the staged bytes or by receiving directly into place. To send,
//! [`StreamEngine::transmit`] writes many commands or completions into one [`Transmit`] list of
//! header bytes and payload names, which the pump converts to one vectored send.
//!
//! The pump also tells an engine the time: the engine returns the time of its next call
//! ([`StreamEngine::deadline`]), and [`StreamEngine::tick`] passes in the current time. The engine
//! enforces every time limit of its protocol, and closes itself when one has passed.

use crate::capture::Role;
use core::time::Duration;

/// The slot of a command in its engine, `0..capacity`. The pump keeps the command's payload memory
/// under the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u16);

impl Tag {
    /// The tag as a table index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Next part of the received stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rx<E> {
    /// The staged bytes contain no whole header: call again with at least `need` bytes (counted
    /// from the first byte that was not consumed). `need` never exceeds [`HEADER_MAX`].
    More {
        /// Number of bytes, at least one more than were passed in.
        need: usize,
    },
    /// The next `len` bytes (more than zero) belong at `offset` in the memory of `tag`. The engine
    /// counts them as received: the next call of `receive` starts after them.
    Payload {
        /// The tag.
        tag: Tag,
        /// First byte in it.
        offset: u32,
        /// Bytes.
        len: u32,
        /// True if an [`Rx::Digest`] follows, with a CRC32C over exactly these bytes.
        digest: bool,
    },
    /// Discard the next `len` bytes (more than zero). They count as received, like payload.
    Discard {
        /// Bytes.
        len: u32,
    },
    /// The digest after the last [`Rx::Payload`] has arrived: compare it with the CRC32C of those
    /// bytes and call [`StreamEngine::payload_checked`] with the result before the next `receive`.
    Digest {
        /// The received digest.
        expected: u32,
    },
    /// An event for the layer above.
    Event(E),
    /// Nothing more will be read: the peer violated the protocol or ended the connection. Send what
    /// `transmit` still returns (for example a TermReq), then close the connection.
    Closed,
}

/// The longest header, in bytes, that an engine needs in one piece ([`Rx::More`]).
pub const HEADER_MAX: usize = 256;

/// One end of a connection over a byte stream.
pub trait StreamEngine {
    /// Events for the layer above.
    type Event;

    /// Role of the engine for captures; none: they leave its connections out.
    const ROLE: Option<Role> = None;

    /// Consumes headers at the front of `bytes`; returns the number of consumed bytes and what
    /// follows. Makes progress or requests more bytes; never loops on the same input. Zero-length
    /// payloads are not reported.
    fn receive(&mut self, bytes: &[u8]) -> (usize, Rx<Self::Event>);

    /// The answer to [`Rx::Digest`]. Returns the resulting event (data complete, or a digest
    /// error), if any.
    fn payload_checked(&mut self, matches: bool) -> Option<Self::Event>;

    /// Returns the event that follows a completely received [`Rx::Payload`] or [`Rx::Discard`]
    /// without digest, if any. The pump calls it after moving the last byte.
    fn payload_received(&mut self) -> Option<Self::Event>;

    /// Appends pending data to `out`, until nothing is left or `out` is full.
    fn transmit(&mut self, out: &mut Transmit);

    /// Returns whether `transmit` would append anything.
    fn wants_transmit(&self) -> bool;

    /// Entries that `transmit` has taken so far from the engine's send queue. An engine that is
    /// never asked for it does not count.
    fn taken(&self) -> u64 {
        0
    }

    /// Passes in the time. `now` counts from an epoch of the caller's choice and never decreases.
    /// The first call marks the start of the connection. Later calls come at the latest at
    /// [`deadline`](Self::deadline), after the [`receive`](Self::receive) of everything that has
    /// arrived by then, so that data which has arrived prevents a timeout. When a limit has passed
    /// the engine is closed ([`is_closed`](Self::is_closed)); there may be something to send, and
    /// events ([`poll_event`](Self::poll_event)).
    fn tick(&mut self, now: Duration);

    /// The latest time of the next [`tick`](Self::tick); `None`: never. It may change with every
    /// other call. If it is still in the past after a tick, call again as soon as something else
    /// has happened.
    fn deadline(&self) -> Option<Duration>;

    /// Returns an event that does not come from received data, but from a [`tick`](Self::tick) or a
    /// call by the layer above. Call it after these until it returns `None`.
    fn poll_event(&mut self) -> Option<Self::Event> {
        None
    }

    /// Returns whether the layer above holds memory for payload that was requested from the peer
    /// and has not begun to arrive. The pump itself knows about payload that has.
    fn awaits_data(&self) -> bool {
        false
    }

    /// Bytes of the present message that come behind the payload that was named last (padding and
    /// digest); `None` in the middle of anything else than payload.
    fn behind_payload(&self) -> Option<usize> {
        None
    }

    /// Returns whether this end has closed the connection: [`receive`](Self::receive) would return
    /// [`Rx::Closed`].
    fn is_closed(&self) -> bool;
}

/// A time limit that starts with the first tick, for the first steps of a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartLimit {
    limit: Duration,
    ends_at: Option<Duration>,
}

impl StartLimit {
    pub const fn new(limit: Duration) -> Self {
        Self { limit, ends_at: None }
    }

    /// Returns whether it has passed. The first call starts it.
    #[inline]
    pub fn has_passed(&mut self, now: Duration) -> bool {
        now >= *self.ends_at.get_or_insert_with(|| now.saturating_add(self.limit))
    }

    /// The end of the limit; before the first tick: at once, so that it is started.
    #[inline]
    pub fn deadline(&self) -> Duration {
        self.ends_at.unwrap_or(Duration::ZERO)
    }

    /// Its length.
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
    /// `len` bytes from `offset` in the memory of `tag`. With `digest`, the next four header bytes
    /// are a placeholder for the CRC32C of exactly these bytes, which the pump writes in
    /// little-endian order before sending.
    Payload {
        /// The tag.
        tag: Tag,
        /// First byte in it.
        offset: u32,
        /// Bytes.
        len: u32,
        /// See above.
        digest: bool,
    },
    /// When everything before this part has been sent, the stream no longer needs the memory of
    /// `tag`; the pump then calls the engine's `sent`.
    Release {
        /// The tag.
        tag: Tag,
    },
}

/// A gather list: header bytes in one arena, and the order of the parts to send.
#[derive(Debug, Default)]
pub struct Transmit {
    /// Header bytes, in order, without the payload between them.
    pub headers: Vec<u8>,
    /// Parts to send, in order.
    pub parts: Vec<Part>,
    part_limit: usize,
}

impl Transmit {
    /// An empty list that counts as full from `part_limit` parts on. Allocates once, here. An
    /// engine appends a command or completion only while `is_full` is false, and at most
    /// [`Self::PARTS_PER_STEP`] parts and [`Self::HEADERS_PER_STEP`] header bytes between two
    /// checks.
    pub fn new(part_limit: usize) -> Self {
        Self {
            headers: Vec::with_capacity(Self::header_bytes(part_limit)),
            parts: Vec::with_capacity(part_limit + Self::PARTS_PER_STEP),
            part_limit,
        }
    }

    /// Maximum memory of a list with this many parts, bytes.
    pub const fn bytes(part_limit: usize) -> usize {
        Self::header_bytes(part_limit) + (part_limit + Self::PARTS_PER_STEP) * size_of::<Part>()
    }

    const fn header_bytes(part_limit: usize) -> usize {
        part_limit * 64 + Self::HEADERS_PER_STEP
    }

    /// Maximum parts that one engine step may append.
    pub const PARTS_PER_STEP: usize = 8;

    /// Maximum header bytes that one engine step may append.
    pub const HEADERS_PER_STEP: usize = 512;

    /// Returns whether an engine should stop appending.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.parts.len() >= self.part_limit || self.headers.len() >= self.part_limit * 64
    }

    /// Returns whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends header bytes. Adjacent headers are merged, also across a [`Part::Release`], which
    /// then waits for a few more bytes.
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

    /// Appends a payload and, with `digest`, a placeholder for its digest.
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

    /// Clears the list, but keeps its memory.
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
        let taken =
            |list: &Transmit| list.headers.capacity() + list.parts.capacity() * size_of::<Part>();
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
