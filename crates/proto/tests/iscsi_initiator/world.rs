//! An initiator, and the target's side of its connection in the hands of a test.

use crate::support::{ConnectionEnd, Next};
use core::time::Duration;
use weft_proto::iscsi::digest::{Digests, crc32c, crc32c_append};
use weft_proto::iscsi::initiator::{
    CommandOutcome, CommandResponse, Initiator, InitiatorCommand, InitiatorConfig, InitiatorEvent,
    Residual, ScsiData,
};
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::iscsi::text::{Name, pairs};
use weft_proto::stream::{StreamEngine, Tag};

pub const TARGET: &str = "iqn.2026-01.example.weft:target";

pub fn config() -> InitiatorConfig {
    let name = |text| Name::new(text).unwrap();
    InitiatorConfig::new(
        name("iqn.2026-01.example.weft:initiator"),
        Isid::random([1, 2, 3], 4),
        Some(name(TARGET)),
    )
}

/// A PDU that the initiator sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu {
    pub bhs: [u8; 48],
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn opcode(&self) -> Opcode {
        Opcode::of(self.bhs[0])
    }

    pub fn text(&self) -> Vec<(String, String)> {
        pairs(&self.data)
            .map(|pair| pair.unwrap())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    pub fn value(&self, key: &str) -> Option<String> {
        self.text().into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

/// Both sides.
pub struct World {
    pub end: ConnectionEnd<Initiator>,
    pub events: Vec<InitiatorEvent>,
    pub digests: Digests,
    pub stat_sn: u32,
    /// MaxCmdSN, and ExpCmdSN far enough behind it.
    pub max_cmd_sn: u32,
    pub now: Duration,
    pub closed: bool,
    unread: Vec<u8>,
}

impl World {
    pub fn new(config: InitiatorConfig) -> Self {
        Self {
            end: ConnectionEnd::new(Initiator::new(config, Duration::ZERO)),
            events: Vec::new(),
            digests: Digests::NONE,
            stat_sn: 100,
            max_cmd_sn: 32,
            now: Duration::ZERO,
            closed: false,
            unread: Vec::new(),
        }
    }

    /// Logged in, without asking for anything in particular; the target's part of the operational
    /// text is `keys`.
    pub fn logged_in(config: InitiatorConfig, keys: &str) -> Self {
        let mut world = Self::new(config);
        let digest = |key: &str| keys.contains(&format!("{key}=CRC32C"));
        let digests = Digests { header: digest("HeaderDigest"), data: digest("DataDigest") };
        world.sent();
        world.login(LoginStage::SECURITY, Some(LoginStage::OPERATIONAL), "AuthMethod=None ");
        world.sent();
        world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), keys);
        world.digests = digests;
        assert_eq!(world.take_events(), [InitiatorEvent::Ready], "{:?}", world.end.engine.fault());
        world
    }

    /// Returns the initiator's output since the last call.
    pub fn sent(&mut self) -> Vec<Pdu> {
        self.end.flush();
        self.unread.extend(self.end.take_wire());
        let bytes = std::mem::take(&mut self.unread);
        parse(&bytes, self.digests)
    }

    /// The only PDU that it has sent since.
    pub fn sent_one(&mut self) -> Pdu {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    pub fn bytes(&self, bhs: [u8; 48], data: &[u8]) -> Vec<u8> {
        encode(bhs, data, self.digests)
    }

    /// The target sends a PDU.
    pub fn reply(&mut self, bhs: [u8; 48], data: &[u8]) {
        let bytes = self.bytes(bhs, data);
        self.reply_bytes(&bytes);
    }

    pub fn reply_bytes(&mut self, bytes: &[u8]) {
        self.end.stage(bytes);
        self.run();
    }

    pub fn run(&mut self) {
        loop {
            match self.end.next() {
                Next::Event(event) => self.events.push(event),
                Next::Starved => break,
                Next::Closed => {
                    self.closed = true;
                    break;
                }
            }
        }
        while let Some(event) = self.end.engine.poll_event() {
            self.events.push(event);
        }
    }

    pub fn tick(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.end.engine.tick(self.now);
        self.run();
    }

    pub fn take_events(&mut self) -> Vec<InitiatorEvent> {
        std::mem::take(&mut self.events)
    }

    /// The only event since, which is the end of a command.
    pub fn ended(&mut self) -> (Tag, CommandOutcome) {
        match self.take_events()[..] {
            [InitiatorEvent::Ended { tag, end }] => (tag, end),
            ref other => panic!("{other:?}"),
        }
    }

    pub fn next_stat_sn(&mut self) -> Serial {
        self.stat_sn += 1;
        Serial(self.stat_sn - 1)
    }

    /// A login response with a text in which a blank ends each pair.
    pub fn login(&mut self, current: LoginStage, next: Option<LoginStage>, text: &str) {
        self.login_flags(LoginFlags::new(current, next), LoginStatus::SUCCESS, text);
    }

    pub fn login_flags(&mut self, flags: LoginFlags, status: LoginStatus, text: &str) {
        let response = LoginResponse {
            flags,
            status,
            isid: config().isid,
            tsih: 7,
            task: TaskTag(0x8000_0000),
            stat_sn: self.next_stat_sn(),
            exp_cmd_sn: Serial(1),
            max_cmd_sn: Serial(self.max_cmd_sn),
            ..LoginResponse::default()
        };
        let text = text.replace(' ', "\0").into_bytes();
        self.reply(response.encode(text.len() as u32), &text);
    }

    /// Submits a command with its memory, `len` bytes of `fill`.
    pub fn submit(&mut self, data: ScsiData, fill: u8) -> Tag {
        let command = InitiatorCommand { lun: Lun(0), cdb: [0x55; 16], data };
        let tag = self.end.engine.submit(self.now, command).unwrap();
        let (ScsiData::In(len) | ScsiData::Out(len)) = data else { return tag };
        self.end.memory(tag, len as usize).fill(fill);
        tag
    }

    pub fn response(&mut self, task: TaskTag, status: u8) -> ScsiResponse {
        ScsiResponse {
            status,
            task,
            stat_sn: self.next_stat_sn(),
            exp_cmd_sn: Serial(1),
            max_cmd_sn: Serial(self.max_cmd_sn),
            ..ScsiResponse::default()
        }
    }

    pub fn respond(&mut self, task: TaskTag, status: u8) {
        let response = self.response(task, status);
        self.reply(response.encode(0), &[]);
    }

    pub fn data_in(&self, task: TaskTag, data_sn: u32, offset: u32, flags: DataInFlags) -> DataIn {
        DataIn {
            flags,
            task,
            stat_sn: Serial(self.stat_sn),
            exp_cmd_sn: Serial(1),
            max_cmd_sn: Serial(self.max_cmd_sn),
            data_sn: Serial(data_sn),
            offset,
            ..DataIn::default()
        }
    }

    pub fn r2t(&self, task: TaskTag, sn: u32, offset: u32, desired_bytes: u32) -> R2t {
        R2t {
            task,
            transfer: TaskTag(sn + 1000),
            stat_sn: Serial(self.stat_sn),
            exp_cmd_sn: Serial(1),
            max_cmd_sn: Serial(self.max_cmd_sn),
            r2t_sn: Serial(sn),
            offset,
            desired_bytes,
            ..R2t::default()
        }
    }

    pub fn ask(&mut self, task: TaskTag, sn: u32, offset: u32, bytes: u32) {
        self.reply(self.r2t(task, sn, offset, bytes).encode(0), &[]);
    }

    pub fn fault(&self) -> String {
        self.end.engine.fault().map(ToString::to_string).unwrap_or_default()
    }
}

/// Success with `received_bytes` of data.
pub fn good(received_bytes: u32) -> CommandOutcome {
    CommandOutcome::Answered(CommandResponse {
        received_bytes,
        residual: Residual::None,
        ..CommandResponse::GOOD
    })
}

pub fn encode(bhs: [u8; 48], data: &[u8], digests: Digests) -> Vec<u8> {
    let mut bytes = bhs.to_vec();
    if digests.header {
        bytes.extend(crc32c(&bhs).to_le_bytes());
    }
    let zeroes = &[0; 3][..padding(data.len() as u32)];
    bytes.extend(data);
    bytes.extend(zeroes);
    if digests.data && !data.is_empty() {
        bytes.extend(crc32c_append(crc32c(data), zeroes).to_le_bytes());
    }
    bytes
}

/// Takes whole PDUs apart, and checks their digests.
pub fn parse(mut bytes: &[u8], digests: Digests) -> Vec<Pdu> {
    let mut pdus = Vec::new();
    while !bytes.is_empty() {
        let (bhs, rest) = bytes.split_first_chunk::<48>().unwrap();
        bytes = rest;
        if digests.header {
            assert_eq!(bytes[..4], crc32c(bhs).to_le_bytes());
            bytes = &bytes[4..];
        }
        let len = Head::decode(bhs).data_bytes;
        let (data, rest) = bytes.split_at(len as usize + padding(len));
        bytes = rest;
        if digests.data && len > 0 {
            assert_eq!(bytes[..4], crc32c(data).to_le_bytes());
            bytes = &bytes[4..];
        }
        pdus.push(Pdu { bhs: *bhs, data: data[..len as usize].to_vec() });
    }
    pdus
}
