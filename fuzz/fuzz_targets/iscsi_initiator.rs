//! The initiator's end of an iSCSI session with commands of all kinds outstanding, fed arbitrary
//! PDUs and bytes cut arbitrarily, before, during and after login. Each command ends at most once,
//! and nothing that was given up is moved.

use core::time::Duration;
use weft_fuzz::support::{ConnectionEnd, Next};
use weft_fuzz::{Input, digests};
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::digest::{Digests, crc32c, crc32c_append};
use weft_proto::iscsi::initiator::{
    Initiator, InitiatorCommand, InitiatorConfig, InitiatorEvent, ScsiData,
};
use weft_proto::iscsi::pdu::{
    Isid, LoginFlags, LoginResponse, LoginStage, Lun, Opcode, TaskTag, padding,
};
use weft_proto::iscsi::serial::Serial;
use weft_proto::iscsi::text::Name;
use weft_proto::stream::StreamEngine;

/// Commands outstanding, at most.
const ENTRIES: u16 = 8;

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    Session::new(&mut input).run(&mut input);
}

struct Session {
    end: ConnectionEnd<Initiator>,
    digests: Digests,
    /// Which commands were submitted and have not ended.
    outstanding: [bool; ENTRIES as usize],
    now: Duration,
    data_sn: u32,
}

fn config(input: &mut Input) -> InitiatorConfig {
    let name = |text| Name::new(text).expect("a name");
    let target = (!input.one_in(8)).then(|| name("iqn.2026-01.example.weft:target"));
    let mut config = InitiatorConfig::new(
        name("iqn.2026-01.example.weft:initiator"),
        Isid::random([1, 2, 3], 4),
        target,
    );
    config.credentials = input
        .one_in(4)
        .then(|| Credentials { name: "me".into(), secret: "a secret of mine".into() });
    config.commands = ENTRIES;
    config
}

impl Session {
    fn new(input: &mut Input) -> Self {
        let wanted = digests(input);
        let wanted = Digests { header: wanted.header, data: wanted.data };
        let config =
            config(input).with_digests(wanted, if input.flag() { wanted } else { Digests::NONE });
        let logs_in = config.credentials.is_none() && !input.one_in(4);
        let end = ConnectionEnd::with_part_limit(Initiator::new(config, Duration::ZERO), 4);
        let mut session = Self {
            end,
            digests: Digests::NONE,
            outstanding: Default::default(),
            now: Duration::ZERO,
            data_sn: 0,
        };
        session.end.flush();
        if logs_in {
            session.log_in(wanted, input);
        }
        session
    }

    fn log_in(&mut self, digests: Digests, input: &mut Input) {
        let word = |on| if on { "CRC32C" } else { "None" };
        let text = format!(
            "HeaderDigest={} DataDigest={} InitialR2T={} ImmediateData={} MaxRecvDataSegmentLength=512 MaxOutstandingR2T=2 ",
            word(digests.header),
            word(digests.data),
            input.pick(&["Yes", "No"]),
            input.pick(&["Yes", "No"]),
        );
        let stages = [
            (LoginStage::SECURITY, LoginStage::OPERATIONAL, ""),
            (LoginStage::OPERATIONAL, LoginStage::FULL_FEATURE, text.as_str()),
        ];
        for (current, next, text) in stages {
            let response = LoginResponse {
                flags: LoginFlags::new(current, Some(next)),
                task: TaskTag(0x8000_0000),
                exp_cmd_sn: Serial(1),
                max_cmd_sn: Serial(input.byte().into()),
                ..LoginResponse::default()
            };
            let text = text.replace(' ', "\0");
            let bytes = encode(response.encode(text.len() as u32), text.as_bytes(), Digests::NONE);
            self.end.stage(&bytes);
            self.drain();
        }
        self.digests = digests;
    }

    fn run(&mut self, input: &mut Input) {
        while !input.is_empty() {
            self.submit(input);
            let stream = if input.one_in(16) { input.bytes(64) } else { self.pdu(input) };
            let piece = input.below(300) + 1;
            for piece in stream.chunks(piece) {
                self.end.stage(piece);
                if !self.drain() {
                    return;
                }
            }
            if input.one_in(8) {
                self.now += Duration::from_secs(input.byte().into());
                self.end.engine.tick(self.now);
            }
            if !self.drain() {
                return;
            }
        }
    }

