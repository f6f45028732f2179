//! A layer above a target with a store behind it, which checks that everything ends exactly once.

use std::collections::HashMap;

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::{HostMemory, Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Nsid;
use weft_proto::nvme_rdma::{RdmaTargetEvent, TargetQueuePair};
use weft_proto::stream::Tag;

/// Opcodes that [`Layer`] knows. The byte offset is in dword 10.
pub const WRITE: u8 = 0x01;
pub const READ: u8 = 0x02;
/// Fails, whatever it comes with.
pub const FAIL: u8 = 0x99;

/// A read or write of [`Layer`].
pub fn command(opcode: u8, offset: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode, Nsid(1));
    sqe.set_dword(10, offset);
    sqe
}

/// Event for which the layer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStage {
    /// Nothing: it has the command.
    Held,
    Fetching,
    /// It gave the command up while fetching.
    Dropping,
    Answered,
}

/// State of a command.
pub struct Command {
    pub sqe: Sqe,
    pub stage: CommandStage,
    pub memory: Vec<u8>,
}

pub struct Layer {
    pub commands: HashMap<Tag, Command>,
    pub store: Vec<u8>,
    /// Everything that the engine told.
    pub log: Vec<RdmaTargetEvent>,
    /// Commands are only taken note of; [`Layer::start`] is for the test to call.
    pub holds: bool,
    entries: u16,
}

impl Layer {
    pub fn new(entries: u16) -> Self {
        Self::with_store(entries, 4 << 20)
    }

    /// A layer with `bytes` of storage behind it.
    pub fn with_store(entries: u16, bytes: usize) -> Self {
        let store = (0..bytes).map(|i| (i % 251) as u8).collect();
        Self { commands: HashMap::new(), store, log: Vec::new(), holds: false, entries }
    }

    pub fn memory(&self, tag: Tag, offset: u32, bytes: u32) -> &[u8] {
        let command = &self.commands[&tag];
        assert_eq!(command.stage, CommandStage::Answered, "memory is read to send it");
        &command.memory[offset as usize..(offset + bytes) as usize]
    }

    pub fn memory_mut(&mut self, tag: Tag, offset: u32, bytes: u32) -> &mut [u8] {
        let command = self.commands.get_mut(&tag).expect("data comes for a command");
        assert!(
            matches!(command.stage, CommandStage::Fetching | CommandStage::Dropping),
            "memory is written to for a fetch"
        );
        &mut command.memory[offset as usize..(offset + bytes) as usize]
    }

    /// Handles every event that there is.
    pub fn take_events(&mut self, engine: &mut TargetQueuePair) {
        while let Some(event) = engine.poll_event() {
            self.log.push(event);
            match event {
                RdmaTargetEvent::Command { tag, .. } => {
                    let command = Command {
                        sqe: *engine.sqe(),
                        stage: CommandStage::Held,
                        memory: Vec::new(),
                    };
                    assert!(self.commands.insert(tag, command).is_none(), "{tag:?} is in use");
                    assert!(tag.0 < self.entries.max(1), "{tag:?} is none of the queue's");
                    if !self.holds {
                        self.start(engine, tag);
                    }
                }
                RdmaTargetEvent::DataArrived { tag } => {
                    self.expect(tag, CommandStage::Fetching, CommandStage::Held);
                    if !self.holds {
                        self.store_data(engine, tag);
                    }
                }
                RdmaTargetEvent::DataFailed { tag } => {
                    self.expect(tag, CommandStage::Fetching, CommandStage::Held);
                    self.complete(engine, tag, Status::TRANSIENT_TRANSPORT_ERROR, 0);
                }
                RdmaTargetEvent::Dropped { tag } => {
                    self.expect(tag, CommandStage::Dropping, CommandStage::Held);
                    self.commands.remove(&tag);
                }
                RdmaTargetEvent::Released { tag } => {
                    self.expect(tag, CommandStage::Answered, CommandStage::Held);
                    self.commands.remove(&tag);
                    engine.sent(tag);
                }
            }
        }
    }

    fn expect(&mut self, tag: Tag, stage: CommandStage, next: CommandStage) {
        let command =
            self.commands.get_mut(&tag).unwrap_or_else(|| panic!("{tag:?} names no command"));
        assert_eq!(command.stage, stage, "{tag:?}");
        command.stage = next;
    }

    /// Executes a command.
    pub fn start(&mut self, engine: &mut TargetQueuePair, tag: Tag) {
        let sqe = self.commands[&tag].sqe;
        match sqe.opcode() {
            WRITE => self.fetch(engine, tag),
            READ => {
                let bytes = described(&sqe);
                let from = sqe.dword(10) as usize;
                self.commands.get_mut(&tag).unwrap().memory =
                    self.store[from..from + bytes as usize].to_vec();
                self.complete(engine, tag, Status::SUCCESS, bytes);
            }
            _ => self.complete(engine, tag, Status::INVALID_OPCODE, 0),
        }
    }

    /// Asks for all data of a command.
    pub fn fetch(&mut self, engine: &mut TargetQueuePair, tag: Tag) {
        let command = self.commands.get_mut(&tag).unwrap();
        let bytes = described(&command.sqe);
        command.memory = vec![0xee; bytes as usize];
        match engine.fetch(tag, bytes) {
            Ok(()) => command.stage = CommandStage::Fetching,
            Err(status) => self.complete(engine, tag, status, 0),
        }
    }

    /// The data of a write is there.
    pub fn store_data(&mut self, engine: &mut TargetQueuePair, tag: Tag) {
        let command = &self.commands[&tag];
        let from = command.sqe.dword(10) as usize;
        self.store[from..from + command.memory.len()].copy_from_slice(&command.memory);
        self.complete(engine, tag, Status::SUCCESS, 0);
    }

    pub fn complete(&mut self, engine: &mut TargetQueuePair, tag: Tag, status: Status, bytes: u32) {
        let command = self.commands.get_mut(&tag).unwrap();
        command.stage = CommandStage::Answered;
        engine.complete(tag, Cqe::new(command.sqe.cid(), status), bytes);
    }

    /// Gives a command up.
    pub fn abandon(&mut self, engine: &mut TargetQueuePair, tag: Tag) {
        let command = self.commands.get_mut(&tag).unwrap();
        match command.stage {
            CommandStage::Held => drop(self.commands.remove(&tag)),
            CommandStage::Fetching => command.stage = CommandStage::Dropping,
            CommandStage::Dropping | CommandStage::Answered => {}
        }
        engine.abandon(tag);
    }

    /// Gives up everything whose data is awaited.
    pub fn drop_pending(&mut self, engine: &mut TargetQueuePair) {
        self.commands
            .values_mut()
            .filter(|command| command.stage == CommandStage::Fetching)
            .for_each(|it| it.stage = CommandStage::Dropping);
        engine.drop_pending();
    }

    /// Commands in this stage, in a fixed order.
    pub fn tags(&self, stage: CommandStage) -> Vec<Tag> {
        let mut tags: Vec<_> =
            self.commands.iter().filter(|(_, it)| it.stage == stage).map(|(&tag, _)| tag).collect();
        tags.sort();
        tags
    }
}

/// The bytes that a command describes.
pub fn described(sqe: &Sqe) -> u32 {
    let sgl = sqe.sgl();
    if sgl.identifier == Sgl::IN_CAPSULE {
        sgl.length
    } else {
        HostMemory::Keyed.bytes(sgl).unwrap_or(0)
    }
}
