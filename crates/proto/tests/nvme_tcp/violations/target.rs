//! Every rule that a host can break.

use super::{Case, DATA, HEADER, TTAGS, check_term_req, h2c, target, term_req, write};
use crate::support::raw::Raw;
use crate::support::{ConnectionEnd, Next};
use weft_proto::nvme::sqe::Sgl;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::violation::Violation;
use weft_proto::nvme_tcp::{TcpTargetConfig, TcpTargetConnection, TcpTargetEvent};

fn plain() -> Raw {
    Raw::capsule(&write(3, Sgl::transport(8)))
}

fn h2c1(offset: u32, len: u32) -> Raw {
    h2c(1, TTAGS[0], offset, len)
}

fn wrong_headers() -> Vec<Case> {
    use Violation as V;
    let none = Digests::NONE;
    let sqe = write(3, Sgl::in_capsule(8));
    let capsule = || Raw::capsule(&sqe).data(&[0; 8]);
    let (spoilt, received) = {
        let bytes = plain().bad_header_digest().sealed(HEADER);
        let received = u32::from_le_bytes(bytes[72..76].try_into().unwrap());
        (bytes, received)
    };
    let mut damaged = plain().sealed(HEADER);
    let digest = u32::from_le_bytes(damaged[72..76].try_into().unwrap());
    damaged[6] ^= 0x40;
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
    ]
}

fn wrong_data() -> Vec<Case> {
    use Violation as V;
    let none = Digests::NONE;
    let two = [plain().bytes(), plain().bytes()].concat();
    let swapped = h2c(1, TTAGS[1], 8192, 8).bytes();
    vec![
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
    for (name, digests, bytes, violation) in wrong_headers().into_iter().chain(wrong_data()) {
        for whole in [true, false] {
            // Where a second PDU is to blame, the first one is taken without complaint.
            let mut end = target(digests);
            let first = match violation {
                Violation::QueueOverrun => {
                    end.stage(&bytes[..72]);
                    assert!(matches!(end.next(), Next::Event(TcpTargetEvent::Command { .. })));
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
            let mut end = ConnectionEnd::new(TcpTargetConnection::new(TcpTargetConfig::default()));
            let sent = term_req(&mut end, &bytes, whole);
            assert_eq!(end.engine.violation(), Some(violation), "{name}");
            check_term_req(&sent, 3, violation, &bytes, whole, name);
        }
    }
}
