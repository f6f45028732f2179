//! Deviations that both ends tolerate although the specification forbids them.

use super::{CIDS, DATA, TTAGS, c2h, h2c, host, response, target, write};
use crate::support::Next;
use crate::support::raw::Raw;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::deviation::Deviation;
use weft_proto::nvme::sqe::Sgl;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::{TcpHostEvent, TcpTargetEvent};
use weft_proto::stream::Tag;

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
        assert_eq!(end.next(), Next::Event(TcpTargetEvent::DataArrived { tag: Tag(1) }), "{name}");
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
            Next::Event(TcpTargetEvent::Command { in_capsule_bytes: 0, .. })
        ));
        end.stage(&h2c(2, TTAGS[2], 0, 4096).sealed(DATA));
        assert_eq!(end.next(), Next::Event(TcpTargetEvent::DataArrived { tag: Tag(1) }));

        let mut end = host(DATA);
        end.stage(&digested(Raw::transfer(7, CIDS[0], 0, 0, 0), 24));
        assert_eq!(end.next(), Next::Starved);
        end.stage(&c2h(0, 4096).sealed(DATA));
        assert_eq!(end.next(), Next::Starved);
        end.stage(&digested(Raw::transfer(7, CIDS[0], 0, 4096, 0).flags(12), 24));
        assert!(matches!(
            end.next(),
            Next::Event(TcpHostEvent::Response { tag: Tag(0), received_bytes: 4096, .. })
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
            Next::Event(TcpHostEvent::Response { tag: Tag(0), cqe, received_bytes: 4096 }),
            "{name}"
        );
        assert_eq!(end.memory[0][..4096], [0x44; 4096], "{name}");
        assert_eq!(end.engine.take_deviations().iter().collect::<Vec<_>>(), expected, "{name}");
    }
}
