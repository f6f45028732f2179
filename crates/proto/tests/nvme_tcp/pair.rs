//! Both ends of an NVMe/TCP connection, back to back.

use super::early_response::answered_early;
use crate::support::Next;
use crate::support::pair::{FAIL, FEATURE, Pair, READ, WRITE, command};
use crate::support::raw::Raw;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::host::SubmitError;
use weft_proto::nvme_tcp::pdu::PduType;
use weft_proto::nvme_tcp::{
    HostConnection, HostData, TcpHostConfig, TcpHostEvent, TcpTargetConfig, TcpTargetEvent,
};
use weft_proto::stream::{Part, Rx, StreamEngine, Transmit};

const COMBINATIONS: [Digests; 4] = [
    Digests::NONE,
    Digests { header: true, data: false },
    Digests { header: false, data: true },
    Digests::BOTH,
];

pub fn host(digests: Digests) -> TcpHostConfig {
    TcpHostConfig { digests, in_capsule_bytes: 8192, ..TcpHostConfig::default() }
}

pub fn target() -> TcpTargetConfig {
    TcpTargetConfig { queue_entries: 128, ..TcpTargetConfig::default() }
}

pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// Types of the PDUs of a stream.
pub fn types(mut stream: &[u8]) -> Vec<PduType> {
    let mut types = Vec::new();
    while stream.len() >= 8 {
        types.push(PduType(stream[0]));
        let plen = u32::from_le_bytes(stream[4..8].try_into().unwrap()) as usize;
        stream = &stream[plen..];
    }
    assert!(stream.is_empty());
    types
}

pub fn count(stream: &[u8], pdu_type: PduType) -> usize {
    types(stream).into_iter().filter(|&t| t == pdu_type).count()
}

/// Writes and reads of many sizes, all at once, and what they should come to.
fn exercise(pair: &mut Pair) {
    let sizes = [4, 512, 4096, 8192, 8196, 65536, 300_000, 1 << 20];
    let mut writes = Vec::new();
    let mut offset = 0;
    for (i, &len) in sizes.iter().enumerate() {
        let data = pattern(len, i as u8);
        writes.push((pair.write(offset, &data), offset, data));
        offset += len as u32;
    }
    pair.run();
    assert_eq!(pair.disk.end.engine.violation(), None);
    assert_eq!(pair.host.engine.violation(), None);
    for (tag, offset, data) in &writes {
        assert!(pair.outcome(*tag).cqe.status.is_success());
        assert!(pair.disk.store[*offset as usize..].starts_with(data));
    }
    let reads: Vec<_> = writes
        .iter()
        .map(|(_, offset, data)| (pair.read(*offset, data.len() as u32), data))
        .collect();
    pair.run();
    for (tag, data) in reads {
        let outcome = pair.outcome(tag);
        assert!(outcome.cqe.status.is_success() && !outcome.damaged);
        assert!(outcome.data == *data, "read data differ");
    }
    assert_eq!(pair.host.engine.outstanding(), 0);
    assert!(!pair.host_closed && !pair.disk.closed);
}

#[test]
fn data_survives_every_digest_combination() {
    for digests in COMBINATIONS {
        let mut pair = Pair::new(host(digests), target());
        exercise(&mut pair);
        assert!(matches!(pair.log[0], TcpHostEvent::Ready(n) if n.digests == digests));
        assert!(matches!(pair.disk.log[0], TcpTargetEvent::Ready(n) if n.digests == digests));
    }
}

#[test]
fn data_survives_small_pieces() {
    for (piece, digests) in [
        (1, Digests::BOTH),
        (3, Digests::NONE),
        (7, Digests::BOTH),
        (1448, Digests::BOTH),
        (65536, Digests::NONE),
    ] {
        let mut pair = Pair::new(host(digests), target());
        pair.piece = piece;
        exercise(&mut pair);
    }
}

