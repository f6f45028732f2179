//! Every rule that a peer can break, and what it is told; and what is tolerated.

use std::fmt::Debug;

use crate::support::pair::{FEATURE, READ, WRITE, command};
use crate::support::raw::Raw;
use crate::support::{End, Engine, Next};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::deviation::Deviation;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::{CommonHeader, PduType};
use weft_proto::nvme_tcp::term::{FatalErrorStatus as Fes, Termination};
use weft_proto::nvme_tcp::violation::Violation;
use weft_proto::nvme_tcp::{
    HostConfig, HostConnection, HostData, HostEvent, TargetConfig, TargetConnection, TargetEvent,
};
use weft_proto::stream::{StreamEngine, Tag};

const HEADER: Digests = Digests { header: true, data: false };
const DATA: Digests = Digests { header: false, data: true };

/// What is left of `end` once it has received `bytes`: the TermReq that it sends.
fn term_req<E: Engine>(end: &mut End<E>, bytes: &[u8], whole: bool) -> Vec<u8>
where
    E::Event: Debug + PartialEq,
{
    let pieces = if whole { bytes.len() } else { 1 };
    for piece in bytes.chunks(pieces) {
        end.stage(piece);
        match end.next() {
            Next::Starved => continue,
            Next::Closed => break,
            Next::Event(event) => panic!("{event:?}"),
        }
    }
    end.stage(&[0; 300]);
    assert_eq!(end.next(), Next::Closed, "the end of a connection is final");
    end.take_wire();
    end.flush();
    assert!(!end.engine.wants_transmit());
    end.take_wire()
}

fn check_term_req(
    term_req: &[u8],
    pdu_type: u8,
    violation: Violation,
    offender: &[u8],
    whole: bool,
    name: &str,
) {
    let (status, information) = violation.wire();
    assert_eq!(term_req[..4], [pdu_type, 0, 24, 0], "{name}");
    assert_eq!(term_req[4..8], (term_req.len() as u32).to_le_bytes(), "{name}");
    assert_eq!(term_req[8..10], status.0.to_le_bytes(), "{name}");
    assert_eq!(term_req[10..14], information.to_le_bytes(), "{name}");
    assert_eq!(term_req[14..24], [0; 10], "{name}");
    assert!(
        term_req.len() <= 152 && offender.starts_with(&term_req[24..]),
        "{name}: the offending header comes back"
    );
    let header = PduType(offender[0])
        .header_bytes()
        .unwrap_or(usize::from(offender[2]).max(8))
        .min(offender.len())
        .min(128);
    assert!(!whole || term_req.len() == 24 + header, "{name}: all of it");
}

/// A target that awaits data under `digests`: of CID 1 bytes 0 to 8192 by one R2T and those to
/// 12,000 by another, of CID 2 4096 bytes.
fn target(digests: Digests) -> End<TargetConnection> {
    let config = TargetConfig {
        queue_entries: 3,
        max_h2c_data_bytes: 4096,
        max_r2t_bytes: 8192,
        r2t_outstanding: 2,
        ..TargetConfig::default()
    };
    let mut end = End::new(TargetConnection::new(config));
    end.stage(&Raw::ic(0, 0, 0, digests.encode(), 7).bytes());
    assert!(matches!(end.next(), Next::Event(TargetEvent::Ready(_))));
    for (cid, bytes) in [(1, 12_000), (2, 4096)] {
        end.stage(&Raw::capsule(&write(cid, Sgl::transport(bytes))).sealed(digests));
        let Next::Event(TargetEvent::Command { tag, .. }) = end.next() else { panic!() };
        end.engine.fetch(tag, bytes).unwrap();
        end.memory(tag, bytes as usize);
        end.flush();
    }
    end
}

fn write(cid: u16, sgl: Sgl) -> Sqe {
    let mut sqe = command(WRITE, 0);
    sqe.set_cid(Cid(cid));
    sqe.set_sgl(sgl);
    sqe
}

