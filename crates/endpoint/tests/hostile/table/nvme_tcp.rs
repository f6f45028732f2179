//! NVMe/TCP: each PDU type that hosts send, field by field (NVMe TCP 1.1 §3.6).

use super::PeerState::{Admin, Fresh, Greeted, Ready};
use super::{Fault, Line, fault, join};
use crate::wire::{self, Pdu};
use weft_proto::nvme::fabrics::ConnectData;
use weft_proto::nvme::host::command;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Lba, Nsid};
use weft_proto::nvme_tcp::digest::{Digests, crc32c};
use weft_proto::nvme_tcp::pdu::PduType;
use weft_proto::nvme_tcp::term::FatalErrorStatus;

/// A PDU with any header.
pub(super) fn pdu(kind: u8, flags: u8, hlen: u8, pdo: u8, plen: u32, rest: &[u8]) -> Vec<u8> {
    [&[kind, flags, hlen, pdo][..], &plen.to_le_bytes(), rest].concat()
}

/// `bytes` with others from `at` on.
pub(super) fn with(mut bytes: Vec<u8>, at: usize, others: &[u8]) -> Vec<u8> {
    bytes[at..at + others.len()].copy_from_slice(others);
    bytes
}

pub(super) fn ic() -> Vec<u8> {
    wire::ic_req(Digests::NONE)
}

pub(super) fn write() -> Sqe {
    command::write(Nsid(1), Lba(0), 8, false)
}

/// A write of 4096 bytes by R2T, whose transfer tag is 0.
pub(super) fn asks(cid: u16) -> Vec<u8> {
    wire::capsule_moving(&write(), cid, 4096)
}

/// H2CData.
pub(super) fn data(cid: u16, ttag: u16, offset: u32, announced: u32, bytes: u32) -> Vec<u8> {
    let mut rest = [cid.to_le_bytes(), ttag.to_le_bytes()].concat();
    rest.extend(offset.to_le_bytes());
    rest.extend(announced.to_le_bytes());
    rest.extend([0; 4]);
    rest.resize(16 + bytes as usize, 7);
    pdu(6, 4, 24, if bytes > 0 { 24 } else { 0 }, 24 + bytes, &rest)
}

pub(super) fn in_capsule() -> Vec<u8> {
    wire::capsule(&write(), 1, &[1; 4096])
}

/// A connection whose first PDU asks for digests of headers, and a command with this digest.
pub(super) fn digested(digest: impl Fn(u32) -> u32) -> Vec<u8> {
    let ic = wire::ic_req(Digests { header: true, data: false });
    let connect =
        wire::connect_capsule(&super::who(), 0, weft_proto::nvme::types::Cntlid::DYNAMIC, 32);
    let header = with(
        with(with(connect[..72].to_vec(), 1, &[1]), 3, &[76]),
        4,
        &(76_u32 + 1024).to_le_bytes(),
    );
    let sum = digest(crc32c(&header));
    [ic, header, sum.to_le_bytes().to_vec(), connect[72..].to_vec()].concat()
}

pub(super) fn data_digested() -> Vec<u8> {
    let ic = wire::ic_req(Digests { header: false, data: true });
    let connect =
        wire::connect_capsule(&super::who(), 0, weft_proto::nvme::types::Cntlid::DYNAMIC, 32);
    let connect = with(with(connect, 1, &[2]), 4, &(72_u32 + 1024 + 4).to_le_bytes());
    [ic, connect, vec![1, 2, 3, 4]].concat()
}

/// Asks for both digests, and for the data of Connect by R2T.
pub(super) fn begin_digested(line: &mut impl Line) {
    line.put(&wire::ic_req(Digests::BOTH));
    let (connect, _) = connecting();
    let capsule = with(
        with(wire::capsule_moving(&connect, 0, ConnectData::BYTES as u32), 1, &[1]),
        4,
        &76_u32.to_le_bytes(),
    );
    let sum = crc32c(&capsule).to_le_bytes();
    line.put(&[capsule, sum.to_vec()].concat());
    line.expect("ICResp; R2T", words);
}

