//! A pump for tests: engines wired to each other, or to recorded bytes, in memory. Every promise of
//! [`weft_proto::stream`] is checked on the way.
//!
//! * [`End`]: one engine with payload memory per tag, staging and gather list.
//! * [`Disk`]: a target end with a byte-addressed store behind it.
//! * [`Pair`]: a host end and a [`Disk`], between which bytes move in pieces of chosen size.
//! * [`raw`]: PDUs with any header that a test wants.
#![allow(dead_code)]

pub mod raw;

use std::collections::{HashMap, VecDeque};

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Nsid;
use weft_proto::nvme_tcp::digest::{crc32c, crc32c_append};
use weft_proto::nvme_tcp::{HostConfig, HostConnection, HostData, HostEvent, TargetConfig, TargetConnection, TargetEvent};
use weft_proto::stream::{HEADER_MAX, Part, Rx, StreamEngine, Tag, Transmit};

/// An engine that can be told that a part was sent.
pub trait Engine: StreamEngine {
    /// A `Part::Release` was sent.
    fn part_sent(&mut self, tag: Tag) -> Option<Self::Event>;
}

impl Engine for HostConnection {
    fn part_sent(&mut self, tag: Tag) -> Option<HostEvent> {
        self.sent(tag)
    }
}

impl Engine for TargetConnection {
    fn part_sent(&mut self, tag: Tag) -> Option<TargetEvent> {
        self.sent(tag);
        None
    }
}

/// What [`End::next`] came to.
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
pub struct End<E: Engine> {
    pub engine: E,
    /// Payload memory by tag.
    pub memory: Vec<Vec<u8>>,
    /// Bytes for the peer.
    pub wire: Vec<u8>,
    /// Keep releases back until [`End::release_held`].
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

impl<E: Engine> End<E> {
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
        assert!(self.idle < 2 || matches!(rx, Rx::More { .. } | Rx::Closed), "no progress: {}", self.idle);
        match rx {
            Rx::More { need } => {
                assert!(need > self.staged.len() && need <= HEADER_MAX, "need {need} of {}", self.staged.len());
                return Some(Next::Starved);
            }
            Rx::Payload { tag, offset, len, digest } => {
                let end = offset as usize + len as usize;
                assert!(len > 0 && end <= self.memory[tag.index()].len(), "payload up to {end}");
                self.crc = 0;
                self.awaited = Awaited::Payload { tag, at: offset as usize, left: len as usize, digest };
            }
            Rx::Discard { len } => {
                assert!(len > 0);
                self.awaited = Awaited::Discard { left: len as usize };
            }
            Rx::Digest { expected } => return self.engine.payload_checked(expected == self.crc).map(Next::Event),
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
        assert_eq!(capacity, (self.out.headers.capacity(), self.out.parts.capacity()), "the gather list grew");
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

/// Opcodes that [`Disk`] knows. The byte offset is in dword 10.
pub const WRITE: u8 = 0x01;
pub const READ: u8 = 0x02;
/// Succeeds with a result.
pub const FEATURE: u8 = 0x0a;
/// Fails, whatever it comes with.
pub const FAIL: u8 = 0x99;

/// A read or write of [`Disk`].
pub fn command(opcode: u8, offset: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode, Nsid(1));
    sqe.set_dword(10, offset);
    sqe
}

/// A target end with a store behind it.
pub struct Disk {
    pub end: End<TargetConnection>,
    pub store: Vec<u8>,
    /// Everything that the engine told.
    pub log: Vec<TargetEvent>,
    pub closed: bool,
    commands: HashMap<Tag, Sqe>,
}

impl Disk {
    pub fn new(config: TargetConfig, bytes: usize) -> Self {
        Self {
            end: End::new(TargetConnection::new(config)),
            store: (0..bytes).map(|i| (i % 251) as u8).collect(),
            log: Vec::new(),
            closed: false,
            commands: HashMap::new(),
        }
    }

    /// Handles what was staged, and flushes after every event.
    pub fn run(&mut self) {
        while self.step() {
            self.end.flush();
        }
        self.end.flush();
    }

    /// Handles one event of what was staged, if there is one.
    pub fn step(&mut self) -> bool {
        match self.end.next() {
            Next::Event(event) => self.handle(event),
            Next::Starved => return false,
            Next::Closed => {
                self.closed = true;
                return false;
            }
        }
        true
    }

