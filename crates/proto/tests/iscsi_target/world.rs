//! A target, and the initiator's side of its connection in the hands of a test.

use crate::support::{ConnectionEnd, Next};
use std::sync::Arc;
use weft_proto::iscsi::digest::{Digests, crc32c, crc32c_append};
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::iscsi::target::{
    IscsiTargetConfig, Portals, TargetConnection, TargetEvent, TargetResponse, Violation,
};
use weft_proto::iscsi::text::{Name, OfferedParameters, pairs};
use weft_proto::stream::Tag;

pub const TARGET: &str = "iqn.2026-01.example.weft:target";
pub const INITIATOR: &str = "iqn.2026-01.example.weft:initiator";
pub const PORTAL: &str = "192.0.2.1:3260";

pub fn config() -> IscsiTargetConfig {
    let mut config = IscsiTargetConfig::new(Name::new(TARGET).unwrap());
    config.offer = OfferedParameters {
        digests: Digests::BOTH,
        initial_r2t: false,
        max_recv_bytes: 4096,
        max_burst_bytes: 1024,
        first_burst_bytes: 1024,
        max_outstanding_r2t: 2,
        ..OfferedParameters::default()
    };
    config.commands = 4;
    config
}

/// A PDU that the target sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu {
    pub bhs: [u8; 48],
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn opcode(&self) -> Opcode {
        Opcode::of(self.bhs[0])
    }

    pub fn value(&self, key: &str) -> Option<String> {
        let mut pairs = pairs(&self.data).map(Result::unwrap);
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
    }
}

/// Both sides.
pub struct World {
    pub end: ConnectionEnd<TargetConnection>,
    pub events: Vec<TargetEvent>,
    pub digests: Digests,
    pub cmd_sn: u32,
    pub closed: bool,
    unread: Vec<u8>,
}

impl World {
    pub fn new(config: IscsiTargetConfig) -> Self {
        Self::at(Portals::one(PORTAL), config)
    }

    /// One that is reached there.
    pub fn at(portals: Portals, config: IscsiTargetConfig) -> Self {
        let engine = TargetConnection::new(Arc::new(config), portals, [7; 33]);
        Self {
            end: ConnectionEnd::new(engine),
            events: Vec::new(),
            digests: Digests::NONE,
            cmd_sn: 1,
            closed: false,
            unread: Vec::new(),
        }
    }

    /// One that is logged in, with these keys of the operational stage.
    pub fn logged_in(config: IscsiTargetConfig, keys: &str) -> Self {
        let mut world = Self::new(config);
        world.log_in(keys);
        world
    }

