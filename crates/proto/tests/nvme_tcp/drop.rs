//! Commands that a target gives up while their data is awaited.

use super::write;
use crate::support::raw::Raw;
use crate::support::{ConnectionEnd, Next};
use core::time::Duration;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sgl;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::violation::Violation;
use weft_proto::nvme_tcp::{TcpTargetConfig, TcpTargetConnection, TcpTargetEvent};
use weft_proto::stream::{StreamEngine, Tag};

const ENTRIES: u16 = 3;

fn target(digests: Digests) -> ConnectionEnd<TcpTargetConnection> {
    let config = TcpTargetConfig {
        queue_entries: ENTRIES,
        max_r2t_bytes: 4096,
        r2t_outstanding: 2,
        ..TcpTargetConfig::default()
    };
    let mut end = ConnectionEnd::new(TcpTargetConnection::new(config));
    end.stage(&Raw::ic(0, 0, 0, digests.encode(), 7).bytes());
    assert!(matches!(end.next(), Next::Event(TcpTargetEvent::Ready(_))));
    end.flush();
    end.take_wire();
    end
}

fn take_command(end: &mut ConnectionEnd<TcpTargetConnection>) -> Tag {
    match end.next() {
        Next::Event(TcpTargetEvent::Command { tag, .. }) => tag,
        other => panic!("{other:?}"),
    }
}

/// A write of 8 KiB whose two R2Ts are outstanding.
fn begin(
    end: &mut ConnectionEnd<TcpTargetConnection>,
    digests: Digests,
    cid: u16,
) -> (Tag, [u16; 2]) {
    end.stage(&Raw::capsule(&write(cid, Sgl::transport(8192))).sealed(digests));
    let tag = take_command(end);
    end.engine.fetch(tag, 8192).unwrap();
    end.memory(tag, 8192);
    end.flush();
    let wire = end.take_wire();
    let size = wire.len() / 2;
    (tag, [0, size].map(|at| u16::from_le_bytes([wire[at + 10], wire[at + 11]])))
}

fn data(cid: u16, ttag: u16, offset: u32, digests: Digests) -> Vec<u8> {
    Raw::transfer(6, cid, ttag, offset, 4096).flags(4).data(&[0x11; 4096]).sealed(digests)
}

fn drop_pending(end: &mut ConnectionEnd<TcpTargetConnection>) -> Vec<Tag> {
    let mut dropped = Vec::new();
    end.engine.drop_pending(|tag| dropped.push(tag));
    dropped
}

/// The target still takes exactly as many commands as its queue has entries.
fn all_slots_are_free(end: &mut ConnectionEnd<TcpTargetConnection>, digests: Digests) {
    for cid in 0..ENTRIES {
        end.stage(&Raw::capsule(&write(cid, Sgl::transport(4))).sealed(digests));
        take_command(end);
    }
    end.stage(&Raw::capsule(&write(ENTRIES, Sgl::transport(4))).sealed(digests));
    assert_eq!(end.next(), Next::Closed);
    assert_eq!(end.engine.violation(), Some(Violation::QueueOverrun));
}

#[test]
fn data_of_a_dropped_command_passes_without_touching_its_memory() {
    for digests in [Digests::NONE, Digests::BOTH] {
        let mut end = target(digests);
        let (tag, ttags) = begin(&mut end, digests, 5);
        assert_eq!(drop_pending(&mut end), [tag]);
        assert_eq!(drop_pending(&mut end), []);
        end.memory(tag, 0);
        end.stage(&data(5, ttags[0], 0, digests));
        end.stage(&data(5, ttags[1], 4096, digests));
        assert_eq!(end.next(), Next::Starved);
        assert!(!end.engine.wants_transmit(), "a dropped command is not answered");
        all_slots_are_free(&mut end, digests);
    }
}

#[test]
fn a_command_that_is_dropped_in_the_middle_of_its_data_reports_when_that_has_passed() {
    for digests in [Digests::NONE, Digests::BOTH] {
        let mut end = target(digests);
        let (tag, ttags) = begin(&mut end, digests, 5);
        let pdu = data(5, ttags[0], 0, digests);
        end.stage(&pdu[..100]);
        assert_eq!(end.next(), Next::Starved);
        assert_eq!(drop_pending(&mut end), []);
        end.stage(&pdu[100..]);
        assert_eq!(end.next(), Next::Event(TcpTargetEvent::Dropped { tag }));
        end.memory(tag, 0);
        end.stage(&data(5, ttags[1], 4096, digests));
        assert_eq!(end.next(), Next::Starved);
        all_slots_are_free(&mut end, digests);
    }
}

#[test]
fn r2ts_that_were_not_sent_are_not_sent_any_more() {
    let mut end = target(Digests::NONE);
    end.stage(&Raw::capsule(&write(5, Sgl::transport(8192))).bytes());
    let tag = take_command(&mut end);
    end.engine.fetch(tag, 8192).unwrap();
    assert_eq!(drop_pending(&mut end), [tag]);
    end.flush();
    assert!(end.wire.is_empty());
    all_slots_are_free(&mut end, Digests::NONE);
}

