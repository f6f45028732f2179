//! iSCSI: login and each PDU that initiators send, field by field (RFC 7143).

use super::{Line, join};
use crate::sim::protocols::IQN;
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::ScsiStatus;

pub fn pdu(bhs: [u8; 48], data: &[u8]) -> Vec<u8> {
    [&bhs[..], data, &[0; 3][..padding(data.len() as u32)]].concat()
}

pub fn request() -> LoginRequest {
    LoginRequest {
        immediate: true,
        flags: LoginFlags::new(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE)),
        isid: Isid::random([1, 2, 3], 4),
        task: TaskTag(1),
        cid: 1,
        cmd_sn: Serial(1),
        ..LoginRequest::default()
    }
}

pub(super) fn text(more: &str) -> String {
    format!("InitiatorName=iqn.2026-01.example.weft:hostile\0TargetName={IQN}\0{more}")
}

/// A login with these keys as well.
pub(super) fn login(more: &str) -> Vec<u8> {
    login_of(&request(), &text(more))
}

pub fn login_of(request: &LoginRequest, text: &str) -> Vec<u8> {
    pdu(request.encode(text.len() as u32), text.as_bytes())
}

pub(super) fn log_in(line: &mut impl Line) {
    line.put(&login("InitialR2T=Yes\0ImmediateData=Yes\0"));
    line.expect("login: success", words);
    // The first command is told of the power on.
    line.put(&pdu(ScsiCommand { immediate: true, ..command(1, 0x80, 0, &[]) }.encode(0), &[]));
    line.expect("UNIT ATTENTION", words);
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

pub(super) fn manage(function: u8, lun: u64, referenced: u32) -> Vec<u8> {
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
pub(super) fn step(flags: u8) -> Vec<u8> {
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
pub(super) const NONE: u32 = TaskTag::NONE.0;

pub(super) fn with_opcode(opcode: u8) -> [u8; 48] {
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
        let end = 48 + data_bytes as usize + padding(data_bytes);
        if rest.len() < end {
            break;
        }
        parts.extend(part(bhs, &rest[48..][..data_bytes as usize]));
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