    pub fn log_in(&mut self, keys: &str) {
        let names = format!("InitiatorName={INITIATOR} TargetName={TARGET} SessionType=Normal ");
        self.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), &(names + keys));
        assert_eq!(self.events.pop(), Some(TargetEvent::Login));
        self.end.engine.admit(5, None);
        let pdu = self.pdu();
        let response = LoginResponse::decode(&pdu.bhs);
        assert_eq!((response.status, response.tsih), (LoginStatus::SUCCESS, 5));
        let agreed = |key| pdu.value(key).as_deref() == Some("CRC32C");
        self.digests = Digests { header: agreed("HeaderDigest"), data: agreed("DataDigest") };
    }

    /// Sends a Login Request; spaces separate the pairs.
    pub fn login(&mut self, current: LoginStage, next: Option<LoginStage>, text: &str) {
        self.login_with(
            LoginRequest { flags: LoginFlags::new(current, next), ..self.login_request() },
            text,
        );
    }

    pub fn login_request(&self) -> LoginRequest {
        LoginRequest {
            immediate: true,
            isid: Isid::random([1, 2, 3], 4),
            task: TaskTag(1),
            cid: 1,
            cmd_sn: Serial(self.cmd_sn),
            ..LoginRequest::default()
        }
    }

    pub fn login_with(&mut self, request: LoginRequest, text: &str) {
        let text: Vec<u8> =
            text.split_whitespace().flat_map(|pair| [pair.as_bytes(), b"\0"].concat()).collect();
        self.send(request.encode(text.len() as u32), &text);
    }

    /// The bytes of a PDU with its digests.
    pub fn bytes(&self, bhs: [u8; 48], data: &[u8]) -> Vec<u8> {
        let mut bytes = bhs.to_vec();
        if self.digests.header {
            bytes.extend_from_slice(&crc32c(&bhs).to_le_bytes());
        }
        bytes.extend_from_slice(data);
        let zeroes = &[0; 3][..padding(data.len() as u32)];
        bytes.extend_from_slice(zeroes);
        if self.digests.data && !data.is_empty() {
            bytes.extend_from_slice(&crc32c_append(crc32c(data), zeroes).to_le_bytes());
        }
        bytes
    }

    pub fn send(&mut self, bhs: [u8; 48], data: &[u8]) {
        let bytes = self.bytes(bhs, data);
        self.feed(&bytes);
    }

    /// Bytes for the target. A command stops the feeding until [`Self::go_on`].
    pub fn feed(&mut self, bytes: &[u8]) {
        self.end.stage(bytes);
        self.go_on();
    }

    pub fn go_on(&mut self) {
        loop {
            match self.end.next() {
                Next::Event(event) => {
                    self.events.push(event);
                    if matches!(
                        event,
                        TargetEvent::Command { .. } | TargetEvent::Login | TargetEvent::Task { .. }
                    ) {
                        return;
                    }
                }
                Next::Starved => return,
                Next::Closed => {
                    self.closed = true;
                    return;
                }
            }
        }
    }

    /// The next PDU of the target.
    pub fn try_pdu(&mut self) -> Option<Pdu> {
        self.end.flush();
        self.unread.extend(self.end.take_wire());
        let bhs = *self.unread.first_chunk::<48>()?;
        let head = Head::decode(&bhs);
        let start = 48 + self.digests.header_bytes();
        if self.digests.header {
            assert_eq!(self.unread[48..52], crc32c(&bhs).to_le_bytes(), "header digest");
        }
        let end = start + head.data_bytes as usize;
        let padded = end + padding(head.data_bytes);
        let data = self.unread[start..end].to_vec();
        let whole = padded + self.digests.data_bytes(head.data_bytes);
        if self.digests.data && !data.is_empty() {
            assert_eq!(
                self.unread[padded..whole],
                crc32c(&self.unread[start..padded]).to_le_bytes(),
                "data digest"
            );
        }
        self.unread.drain(..whole);
        Some(Pdu { bhs, data })
    }

    pub fn pdu(&mut self) -> Pdu {
        self.try_pdu().expect("a PDU of the target")
    }

    /// A command with the next CmdSN.
    pub fn scsi(&mut self, flags: CommandFlags, expected_bytes: u32) -> ScsiCommand {
        let cmd_sn = Serial(self.cmd_sn);
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        ScsiCommand {
            flags,
            task: TaskTag(cmd_sn.0 + 100),
            expected_bytes,
            cmd_sn,
            ..ScsiCommand::default()
        }
    }

    /// Sends a command; gives its tag.
    pub fn submit(&mut self, command: &ScsiCommand, immediate: &[u8]) -> Tag {
        self.send(command.encode(immediate.len() as u32), immediate);
        match self.events.pop() {
            Some(TargetEvent::Command { tag, command: told }) => {
                assert_eq!(told, *command);
                tag
            }
            other => panic!("{other:?} in place of a command"),
        }
    }

    /// Fetches data of a command into memory of `expected` bytes.
    pub fn fetch(&mut self, tag: Tag, bytes: u32, expected: usize) {
        self.end.memory(tag, expected);
        assert!(self.end.engine.fetch(tag, bytes) > 0);
        self.go_on();
    }

    /// Answers a command with GOOD and the start of its memory.
    pub fn good(&mut self, tag: Tag, data: &[u8], total: u32) {
        self.end.memory(tag, data.len().next_multiple_of(4)).fill(0);
        self.end.memory[tag.index()][..data.len()].copy_from_slice(data);
        self.end.engine.complete(
            tag,
            &TargetResponse {
                data_bytes: data.len() as u32,
                total_bytes: total,
                ..TargetResponse::GOOD
            },
        );
    }

    pub fn violation(&self) -> Option<Violation> {
        assert!(self.closed, "the connection goes on");
        self.end.engine.violation()
    }

    pub fn data_out(
        &mut self,
        command: &ScsiCommand,
        transfer: TaskTag,
        sn: u32,
        offset: u32,
        last: bool,
        data: &[u8],
    ) {
        let flags = if last { DataOutFlags::FINAL } else { DataOutFlags::NONE };
        let data_sn = Serial(sn);
        let pdu = DataOut {
            flags,
            lun: command.lun,
            task: command.task,
            transfer,
            data_sn,
            offset,
            ..DataOut::default()
        };
        self.send(pdu.encode(data.len() as u32), data);
    }
}

pub const READ: CommandFlags = CommandFlags(0x80 | 0x40 | 1);
pub const WRITE: CommandFlags = CommandFlags(0x80 | 0x20 | 1);
/// A write of which unsolicited Data-Out PDUs follow.
pub const WRITE_MORE: CommandFlags = CommandFlags(0x20 | 1);
