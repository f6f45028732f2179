//! The target's end of an iSCSI connection with commands of all kinds under way, fed arbitrary PDUs
//! and bytes cut arbitrarily, before, during and after login. What is asked of the layer above is
//! answered early, late or never; nothing that was given up is written to.

use core::time::Duration;
use std::sync::Arc;
use weft_fuzz::support::{ConnectionEnd, Next};
use weft_fuzz::{Input, digests};
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::digest::{Digests, crc32c, crc32c_append};
use weft_proto::iscsi::pdu::{
    CommandFlags, Isid, LoginFlags, LoginRequest, LoginStage, LoginStatus, Opcode, TaskResult,
    TaskTag, padding,
};
use weft_proto::iscsi::serial::Serial;
use weft_proto::iscsi::target::{
    ChapPolicy, ChapUser, IscsiTargetConfig, Portals, TargetConnection, TargetEvent, TargetResponse,
};
use weft_proto::iscsi::text::{Name, OfferedParameters};
use weft_proto::scsi::status::ScsiStatus;
use weft_proto::stream::{StreamEngine, Tag};

/// Data of one command, at most.
const DATA_MAX: u32 = 4096;

const TARGET: &str = "iqn.2026-01.example.weft:target";

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    Session::new(&mut input).run(&mut input);
}

struct Session {
    end: ConnectionEnd<TargetConnection>,
    digests: Digests,
    cmd_sn: u32,
    /// What the layer above holds: commands, and functions.
    held: Vec<(Tag, u32)>,
    functions: Vec<Tag>,
    last: TaskTag,
    offset: u32,
    over: bool,
    now: Duration,
}

fn config(input: &mut Input) -> IscsiTargetConfig {
    let mut config = IscsiTargetConfig::new(Name::new(TARGET).expect("a name"));
    config.offer = OfferedParameters {
        digests: Digests::BOTH,
        initial_r2t: input.flag(),
        immediate_data: !input.one_in(4),
        max_recv_bytes: 1024,
        max_burst_bytes: 1024,
        first_burst_bytes: 512,
        max_outstanding_r2t: 2,
        ..OfferedParameters::default()
    };
    config.commands = 4;
    let secret = || Credentials { name: "me".into(), secret: "a secret of mine".into() };
    config.chap = input.one_in(4).then(|| ChapPolicy {
        users: vec![ChapUser { credentials: secret(), initiators: Vec::new() }],
        target: None,
    });
    config
}

impl Session {
    fn new(input: &mut Input) -> Self {
        let config = config(input);
        let logs_in = config.chap.is_none() && !input.one_in(4);
        let engine =
            TargetConnection::new(Arc::new(config), Portals::one("192.0.2.1:3260"), [5; 33]);
        let mut session = Self {
            end: ConnectionEnd::with_part_limit(engine, 4),
            digests: Digests::NONE,
            cmd_sn: 1,
            held: Vec::new(),
            functions: Vec::new(),
            last: TaskTag::NONE,
            offset: 0,
            over: false,
            now: Duration::ZERO,
        };
        // Every command's memory is there, whatever becomes of it.
        (0..session.end.engine.tags())
            .for_each(|tag| _ = session.end.memory(Tag(tag), DATA_MAX as usize));
        if logs_in {
            session.log_in(input);
        }
        session
    }