#[test]
fn data_survives_alignment_and_small_pdus() {
    for digests in COMBINATIONS {
        for pda in [0, 1, 2, 4, 31] {
            let host = TcpHostConfig { hpda: pda, in_capsule_bytes: 4096, ..host(digests) };
            let target = TcpTargetConfig {
                cpda: 31 - pda,
                max_h2c_data_bytes: 4096,
                max_c2h_data_bytes: 8192,
                max_r2t_bytes: 16384,
                r2t_outstanding: 3,
                ..target()
            };
            exercise(&mut Pair::new(host, target));
        }
    }
}

#[test]
fn digests_need_both_sides() {
    let target = TcpTargetConfig { digests: Digests { header: true, data: false }, ..target() };
    let mut pair = Pair::new(host(Digests::BOTH), target);
    exercise(&mut pair);
    let agreed = Digests { header: true, data: false };
    assert!(matches!(pair.log[0], TcpHostEvent::Ready(n) if n.digests == agreed));
}

#[test]
fn small_writes_travel_in_the_capsule_and_large_ones_by_one_r2t() {
    let mut pair = Pair::new(host(Digests::NONE), target());
    pair.write(0, &pattern(8192, 1));
    pair.run();
    assert_eq!(types(&pair.to_host), [PduType::IC_RESP, PduType::CAPSULE_RESP]);
    pair.write(0, &pattern(300_000, 1));
    pair.run();
    assert_eq!(types(&pair.to_host)[2..], [PduType::R2T, PduType::CAPSULE_RESP]);
    assert_eq!(count(&pair.to_disk, PduType::H2C_DATA), 3, "128 KiB each");
}

#[test]
fn in_capsule_size_follows_identify() {
    let mut pair =
        Pair::new(TcpHostConfig { in_capsule_bytes: 0, ..host(Digests::NONE) }, target());
    pair.write(0, &pattern(512, 1));
    pair.run();
    assert_eq!(count(&pair.to_host, PduType::R2T), 1);
    pair.host.engine.set_in_capsule_bytes(512);
    pair.write(0, &pattern(512, 1));
    pair.run();
    assert_eq!(count(&pair.to_host, PduType::R2T), 1);
    let connect = pair.host.engine.submit(Sqe::fabrics(1), HostData::Out(1024)).unwrap();
    pair.host.memory(connect, 1024);
    pair.run();
    assert_eq!(
        count(&pair.to_host, PduType::R2T),
        1,
        "data of Fabrics commands may always be in the capsule"
    );
    assert_eq!(pair.outcome(connect).cqe.status, Status::INVALID_OPCODE);
}

#[test]
fn several_r2ts_are_outstanding_as_both_allow() {
    for (host_allows, target_wants, together) in [(1, 8, 1), (4, 2, 2), (4, 4, 4), (8, 8, 8)] {
        let target = TcpTargetConfig {
            max_r2t_bytes: 4096,
            r2t_outstanding: target_wants,
            max_h2c_data_bytes: 4096,
            ..target()
        };
        let mut pair = Pair::new(
            TcpHostConfig {
                r2t_outstanding: host_allows,
                in_capsule_bytes: 0,
                ..host(Digests::NONE)
            },
            target,
        );
        let data = pattern(64 << 10, 9);
        let tag = pair.write(0, &data);
        pair.host.flush();
        pair.disk.end.stage(&pair.host.take_wire());
        pair.disk.run();
        pair.host.stage(&pair.disk.end.take_wire());
        pair.run_host();
        pair.host.flush();
        pair.disk.end.stage(&pair.host.take_wire());
        pair.disk.run();
        let answer = pair.disk.end.take_wire();
        assert_eq!(types(&answer), vec![PduType::R2T; together]);
        pair.host.stage(&answer);
        pair.run();
        assert!(pair.outcome(tag).cqe.status.is_success());
        assert!(pair.disk.store.starts_with(&data));
    }
}