pub(super) fn connecting() -> (Sqe, Vec<u8>) {
    wire::connect_parts(&super::who(), 0, weft_proto::nvme::types::Cntlid::DYNAMIC, 32)
}

/// The data of that Connect. The digests are right where what is to be changed in them is 0.
pub(super) fn answer_to_r2t(in_header: u32, in_data: u32) -> Vec<u8> {
    let bytes = ConnectData::BYTES as u32;
    let mut rest = [[0; 8], [0; 8]].concat();
    rest[8..12].copy_from_slice(&bytes.to_le_bytes());
    // Both digests, and the last one.
    let header = pdu(6, 7, 24, 28, 24 + 4 + bytes + 4, &rest);
    let (_, data) = connecting();
    let sums = (crc32c(&header) ^ in_header, crc32c(&data) ^ in_data);
    [&header[..], &sums.0.to_le_bytes(), &data, &sums.1.to_le_bytes()].concat()
}

const S1: &str = "NVMe TCP §3.6.2.1, §3.6.2.4";
const S2: &str = "NVMe TCP §3.6.2.2";
const S31: &str = "NVMe TCP §3.6.1";

pub(super) const TABLE: &[Fault] = &[
    fault(
        S31,
        "another protocol than NVMe/TCP",
        Fresh,
        |_| b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 0; closed",
    ),
    fault(
        S31,
        "TLS to a port without",
        Fresh,
        |_| vec![0x16, 3, 1, 2, 0, 1, 0, 1],
        "C2HTermReq Invalid PDU Header Field (0x1), byte 0; closed",
    ),
    fault(
        S1,
        "a command before ICReq",
        Fresh,
        |_| in_capsule(),
        "C2HTermReq PDU Sequence Error (0x2); closed",
    ),
    fault(
        S1,
        "H2CData before ICReq",
        Fresh,
        |_| data(0, 0, 0, 8, 8),
        "C2HTermReq PDU Sequence Error (0x2); closed",
    ),
    fault(
        S1,
        "ICReq: HLEN",
        Fresh,
        |_| with(ic(), 2, &[127]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 2; closed",
    ),
    fault(S1, "ICReq: PDO", Fresh, |_| with(ic(), 3, &[8]), "ICResp"),
    fault(
        S1,
        "ICReq: PLEN",
        Fresh,
        |_| with(ic(), 4, &[132]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 4; closed",
    ),
    fault(
        S1,
        "ICReq: PLEN of 4 GiB",
        Fresh,
        |_| with(ic(), 4, &[0xff; 4]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 4; closed",
    ),
    fault(
        S1,
        "ICReq: PFV",
        Fresh,
        |_| with(ic(), 8, &[1]),
        "C2HTermReq Unsupported Parameter (0x6), byte 8; closed",
    ),
    fault(
        S1,
        "ICReq: HPDA",
        Fresh,
        |_| with(ic(), 10, &[32]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 10; closed",
    ),
    fault(S1, "ICReq: reserved PDU flags", Fresh, |_| with(ic(), 1, &[0xff]), "ICResp"),
    fault(S1, "ICReq: HPDA of 128 bytes, the largest", Fresh, |_| with(ic(), 10, &[31]), "ICResp"),
    fault(S1, "ICReq: DGST with reserved bits", Fresh, |_| with(ic(), 11, &[0xfc]), "ICResp"),
    fault(S1, "ICReq: MAXR2T of 4 Gi", Fresh, |_| with(ic(), 12, &[0xff; 4]), "ICResp"),
    fault(S1, "ICReq: reserved bytes", Fresh, |_| with(ic(), 20, &[0xff; 100]), "ICResp"),
    fault(S1, "ICReq twice", Greeted, |_| ic(), "C2HTermReq PDU Sequence Error (0x2); closed"),
    fault(
        S31,
        "PDU type: reserved",
        Ready,
        |_| pdu(0x0a, 0, 24, 0, 24, &[0; 16]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 0; closed",
    ),
    fault(
        S31,
        "PDU type: of a controller",
        Ready,
        |_| pdu(5, 0, 24, 0, 24, &[0; 16]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 0; closed",
    ),
    fault(S2, "H2CTermReq", Ready, |_| pdu(2, 0, 24, 0, 24, &[0; 16]), "closed"),
    fault(
        S1,
        "ICReq on an admin queue",
        Admin,
        |_| ic(),
        "C2HTermReq PDU Sequence Error (0x2); closed",
    ),
    fault(
        S1,
        "ICReq on an I/O queue",
        Ready,
        |_| ic(),
        "C2HTermReq PDU Sequence Error (0x2); closed",
    ),
    fault(
        S31,
        "bytes of FFh before Connect",
        Greeted,
        |_| vec![0xff; 200],
        "C2HTermReq Invalid PDU Header Field (0x1), byte 0; closed",
    ),
    fault(
        S31,
        "bytes of FFh on an admin queue",
        Admin,
        |_| vec![0xff; 200],
        "C2HTermReq Invalid PDU Header Field (0x1), byte 0; closed",
    ),
    fault(
        S31,
        "bytes of FFh on an I/O queue",
        Ready,
        |_| vec![0xff; 200],
        "C2HTermReq Invalid PDU Header Field (0x1), byte 0; closed",
    ),
    fault(
        S31,
        "PLEN of 4 GiB before Connect",
        Greeted,
        |_| with(in_capsule(), 4, &[0xff; 4]),
        "C2HTermReq Data Transfer Limit Exceeded (by a host) or R2T Limit Exceeded (by a controller) (0x5); closed",
    ),
    fault(
        S31,
        "PLEN of 4 GiB on an admin queue",
        Admin,
        |_| with(in_capsule(), 4, &[0xff; 4]),
        "C2HTermReq Data Transfer Limit Exceeded (by a host) or R2T Limit Exceeded (by a controller) (0x5); closed",
    ),
    fault(S2, "H2CTermReq on an admin queue", Admin, |_| pdu(2, 0, 24, 0, 24, &[0; 16]), "closed"),
    fault(S2, "H2CTermReq before ICReq", Fresh, |_| pdu(2, 0, 24, 0, 24, &[0; 16]), "closed"),
    fault(S2, "H2CTermReq: PLEN too short", Ready, |_| pdu(2, 0, 24, 0, 23, &[0; 16]), "closed"),
    fault(S2, "H2CTermReq: PLEN too long", Ready, |_| pdu(2, 0, 24, 0, 153, &[0; 200]), "closed"),
];

/// The answers of a target.
pub(super) fn words(mut bytes: Vec<u8>) -> String {
    let mut parts = Vec::new();
    while let Some(pdu) = Pdu::split(&mut bytes) {
        parts.push(match pdu.kind() {
            PduType::IC_RESP => "ICResp".to_owned(),
            PduType::C2H_TERM_REQ => term_req(&pdu.0),
            PduType::CAPSULE_RESP => response(&pdu),
            PduType::R2T => "R2T".to_owned(),
            PduType::C2H_DATA => "C2HData".to_owned(),
            other => format!("a PDU of type {:#x}", other.0),
        });
    }
    join(parts)
}

fn term_req(bytes: &[u8]) -> String {
    let status = FatalErrorStatus(u16::from_le_bytes([bytes[8], bytes[9]]));
    let information = u32::from_le_bytes(bytes[10..14].try_into().unwrap());
    match status {
        FatalErrorStatus::INVALID_HEADER_FIELD | FatalErrorStatus::UNSUPPORTED_PARAMETER => {
            format!("C2HTermReq {status}, byte {information}")
        }
        _ => format!("C2HTermReq {status}"),
    }
}

fn response(pdu: &Pdu) -> String {
    let cqe = pdu.cqe();
    format!("{}{}", cqe.status, if cqe.do_not_retry { ", DNR" } else { "" })
}
