//! iSCSI: login and each PDU that initiators send, field by field (RFC 7143).

use super::State::{Asked, Fresh, Ready};
use super::{Fault, fault, join};
use crate::sim::protocols::{AnyScene, IQN};
use crate::sim::puppet::Puppet;
use std::time::Duration;
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::ScsiStatus;

pub(super) fn pdu(bhs: [u8; 48], data: &[u8]) -> Vec<u8> {
    [&bhs[..], data, &[0; 3][..padding(data.len() as u32)]].concat()
}

fn request() -> LoginRequest {
    LoginRequest {
        immediate: true,
        flags: LoginFlags::new(Stage::OPERATIONAL, Some(Stage::FULL_FEATURE)),
        isid: Isid::random([1, 2, 3], 4),
        task: TaskTag(1),
        cid: 1,
        cmd_sn: Serial(1),
        ..LoginRequest::default()
    }
}

fn text(more: &str) -> String {
    format!("InitiatorName=iqn.2026-01.example.weft:hostile\0TargetName={IQN}\0{more}")
}

/// A login with these keys as well.
pub(super) fn login(more: &str) -> Vec<u8> {
    login_of(&request(), &text(more))
}

fn login_of(request: &LoginRequest, text: &str) -> Vec<u8> {
    pdu(request.encode(text.len() as u32), text.as_bytes())
}

pub(super) fn log_in(scene: &mut AnyScene, puppet: &Puppet) {
    puppet.put(&login("InitialR2T=Yes\0ImmediateData=Yes\0"));
    scene.world.run_for(Duration::from_secs(1));
    let answer = puppet.take_bytes();
    assert_eq!(LoginResponse::decode(answer.first_chunk().unwrap()).status, LoginStatus::SUCCESS);
    // The first command is told of the power on.
    puppet.put(&pdu(ScsiCommand { immediate: true, ..command(1, 0x80, 0, &[]) }.encode(0), &[]));
    scene.world.run_for(Duration::from_secs(1));
    assert!(words(puppet.take_bytes()).starts_with("UNIT ATTENTION"));
}

/// A command with a CDB of its own.
pub(super) fn command(sn: u32, flags: u8, expected_bytes: u32, cdb: &[u8]) -> ScsiCommand {
    let mut padded = [0; 16];
    padded[..cdb.len()].copy_from_slice(cdb);
    let (task, flags) = (TaskTag(sn), CommandFlags(flags));
    ScsiCommand {
        flags,
        task,
        expected_bytes,
        cmd_sn: Serial(sn),
        cdb: padded,
        ..ScsiCommand::default()
    }
}

/// READ (10) or WRITE (10).
pub(super) fn moving(opcode: u8, lba: u32, blocks: u16) -> [u8; 10] {
    let (lba, blocks) = (lba.to_be_bytes(), blocks.to_be_bytes());
    [opcode, 0, lba[0], lba[1], lba[2], lba[3], 0, blocks[0], blocks[1], 0]
}

/// A SCSI command without data of its own.
pub(super) fn scsi(flags: u8, expected_bytes: u32, cdb: &[u8]) -> Vec<u8> {
    pdu(command(1, flags, expected_bytes, cdb).encode(0), &[])
}

pub(super) fn read_cdb(cdb: &[u8]) -> Vec<u8> {
    scsi(READ, 4096, cdb)
}

/// A write of 4096 bytes, whose data is asked for.
pub(super) fn write(sn: u32) -> Vec<u8> {
    pdu(command(sn, WRITE, 4096, &moving(0x2a, 0, 8)).encode(0), &[])
}

pub(super) fn data_out(
    task: u32,
    transfer: u32,
    data_sn: u32,
    offset: u32,
    bytes: usize,
) -> Vec<u8> {
    let flags = DataOutFlags::FINAL;
    let (task, transfer) = (TaskTag(task), TaskTag(transfer));
    let out =
        DataOut { flags, task, transfer, data_sn: Serial(data_sn), offset, ..DataOut::default() };
    pdu(out.encode(bytes as u32), &vec![7; bytes])
}