#[test]
fn success_flag_replaces_plain_responses_only() {
    for digests in COMBINATIONS {
        let mut pair =
            Pair::new(host(digests), TcpTargetConfig { max_c2h_data_bytes: 4096, ..target() });
        pair.disk.end.engine.set_success_flag(true);
        let tag = pair.read(100, 10_000);
        pair.run();
        assert_eq!(types(&pair.to_host)[1..], [PduType::C2H_DATA; 3]);
        assert_eq!(pair.outcome(tag).data, &pair.disk.store[100..10_100]);
        let tag = pair.host.engine.submit(command(FEATURE, 0), HostData::None).unwrap();
        pair.run();
        assert_eq!(types(&pair.to_host).last(), Some(&PduType::CAPSULE_RESP));
        assert_eq!(pair.outcome(tag).cqe.result, 0x1234_5678_9abc);
    }
}

#[test]
fn a_failed_read_needs_no_data() {
    let mut pair = Pair::new(host(Digests::BOTH), target());
    let tag = pair.host.engine.submit(command(FAIL, 0), HostData::In(4096)).unwrap();
    pair.host.memory(tag, 4096);
    pair.run();
    assert_eq!(pair.outcome(tag).cqe.status, Status::INVALID_OPCODE);
    assert_eq!(
        pair.log.last(),
        Some(&TcpHostEvent::Response { tag, cqe: pair.outcome(tag).cqe, received_bytes: 0 })
    );
}

#[test]
fn a_refused_write_in_the_capsule_leaves_the_stream_in_step() {
    for digests in COMBINATIONS {
        let mut pair = Pair::new(host(digests), target());
        let refused = pair.out(FAIL, 0, &pattern(4096, 1));
        let accepted = pair.write(0, &pattern(4096, 2));
        pair.run();
        assert_eq!(pair.outcome(refused).cqe.status, Status::INVALID_OPCODE);
        assert!(pair.outcome(accepted).cqe.status.is_success());
        assert!(pair.disk.store.starts_with(&pattern(4096, 2)));
    }
}

#[test]
fn commands_are_sent_in_order_of_submission_whatever_slots_they_get() {
    let (mut end, tag) = answered_early(|cid| Cqe::new(cid, Status::WRITE_FAULT));
    assert!(matches!(end.next(), Next::Event(TcpHostEvent::Response { .. })));
    let mut cids = Vec::new();
    for n in 0..3 {
        let new = end.engine.submit(command(READ, n), HostData::None).unwrap();
        cids.push(end.engine.cid(new).unwrap().0.to_le_bytes());
        // The write has a place at the front of the transmit queue, which no later command may take
        // over.
        end.engine.release(tag);
    }
    end.flush();
    let sent: Vec<_> =
        end.take_wire().chunks(72).map(|capsule| [capsule[10], capsule[11]]).collect();
    assert_eq!(sent, cids);
    assert_eq!(end.engine.outstanding(), 3);
}

#[test]
fn commands_may_be_submitted_before_the_connection_is_ready_and_wait() {
    let mut pair = Pair::new(host(Digests::BOTH), target());
    let tag = pair.read(0, 4096);
    assert!(pair.host.engine.never_sent(tag));
    pair.host.flush();
    assert_eq!(types(&pair.host.wire), [PduType::IC_REQ]);
    assert!(!pair.host.engine.wants_transmit());
    pair.run();
    assert_eq!(pair.outcome(tag).data, &pair.disk.store[..4096]);
}

#[test]
fn a_queue_holds_as_many_commands_as_it_has_entries() {
    let mut pair = Pair::new(
        TcpHostConfig { queue_entries: 5, ..host(Digests::NONE) },
        TcpTargetConfig { queue_entries: 5, ..target() },
    );
    for round in 0..3 {
        let tags: Vec<_> = (0..5).map(|i| pair.read(i * 512, 512)).collect();
        assert_eq!(
            pair.host.engine.submit(command(READ, 0), HostData::In(512)),
            Err(SubmitError::Full)
        );
        assert!(tags.iter().all(|&tag| pair.host.engine.cid(tag).is_some()));
        pair.run();
        assert_eq!(pair.outcomes.len(), 5 * (round + 1));
    }
}