/// TTAG of the first R2T of CID 1, of its second one, and of the one of CID 2, as the target gives
/// them.
const TTAGS: [u16; 3] = [0, 1 << 10, 1];

fn h2c(cid: u16, ttag: u16, offset: u32, len: u32) -> Raw {
    Raw::transfer(6, cid, ttag, offset, len).data(&vec![0x33; len as usize])
}

fn target_cases() -> Vec<(&'static str, Digests, Vec<u8>, Violation)> {
    use Violation as V;
    let none = Digests::NONE;
    let sqe = write(3, Sgl::in_capsule(8));
    let plain = || Raw::capsule(&write(3, Sgl::transport(8)));
    let capsule = || Raw::capsule(&sqe).data(&[0; 8]);
    let h2c1 = |offset, len| h2c(1, TTAGS[0], offset, len);
    let (spoilt, received) = {
        let bytes = plain().bad_header_digest().sealed(HEADER);
        let received = u32::from_le_bytes(bytes[72..76].try_into().unwrap());
        (bytes, received)
    };
    let mut damaged = plain().sealed(HEADER);
    let digest = u32::from_le_bytes(damaged[72..76].try_into().unwrap());
    damaged[6] ^= 0x40;
    let two = [plain().bytes(), plain().bytes()].concat();
    let swapped = h2c(1, TTAGS[1], 8192, 8).bytes();
    vec![
        ("unknown type", none, Raw::new(0x0a, &[0; 16]).bytes(), V::PduType(0x0a)),
        ("unknown type, short header", none, Raw::new(0xff, &[]).bytes(), V::PduType(0xff)),
        ("wrong direction", none, Raw::new(5, &[0; 16]).bytes(), V::PduType(5)),
        ("ICResp", none, Raw::ic(1, 0, 0, 0, 4096).bytes(), V::PduType(1)),
        ("ICReq again", none, Raw::ic(0, 0, 0, 0, 0).bytes(), V::InitializedTwice),
        ("header digest missing", HEADER, plain().bytes(), V::HeaderDigestFlag),
        ("header digest missing in H2CData", HEADER, h2c1(0, 8).bytes(), V::HeaderDigestFlag),
        ("data digest missing", DATA, capsule().bytes(), V::DataDigestFlag),
        ("data digest missing in H2CData", DATA, h2c1(0, 8).bytes(), V::DataDigestFlag),
        ("header too short", none, plain().hlen(64).bytes(), V::HeaderLength),
        ("header too long", none, h2c1(0, 8).hlen(255).bytes(), V::HeaderLength),
        ("data offset in the header", none, capsule().pdo(68).bytes(), V::DataOffset),
        (
            "data offset in the header digest",
            HEADER,
            capsule().pdo(72).sealed(HEADER),
            V::DataOffset,
        ),
        ("data offset 0", none, capsule().pdo(0).bytes(), V::DataOffset),
        ("data offset not aligned", none, capsule().pdo(74).bytes(), V::DataOffset),
        ("data offset behind the PDU", none, capsule().pdo(84).bytes(), V::DataOffset),
        ("PDU shorter than its header", none, plain().plen(71).bytes(), V::PduLength),
        ("PDU without length", none, h2c1(0, 8).plen(0).bytes(), V::PduLength),
        (
            "PDU too short for its digest",
            DATA,
            capsule().flags(2).plen(75).pdo(72).bytes(),
            V::PduLength,
        ),
        ("header digest wrong", HEADER, spoilt, V::HeaderDigest(received)),
        ("length damaged under a digest", HEADER, damaged, V::HeaderDigest(digest)),
        (
            "too much data in the capsule",
            none,
            plain().plen(72 + 8196).pdo(72).bytes(),
            V::InCapsuleLimit(8192),
        ),
        ("more commands than entries", none, two, V::QueueOverrun),
        ("unknown R2T", none, h2c(1, 5, 0, 8).bytes(), V::TransferTag),
        ("unknown window", none, h2c(1, 7 << 10, 0, 8).bytes(), V::TransferTag),
        (
            "R2T that is not outstanding",
            none,
            h2c(2, TTAGS[2] | 1 << 10, 0, 8).bytes(),
            V::TransferTag,
        ),
        ("R2T of another command", none, h2c(2, TTAGS[0], 0, 8).bytes(), V::DataCommandId),
        (
            "data length against PLEN",
            none,
            Raw::transfer(6, 1, 0, 0, 12).data(&[0; 8]).bytes(),
            V::DataLength,
        ),
        ("data length without data", none, Raw::transfer(6, 1, 0, 0, 12).bytes(), V::DataLength),
        ("data below its R2T", none, h2c(1, TTAGS[1], 8188, 8).bytes(), V::OutOfRange),
        ("data beyond its R2T", none, h2c(2, TTAGS[2], 4092, 8).bytes(), V::OutOfRange),
        ("data offset overflows", none, h2c1(u32::MAX - 3, 8).bytes(), V::OutOfRange),
        ("data out of order", none, h2c1(4, 8).bytes(), V::OutOfOrder),
        ("second R2T answered before the first", none, swapped, V::OutOfOrder),
        ("data again", none, [h2c1(0, 8).bytes(), h2c1(0, 8).bytes()].concat(), V::OutOfOrder),
        ("more than MAXH2CDATA", none, h2c1(0, 4100).bytes(), V::H2cDataLimit(4096)),
    ]
}