#[test]
fn data_in_the_capsule_of_a_dropped_command_is_thrown_away() {
    for digests in [Digests::NONE, Digests::BOTH] {
        let mut end = target(digests);
        let capsule =
            Raw::capsule(&write(5, Sgl::in_capsule(4096))).data(&[1; 4096]).sealed(digests);
        for dropped_at in [0, 200] {
            end.stage(&capsule[..80]);
            let tag = take_command(&mut end);
            end.engine.fetch(tag, 4096).unwrap();
            end.memory(tag, 4096);
            if dropped_at == 0 {
                assert_eq!(drop_pending(&mut end), [tag]);
                end.memory(tag, 0);
            }
            end.stage(&capsule[80..200]);
            assert_eq!(end.next(), Next::Starved);
            if dropped_at == 200 {
                assert_eq!(drop_pending(&mut end), []);
            }
            end.stage(&capsule[200..]);
            let expected = if dropped_at == 200 {
                Next::Event(TcpTargetEvent::Dropped { tag })
            } else {
                Next::Starved
            };
            assert_eq!(end.next(), expected);
        }
        all_slots_are_free(&mut end, digests);
    }
}

#[test]
fn a_command_that_is_held_can_be_abandoned() {
    let mut end = target(Digests::NONE);
    for _ in 0..10 {
        end.stage(&Raw::capsule(&write(1, Sgl::in_capsule(64))).data(&[1; 64]).bytes());
        let tag = take_command(&mut end);
        assert!(
            drop_pending(&mut end).is_empty(),
            "only commands whose data is awaited are dropped"
        );
        assert!(end.engine.abandon(tag));
    }
    end.flush();
    assert!(end.wire.is_empty());
    all_slots_are_free(&mut end, Digests::NONE);
}

#[test]
fn an_answer_that_is_being_sent_is_not_abandoned() {
    let mut end = target(Digests::NONE);
    end.stage(&Raw::capsule(&write(1, Sgl::transport(64))).bytes());
    let tag = take_command(&mut end);
    end.engine.complete(tag, Cqe::new(Cid(1), Status::SUCCESS), 0);
    assert!(end.engine.abandon(tag));
    end.flush();
    assert_eq!(end.wire.len(), 24);
    all_slots_are_free(&mut end, Digests::NONE);
}

/// A fetch refuses an SGL that does not describe the data.
#[test]
fn fetch_checks_the_sgl() {
    let moved = Sgl { address: 64, length: 512, identifier: Sgl::IN_CAPSULE };
    let cases: [(Sgl, usize, u32, Result<(), Status>); 8] = [
        (Sgl::transport(512), 0, 512, Ok(())),
        (Sgl::transport(1024), 0, 512, Ok(())),
        (Sgl::transport(512), 0, 1024, Err(Status::DATA_SGL_LENGTH_INVALID)),
        (Sgl::transport(64 << 20), 0, 64 << 20, Err(Status::INVALID_FIELD)),
        (Sgl::in_capsule(512), 512, 512, Ok(())),
        (Sgl::in_capsule(512), 512, 256, Err(Status::DATA_SGL_LENGTH_INVALID)),
        (Sgl::in_capsule(512), 0, 512, Err(Status::SGL_OFFSET_INVALID)),
        (moved, 512, 512, Err(Status::SGL_OFFSET_INVALID)),
    ];
    for (sgl, in_capsule, wanted, result) in cases {
        let mut end = target(Digests::NONE);
        end.stage(&Raw::capsule(&write(1, sgl)).data(&vec![0; in_capsule]).bytes());
        let tag = take_command(&mut end);
        assert_eq!(
            end.engine.fetch(tag, wanted),
            result,
            "{sgl:?}, {in_capsule} in the capsule, {wanted} wanted"
        );
    }
    let mut end = target(Digests::NONE);
    end.stage(&Raw::capsule(&write(1, Sgl::in_capsule(512))).data(&[0; 512]).bytes());
    let tag = take_command(&mut end);
    end.engine.ignore_data(tag);
    assert_eq!(end.next(), Next::Starved);
    assert_eq!(end.engine.fetch(tag, 512), Err(Status::SGL_OFFSET_INVALID), "the data has gone");
}

#[test]
fn a_host_without_an_accepted_connect_is_given_up() {
    let limit = Duration::from_secs(10);
    let slow = || {
        TcpTargetConnection::new(TcpTargetConfig {
            connect_limit: limit,
            ..TcpTargetConfig::default()
        })
    };
    let mut engine = slow();
    engine.tick(limit);
    assert_eq!(engine.deadline(), Some(2 * limit));
    engine.tick(2 * limit);
    assert!(engine.is_closed() && !engine.wants_transmit());
    assert_eq!(
        (engine.violation(), engine.deadline()),
        (Some(Violation::ConnectLate(limit)), None)
    );
    // One whose Connect was accepted may take its time.
    let mut engine = slow();
    engine.tick(limit);
    engine.set_queue_entries(32);
    engine.tick(9 * limit);
    assert!(!engine.is_closed() && engine.deadline().is_none());
}
