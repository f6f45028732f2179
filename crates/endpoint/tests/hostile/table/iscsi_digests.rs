//! iSCSI: digests, of headers and of data, on a connection that uses both (RFC 7143 §7.8, §13.1).

use super::PeerState::Digested;
use super::iscsi::{
    READ, WRITE, command, data_out, login, moving, pdu, text_request, words as words_without,
};
use super::{Fault, Line, fault};
use weft_proto::iscsi::digest::crc32c;
use weft_proto::iscsi::pdu::{NopOut, R2t, TaskTag};
use weft_proto::iscsi::serial::Serial;

const BHS: usize = 48;
const SUM: usize = 4;

/// A PDU with its digests. Each is right where what is to be changed in it is 0.
fn with_digests(plain: &[u8], in_header: u32, in_data: u32) -> Vec<u8> {
    let (header, data) = plain.split_at(BHS);
    let sum = |bytes: &[u8], change: u32| (crc32c(bytes) ^ change).to_le_bytes();
    let mut bytes = [header, &sum(header, in_header)].concat();
    if !data.is_empty() {
        bytes.extend_from_slice(data);
        bytes.extend_from_slice(&sum(data, in_data));
    }
    bytes
}

/// Logs in with both digests, and begins a write of 4096 bytes as task 1. Says the transfer tag of
/// the R2T.
pub(super) fn begin(line: &mut impl Line) -> u32 {
    line.put(&login("HeaderDigest=CRC32C\0DataDigest=CRC32C\0InitialR2T=Yes\0ImmediateData=Yes\0"));
    line.expect("login: success", words_without);
    // The first command is told of the power on.
    let mut first = command(1, 0x80, 0, &[]);
    first.immediate = true;
    line.put(&with_digests(&pdu(first.encode(0), &[]), 0, 0));
    line.expect("UNIT ATTENTION", words);
    line.put(&with_digests(&super::iscsi::write(1), 0, 0));
    let r2t = line.expect("R2T", words);
    R2t::decode(r2t.first_chunk().unwrap()).transfer.0
}

/// A write of 512 bytes, which come with the command, as task 2.
fn immediate(in_header: u32, in_data: u32) -> Vec<u8> {
    with_digests(
        &pdu(command(2, WRITE, 512, &moving(0x2a, 8, 1)).encode(512), &[3; 512]),
        in_header,
        in_data,
    )
}

fn ping(in_data: u32) -> Vec<u8> {
    let ping = NopOut {
        immediate: true,
        task: TaskTag(5),
        transfer: TaskTag::NONE,
        cmd_sn: Serial(2),
        ..NopOut::default()
    };
    with_digests(&pdu(ping.encode(8), b"are you?"), 0, in_data)
}

const DATA: &str = "RFC 7143 §7.8, §13.1";

pub(super) const TABLE: &[Fault] = &[
    fault(
        DATA,
        "a wrong header digest of Data-Out",
        Digested,
        |peer| with_digests(&data_out(1, peer.transfer, 0, 0, 4096), 1, 0),
        "closed",
    ),
    fault(
        DATA,
        "a wrong data digest of Data-Out",
        Digested,
        |peer| with_digests(&data_out(1, peer.transfer, 0, 0, 4096), 0, 1),
        "Reject, reason 0x02; ABORTED COMMAND, Protocol service CRC error (47h/05h)",
    ),
    fault(
        DATA,
        "Data-Out with right digests",
        Digested,
        |peer| with_digests(&data_out(1, peer.transfer, 0, 0, 4096), 0, 0),
        "GOOD",
    ),
    fault(
        DATA,
        "a wrong header digest of a command with immediate data",
        Digested,
        |_| immediate(1, 0),
        "closed",
    ),
    fault(
        DATA,
        "a wrong data digest of immediate data",
        Digested,
        |_| immediate(0, 1),
        "Reject, reason 0x02; ABORTED COMMAND, Protocol service CRC error (47h/05h)",
    ),
    fault(
        DATA,
        "a wrong data digest of a text request",
        Digested,
        |_| with_digests(&text_request(0x80, 5, u32::MAX, b"SendTargets=All\0"), 0, 1),
        "Reject, reason 0x02",
    ),
    fault(DATA, "a wrong data digest of NOP-Out", Digested, |_| ping(1), "Reject, reason 0x02"),
    fault(
        DATA,
        "a PDU without its digests",
        Digested,
        |_| pdu(command(2, READ, 512, &moving(0x28, 0, 1)).encode(0), &[]).repeat(2),
        "closed",
    ),
];

/// The answers of a target that adds digests.
pub(super) fn words(bytes: Vec<u8>) -> String {
    let (mut plain, mut rest) = (Vec::new(), &bytes[..]);
    while rest.len() >= BHS + SUM {
        let (header, behind) = rest.split_at(BHS);
        assert_eq!(behind[..SUM], crc32c(header).to_le_bytes(), "the target's header digest");
        let data_bytes =
            u32::from_be_bytes([0, header[5], header[6], header[7]]).next_multiple_of(4) as usize;
        let sum = if data_bytes == 0 { 0 } else { SUM };
        if behind.len() < SUM + data_bytes + sum {
            break;
        }
        let (data, behind) = behind[SUM..].split_at(data_bytes);
        plain.extend_from_slice(header);
        plain.extend_from_slice(data);
        assert!(
            data.is_empty() || behind[..SUM] == crc32c(data).to_le_bytes(),
            "the target's data digest"
        );
        rest = &behind[sum..];
    }
    words_without(plain)
}
