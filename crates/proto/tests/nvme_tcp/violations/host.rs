//! Every rule that a controller can break.

use super::{CIDS, Case, DATA, HEADER, c2h, check_term_req, host, response, term_req};
use crate::support::ConnectionEnd;
use crate::support::pair::{READ, command};
use crate::support::raw::Raw;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::violation::Violation;
use weft_proto::nvme_tcp::{HostConnection, HostData, TcpHostConfig};

fn r2t(offset: u32, len: u32) -> Raw {
    Raw::transfer(9, CIDS[1], 77, offset, len)
}

fn wrong_headers() -> Vec<Case> {
    use Violation as V;
    let none = Digests::NONE;
    let (spoilt, received) = {
        let bytes = response(CIDS[3]).bad_header_digest().sealed(HEADER);
        let received = u32::from_le_bytes(bytes[24..28].try_into().unwrap());
        (bytes, received)
    };
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
    ]
}

fn wrong_transfers() -> Vec<Case> {
    use Violation as V;
    let none = Digests::NONE;
    let two = [c2h(0, 8).flags(4).bytes(), c2h(8, 8).bytes()].concat();
    let many = [r2t(0, 4).bytes(), r2t(4, 4).bytes(), r2t(8, 4).bytes()].concat();
    vec![
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
    for (name, digests, bytes, violation) in wrong_headers().into_iter().chain(wrong_transfers()) {
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
            let mut end = ConnectionEnd::new(HostConnection::new(TcpHostConfig {
                digests: HEADER,
                ..TcpHostConfig::default()
            }));
            end.flush();
            let sent = term_req(&mut end, &bytes, whole);
            assert_eq!(end.engine.violation(), Some(violation), "{name}");
            check_term_req(&sent, 2, violation, &bytes, whole, name);
        }
    }
}