#[test]
fn a_target_names_every_violation() {
    for (name, digests, bytes, violation) in target_cases() {
        for whole in [true, false] {
            // Where a second PDU is to blame, the first one is taken without complaint.
            let mut end = target(digests);
            let first = match violation {
                Violation::QueueOverrun => {
                    end.stage(&bytes[..72]);
                    assert!(matches!(end.next(), Next::Event(TargetEvent::Command { .. })));
                    72
                }
                Violation::OutOfOrder if name == "data again" => 32,
                _ => 0,
            };
            let skip = if violation == Violation::QueueOverrun { first } else { 0 };
            let sent = term_req(&mut end, &bytes[skip..], whole);
            assert_eq!(end.engine.violation(), Some(violation), "{name}");
            check_term_req(&sent, 3, violation, &bytes[first..], whole, name);
        }
    }
}

#[test]
fn a_target_insists_on_icreq() {
    use Violation as V;
    let cases = [
        ("command first", Raw::capsule(&write(0, Sgl::transport(0))).bytes(), V::NotInitialized),
        ("data first", h2c(0, 0, 0, 8).bytes(), V::NotInitialized),
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec(), V::PduType(b'G')),
        ("TLS", vec![0x16, 3, 1, 2, 0, 1, 0, 1], V::PduType(0x16)),
        ("header length", Raw::ic(0, 0, 0, 0, 0).hlen(127).bytes(), V::HeaderLength),
        ("PDU length", Raw::ic(0, 0, 0, 0, 0).plen(132).bytes(), V::PduLength),
        ("format version", Raw::ic(0, 1, 0, 0, 0).bytes(), V::FormatVersion(1)),
        ("alignment", Raw::ic(0, 0, 32, 0, 0).bytes(), V::Alignment),
    ];
    for (name, bytes, violation) in cases {
        for whole in [true, false] {
            let mut end = End::new(TargetConnection::new(TargetConfig::default()));
            let sent = term_req(&mut end, &bytes, whole);
            assert_eq!(end.engine.violation(), Some(violation), "{name}");
            check_term_req(&sent, 3, violation, &bytes, whole, name);
        }
    }
}

