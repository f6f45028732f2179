//! iSCSI: login and each PDU that initiators send, field by field (RFC 7143); SCSI: CDBs (SPC-4, SBC-3).

use super::State::{Asked, Fresh, Ready};
use super::{Fault, fault, join};
use crate::protocols::{AnyScene, IQN};
use crate::puppet::Puppet;
use std::time::Duration;
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::ScsiStatus;

fn pdu(bhs: [u8; 48], data: &[u8]) -> Vec<u8> {
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
fn login(more: &str) -> Vec<u8> {
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
fn command(sn: u32, flags: u8, expected_bytes: u32, cdb: &[u8]) -> ScsiCommand {
    let mut padded = [0; 16];
    padded[..cdb.len()].copy_from_slice(cdb);
    let (task, flags) = (TaskTag(sn), CommandFlags(flags));
    ScsiCommand { flags, task, expected_bytes, cmd_sn: Serial(sn), cdb: padded, ..ScsiCommand::default() }
}

/// READ (10) or WRITE (10).
fn moving(opcode: u8, lba: u32, blocks: u16) -> [u8; 10] {
    let (lba, blocks) = (lba.to_be_bytes(), blocks.to_be_bytes());
    [opcode, 0, lba[0], lba[1], lba[2], lba[3], 0, blocks[0], blocks[1], 0]
}

/// A SCSI command without data of its own.
fn scsi(flags: u8, expected_bytes: u32, cdb: &[u8]) -> Vec<u8> {
    pdu(command(1, flags, expected_bytes, cdb).encode(0), &[])
}

fn read_cdb(cdb: &[u8]) -> Vec<u8> {
    scsi(READ, 4096, cdb)
}

/// A write of 4096 bytes, whose data is asked for.
pub(super) fn write(sn: u32) -> Vec<u8> {
    pdu(command(sn, WRITE, 4096, &moving(0x2a, 0, 8)).encode(0), &[])
}

fn data_out(task: u32, transfer: u32, data_sn: u32, offset: u32, bytes: usize) -> Vec<u8> {
    let flags = DataOutFlags::FINAL;
    let (task, transfer) = (TaskTag(task), TaskTag(transfer));
    let out = DataOut { flags, task, transfer, data_sn: Serial(data_sn), offset, ..DataOut::default() };
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

fn with(mut bytes: Vec<u8>, at: usize, others: &[u8]) -> Vec<u8> {
    bytes[at..at + others.len()].copy_from_slice(others);
    bytes
}

const WRITE: u8 = 0xa1;
const READ: u8 = 0xc1;
const LOGIN: &str = "RFC 7143 §11.12, §6.3";
const KEYS: &str = "RFC 7143 §6.1, §13";
const PDU: &str = "RFC 7143 §11.2";
const COMMAND: &str = "RFC 7143 §11.3, §4.2.2.1";
const DATA: &str = "RFC 7143 §11.7";
const TASK: &str = "RFC 7143 §11.5";
const OTHER: &str = "RFC 7143 §11.10, §11.16, §11.18";

pub(super) const TABLE: &[Fault] = &[
    fault(LOGIN, "a command before login", Fresh, |_| write(1), "closed"),
    fault(LOGIN, "another protocol than iSCSI", Fresh, |_| b"GET / HTTP/1.1\r\n\r\n".repeat(50), "closed"),
    fault(LOGIN, "login: version", Fresh, |_| with(login(""), 2, &[9, 9]), "login: no common protocol version; closed"),
    fault(LOGIN, "login: reserved stage", Fresh, |_| with(login(""), 1, &[0x8a]), "login: initiator error; closed"),
    fault(
        LOGIN,
        "login: next stage below the current one",
        Fresh,
        |_| with(login(""), 1, &[0x84]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: TSIH of no session",
        Fresh,
        |_| with(login(""), 14, &[0x12, 0x34]),
        "login: the session does not exist; closed",
    ),
    fault(LOGIN, "login: data longer than 8192 bytes", Fresh, |_| with(login(""), 5, &[0, 0x30, 0]), "closed"),
    fault(LOGIN, "login: additional header segments of 1020 bytes", Fresh, |_| with(login(""), 4, &[0xff]), "closed"),
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
        |_| login_of(&request(), "InitiatorName=iqn.2026-01.example.weft:hostile\0TargetName=iqn.2026-01.example:nobody\0"),
        "login: there is no such target; closed",
    ),
    fault(KEYS, "login: text without an end", Fresh, |_| login_of(&request(), "InitiatorName"), "login: initiator error; closed"),
    fault(KEYS, "login: a key without a value", Fresh, |_| login("HeaderDigest\0"), "login: initiator error; closed"),
    fault(KEYS, "login: a key twice", Fresh, |_| login("MaxBurstLength=512\0MaxBurstLength=512\0"), "login: success"),
    fault(KEYS, "login: a number out of range", Fresh, |_| login("MaxBurstLength=1\0"), "login: initiator error; closed"),
    fault(KEYS, "login: an unknown key", Fresh, |_| login("Colour=red\0"), "login: success, Colour=NotUnderstood"),
    fault(KEYS, "login: no digest in common", Fresh, |_| login("HeaderDigest=MD5\0"), "login: initiator error; closed"),
    fault(LOGIN, "login again in the full feature phase", Ready, |_| login(""), "Reject, reason 0x04"),
    fault(PDU, "an opcode of targets", Ready, |_| pdu(with_opcode(0x21), &[]), "Reject, reason 0x05"),
    fault(PDU, "a reserved opcode", Ready, |_| pdu(with_opcode(0x1f), &[]), "Reject, reason 0x05"),
    fault(PDU, "additional header segments of 1020 bytes", Ready, |_| with(write(1), 4, &[0xff]), "closed"),
    fault(PDU, "data longer than MaxRecvDataSegmentLength", Ready, |_| with(write(1), 5, &[0xff, 0xff, 0xff]), "closed"),
    fault(COMMAND, "a gap in CmdSN", Ready, |_| write(2), "closed"),
    fault(COMMAND, "CmdSN of the past", Ready, |_| with(write(1), 24, &0_u32.to_be_bytes()), "nothing"),
    fault(COMMAND, "CmdSN beyond MaxCmdSN", Ready, |_| write(100_000), "nothing"),
    fault(
        COMMAND,
        "a task tag that is in use (another task)",
        Ready,
        |_| [write(1), with(write(2), 16, &1_u32.to_be_bytes())].concat(),
        "R2T",
    ),
    fault(COMMAND, "neither F nor unsolicited data allowed", Ready, |_| with(write(1), 1, &[0x21]), "R2T"),
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
    fault(DATA, "Data-Out: a transfer tag of no R2T", Asked, |_| data_out(1, 77, 0, 0, 512), "nothing"),
    fault(DATA, "Data-Out: offset out of order", Asked, |peer| data_out(1, peer.transfer, 0, 512, 512), "closed"),
    fault(DATA, "Data-Out: more than the R2T asked for", Asked, |peer| data_out(1, peer.transfer, 0, 0, 8192), "closed"),
    fault(DATA, "Data-Out: F before all data", Asked, |peer| data_out(1, peer.transfer, 0, 0, 512), "closed"),
    fault(
        DATA,
        "Data-Out: DataSN",
        Asked,
        |peer| data_out(1, peer.transfer, 9, 0, 4096),
        "ABORTED COMMAND, Protocol service CRC error (47h/05h)",
    ),
    fault(DATA, "Data-Out unsolicited although InitialR2T=Yes", Asked, |_| data_out(1, u32::MAX, 0, 0, 512), "nothing"),
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
            let request = TextRequest { immediate: true, flags: TextFlags::FINAL, task: TaskTag(5), ..TextRequest::default() };
            pdu(request.encode(4), b"A\0=b")
        },
        "closed",
    ),
    fault(OTHER, "SNACK, at error recovery level 0", Ready, |_| pdu(with_opcode(0x10), &[]), "Reject, reason 0x03"),
    fault(
        OTHER,
        "logout of another connection",
        Ready,
        |_| {
            let request =
                LogoutRequest { immediate: true, reason: LogoutReason(1), task: TaskTag(5), cid: 9, ..LogoutRequest::default() };
            pdu(request.encode(0), &[])
        },
        "logout response 1",
    ),
    fault(
        "RFC 7143 §13.1",
        "a wrong header digest of a SCSI command",
        Fresh,
        |_| {
            [login("HeaderDigest=CRC32C\0"), pdu(command(1, READ, 512, &moving(0x28, 0, 1)).encode(0), &[]), vec![1, 2, 3, 4]]
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

const SPC: &str = "SPC-4 §6, SAM-5 §5.3";
const SBC: &str = "SBC-3 §5";

/// CDBs.
pub(super) const SCSI: &[Fault] = &[
    fault(
        SPC,
        "an unknown operation code",
        Ready,
        |_| read_cdb(&[0xee]),
        "ILLEGAL REQUEST, Invalid command operation code (20h/00h)",
    ),
    fault(
        SPC,
        "an unknown service action",
        Ready,
        |_| read_cdb(&[0x9e, 0x1f]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "INQUIRY: a page that does not exist",
        Ready,
        |_| read_cdb(&[0x12, 1, 0xee, 16, 0, 0]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "INQUIRY: a page code without EVPD",
        Ready,
        |_| read_cdb(&[0x12, 0, 0x83, 16, 0, 0]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "MODE SENSE: a page that does not exist",
        Ready,
        |_| read_cdb(&[0x5a, 0, 0x3e, 0, 0, 0, 0, 16, 0, 0]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "MODE SELECT: a parameter list that is cut off",
        Ready,
        |_| pdu(command(1, WRITE, 4, &[0x55, 0x10, 0, 0, 0, 0, 0, 0, 4, 0]).encode(4), &[0; 4]),
        "ILLEGAL REQUEST, Parameter list length error (1ah/00h)",
    ),
    fault(
        SPC,
        "REPORT LUNS: a reserved report",
        Ready,
        |_| read_cdb(&[0xa0, 0, 0x20, 0, 0, 0, 0, 0, 16, 0, 0, 0]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "PERSISTENT RESERVE OUT: a reserved service action",
        Ready,
        |_| pdu(command(1, WRITE, 24, &[0x5f, 0x1f, 0, 0, 0, 0, 0, 0, 24, 0]).encode(24), &[0; 24]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "PERSISTENT RESERVE OUT: a list of the wrong length",
        Ready,
        |_| pdu(command(1, WRITE, 8, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 8, 0]).encode(8), &[0; 8]),
        "ILLEGAL REQUEST, Parameter list length error (1ah/00h)",
    ),
    fault(
        SPC,
        "PERSISTENT RESERVE OUT: a key that is not registered",
        Ready,
        |_| pdu(command(1, WRITE, 24, &[0x5f, 1, 1, 0, 0, 0, 0, 0, 24, 0]).encode(24), &[1; 24]),
        "RESERVATION CONFLICT, residual underflow",
    ),
    fault(
        SPC,
        "NACA in the control byte",
        Ready,
        |_| read_cdb(&[0x28, 0, 0, 0, 0, 0, 0, 0, 8, 4]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SBC,
        "READ (10) behind the end",
        Ready,
        |_| read_cdb(&moving(0x28, 32_768, 8)),
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "READ (10) beyond the end",
        Ready,
        |_| read_cdb(&moving(0x28, 32_764, 8)),
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "READ (16) whose address overflows",
        Ready,
        |_| read_cdb(&[0x88, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 8, 0, 0]),
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "READ with protection information",
        Ready,
        |_| read_cdb(&with(moving(0x28, 0, 8).to_vec(), 1, &[0x20])),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SBC,
        "WRITE (10) behind the end",
        Ready,
        |_| scsi(WRITE, 4096, &moving(0x2a, 32_768, 8)),
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "WRITE (10) for which the initiator has less data",
        Ready,
        |_| pdu(command(1, WRITE, 512, &moving(0x2a, 0, 8)).encode(512), &[1; 512]),
        "GOOD, residual overflow",
    ),
    fault(SBC, "READ (10) for which the initiator has less room", Ready, |_| scsi(READ, 512, &moving(0x28, 0, 8)), "Data-In"),
    fault(
        SBC,
        "UNMAP: a parameter list that is cut off",
        Ready,
        |_| pdu(command(1, WRITE, 4, &[0x42, 0, 0, 0, 0, 0, 0, 0, 4, 0]).encode(4), &[0; 4]),
        "ILLEGAL REQUEST, Parameter list length error (1ah/00h)",
    ),
    fault(
        SBC,
        "UNMAP: a range beyond the end",
        Ready,
        |_| {
            let list = [0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0, 0, 0, 9, 0, 0, 0, 0];
            pdu(command(1, WRITE, 24, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0]).encode(24), &list)
        },
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "WRITE SAME (16) beyond the end",
        Ready,
        |_| pdu(command(1, WRITE, 512, &[0x93, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0, 0, 0, 9, 0, 0]).encode(512), &[0; 512]),
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "COMPARE AND WRITE with data that differs",
        Ready,
        |_| pdu(command(1, WRITE, 1024, &[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]).encode(1024), &[9; 1024]),
        "MISCOMPARE, Miscompare during verify operation (1dh/00h)",
    ),
    fault(
        SBC,
        "a write as a read: the direction of the CDB against the flags",
        Ready,
        |_| scsi(READ, 4096, &moving(0x2a, 0, 8)),
        "GOOD",
    ),
];

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
            let rejected = keys.split(' ').find(|key| key.ends_with("=Reject") || key.ends_with("=NotUnderstood"));
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
        Opcode::TASK_RESPONSE => format!("task management response {}", TaskResponse::decode(bhs).response.0),
        Opcode::LOGOUT_RESPONSE => format!("logout response {}", bhs[2]),
        Opcode::R2T => "R2T".to_owned(),
        Opcode::DATA_IN => "Data-In".to_owned(),
        Opcode::NOP_IN => "NOP-In".to_owned(),
        Opcode::TEXT_RESPONSE => "text response".to_owned(),
        Opcode::ASYNC_MESSAGE => return None,
        other => format!("a PDU of opcode {:#x}", other.0),
    })
}