/// A controller that allows PDUs of any size, and a host that would make use of it: only the names
/// of the data are made here.
#[test]
fn no_pdu_is_longer_than_plen_can_tell() {
    for pdu_type in [PduType::CAPSULE_CMD, PduType::H2C_DATA] {
        let mut host = HostConnection::new(TcpHostConfig::default());
        host.transmit(&mut Transmit::new(8));
        let welcome = Raw::ic(1, 0, 0, 0, u32::MAX - 3).bytes();
        assert!(matches!(host.receive(&welcome), (128, Rx::Event(TcpHostEvent::Ready(_)))));
        let mut list = Transmit::new(64);
        if pdu_type == PduType::CAPSULE_CMD {
            host.set_in_capsule_bytes(u32::MAX);
        }
        let tag = host.submit(command(WRITE, 0), HostData::Out(u32::MAX)).unwrap();
        host.transmit(&mut list);
        let r2t = Raw::transfer(9, host.cid(tag).unwrap().0, 0, 0, u32::MAX).bytes();
        host.receive(&r2t);
        host.transmit(&mut list);
        let payloads: Vec<_> =
            list.parts.iter().filter(|part| matches!(part, Part::Payload { .. })).collect();
        assert_eq!(payloads.len(), 4, "{pdu_type:?}");
    }
}

#[test]
fn identifiers_change_when_a_slot_is_used_again() {
    let mut pair = Pair::new(host(Digests::NONE), target());
    let mut seen = Vec::new();
    for _ in 0..31 {
        let tag = pair.read(0, 512);
        seen.push(pair.host.engine.cid(tag).unwrap().0);
        pair.run();
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 31);
    assert!(!seen.contains(&0xffff));
}

#[test]
fn large_transfers_take_turns_with_small_ones() {
    let target = TcpTargetConfig { max_c2h_data_bytes: 4096, ..target() };
    let mut pair = Pair::new(host(Digests::NONE), target);
    pair.run();
    let large = pair.read(0, 1 << 20);
    let small = pair.read(0, 512);
    pair.host.flush();
    pair.disk.end.stage(&pair.host.take_wire());
    while pair.disk.step() {}
    pair.run();
    let order: Vec<_> = pair.outcomes.iter().map(|o| o.tag).collect();
    assert_eq!(order, [small, large]);
}

#[test]
fn a_write_without_memory_waits_for_its_fetch() {
    let mut pair =
        Pair::new(TcpHostConfig { in_capsule_bytes: 0, ..host(Digests::NONE) }, target());
    pair.run();
    let tag = pair.write(0, &pattern(4096, 7));
    pair.host.flush();
    let request = pair.host.take_wire();
    pair.disk.end.stage(&request);
    let event = pair.disk.end.next();
    let Next::Event(TcpTargetEvent::Command { tag: theirs, in_capsule_bytes: 0 }) = event else {
        panic!("{event:?}")
    };
    assert_eq!(pair.disk.end.engine.sqe().opcode(), WRITE);
    assert_eq!(pair.disk.end.next(), Next::Starved, "the connection goes on meanwhile");
    assert!(!pair.disk.end.engine.wants_transmit());
    pair.disk.end.engine.fetch(theirs, 4096).unwrap();
    assert!(pair.disk.end.engine.wants_transmit());
    pair.disk.end.memory(theirs, 4096);
    pair.disk.end.flush();
    pair.host.stage(&pair.disk.end.take_wire());
    pair.run_host();
    pair.host.flush();
    pair.disk.end.stage(&pair.host.take_wire());
    assert_eq!(pair.disk.end.next(), Next::Event(TcpTargetEvent::DataArrived { tag: theirs }));
    assert_eq!(pair.disk.end.memory[theirs.index()], pattern(4096, 7));
    assert!(pair.host.engine.cid(tag).is_some());
}