    /// Submits some commands, or wants some to end.
    fn submit(&mut self, input: &mut Input) {
        for _ in 0..input.below(4) {
            let bytes = input.below(1024) as u32 * 4;
            let data = input.pick(&[ScsiData::In(bytes | 1), ScsiData::Out(bytes), ScsiData::None]);
            let command = InitiatorCommand { lun: Lun(0), cdb: [0; 16], data };
            let Ok(tag) = self.end.engine.submit(self.now, command) else { break };
            assert!(
                !std::mem::replace(&mut self.outstanding[tag.index()], true),
                "{tag:?} is in use"
            );
            self.end.memory(tag, bytes as usize + 4);
        }
        if input.one_in(8) {
            let tag = weft_proto::stream::Tag(input.below(ENTRIES.into()) as u16);
            if let Some(event) = self.end.engine.abort(tag) {
                self.event(event);
            }
        }
        if input.one_in(64) {
            self.end.engine.log_out(Duration::from_secs(1));
        }
    }

    /// A PDU that is likely to be about something.
    fn pdu(&mut self, input: &mut Input) -> Vec<u8> {
        let opcode = input.pick(&[
            Opcode::SCSI_RESPONSE,
            Opcode::DATA_IN,
            Opcode::R2T,
            Opcode::NOP_IN,
            Opcode::TASK_RESPONSE,
            Opcode::LOGIN_RESPONSE,
            Opcode::TEXT_RESPONSE,
            Opcode::ASYNC_MESSAGE,
            Opcode::REJECT,
            Opcode::LOGOUT_RESPONSE,
        ]);
        let mut bhs: [u8; 48] = input.array();
        bhs[0] = opcode.0;
        let task = match input.below(4) {
            0 => u32::from(input.byte() % 8) | u32::from(input.byte() % 4) << 16,
            1 => 0x8000_0000 | u32::from(input.byte() % 4),
            2 => 0xc000_0000 | u32::from(input.byte() % 4),
            _ => u32::MAX,
        };
        bhs[16..20].copy_from_slice(&task.to_be_bytes());
        bhs[36..40].copy_from_slice(&input.pick(&[0, 1, self.data_sn]).to_be_bytes());
        bhs[40..44].copy_from_slice(&(input.below(8) as u32 * 256).to_be_bytes());
        let len = if input.flag() { 0 } else { input.below(600) };
        bhs[4..8].copy_from_slice(&(len as u32).to_be_bytes());
        self.data_sn += 1;
        let mut data = input.bytes(len);
        data.resize(len, b'x');
        let mut bytes = encode(bhs, &data, self.digests);
        if input.one_in(32) {
            let at = input.below(bytes.len());
            bytes[at] ^= 1;
        }
        bytes
    }

    fn event(&mut self, event: InitiatorEvent) {
        if let InitiatorEvent::Ended { tag, .. } = event {
            assert!(
                std::mem::replace(&mut self.outstanding[tag.index()], false),
                "{tag:?} ended twice"
            );
            assert!(self.end.engine.sense(tag).len() <= 48);
            self.end.engine.release(tag);
        }
    }

    /// Handles what has arrived; `false` when the session has ended.
    fn drain(&mut self) -> bool {
        // What was sent lets commands end that were answered before.
        for _ in 0..2 {
            loop {
                match self.end.next() {
                    Next::Event(event) => self.event(event),
                    Next::Closed => return false,
                    Next::Starved => break,
                }
            }
            while let Some(event) = self.end.engine.poll_event() {
                self.event(event);
            }
            self.end.flush();
        }
        let outstanding = self.outstanding.iter().filter(|used| **used).count();
        assert!(self.end.engine.is_closed() || self.end.engine.outstanding() == outstanding);
        !self.end.engine.is_closed()
    }
}

fn encode(bhs: [u8; 48], data: &[u8], digests: Digests) -> Vec<u8> {
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
