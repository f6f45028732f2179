//! A target with a store behind it, and a host connected to it.

use std::collections::HashMap;

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Nsid;
use weft_proto::nvme_tcp::{
    HostConnection, HostData, TcpHostConfig, TcpHostEvent, TcpTargetConfig, TcpTargetConnection,
    TcpTargetEvent,
};
use weft_proto::stream::Tag;

use super::{ConnectionEnd, Next};

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
    pub end: ConnectionEnd<TcpTargetConnection>,
    pub store: Vec<u8>,
    /// Everything that the engine told.
    pub log: Vec<TcpTargetEvent>,
    pub closed: bool,
    commands: HashMap<Tag, Sqe>,
}

impl Disk {
    pub fn new(config: TcpTargetConfig, bytes: usize) -> Self {
        Self {
            end: ConnectionEnd::new(TcpTargetConnection::new(config)),
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

    fn handle(&mut self, event: TcpTargetEvent) {
        self.log.push(event);
        match event {
            TcpTargetEvent::Command { tag, .. } => self.start(tag, *self.end.engine.sqe()),
            TcpTargetEvent::DataArrived { tag } => self.store_data(tag),
            TcpTargetEvent::DataFailed { tag } => {
                self.complete(tag, Status::TRANSIENT_TRANSPORT_ERROR, 0)
            }
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
            FEATURE => self.end.engine.complete(
                tag,
                Cqe { result: 0x1234_5678_9abc, ..Cqe::new(sqe.cid(), Status::SUCCESS) },
                0,
            ),
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
    pub host: ConnectionEnd<HostConnection>,
    pub disk: Disk,
    /// Everything that the host engine told.
    pub log: Vec<TcpHostEvent>,
    pub outcomes: Vec<Outcome>,
    pub host_closed: bool,
    /// Largest piece in which bytes are moved.
    pub piece: usize,
    /// All bytes that went to the disk, and to the host.
    pub to_disk: Vec<u8>,
    pub to_host: Vec<u8>,
}

impl Pair {
    pub fn new(host: TcpHostConfig, target: TcpTargetConfig) -> Self {
        Self {
            host: ConnectionEnd::new(HostConnection::new(host)),
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
        let tag = self
            .host
            .engine
            .submit(command(opcode, offset), HostData::Out(data.len() as u32))
            .unwrap();
        self.host.memory(tag, data.len()).copy_from_slice(data);
        tag
    }

    /// Moves bytes both ways until nothing moves.
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

    fn handle(&mut self, event: TcpHostEvent) {
        self.log.push(event);
        let (tag, cqe, damaged, received) = match event {
            TcpHostEvent::Response { tag, cqe, received_bytes } => {
                (tag, cqe, false, received_bytes)
            }
            TcpHostEvent::DataFailed { tag, cqe } => (tag, cqe, true, 0),
            _ => return,
        };
        let data = self
            .host
            .memory
            .get(tag.index())
            .map(|m| m[..received as usize].to_vec())
            .unwrap_or_default();
        self.outcomes.push(Outcome { tag, cqe, data, damaged });
        self.host.engine.release(tag);
    }

    /// The outcome of a command, which must have one.
    pub fn outcome(&self, tag: Tag) -> &Outcome {
        self.outcomes.iter().rev().find(|o| o.tag == tag).expect("the command has no outcome")
    }
}