fn manage(function: u8, lun: u64, referenced: u32) -> Vec<u8> {
    let request = TaskRequest {
        immediate: true,
        function: TaskFunction(function),
        lun: Lun(lun),
        task: TaskTag(9),
        referenced: TaskTag(referenced),
        cmd_sn: Serial(1),
        ..TaskRequest::default()
    };
    pdu(request.encode(0), &[])
}

pub(super) fn with(mut bytes: Vec<u8>, at: usize, others: &[u8]) -> Vec<u8> {
    bytes[at..at + others.len()].copy_from_slice(others);
    bytes
}

/// A step of a login with these flags.
fn step(flags: u8) -> Vec<u8> {
    with(login(""), 1, &[flags])
}

pub(super) fn text_request(flags: u8, task: u32, transfer: u32, data: &[u8]) -> Vec<u8> {
    let (task, transfer) = (TaskTag(task), TaskTag(transfer));
    let request = TextRequest {
        immediate: true,
        flags: TextFlags(flags),
        task,
        transfer,
        cmd_sn: Serial(1),
        ..TextRequest::default()
    };
    pdu(request.encode(data.len() as u32), data)
}

pub(super) const WRITE: u8 = 0xa1;
pub(super) const READ: u8 = 0xc1;
const LOGIN: &str = "RFC 7143 §11.12, §6.3";
const KEYS: &str = "RFC 7143 §6.1, §13";
const PDU: &str = "RFC 7143 §11.2";
const COMMAND: &str = "RFC 7143 §11.3, §4.2.2.1";
const DATA: &str = "RFC 7143 §11.7";
const TASK: &str = "RFC 7143 §11.5";
const NONE: u32 = TaskTag::NONE.0;
const TEXT: &str = "RFC 7143 §11.10";
const OTHER: &str = "RFC 7143 §11.10, §11.16, §11.18";