/// A host with a read of 4096 bytes (`CIDS[0]`), a write of 8192 by R2T (`CIDS[1]`), a write in the
/// capsule (`CIDS[2]`) and a command without data (`CIDS[3]`).
fn host(digests: Digests) -> End<HostConnection> {
    let config =
        HostConfig { digests, in_capsule_bytes: 512, r2t_outstanding: 2, ..HostConfig::default() };
    let mut end = End::new(HostConnection::new(config));
    end.stage(&Raw::ic(1, 0, 0, digests.encode(), 4096).bytes());
    assert!(matches!(end.next(), Next::Event(HostEvent::Ready(_))));
    let commands = [
        (READ, HostData::In(4096)),
        (WRITE, HostData::Out(8192)),
        (WRITE, HostData::Out(512)),
        (FEATURE, HostData::None),
    ];
    for (i, (opcode, data)) in commands.into_iter().enumerate() {
        let tag = end.engine.submit(command(opcode, 0), data).unwrap();
        end.memory(tag, 8192);
        assert_eq!(end.engine.cid(tag), Some(Cid(CIDS[i])));
    }
    end.flush();
    end
}

/// As a fresh host gives them: the slot, and a generation of 1 above it.
const CIDS: [u16; 4] = [1 << 10, 1 << 10 | 1, 1 << 10 | 2, 1 << 10 | 3];

fn c2h(offset: u32, len: u32) -> Raw {
    Raw::transfer(7, CIDS[0], 0, offset, len).data(&vec![0x44; len as usize])
}

fn response(cid: u16) -> Raw {
    Raw::new(5, &Cqe::new(Cid(cid), Status::SUCCESS).encode())
}

fn r2t(offset: u32, len: u32) -> Raw {
    Raw::transfer(9, CIDS[1], 77, offset, len)
}

fn host_cases() -> Vec<(&'static str, Digests, Vec<u8>, Violation)> {
    use Violation as V;
    let none = Digests::NONE;
    let (spoilt, received) = {
        let bytes = response(CIDS[3]).bad_header_digest().sealed(HEADER);
        let received = u32::from_le_bytes(bytes[24..28].try_into().unwrap());
        (bytes, received)
    };
    let two = [c2h(0, 8).flags(4).bytes(), c2h(8, 8).bytes()].concat();
    let many = [r2t(0, 4).bytes(), r2t(4, 4).bytes(), r2t(8, 4).bytes()].concat();
    vec![
        ("unknown type", none, Raw::new(8, &[0; 16]).bytes(), V::PduType(8)),
        ("wrong direction", none, Raw::new(6, &[0; 16]).bytes(), V::PduType(6)),
        ("ICResp again", none, Raw::ic(1, 0, 0, 0, 4096).bytes(), V::InitializedTwice),
        ("header digest missing", HEADER, r2t(0, 8).bytes(), V::HeaderDigestFlag),
        ("data digest missing", DATA, c2h(0, 8).bytes(), V::DataDigestFlag),
        ("success before the last PDU", none, c2h(0, 4096).flags(8).bytes(), V::SuccessNotLast),
        ("header length", none, response(CIDS[3]).hlen(20).bytes(), V::HeaderLength),
        (
            "header length beyond all bounds",
            HEADER,
            response(CIDS[3]).hlen(255).sealed(HEADER),
            V::HeaderLength,
        ),
        ("data offset", none, c2h(0, 8).pdo(20).bytes(), V::DataOffset),
        ("response too long", none, response(CIDS[3]).plen(28).bytes(), V::PduLength),
        ("R2T too short", none, r2t(0, 8).plen(20).bytes(), V::PduLength),
        ("header digest wrong", HEADER, spoilt, V::HeaderDigest(received)),
        ("response to nothing", none, response(99).bytes(), V::ResponseCommandId),
        ("response to a command of the past", none, response(0).bytes(), V::ResponseCommandId),
        (
            "data of nothing",
            none,
            Raw::transfer(7, 99, 0, 0, 8).data(&[0; 8]).bytes(),
            V::DataCommandId,
        ),
        ("R2T for nothing", none, Raw::transfer(9, 99, 0, 0, 8).bytes(), V::DataCommandId),
        (
            "data for a write",
            none,
            Raw::transfer(7, CIDS[1], 0, 0, 8).data(&[0; 8]).bytes(),
            V::UnexpectedTransfer,
        ),
        ("data after the last PDU", none, two, V::UnexpectedTransfer),
        ("R2T for a read", none, Raw::transfer(9, CIDS[0], 0, 0, 8).bytes(), V::UnexpectedTransfer),
        (
            "R2T for data in the capsule",
            none,
            Raw::transfer(9, CIDS[2], 0, 0, 8).bytes(),
            V::UnexpectedTransfer,
        ),
        ("R2T without length", none, r2t(0, 0).bytes(), V::DataLength),
        (
            "data length",
            none,
            Raw::transfer(7, CIDS[0], 0, 0, 16).data(&[0; 8]).bytes(),
            V::DataLength,
        ),
        ("data beyond the command", none, c2h(4092, 8).bytes(), V::OutOfRange),
        ("data offset overflows", none, c2h(u32::MAX, 8).bytes(), V::OutOfRange),
        ("R2T beyond the command", none, r2t(8188, 8).bytes(), V::OutOfRange),
        ("R2T overflows", none, r2t(8, u32::MAX).bytes(), V::OutOfRange),
        ("data out of order", none, c2h(8, 8).bytes(), V::OutOfOrder),
        ("R2T out of order", none, r2t(8, 8).bytes(), V::OutOfOrder),
        ("success without the data", none, response(CIDS[0]).bytes(), V::ShortData),
        ("success flag without the data", none, c2h(0, 8).flags(12).bytes(), V::ShortData),
        ("more R2Ts than MAXR2T", none, many, V::R2tLimit(2)),
    ]
}

