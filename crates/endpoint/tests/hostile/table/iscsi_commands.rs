//! iSCSI: PDUs of a session that is logged in.

use super::PeerState::{Asked, Fresh, Ready};
use super::iscsi::*;
use super::{Fault, fault};
use weft_proto::iscsi::pdu::*;

const PDU: &str = "RFC 7143 §11.2";
const COMMAND: &str = "RFC 7143 §11.3, §4.2.2.1";
const DATA: &str = "RFC 7143 §11.7";
const TASK: &str = "RFC 7143 §11.5";
const TEXT: &str = "RFC 7143 §11.10";
const OTHER: &str = "RFC 7143 §11.10, §11.16, §11.18";

pub(super) const TABLE: &[Fault] = &[
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
        "a text request that is not text",
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
        "a text that is begun again before its end",
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