    fn log_in(&mut self, input: &mut Input) {
        let wanted = digests(input);
        let word = |on| if on { "CRC32C" } else { "None" };
        let kind = if input.one_in(8) { "Discovery" } else { "Normal" };
        let text = format!(
            "InitiatorName=iqn.2026-01.example.weft:me TargetName={TARGET} SessionType={kind} InitialR2T=No MaxRecvDataSegmentLength=512 \
             HeaderDigest={} DataDigest={} ",
            word(wanted.header),
            word(wanted.data)
        );
        let request = LoginRequest {
            immediate: true,
            flags: LoginFlags::new(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE)),
            isid: Isid::random([1, 2, 3], 4),
            cmd_sn: Serial(1),
            task: TaskTag(0),
            ..LoginRequest::default()
        };
        let text = text.replace(' ', "\0");
        self.send(request.encode(text.len() as u32), text.as_bytes(), input);
        if self.end.engine.is_full_feature() {
            self.digests = Digests { header: wanted.header, data: wanted.data };
        }
    }

    fn send(&mut self, bhs: [u8; 48], data: &[u8], input: &mut Input) {
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
        if input.one_in(16) {
            let at = input.below(bytes.len());
            bytes[at] ^= input.byte();
        }
        self.feed(&bytes, input);
    }

    fn feed(&mut self, bytes: &[u8], input: &mut Input) {
        let cut = input.below(bytes.len() + 1);
        for piece in [&bytes[..cut], &bytes[cut..]] {
            self.end.stage(piece);
            self.take_events(input);
        }
    }

    fn take_events(&mut self, input: &mut Input) {
        for _ in 0..10_000 {
            match self.end.next() {
                Next::Event(event) => self.event(event, input),
                Next::Starved => return,
                Next::Closed => {
                    self.over = true;
                    return;
                }
            }
        }
        panic!("events without end");
    }

    fn event(&mut self, event: TargetEvent, input: &mut Input) {
        match event {
            TargetEvent::Login if input.one_in(8) => {
                self.end.engine.refuse(LoginStatus::SERVICE_UNAVAILABLE)
            }
            TargetEvent::Login => self.end.engine.admit(3, None),
            TargetEvent::Command { tag, command } => {
                (self.last, self.offset) = (command.task, 0);
                let writes =
                    command.flags.has(CommandFlags::WRITE) && command.expected_bytes <= DATA_MAX;
                if !(writes
                    && input.flag()
                    && self.end.engine.fetch(tag, command.expected_bytes) > 0)
                {
                    self.held.push((tag, command.expected_bytes.min(DATA_MAX)));
                }
            }
            TargetEvent::DataArrived { tag } | TargetEvent::DataFailed { tag } => {
                self.held.push((tag, 0))
            }
            TargetEvent::Dropped { tag } => assert!(self.held.iter().all(|(held, _)| *held != tag)),
            TargetEvent::Task { tag, .. } => self.functions.push(tag),
            TargetEvent::Logout => {
                let tasks: Vec<Tag> = self.end.engine.tasks().map(|(tag, _)| tag).collect();
                tasks.into_iter().for_each(|tag| _ = self.end.engine.abandon(tag));
                self.held.clear();
                self.end.engine.logged_out();
            }
            TargetEvent::Pong => {}
        }
    }

    /// The layer above does something that is its turn to do.
    fn act(&mut self, input: &mut Input) {
        match input.below(7) {
            0 if !self.held.is_empty() => {
                let (tag, bytes) = self.held.swap_remove(input.below(self.held.len()));
                let status = if input.one_in(4) { ScsiStatus::BUSY } else { ScsiStatus::GOOD };
                let answer = TargetResponse {
                    status,
                    sense: &[1; 20][..input.below(20)],
                    data_bytes: bytes,
                    total_bytes: input.u16().into(),
                };
                self.end.engine.complete(tag, &answer);
            }
            1 if !self.functions.is_empty() => {
                let tag = self.functions.swap_remove(input.below(self.functions.len()));
                self.end.engine.complete_task(tag, TaskResult(input.byte()));
            }
            2 => {
                let tasks: Vec<Tag> = self.end.engine.tasks().map(|(tag, _)| tag).collect();
                if !tasks.is_empty() {
                    let tag = tasks[input.below(tasks.len())];
                    self.held.retain(|(held, _)| *held != tag);
                    self.end.engine.abandon(tag);
                }
            }
            3 => self.end.engine.ping(),
            4 => self.end.engine.request_logout(1),
            5 => {
                self.now += Duration::from_secs(input.byte().into());
                self.end.engine.tick(self.now);
                assert!(self.end.engine.is_closed() || self.end.engine.deadline().is_some());
            }
            _ => {
                self.end.flush();
                self.end.take_wire();
            }
        }
    }

    /// A PDU that is nearly right.
    fn pdu(&mut self, input: &mut Input) {
        let mut bhs: [u8; 48] = if input.flag() { [0; 48] } else { input.array() };
        let opcodes = [
            Opcode::SCSI_COMMAND,
            Opcode::DATA_OUT,
            Opcode::TASK_REQUEST,
            Opcode::NOP_OUT,
            Opcode::TEXT_REQUEST,
        ];
        bhs[0] = if input.one_in(8) {
            input.byte()
        } else {
            input.pick(&opcodes).0 | if input.flag() { 0x40 } else { 0 }
        };
        bhs[1] = input.byte();
        let data = input.bytes(1200);
        bhs[4..8].copy_from_slice(&(data.len() as u32).to_be_bytes());
        if input.one_in(16) {
            bhs[4] = input.byte();
        }
        let is_data = Opcode::of(bhs[0]) == Opcode::DATA_OUT;
        if is_data {
            bhs[16..20].copy_from_slice(&self.last.0.to_be_bytes());
            bhs[20..24]
                .copy_from_slice(&input.pick(&[u32::MAX, 0, 0x1_0000, 0x2_0000]).to_be_bytes());
            bhs[40..44].copy_from_slice(&self.offset.to_be_bytes());
            self.offset += data.len() as u32;
        } else {
            bhs[24..28].copy_from_slice(&self.cmd_sn.to_be_bytes());
            self.cmd_sn = self.cmd_sn.wrapping_add(u32::from(bhs[0] & 0x40 == 0));
            bhs[20..24].copy_from_slice(&u32::from(input.u16() & 0x1fff).to_be_bytes());
        }
        self.send(bhs, &data, input);
    }

    fn run(mut self, input: &mut Input) {
        while !input.is_empty() && !self.over {
            match input.below(8) {
                0 => {
                    let bytes = input.bytes(600);
                    self.feed(&bytes, input);
                }
                1..4 => self.act(input),
                _ => self.pdu(input),
            }
            self.take_events(input);
        }
        self.end.flush();
    }
}