#[test]
fn a_host_names_every_violation() {
    for (name, digests, bytes, violation) in host_cases() {
        for whole in [true, false] {
            let mut end = host(digests);
            let sent = term_req(&mut end, &bytes, whole);
            assert_eq!(end.engine.violation(), Some(violation), "{name}");
            // Where a later PDU is to blame, those before it are taken without complaint.
            let first = match name {
                "more R2Ts than MAXR2T" => 48,
                "data after the last PDU" => 32,
                _ => 0,
            };
            check_term_req(&sent, 2, violation, &bytes[first..], whole, name);
            assert!(end.engine.submit(command(READ, 0), HostData::None).is_err());
        }
    }
}

#[test]
fn a_host_insists_on_icresp() {
    use Violation as V;
    let cases = [
        ("response first", response(0).bytes(), V::NotInitialized),
        ("another protocol", b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), V::PduType(b'S')),
        ("header length", Raw::ic(1, 0, 0, 0, 4096).hlen(24).bytes(), V::HeaderLength),
        ("PDU length", Raw::ic(1, 0, 0, 0, 4096).plen(24).bytes(), V::PduLength),
        ("format version", Raw::ic(1, 0x100, 0, 0, 4096).bytes(), V::FormatVersion(0x100)),
        ("alignment", Raw::ic(1, 0, 32, 0, 4096).bytes(), V::Alignment),
        ("digest not requested", Raw::ic(1, 0, 0, 2, 4096).bytes(), V::UnrequestedDigest),
        ("MAXH2CDATA too small", Raw::ic(1, 0, 0, 1, 4092).bytes(), V::MaxH2cData),
        ("MAXH2CDATA no dwords", Raw::ic(1, 0, 0, 1, 4098).bytes(), V::MaxH2cData),
    ];
    for (name, bytes, violation) in cases {
        for whole in [true, false] {
            let mut end = End::new(HostConnection::new(HostConfig {
                digests: HEADER,
                ..HostConfig::default()
            }));
            end.flush();
            let sent = term_req(&mut end, &bytes, whole);
            assert_eq!(end.engine.violation(), Some(violation), "{name}");
            check_term_req(&sent, 2, violation, &bytes, whole, name);
        }
    }
}

/// A TermReq of `plen` bytes.
fn term(pdu_type: u8, plen: u32) -> Vec<u8> {
    let mut specific = vec![0; 16];
    specific[..6].copy_from_slice(&[1, 0, 10, 0, 0, 0]);
    let offender = [6, 0, 24, 24, 32, 0, 0, 0];
    let mut bytes = Raw::new(pdu_type, &specific).plen(plen).bytes();
    bytes.extend(offender.iter().cycle().take((plen as usize).saturating_sub(24)));
    bytes
}