    fn handle(&mut self, event: TargetEvent) {
        self.log.push(event);
        match event {
            TargetEvent::Command { tag, sqe, .. } => self.start(tag, sqe),
            TargetEvent::DataArrived { tag } => self.store_data(tag),
            TargetEvent::DataFailed { tag } => self.complete(tag, Status::TRANSIENT_TRANSPORT_ERROR, 0),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag, sqe: Sqe) {
        self.commands.insert(tag, sqe);
        let len = sqe.sgl().length;
        match sqe.opcode() {
            WRITE => match self.end.engine.fetch(tag, len) {
                Ok(()) => drop(self.end.memory(tag, len as usize)),
                Err(status) => self.complete(tag, status, 0),
            },
            READ => {
                let from = sqe.dword(10) as usize;
                let data = self.store[from..from + len as usize].to_vec();
                self.end.memory(tag, data.len()).copy_from_slice(&data);
                self.complete(tag, Status::SUCCESS, len);
            }
            FEATURE => self.end.engine.complete(tag, Cqe { result: 0x1234_5678_9abc, ..Cqe::new(sqe.cid(), Status::SUCCESS) }, 0),
            _ => self.complete(tag, Status::INVALID_OPCODE, 0),
        }
    }

    fn store_data(&mut self, tag: Tag) {
        let from = self.commands[&tag].dword(10) as usize;
        let data = &self.end.memory[tag.index()];
        self.store[from..from + data.len()].copy_from_slice(data);
        self.complete(tag, Status::SUCCESS, 0);
    }

    fn complete(&mut self, tag: Tag, status: Status, bytes: u32) {
        let cid = self.commands[&tag].cid();
        self.end.engine.complete(tag, Cqe::new(cid, status), bytes);
    }
}

/// A command's end as the host saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub tag: Tag,
    pub cqe: Cqe,
    pub data: Vec<u8>,
    pub damaged: bool,
}

/// A host and a [`Disk`].
pub struct Pair {
    pub host: End<HostConnection>,
    pub disk: Disk,
    /// Everything that the host engine told.
    pub log: Vec<HostEvent>,
    pub outcomes: Vec<Outcome>,
    pub host_closed: bool,
    /// Largest piece in which bytes are moved.
    pub piece: usize,
    /// All bytes that went to the disk, and to the host.
    pub to_disk: Vec<u8>,
    pub to_host: Vec<u8>,
}

impl Pair {
    pub fn new(host: HostConfig, target: TargetConfig) -> Self {
        Self {
            host: End::new(HostConnection::new(host)),
            disk: Disk::new(target, 4 << 20),
            log: Vec::new(),
            outcomes: Vec::new(),
            host_closed: false,
            piece: usize::MAX,
            to_disk: Vec::new(),
            to_host: Vec::new(),
        }
    }

    /// Submits a read of `len` bytes.
    pub fn read(&mut self, offset: u32, len: u32) -> Tag {
        let tag = self.host.engine.submit(command(READ, offset), HostData::In(len)).unwrap();
        self.host.memory(tag, len as usize);
        tag
    }

    /// Submits a write.
    pub fn write(&mut self, offset: u32, data: &[u8]) -> Tag {
        self.out(WRITE, offset, data)
    }

    /// Submits a command with data for the controller.
    pub fn out(&mut self, opcode: u8, offset: u32, data: &[u8]) -> Tag {
        let tag = self.host.engine.submit(command(opcode, offset), HostData::Out(data.len() as u32)).unwrap();
        self.host.memory(tag, data.len()).copy_from_slice(data);
        tag
    }

    /// Moves bytes both ways until nothing moves any more.
    pub fn run(&mut self) {
        loop {
            self.run_host();
            self.host.flush();
            self.run_host();
            let to_disk = self.host.take_wire();
            for piece in to_disk.chunks(self.piece) {
                self.disk.end.stage(piece);
                self.disk.run();
            }
            self.disk.run();
            let to_host = self.disk.end.take_wire();
            for piece in to_host.chunks(self.piece) {
                self.host.stage(piece);
                self.run_host();
            }
            self.to_disk.extend_from_slice(&to_disk);
            self.to_host.extend_from_slice(&to_host);
            if to_disk.is_empty() && to_host.is_empty() {
                break;
            }
        }
    }

    /// Handles what was staged for the host.
    pub fn run_host(&mut self) {
        loop {
            match self.host.next() {
                Next::Event(event) => self.handle(event),
                Next::Starved => break,
                Next::Closed => {
                    self.host_closed = true;
                    break;
                }
            }
        }
    }

    fn handle(&mut self, event: HostEvent) {
        self.log.push(event);
        let (tag, cqe, damaged, received) = match event {
            HostEvent::Response { tag, cqe, received_bytes } => (tag, cqe, false, received_bytes),
            HostEvent::DataFailed { tag, cqe } => (tag, cqe, true, 0),
            _ => return,
        };
        let data = self.host.memory.get(tag.index()).map(|m| m[..received as usize].to_vec()).unwrap_or_default();
        self.outcomes.push(Outcome { tag, cqe, data, damaged });
        self.host.engine.release(tag);
    }

    /// The outcome of a command, which must have one.
    pub fn outcome(&self, tag: Tag) -> &Outcome {
        self.outcomes.iter().rev().find(|o| o.tag == tag).expect("the command has no outcome")
    }
}
