//! A pump for tests: engines wired to each other, or to recorded bytes, in memory. Every promise of
//! [`weft_proto::stream`] is checked on the way.
//!
//! * [`ConnectionEnd`]: one engine with payload memory per tag, staging and gather list.
//! * [`pair`]: a target end with a byte-addressed store behind it, and a host end to which bytes
//!   move in pieces of chosen size.
//! * [`raw`]: PDUs with any header that a test wants.

pub mod pair;
pub mod raw;

use std::collections::VecDeque;

use weft_proto::iscsi::initiator::{Initiator, InitiatorEvent};
use weft_proto::nvme_tcp::digest::{crc32c, crc32c_append};
use weft_proto::nvme_tcp::{HostConnection, TcpHostEvent, TcpTargetConnection, TcpTargetEvent};
use weft_proto::stream::{HEADER_MAX, Part, Rx, StreamEngine, Tag, Transmit};

/// An engine that accepts the event that a part was sent.
pub trait Engine: StreamEngine {
    /// A `Part::Release` was sent.
    fn part_sent(&mut self, tag: Tag) -> Option<Self::Event>;
}

impl Engine for HostConnection {
    fn part_sent(&mut self, tag: Tag) -> Option<TcpHostEvent> {
        self.sent(tag)
    }
}

impl Engine for TcpTargetConnection {
    fn part_sent(&mut self, tag: Tag) -> Option<TcpTargetEvent> {
        self.sent(tag);
        None
    }
}

impl Engine for weft_proto::iscsi::target::TargetConnection {
    fn part_sent(&mut self, tag: Tag) -> Option<Self::Event> {
        self.sent(tag);
        None
    }
}

impl Engine for Initiator {
    fn part_sent(&mut self, tag: Tag) -> Option<InitiatorEvent> {
        self.sent(tag)
    }
}

/// Result of [`ConnectionEnd::next`].
#[derive(Debug, PartialEq, Eq)]
pub enum Next<E> {
    Event(E),
    Starved,
    Closed,
}

enum Awaited {
    Header,
    Payload { tag: Tag, at: usize, left: usize, digest: bool },
    Discard { left: usize },
}

/// One end of a connection.
pub struct ConnectionEnd<E: Engine> {
    pub engine: E,
    /// Payload memory by tag.
    pub memory: Vec<Vec<u8>>,
    /// Bytes for the peer.
    pub wire: Vec<u8>,
    /// Keep releases back until [`ConnectionEnd::release_held`].
    pub hold_releases: bool,
    /// Flush after every step, so that a recorded stream finds the R2Ts sent that it answers.
    pub eager: bool,
    staged: Vec<u8>,
    awaited: Awaited,
    crc: u32,
    out: Transmit,
    held: Vec<Tag>,
    late: VecDeque<E::Event>,
    /// Calls of `receive` in succession that used nothing up.
    idle: u32,
}

impl<E: Engine> ConnectionEnd<E> {
    pub fn new(engine: E) -> Self {
        Self::with_part_limit(engine, 64)
    }

    pub fn with_part_limit(engine: E, part_limit: usize) -> Self {
        Self {
            engine,
            memory: Vec::new(),
            wire: Vec::new(),
            hold_releases: false,
            eager: false,
            staged: Vec::new(),
            awaited: Awaited::Header,
            crc: 0,
            out: Transmit::new(part_limit),
            held: Vec::new(),
            late: VecDeque::new(),
            idle: 0,
        }
    }

    /// Memory of a tag, made `len` bytes long and filled with a mark.
    pub fn memory(&mut self, tag: Tag, len: usize) -> &mut Vec<u8> {
        if self.memory.len() <= tag.index() {
            self.memory.resize(tag.index() + 1, Vec::new());
        }
        let memory = &mut self.memory[tag.index()];
        memory.clear();
        memory.resize(len, 0xee);
        memory
    }

    /// Bytes from the peer.
    pub fn stage(&mut self, bytes: &[u8]) {
        self.staged.extend_from_slice(bytes);
    }

    /// Uses up staged bytes until there is an event or no more to use.
    pub fn next(&mut self) -> Next<E::Event> {
        loop {
            if self.eager {
                self.flush();
            }
            if let Some(event) = self.late.pop_front() {
                return Next::Event(event);
            }
            match &mut self.awaited {
                Awaited::Header => match self.next_header() {
                    Some(next) => return next,
                    None => continue,
                },
                Awaited::Payload { .. } | Awaited::Discard { .. } => {
                    if self.staged.is_empty() {
                        return Next::Starved;
                    }
                    if let Some(event) = self.move_payload() {
                        return Next::Event(event);
                    }
                }
            }
        }
    }