#[test]
fn a_term_req_is_reported_and_not_answered() {
    let offender = CommonHeader::decode(&[6, 0, 24, 24, 32, 0, 0, 0]);
    for (plen, offender) in [(24, None), (32, Some(offender)), (152, Some(offender))] {
        let said = Termination { status: Fes::INVALID_HEADER_FIELD, information: 10, offender };
        for digests in [Digests::NONE, Digests::BOTH] {
            let mut end = host(digests);
            end.stage(&term(3, plen));
            assert_eq!(end.next(), Next::Event(HostEvent::Terminated(said)));
            assert_eq!(end.next(), Next::Closed);
            assert!(!end.engine.wants_transmit());
            assert_eq!(end.engine.violation(), None);
            assert!(end.engine.submit(command(READ, 0), HostData::None).is_err());

            let mut end = target(digests);
            for byte in term(2, plen) {
                assert_eq!(end.next(), Next::Starved);
                end.stage(&[byte]);
            }
            assert_eq!(end.next(), Next::Event(TargetEvent::Terminated(said)));
            assert_eq!(end.next(), Next::Closed);
            assert!(!end.engine.wants_transmit());
        }
    }
}

#[test]
fn a_refusal_before_initialization_is_reported() {
    for flush in [true, false] {
        let mut end = End::new(HostConnection::new(HostConfig::default()));
        if flush {
            end.flush();
        }
        end.stage(&term(3, 152));
        assert!(matches!(end.next(), Next::Event(HostEvent::Terminated(_))));
        assert_eq!(end.next(), Next::Closed);
        assert!(!end.engine.wants_transmit());
    }
}

#[test]
fn a_malformed_term_req_closes_the_connection_silently() {
    for plen in [0, 23, 153, u32::MAX] {
        let mut end = host(Digests::NONE);
        end.flush();
        end.stage(&Raw::new(3, &[0; 16]).plen(plen).bytes());
        assert_eq!(end.next(), Next::Closed);
        assert!(!end.engine.wants_transmit());
        assert_eq!(end.engine.violation(), Some(Violation::MalformedTermReq));
    }
}

/// H2CData PDUs of CID 2 that are odd but harmless.
#[test]
fn a_target_tolerates_what_hosts_do() {
    let sealed = |raw: Raw| raw.sealed(Digests::NONE);
    let data = || h2c(2, TTAGS[2], 0, 4096);
    let last = |offset, bytes| sealed(h2c(2, TTAGS[2], offset, bytes).flags(4));
    let empty = |cid, ttag| sealed(Raw::transfer(6, cid, ttag, 0, 0));
    let empty_last = sealed(Raw::transfer(6, 2, TTAGS[2], 0, 0).flags(4));
    let empty_with_pdo = sealed(Raw::transfer(6, 2, 1, 0, 0).pdo(24));
    let cases = [
        ("last is missing", sealed(data()), vec![Deviation::LastPdu]),
        ("reserved flags", sealed(data().flags(0xf4)), vec![]),
        ("padding", sealed(data().flags(4).padding(100)), vec![]),
        ("two PDUs", [sealed(h2c(2, TTAGS[2], 0, 8)), last(8, 4088)].concat(), vec![]),
        ("each PDU is the last", [last(0, 8), last(8, 4088)].concat(), vec![Deviation::LastPdu]),
        (
            "flags of digests that were not agreed on",
            sealed(data().flags(7)),
            vec![Deviation::DigestFlags],
        ),
        (
            "a PDU without data first",
            [empty(2, TTAGS[2]), last(0, 4096)].concat(),
            vec![Deviation::EmptyData],
        ),
        (
            "a PDU without data, but last",
            [empty_last, last(0, 4096)].concat(),
            vec![Deviation::EmptyData],
        ),
        (
            "a PDU without data, for nothing",
            [empty(9, 999), last(0, 4096)].concat(),
            vec![Deviation::EmptyData],
        ),
        (
            "a PDU without data, with PDO",
            [empty_with_pdo, last(0, 4096)].concat(),
            vec![Deviation::EmptyData],
        ),
    ];
    for (name, bytes, expected) in cases {
        let mut end = target(Digests::NONE);
        end.stage(&bytes);
        assert_eq!(end.next(), Next::Event(TargetEvent::DataArrived { tag: Tag(1) }), "{name}");
        assert_eq!(end.memory[1], [0x33; 4096], "{name}");
        assert_eq!(end.next(), Next::Starved, "{name}");
        assert_eq!(end.engine.take_deviations().iter().collect::<Vec<_>>(), expected, "{name}");
    }
}

