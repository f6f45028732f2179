//! Responses that come before the data of their command has moved.

use super::pair::{host, pattern, target, types};
use crate::support::pair::{FAIL, Pair, WRITE, command};
use crate::support::raw::Raw;
use crate::support::{ConnectionEnd, Next};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::PduType;
use weft_proto::nvme_tcp::violation::Violation;
use weft_proto::nvme_tcp::{HostConnection, HostData, TcpHostConfig, TcpHostEvent};
use weft_proto::stream::Tag;

#[test]
fn a_response_waits_until_the_memory_is_not_sent_from_any_more() {
    for (opcode, len, status) in
        [(FAIL, 4096, Status::INVALID_OPCODE), (WRITE, 300_000, Status::SUCCESS)]
    {
        let mut pair = Pair::new(host(Digests::NONE), target());
        pair.run();
        pair.host.hold_releases = true;
        let tag = pair.out(opcode, 0, &pattern(len, 1));
        pair.run();
        assert!(
            pair.outcomes.is_empty(),
            "the memory of the write is still named in a gather list"
        );
        assert_eq!(pair.host.engine.outstanding(), 1);
        pair.host.release_held();
        pair.run();
        assert_eq!(pair.outcome(tag).cqe.status, status);
        assert_eq!(pair.host.engine.outstanding(), 0);
    }
}

/// A host whose write was answered by `then` right behind an R2T, before it could send the data.
pub fn answered_early(then: impl Fn(Cid) -> Cqe) -> (ConnectionEnd<HostConnection>, Tag) {
    let mut end = ConnectionEnd::new(HostConnection::new(TcpHostConfig::default()));
    end.stage(&Raw::ic(1, 0, 0, 0, 4096).bytes());
    assert!(matches!(end.next(), Next::Event(TcpHostEvent::Ready(_))));
    let tag = end.engine.submit(command(WRITE, 0), HostData::Out(8192)).unwrap();
    end.memory(tag, 8192);
    end.flush();
    end.take_wire();
    let cid = end.engine.cid(tag).unwrap();
    end.stage(&Raw::transfer(9, cid.0, 1, 0, 8192).bytes());
    end.stage(&Raw::new(5, &then(cid).encode()).bytes());
    (end, tag)
}

#[test]
fn an_early_response_cancels_what_was_still_to_be_sent() {
    let (mut end, tag) = answered_early(|cid| Cqe::new(cid, Status::WRITE_FAULT));
    assert!(matches!(end.next(), Next::Event(TcpHostEvent::Response { tag: t, .. }) if t == tag));
    end.flush();
    assert!(end.wire.is_empty());
    end.engine.release(tag);
    let again = end.engine.submit(command(WRITE, 0), HostData::Out(8192)).unwrap();
    assert_eq!(again, tag);
    end.flush();
    assert_eq!(types(&end.take_wire()), [PduType::CAPSULE_CMD]);
    end.stage(&Raw::transfer(9, end.engine.cid(tag).unwrap().0, 2, 0, 4096).bytes());
    assert_eq!(end.next(), Next::Starved);
    end.flush();
    assert_eq!(types(&end.wire), [PduType::H2C_DATA]);
    assert_eq!(end.wire[10..16], [2, 0, 0, 0, 0, 0], "the R2T of the past is forgotten");
}

#[test]
fn a_write_cannot_succeed_before_its_data_was_taken() {
    let (mut end, _) = answered_early(|cid| Cqe::new(cid, Status::SUCCESS));
    assert_eq!(end.next(), Next::Closed);
    assert_eq!(end.engine.violation(), Some(Violation::UnfetchedData), "asked for and not awaited");
    for (opcode, refused) in [(WRITE, true), (NvmOpcode::DATASET_MANAGEMENT.0, false)] {
        let mut end = ConnectionEnd::new(HostConnection::new(TcpHostConfig::default()));
        end.stage(&Raw::ic(1, 0, 0, 0, 4096).bytes());
        assert!(matches!(end.next(), Next::Event(TcpHostEvent::Ready(_))));
        let tag = end.engine.submit(command(opcode, 0), HostData::Out(8192)).unwrap();
        end.memory(tag, 8192);
        end.flush();
        let cid = end.engine.cid(tag).unwrap();
        end.stage(&Raw::new(5, &Cqe::new(cid, Status::SUCCESS).encode()).bytes());
        let next = end.next();
        assert_eq!(
            matches!(next, Next::Event(TcpHostEvent::Response { .. })),
            !refused,
            "{opcode}: {next:?}"
        );
        assert_eq!(
            end.engine.violation(),
            refused.then_some(Violation::UnfetchedData),
            "never asked for"
        );
    }
}