    fn next_header(&mut self) -> Option<Next<E::Event>> {
        let (used, rx) = self.engine.receive(&self.staged);
        assert!(used <= self.staged.len());
        self.idle = if used == 0 { self.idle + 1 } else { 0 };
        self.staged.drain(..used);
        assert!(
            self.idle < 2 || matches!(rx, Rx::More { .. } | Rx::Closed),
            "no progress: {}",
            self.idle
        );
        match rx {
            Rx::More { need } => {
                assert!(
                    need > self.staged.len() && need <= HEADER_MAX,
                    "need {need} of {}",
                    self.staged.len()
                );
                return Some(Next::Starved);
            }
            Rx::Payload { tag, offset, len, digest } => {
                let end = offset as usize + len as usize;
                assert!(len > 0 && end <= self.memory[tag.index()].len(), "payload up to {end}");
                self.crc = 0;
                self.awaited =
                    Awaited::Payload { tag, at: offset as usize, left: len as usize, digest };
            }
            Rx::Discard { len } => {
                assert!(len > 0);
                self.awaited = Awaited::Discard { left: len as usize };
            }
            Rx::Digest { expected } => {
                return self.engine.payload_checked(expected == self.crc).map(Next::Event);
            }
            Rx::Event(event) => return Some(Next::Event(event)),
            Rx::Closed => return Some(Next::Closed),
        }
        None
    }

    fn move_payload(&mut self) -> Option<E::Event> {
        let (left, digest) = match &mut self.awaited {
            Awaited::Header => return None,
            Awaited::Payload { tag, at, left, digest } => {
                let n = self.staged.len().min(*left);
                self.memory[tag.index()][*at..*at + n].copy_from_slice(&self.staged[..n]);
                self.crc = crc32c_append(self.crc, &self.staged[..n]);
                self.staged.drain(..n);
                *at += n;
                *left -= n;
                (*left, *digest)
            }
            Awaited::Discard { left } => {
                let n = self.staged.len().min(*left);
                self.staged.drain(..n);
                *left -= n;
                (*left, false)
            }
        };
        if left > 0 {
            return None;
        }
        self.awaited = Awaited::Header;
        if digest { None } else { self.engine.payload_received() }
    }

    /// Puts all that the engine wants to send on the wire.
    pub fn flush(&mut self) {
        let capacity = (self.out.headers.capacity(), self.out.parts.capacity());
        while self.engine.wants_transmit() {
            self.engine.transmit(&mut self.out);
            self.write_parts();
            self.out.clear();
        }
        assert_eq!(
            capacity,
            (self.out.headers.capacity(), self.out.parts.capacity()),
            "the gather list grew"
        );
    }

    fn write_parts(&mut self) {
        let mut at = 0;
        let mut digest = None;
        for part in &self.out.parts {
            match *part {
                Part::Header { len } => {
                    assert!(len > 0);
                    let mut header = self.out.headers[at..at + len as usize].to_vec();
                    if let Some(digest) = digest.take() {
                        header[..4].copy_from_slice(&u32::to_le_bytes(digest));
                    }
                    self.wire.extend_from_slice(&header);
                    at += len as usize;
                }
                Part::Payload { tag, offset, len, digest: wanted } => {
                    assert!(len > 0 && digest.is_none());
                    let bytes = &self.memory[tag.index()][offset as usize..(offset + len) as usize];
                    digest = wanted.then(|| crc32c(bytes));
                    self.wire.extend_from_slice(bytes);
                }
                Part::Release { tag } if self.hold_releases => self.held.push(tag),
                Part::Release { tag } => self.late.extend(self.engine.part_sent(tag)),
            }
        }
        assert!(digest.is_none() && at == self.out.headers.len());
    }

    /// Tells the engine of the releases that were kept back.
    pub fn release_held(&mut self) {
        for tag in std::mem::take(&mut self.held) {
            self.late.extend(self.engine.part_sent(tag));
        }
    }

    /// The bytes for the peer so far.
    pub fn take_wire(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.wire)
    }
}
