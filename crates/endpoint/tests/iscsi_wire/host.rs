//! An initiator that says what a test wants, and the target that it says it to.

use crate::served::{Served, devices};
use std::io::{Read, Write};
use std::net::TcpStream;
use weft_endpoint::export::iscsi::{Settings, Target, TargetConfig, TargetLimits};
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::loops::LoopsConfig;
use weft_proto::iscsi::chap::{self, Algorithm, Credentials};
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::iscsi::target::ChapUser;
use weft_proto::iscsi::text::{Name, pairs};
use weft_proto::nvme::types::Nqn;
use weft_testing::wait::PATIENCE;

pub const IQN: &str = "iqn.2026-01.example.weft:wire";

/// A target of these sources, with `pool_bytes` of payload memory on each of its loops.
pub fn serve(sources: &[&str], pool_bytes: usize) -> Served<Target> {
    serve_with(sources, pool_bytes, Settings::default(), TargetLimits::default())
}

/// As [`serve`], with settings and limits.
pub fn serve_with(
    sources: &[&str],
    pool_bytes: usize,
    settings: Settings,
    limits: TargetLimits,
) -> Served<Target> {
    let subsystem = Nqn::new("nqn.2026-01.example.weft:wire").unwrap();
    let config = TargetConfig {
        settings: Settings { name: Some(Name::new(IQN).unwrap()), ..settings },
        inventory: LiveInventory::of_devices(
            SubsystemConfig::new(subsystem.clone()),
            devices(sources),
        )
        .unwrap(),
        subsystem,
        listen: vec!["127.0.0.1:0".parse().unwrap()],
    };
    let loops = LoopsConfig { pool_bytes, ..crate::served::loops(1) };
    Served::start(&loops, |loops| Target::start_limited(config, limits, loops).unwrap())
}

/// A user whose secret is his name with something behind it, and the initiators that are his.
pub fn user(name: &str, initiators: &[&str]) -> ChapUser {
    let credentials = Credentials { name: name.into(), secret: secret(name).into() };
    ChapUser {
        credentials,
        initiators: initiators.iter().map(|name| Name::new(name).unwrap()).collect(),
    }
}

pub fn secret(name: &str) -> String {
    format!("{name}'s own secret")
}

/// A PDU of the target.
pub struct Pdu {
    pub bhs: [u8; 48],
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn opcode(&self) -> Opcode {
        Opcode::of(self.bhs[0])
    }

    /// The value of a key in its text.
    pub fn value(&self, key: &str) -> Option<String> {
        pairs(&self.data)
            .map(Result::unwrap)
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value.to_owned())
    }
}

/// Result of a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: u8,
    /// Additional sense code and qualifier.
    pub code: u16,
    pub data: Vec<u8>,
    /// R2Ts that came.
    pub r2ts: usize,
}

/// One connection of an initiator.
pub struct Host {
    stream: TcpStream,
    sn: u32,
    /// Of the login under way.
    first: bool,
}

impl Host {
    pub fn connect(served: &Served<Target>) -> Self {
        let stream = TcpStream::connect(served.addresses()[0]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, sn: 1, first: true }
    }

    /// Logs in under a name, and takes all pending unit attentions.
    pub fn logged_in(served: &Served<Target>, name: &str) -> Self {
        let mut host = Self::connect(served);
        let response = host.login(name, "").expect("the target answers");
        assert_eq!(LoginResponse::decode(&response.bhs).status, LoginStatus::SUCCESS);
        host.settle();
        host
    }