#[test]
fn a_data_digest_flag_without_data_is_tolerated() {
    for (flags, tail) in [(0, &[][..]), (2, &[][..]), (2, &[0; 4][..])] {
        let digested = |raw: Raw, header: u32| {
            let flags = raw.flags | flags;
            let mut bytes =
                raw.flags(flags).pdo(header as u8).plen(header + tail.len() as u32).bytes();
            bytes.extend_from_slice(tail);
            bytes
        };
        let mut end = target(DATA);
        end.stage(&digested(Raw::transfer(6, 2, TTAGS[2], 0, 0), 24));
        assert_eq!(end.next(), Next::Starved);
        end.stage(&digested(Raw::capsule(&write(3, Sgl::transport(0))), 72));
        assert!(matches!(
            end.next(),
            Next::Event(TargetEvent::Command { in_capsule_bytes: 0, .. })
        ));
        end.stage(&h2c(2, TTAGS[2], 0, 4096).sealed(DATA));
        assert_eq!(end.next(), Next::Event(TargetEvent::DataArrived { tag: Tag(1) }));

        let mut end = host(DATA);
        end.stage(&digested(Raw::transfer(7, CIDS[0], 0, 0, 0), 24));
        assert_eq!(end.next(), Next::Starved);
        end.stage(&c2h(0, 4096).sealed(DATA));
        assert_eq!(end.next(), Next::Starved);
        end.stage(&digested(Raw::transfer(7, CIDS[0], 0, 4096, 0).flags(12), 24));
        assert!(matches!(
            end.next(),
            Next::Event(HostEvent::Response { tag: Tag(0), received_bytes: 4096, .. })
        ));
    }
}

#[test]
fn a_host_tolerates_what_controllers_do() {
    for (name, bytes, expected) in [
        ("last is missing", [c2h(0, 4096).bytes(), response(CIDS[0]).bytes()].concat(), vec![]),
        (
            "success in a PDU without data",
            [c2h(0, 4096).bytes(), c2h(4096, 0).flags(12).bytes()].concat(),
            vec![Deviation::EmptyData],
        ),
        (
            "flags of digests",
            [c2h(0, 4096).flags(3).bytes(), response(CIDS[0]).bytes()].concat(),
            vec![Deviation::DigestFlags],
        ),
        (
            "a flag in a response",
            [c2h(0, 4096).bytes(), response(CIDS[0]).flags(1).bytes()].concat(),
            vec![Deviation::DigestFlags],
        ),
        (
            "padding",
            [c2h(0, 4096).padding(96).bytes(), response(CIDS[0]).flags(0xf0).bytes()].concat(),
            vec![],
        ),
    ] {
        let mut end = host(Digests::NONE);
        end.stage(&bytes);
        let cqe = Cqe::new(Cid(CIDS[0]), Status::SUCCESS);
        assert_eq!(
            end.next(),
            Next::Event(HostEvent::Response { tag: Tag(0), cqe, received_bytes: 4096 }),
            "{name}"
        );
        assert_eq!(end.memory[0][..4096], [0x44; 4096], "{name}");
        assert_eq!(end.engine.take_deviations().iter().collect::<Vec<_>>(), expected, "{name}");
    }
}