pub(super) const TABLE: &[Fault] = &[
    fault(LOGIN, "a command before login", Fresh, |_| write(1), "closed"),
    fault(
        LOGIN,
        "another protocol than iSCSI",
        Fresh,
        |_| b"GET / HTTP/1.1\r\n\r\n".repeat(50),
        "closed",
    ),
    fault(
        LOGIN,
        "login: version",
        Fresh,
        |_| with(login(""), 2, &[9, 9]),
        "login: no common protocol version; closed",
    ),
    fault(
        LOGIN,
        "login: reserved stage",
        Fresh,
        |_| with(login(""), 1, &[0x8a]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: next stage below the current one",
        Fresh,
        |_| with(login(""), 1, &[0x84]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: next stage of none",
        Fresh,
        |_| with(login(""), 1, &[0x86]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: next stage the same as the current one",
        Fresh,
        |_| with(login(""), 1, &[0x85]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: begins in the full feature phase",
        Fresh,
        |_| with(login(""), 1, &[0x8f]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: back from the operational to the security stage",
        Fresh,
        |_| [step(0x04), step(0x81)].concat(),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: another ISID in the second request",
        Fresh,
        |_| [step(0x04), with(step(0x87), 8, &[0x41])].concat(),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: another connection in the second request",
        Fresh,
        |_| [step(0x04), with(step(0x87), 20, &[9, 9])].concat(),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: another task in the second request",
        Fresh,
        |_| [step(0x04), with(step(0x87), 16, &[9; 4])].concat(),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: a text that goes on (C) into the next stage (T)",
        Fresh,
        |_| with(login(""), 1, &[0xc7]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: a text that goes on for ever",
        Fresh,
        |_| with(login(""), 1, &[0x44]).repeat(70),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: a text above 64 KiB in pieces",
        Fresh,
        |_| {
            login_of(&LoginRequest { flags: LoginFlags(0x44), ..request() }, &"x".repeat(8192))
                .repeat(9)
        },
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: more steps than there may be",
        Fresh,
        |_| step(0x04).repeat(70),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: a command between two requests",
        Fresh,
        |_| [step(0x04), write(1)].concat(),
        "login: success; closed",
    ),
    fault(
        LOGIN,
        "login: TSIH of no session",
        Fresh,
        |_| with(login(""), 14, &[0x12, 0x34]),
        "login: the session does not exist; closed",
    ),
    fault(
        LOGIN,
        "login: data longer than 8192 bytes",
        Fresh,
        |_| with(login(""), 5, &[0, 0x30, 0]),
        "closed",
    ),
    fault(
        LOGIN,
        "login: additional header segments of 1020 bytes",
        Fresh,
        |_| with(login(""), 4, &[0xff]),
        "closed",
    ),
    fault(
        KEYS,
        "login without InitiatorName",
        Fresh,
        |_| login_of(&request(), &format!("TargetName={IQN}\0")),
        "login: a required parameter is missing; closed",
    ),
    fault(
        KEYS,
        "login without TargetName",
        Fresh,
        |_| login_of(&request(), "InitiatorName=iqn.2026-01.example.weft:hostile\0"),
        "login: a required parameter is missing; closed",
    ),
    fault(
        KEYS,
        "login: a target that does not exist",
        Fresh,
        |_| {
            login_of(
                &request(),
                "InitiatorName=iqn.2026-01.example.weft:hostile\0TargetName=iqn.2026-01.example:nobody\0",
            )
        },
        "login: there is no such target; closed",
    ),
    fault(
        KEYS,
        "login: text without an end",
        Fresh,
        |_| login_of(&request(), "InitiatorName"),
        "login: initiator error; closed",
    ),
    fault(
        KEYS,
        "login: a key without a value",
        Fresh,
        |_| login("HeaderDigest\0"),
        "login: initiator error; closed",
    ),
    fault(
        KEYS,
        "login: a key twice",
        Fresh,
        |_| login("MaxBurstLength=512\0MaxBurstLength=512\0"),
        "login: success",
    ),
    fault(
        KEYS,
        "login: a number out of range",
        Fresh,
        |_| login("MaxBurstLength=1\0"),
        "login: initiator error; closed",
    ),
    fault(
        KEYS,
        "login: an unknown key",
        Fresh,
        |_| login("Colour=red\0"),
        "login: success, Colour=NotUnderstood",
    ),
    fault(
        KEYS,
        "login: no digest in common",
        Fresh,
        |_| login("HeaderDigest=MD5\0"),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login again in the full feature phase",
        Ready,
        |_| login(""),
        "Reject, reason 0x04",
    ),
    fault(
        PDU,
        "an opcode of targets",
        Ready,
        |_| pdu(with_opcode(0x21), &[]),
        "Reject, reason 0x05",
    ),
    fault(PDU, "a reserved opcode", Ready, |_| pdu(with_opcode(0x1f), &[]), "Reject, reason 0x05"),
    fault(
        PDU,
        "additional header segments of 1020 bytes",
        Ready,
        |_| with(write(1), 4, &[0xff]),
        "closed",
    ),
    fault(
        PDU,
        "data longer than MaxRecvDataSegmentLength",
        Ready,
        |_| with(write(1), 5, &[0xff, 0xff, 0xff]),
        "closed",
    ),
    fault(COMMAND, "a gap in CmdSN", Ready, |_| write(2), "closed"),
    fault(
        COMMAND,
        "CmdSN of the past",
        Ready,
        |_| with(write(1), 24, &0_u32.to_be_bytes()),
        "nothing",
    ),
    fault(COMMAND, "CmdSN beyond MaxCmdSN", Ready, |_| write(100_000), "nothing"),
    fault(
        COMMAND,
        "a task tag that is in use (another task)",
        Ready,
        |_| [write(1), with(write(2), 16, &1_u32.to_be_bytes())].concat(),
        "R2T",
    ),
    fault(
        COMMAND,
        "neither F nor unsolicited data allowed",
        Ready,
        |_| with(write(1), 1, &[0x21]),
        "R2T",
    ),
    fault(
        COMMAND,
        "immediate data of a read",
        Ready,
        |_| pdu(command(1, READ, 4096, &moving(0x28, 0, 8)).encode(512), &[0; 512]),
        "closed",
    ),
    fault(
        COMMAND,
        "more immediate data than expected",
        Ready,
        |_| pdu(command(1, WRITE, 512, &moving(0x2a, 0, 8)).encode(1024), &[0; 1024]),
        "closed",
    ),
    fault(
        COMMAND,
        "a LUN that does not exist",
        Ready,
        |_| with(read_cdb(&moving(0x28, 0, 8)), 8, &[0, 99]),
        "ILLEGAL REQUEST, Logical unit not supported (25h/00h)",
    ),
    fault(DATA, "Data-Out for no task", Ready, |_| data_out(77, 0, 0, 0, 512), "nothing"),
    fault(
        DATA,
        "Data-Out: a transfer tag of no R2T",
        Asked,
        |_| data_out(1, 77, 0, 0, 512),
        "nothing",
    ),
    fault(
        DATA,
        "Data-Out: offset out of order",
        Asked,
        |peer| data_out(1, peer.transfer, 0, 512, 512),
        "closed",
    ),
    fault(
        DATA,
        "Data-Out: more than the R2T asked for",
        Asked,
        |peer| data_out(1, peer.transfer, 0, 0, 8192),
        "closed",
    ),
    fault(
        DATA,
        "Data-Out: F before all data",
        Asked,
        |peer| data_out(1, peer.transfer, 0, 0, 512),
        "closed",
    ),
    fault(
        DATA,
        "Data-Out: DataSN",
        Asked,
        |peer| data_out(1, peer.transfer, 9, 0, 4096),
        "ABORTED COMMAND, Protocol service CRC error (47h/05h)",
    ),
    fault(
        DATA,
        "Data-Out unsolicited although InitialR2T=Yes",
        Asked,
        |_| data_out(1, u32::MAX, 0, 0, 512),
        "nothing",
    ),
    fault(TASK, "ABORT TASK of no task", Ready, |_| manage(1, 0, 77), "task management response 1"),
    fault(TASK, "a reserved function", Ready, |_| manage(60, 0, 0), "task management response 5"),
    fault(
        TASK,
        "LOGICAL UNIT RESET of a LUN that does not exist",
        Ready,
        |_| manage(5, 99 << 48, 0),
        "task management response 2",
    ),
    fault(TASK, "TASK REASSIGN", Ready, |_| manage(8, 0, 1), "task management response 4"),
    fault(
        OTHER,
        "a text request that is no text",
        Ready,
        |_| {
            let request = TextRequest {
                immediate: true,
                flags: TextFlags::FINAL,
                task: TaskTag(5),
                ..TextRequest::default()
            };
            pdu(request.encode(4), b"A\0=b")
        },
        "closed",
    ),
    fault(
        TEXT,
        "a text request with F and C",
        Ready,
        |_| text_request(0xc0, 5, NONE, b"SendTargets=All\0"),
        "Reject, reason 0x04",
    ),
    fault(
        TEXT,
        "a text request of no task",
        Ready,
        |_| text_request(0x80, NONE, NONE, b"SendTargets=All\0"),
        "Reject, reason 0x04",
    ),
    fault(
        TEXT,
        "a text request that continues nothing",
        Ready,
        |_| text_request(0x80, 5, 0, b"SendTargets=All\0"),
        "Reject, reason 0x04",
    ),
    fault(
        TEXT,
        "a text request that continues what has ended",
        Ready,
        |_| {
            [text_request(0x80, 5, NONE, b"SendTargets=All\0"), text_request(0x80, 5, 0, b"")]
                .concat()
        },
        "text response; Reject, reason 0x04",
    ),
    fault(
        TEXT,
        "a text request with a transfer tag that was not given",
        Ready,
        |_| {
            [text_request(0x40, 5, NONE, b"Send"), text_request(0x80, 5, 77, b"Targets=All\0")]
                .concat()
        },
        "text response; Reject, reason 0x04",
    ),
    fault(
        TEXT,
        "a text that another task continues",
        Ready,
        |_| {
            [text_request(0x40, 5, NONE, b"Send"), text_request(0x80, 6, 0, b"Targets=All\0")]
                .concat()
        },
        "text response; Reject, reason 0x04",
    ),
    fault(
        TEXT,
        "a text that is begun anew before its end",
        Ready,
        |_| {
            [
                text_request(0x40, 5, NONE, b"A\0=b"),
                text_request(0x80, 6, NONE, b"SendTargets=All\0"),
            ]
            .concat()
        },
        "text response",
    ),
    fault(
        TEXT,
        "a text that goes on (C) and never ends",
        Ready,
        |_| text_request(0x40, 5, NONE, b"Send"),
        "text response",
    ),
    fault(
        TEXT,
        "a text above 64 KiB in pieces",
        Ready,
        |_| {
            [
                text_request(0x40, 5, NONE, &[b'x'; 8192]),
                text_request(0x40, 5, 0, &[b'x'; 8192]).repeat(9),
            ]
            .concat()
        },
        "text response; closed",
    ),
    fault(
        TEXT,
        "a text request above 64 KiB in one piece",
        Ready,
        |_| text_request(0x80, 5, NONE, &[b'x'; 70_000]),
        "Reject, reason 0x09",
    ),
    fault(
        OTHER,
        "SNACK, at error recovery level 0",
        Ready,
        |_| pdu(with_opcode(0x10), &[]),
        "Reject, reason 0x03",
    ),
    fault(
        OTHER,
        "logout of another connection",
        Ready,
        |_| {
            let request = LogoutRequest {
                immediate: true,
                reason: LogoutReason(1),
                task: TaskTag(5),
                cid: 9,
                ..LogoutRequest::default()
            };
            pdu(request.encode(0), &[])
        },
        "logout response 1",
    ),
    fault(
        "RFC 7143 §13.1",
        "a wrong header digest of a SCSI command",
        Fresh,
        |_| {
            [
                login("HeaderDigest=CRC32C\0"),
                pdu(command(1, READ, 512, &moving(0x28, 0, 1)).encode(0), &[]),
                vec![1, 2, 3, 4],
            ]
            .concat()
        },
        "login: success; closed",
    ),
];

fn with_opcode(opcode: u8) -> [u8; 48] {
    let mut bhs = [0; 48];
    (bhs[0], bhs[1]) = (opcode | 0x40, 0x80);
    bhs
}

/// The answers of a target.
pub(super) fn words(bytes: Vec<u8>) -> String {
    let mut parts = Vec::new();
    let mut rest = &bytes[..];
    while let Some(bhs) = rest.first_chunk::<48>() {
        let data_bytes = u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]);
        let end = (48 + data_bytes as usize + padding(data_bytes)).min(rest.len());
        let data = &rest[48..(48 + data_bytes as usize).min(rest.len())];
        parts.extend(part(bhs, data));
        rest = &rest[end..];
    }
    join(parts)
}

fn residual(flags: ResponseFlags) -> &'static str {
    match flags {
        flags if flags.has(ResponseFlags::OVERFLOW) => ", residual overflow",
        flags if flags.has(ResponseFlags::UNDERFLOW) => ", residual underflow",
        _ => "",
    }
}

fn part(bhs: &[u8; 48], data: &[u8]) -> Option<String> {
    Some(match Opcode(bhs[0] & 0x3f) {
        Opcode::LOGIN_RESPONSE => {
            let refused = LoginResponse::decode(bhs).status;
            let keys = String::from_utf8_lossy(data).replace('\0', " ");
            let rejected = keys
                .split(' ')
                .find(|key| key.ends_with("=Reject") || key.ends_with("=NotUnderstood"));
            let rejected = rejected.map(|key| format!(", {key}")).unwrap_or_default();
            format!("login: {}{rejected}", refused.text())
        }
        Opcode::SCSI_RESPONSE => {
            let status = ScsiStatus(ScsiResponse::decode(bhs).status);
            match data.get(2..).and_then(Sense::decode) {
                Some(sense) => format!("{}, {}", sense.key, sense.code),
                None => format!("{status}{}", residual(ScsiResponse::decode(bhs).flags)),
            }
        }
        Opcode::REJECT => format!("Reject, reason {:#04x}", Reject::decode(bhs).reason.0),
        Opcode::TASK_RESPONSE => {
            format!("task management response {}", TaskResponse::decode(bhs).response.0)
        }
        Opcode::LOGOUT_RESPONSE => format!("logout response {}", bhs[2]),
        Opcode::R2T => "R2T".to_owned(),
        Opcode::DATA_IN => "Data-In".to_owned(),
        Opcode::NOP_IN => "NOP-In".to_owned(),
        Opcode::TEXT_RESPONSE => "text response".to_owned(),
        Opcode::ASYNC_MESSAGE => return None,
        other => format!("a PDU of opcode {:#x}", other.0),
    })
}