    /// One step to the full feature phase.
    pub fn login(&mut self, name: &str, keys: &str) -> Option<Pdu> {
        let names = if self.first {
            format!("InitiatorName={name} TargetName={IQN} ")
        } else {
            String::new()
        };
        self.step(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), &(names + keys))
    }

    /// Logs in by CHAP; gives the status of the last answer.
    pub fn log_in_as(&mut self, name: &str, user: &str, secret: &str) -> LoginStatus {
        let status = |pdu: &Pdu| LoginResponse::decode(&pdu.bhs).status;
        let names = format!("InitiatorName={name} TargetName={IQN} AuthMethod=CHAP");
        let first = self
            .step(LoginStage::SECURITY, Some(LoginStage::OPERATIONAL), &names)
            .expect("an answer");
        if status(&first) != LoginStatus::SUCCESS {
            return status(&first);
        }
        let challenge = self.step(LoginStage::SECURITY, None, "CHAP_A=7").expect("a challenge");
        let identifier = chap::identifier(&challenge.value("CHAP_I").unwrap()).unwrap();
        let bytes = chap::challenge(&challenge.value("CHAP_C").unwrap()).unwrap();
        let response =
            chap::respond(Algorithm::SHA256, identifier, secret.as_bytes(), &bytes).unwrap().text();
        let proof = format!("CHAP_N={user} CHAP_R={response}");
        let proven = self
            .step(LoginStage::SECURITY, Some(LoginStage::OPERATIONAL), &proof)
            .expect("an answer");
        if status(&proven) != LoginStatus::SUCCESS {
            return status(&proven);
        }
        status(
            &self
                .step(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), "")
                .expect("an answer"),
        )
    }

    /// Takes all pending unit attentions.
    pub fn settle(&mut self) {
        while self.command(&[0; 16], 0, &[], 0).status != 0 {}
    }

    /// One step of a login, and its answer; spaces separate the pairs. `None`: the connection is
    /// over.
    pub fn step(
        &mut self,
        current: LoginStage,
        next: Option<LoginStage>,
        text: &str,
    ) -> Option<Pdu> {
        self.first = false;
        self.say(current, next, text)?;
        self.pdu()
    }

    /// The step alone.
    pub fn say(&mut self, current: LoginStage, next: Option<LoginStage>, text: &str) -> Option<()> {
        let text: Vec<u8> =
            text.split_whitespace().flat_map(|pair| [pair.as_bytes(), b"\0"].concat()).collect();
        let request = LoginRequest {
            immediate: true,
            flags: LoginFlags::new(current, next),
            isid: Isid::random([1, 2, 3], 4),
            task: TaskTag(1),
            cid: 1,
            cmd_sn: Serial(self.sn),
            ..LoginRequest::default()
        };
        self.put(request.encode(text.len() as u32), &text)
    }

    pub fn put(&mut self, bhs: [u8; 48], data: &[u8]) -> Option<()> {
        let pdu = [&bhs[..], data, &[0; 3][..padding(data.len() as u32)]].concat();
        self.stream.write_all(&pdu).ok()
    }

    /// The next PDU; `None` at the end of the connection.
    pub fn pdu(&mut self) -> Option<Pdu> {
        let mut bhs = [0; 48];
        self.stream.read_exact(&mut bhs).ok()?;
        let bytes = Head::decode(&bhs).data_bytes;
        let mut data = vec![0; bytes as usize + padding(bytes)];
        self.stream.read_exact(&mut data).ok()?;
        data.truncate(bytes as usize);
        Some(Pdu { bhs, data })
    }

    /// Sends a command that expects `expected` bytes, or sends `data`: the first `immediate` bytes
    /// of it at once.
    pub fn begin(&mut self, cdb: &[u8; 16], expected: u32, data: &[u8], immediate: usize) {
        let flags = match (expected, data.is_empty()) {
            (_, false) => CommandFlags(0xa1),
            (0, _) => CommandFlags(0x81),
            _ => CommandFlags(0xc1),
        };
        let expected_bytes = if data.is_empty() { expected } else { data.len() as u32 };
        let (task, cmd_sn) = (TaskTag(self.sn), Serial(self.sn));
        self.sn += 1;
        let command = ScsiCommand {
            flags,
            task,
            expected_bytes,
            cmd_sn,
            cdb: *cdb,
            ..ScsiCommand::default()
        };
        self.put(command.encode(immediate as u32), &data[..immediate]).unwrap();
    }

    /// The same with the rest of the data, as it is asked for, and the answer.
    pub fn command(
        &mut self,
        cdb: &[u8; 16],
        expected: u32,
        data: &[u8],
        immediate: usize,
    ) -> Ended {
        self.begin(cdb, expected, data, immediate);
        let mut ended = Ended { status: 0xff, code: 0, data: vec![0; expected as usize], r2ts: 0 };
        let mut got = 0;
        loop {
            let pdu = self.pdu().expect("an answer");
            match pdu.opcode() {
                Opcode::R2T => {
                    ended.r2ts += 1;
                    self.answer(&R2t::decode(&pdu.bhs), data);
                }
                Opcode::DATA_IN => {
                    let head = DataIn::decode(&pdu.bhs);
                    let at = head.offset as usize;
                    ended.data[at..at + pdu.data.len()].copy_from_slice(&pdu.data);
                    got += pdu.data.len();
                    if head.flags.has(DataInFlags::STATUS) {
                        ended.status = head.status;
                        ended.data.truncate(got);
                        return ended;
                    }
                }
                Opcode::SCSI_RESPONSE => {
                    ended.status = ScsiResponse::decode(&pdu.bhs).status;
                    ended.code = pdu
                        .data
                        .get(14..16)
                        .map_or(0, |code| u16::from_be_bytes([code[0], code[1]]));
                    ended.data.truncate(got);
                    return ended;
                }
                Opcode::NOP_IN => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn answer(&mut self, r2t: &R2t, data: &[u8]) {
        let (mut at, end) = (r2t.offset, r2t.offset + r2t.desired_bytes);
        for sn in 0.. {
            let bytes = (end - at).min(8192);
            let last = at + bytes == end;
            let flags = if last { DataOutFlags::FINAL } else { DataOutFlags::NONE };
            let (task, transfer, data_sn) = (r2t.task, r2t.transfer, Serial(sn));
            let pdu = DataOut {
                flags,
                lun: r2t.lun,
                task,
                transfer,
                data_sn,
                offset: at,
                ..DataOut::default()
            };
            self.put(pdu.encode(bytes), &data[at as usize..(at + bytes) as usize]).unwrap();
            at += bytes;
            if last {
                return;
            }
        }
    }
}

/// READ(16) or WRITE(16).
pub fn blocks(opcode: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

pub const READ: u8 = 0x88;
pub const WRITE: u8 = 0x8a;
