//! Every rule that a peer can break, and the answer; and tolerated deviations.

mod host;
mod target;
mod tolerated;

use std::fmt::Debug;

use super::write;
use crate::support::pair::{FEATURE, READ, WRITE, command};
use crate::support::raw::Raw;
use crate::support::{ConnectionEnd, Engine, Next};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sgl;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::{CommonHeader, PduType};
use weft_proto::nvme_tcp::term::{FatalErrorStatus as Fes, Termination};
use weft_proto::nvme_tcp::violation::Violation;
use weft_proto::nvme_tcp::{
    HostConnection, HostData, TcpHostConfig, TcpHostEvent, TcpTargetConfig, TcpTargetConnection,
    TcpTargetEvent,
};
use weft_proto::stream::StreamEngine;

const HEADER: Digests = Digests { header: true, data: false };
const DATA: Digests = Digests { header: false, data: true };

/// Data of a peer, its digests, and the reason why this end closes the connection.
type Case = (&'static str, Digests, Vec<u8>, Violation);

/// Returns the TermReq that `end` sends after it has received `bytes`.
fn term_req<E: Engine>(end: &mut ConnectionEnd<E>, bytes: &[u8], whole: bool) -> Vec<u8>
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

/// A target that awaits data under `digests`: bytes 0 to 8192 of CID 1 by one R2T and those to
/// 12,000 by another, and 4096 bytes of CID 2.
fn target(digests: Digests) -> ConnectionEnd<TcpTargetConnection> {
    let config = TcpTargetConfig {
        queue_entries: 3,
        max_h2c_data_bytes: 4096,
        max_r2t_bytes: 8192,
        r2t_outstanding: 2,
        ..TcpTargetConfig::default()
    };
    let mut end = ConnectionEnd::new(TcpTargetConnection::new(config));
    end.stage(&Raw::ic(0, 0, 0, digests.encode(), 7).bytes());
    assert!(matches!(end.next(), Next::Event(TcpTargetEvent::Ready(_))));
    for (cid, bytes) in [(1, 12_000), (2, 4096)] {
        end.stage(&Raw::capsule(&write(cid, Sgl::transport(bytes))).sealed(digests));
        let Next::Event(TcpTargetEvent::Command { tag, .. }) = end.next() else { panic!() };
        end.engine.fetch(tag, bytes).unwrap();
        end.memory(tag, bytes as usize);
        end.flush();
    }
    end
}

/// TTAG of the first R2T of CID 1, of its second one, and of the one of CID 2, as the target gives
/// them.
const TTAGS: [u16; 3] = [0, 1 << 10, 1];

fn h2c(cid: u16, ttag: u16, offset: u32, len: u32) -> Raw {
    Raw::transfer(6, cid, ttag, offset, len).data(&vec![0x33; len as usize])
}

/// A host with a read of 4096 bytes (`CIDS[0]`), a write of 8192 by R2T (`CIDS[1]`), a write in the
/// capsule (`CIDS[2]`) and a command without data (`CIDS[3]`).
fn host(digests: Digests) -> ConnectionEnd<HostConnection> {
    let config = TcpHostConfig {
        digests,
        in_capsule_bytes: 512,
        r2t_outstanding: 2,
        ..TcpHostConfig::default()
    };
    let mut end = ConnectionEnd::new(HostConnection::new(config));
    end.stage(&Raw::ic(1, 0, 0, digests.encode(), 4096).bytes());
    assert!(matches!(end.next(), Next::Event(TcpHostEvent::Ready(_))));
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
            assert_eq!(end.next(), Next::Event(TcpHostEvent::Terminated(said)));
            assert_eq!(end.next(), Next::Closed);
            assert!(!end.engine.wants_transmit());
            assert_eq!(end.engine.violation(), None);
            assert!(end.engine.submit(command(READ, 0), HostData::None).is_err());

            let mut end = target(digests);
            for byte in term(2, plen) {
                assert_eq!(end.next(), Next::Starved);
                end.stage(&[byte]);
            }
            assert_eq!(end.next(), Next::Event(TcpTargetEvent::Terminated(said)));
            assert_eq!(end.next(), Next::Closed);
            assert!(!end.engine.wants_transmit());
        }
    }
}

#[test]
fn a_refusal_before_initialization_is_reported() {
    for flush in [true, false] {
        let mut end = ConnectionEnd::new(HostConnection::new(TcpHostConfig::default()));
        if flush {
            end.flush();
        }
        end.stage(&term(3, 152));
        assert!(matches!(end.next(), Next::Event(TcpHostEvent::Terminated(_))));
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
