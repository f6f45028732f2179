//! Whatever a peer sends, an engine neither panics nor stalls nor lets it reach memory that it was
//! not granted; and whatever commands are submitted under whatever configuration, they arrive
//! whole.

use crate::support::pair::{FAIL, FEATURE, Pair, READ, WRITE, command};
use crate::support::raw::Raw;
use crate::support::{ConnectionEnd, Next};
use proptest::collection::vec;
use proptest::prelude::*;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::{
    HostConnection, HostData, TcpHostConfig, TcpHostEvent, TcpTargetConfig, TcpTargetConnection,
    TcpTargetEvent,
};
use weft_proto::stream::{StreamEngine, Tag};

fn digests() -> impl Strategy<Value = Digests> {
    (any::<bool>(), any::<bool>()).prop_map(|(header, data)| Digests { header, data })
}

fn sgl() -> impl Strategy<Value = Sgl> {
    let identifier =
        prop_oneof![4 => Just(Sgl::TRANSPORT), 3 => Just(Sgl::IN_CAPSULE), 1 => any::<u8>()];
    (
        prop_oneof![9 => Just(0), 1 => any::<u64>()],
        prop_oneof![9 => 0..64u32, 1 => any::<u32>()],
        identifier,
    )
        .prop_map(|(address, length, identifier)| Sgl { address, length, identifier })
}

fn small(limit: u32) -> impl Strategy<Value = u32> {
    prop_oneof![9 => (0..limit / 4).prop_map(|n| n * 4), 1 => any::<u32>()]
}

/// A PDU that may be right, nearly right, or wrong in any field.
fn pdu() -> impl Strategy<Value = Raw> {
    let cid =
        prop_oneof![4 => 0..4u16, 4 => (0..4u16).prop_map(|tag| 1 << 10 | tag), 1 => any::<u16>()];
    let ttag =
        prop_oneof![4 => 0..4u16, 4 => (0..4u16).prop_map(|tag| 1 << 10 | tag), 1 => any::<u16>()];
    let transfer = (prop_oneof![Just(6u8), Just(7), Just(9)], cid, ttag, small(64), small(64))
        .prop_map(|(pdu_type, cid, ttag, offset, bytes)| {
            Raw::transfer(pdu_type, cid, ttag, offset, bytes)
        });
    let capsule = (0..4u16, sgl(), any::<u8>()).prop_map(|(cid, sgl, opcode)| {
        let mut sqe = command(opcode, 0);
        sqe.set_cid(Cid(cid));
        sqe.set_sgl(sgl);
        Raw::capsule(&sqe)
    });
    let response = (any::<[u8; 8]>(), prop_oneof![3 => 0..4u16, 1 => any::<u16>()], any::<u16>())
        .prop_map(|(result, cid, status)| {
            let cqe = Cqe {
                result: u64::from_le_bytes(result),
                ..Cqe::new(Cid(1 << 10 | cid), Status(status & 1))
            };
            Raw::new(5, &cqe.encode())
        });
    let other = (any::<u8>(), vec(any::<u8>(), 0..130))
        .prop_map(|(pdu_type, specific)| Raw::new(pdu_type, &specific));
    let header = prop_oneof![6 => transfer, 4 => capsule, 2 => response, 1 => other];
    let spoilt = |strategy: BoxedStrategy<u8>| proptest::option::weighted(0.03, strategy);
    let flags = prop_oneof![4 => Just(0u8), 2 => Just(4), 1 => Just(12), 1 => any::<u8>()];
    let lengths = (
        spoilt(any::<u8>().boxed()),
        spoilt(any::<u8>().boxed()),
        proptest::option::weighted(0.03, 0..400u32),
    );
    (header, flags, lengths, 0..3usize, any::<bool>(), small(64)).prop_map(
        |(raw, flags, (hlen, pdo, plen), pad, filled, len)| {
            let named = u32::from_le_bytes(
                raw.specific.get(8..12).map_or([0; 4], |b| b.try_into().unwrap()),
            );
            let len = if raw.specific.len() == 16 && filled { named } else { len };
            Raw {
                flags,
                hlen,
                pdo,
                plen,
                padding: pad * 4,
                data: vec![0x77; len.min(200) as usize],
                ..raw
            }
        },
    )
}

/// Act of the layer above a target on a command.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Fetch,
    Ignore,
    Complete(u32),
    Hold,
    Abandon,
    DropAll,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => Just(Deed::Fetch),
        1 => Just(Deed::Ignore),
        3 => (0..80u32).prop_map(Deed::Complete),
        2 => Just(Deed::Hold),
        1 => Just(Deed::Abandon),
        1 => Just(Deed::DropAll),
    ]
}

fn act(end: &mut ConnectionEnd<TcpTargetConnection>, deed: Deed, tag: Tag, sqe: &Sqe) {
    match deed {
        Deed::Fetch => match end.engine.fetch(tag, sqe.sgl().length) {
            Ok(()) => drop(end.memory(tag, sqe.sgl().length as usize)),
            Err(status) => end.engine.complete(tag, Cqe::refuse(sqe.cid(), status), 0),
        },
        Deed::Ignore => end.engine.ignore_data(tag),
        Deed::Complete(bytes) => {
            end.memory(tag, bytes as usize);
            end.engine.complete(tag, Cqe::new(sqe.cid(), Status::SUCCESS), bytes);
        }
        Deed::Hold => {}
        Deed::Abandon => drop(end.engine.abandon(tag)),
        Deed::DropAll => {
            end.engine.abandon(tag);
            let mut dropped = Vec::new();
            end.engine.drop_pending(|tag| dropped.push(tag));
            dropped.into_iter().for_each(|tag| end.memory(tag, 0).clear());
        }
    }
}

/// Feeds `stream` to a target in pieces; returns whether it still lives.
fn drive_target(
    end: &mut ConnectionEnd<TcpTargetConnection>,
    stream: &[u8],
    piece: usize,
    deeds: &[Deed],
) -> bool {
    let mut deeds = deeds.iter().cycle();
    for piece in stream.chunks(piece) {
        end.stage(piece);
        loop {
            match end.next() {
                Next::Event(TcpTargetEvent::Command { tag, .. }) => {
                    let sqe = *end.engine.sqe();
                    act(end, *deeds.next().unwrap(), tag, &sqe);
                }
                Next::Event(
                    TcpTargetEvent::DataArrived { tag } | TcpTargetEvent::DataFailed { tag },
                ) => {
                    end.engine.complete(tag, Cqe::new(Cid(0), Status::SUCCESS), 0);
                }
                Next::Event(_) => {}
                Next::Starved => break,
                Next::Closed => {
                    end.flush();
                    return false;
                }
            }
        }
        end.flush();
    }
    true
}

fn open_target(digests: Digests, r2t_outstanding: u8) -> ConnectionEnd<TcpTargetConnection> {
    let config = TcpTargetConfig {
        queue_entries: 4,
        max_r2t_bytes: 16,
        max_c2h_data_bytes: 32,
        r2t_outstanding,
        max_data_bytes: 4096,
        ..TcpTargetConfig::default()
    };
    let mut end = ConnectionEnd::with_part_limit(TcpTargetConnection::new(config), 4);
    end.stage(&Raw::ic(0, 0, 0, digests.encode(), 7).bytes());
    assert!(drive_target(&mut end, &[], 1, &[Deed::Hold]));
    assert!(matches!(end.next(), Next::Event(TcpTargetEvent::Ready(_))));
    end.flush();
    end
}

/// Feeds `stream` to a host in pieces.
fn drive_host(end: &mut ConnectionEnd<HostConnection>, stream: &[u8], piece: usize) {
    for piece in stream.chunks(piece) {
        end.stage(piece);
        loop {
            match end.next() {
                Next::Event(
                    TcpHostEvent::Response { tag, .. } | TcpHostEvent::DataFailed { tag, .. },
                ) => {
                    end.memory(tag, 0);
                    end.engine.release(tag);
                }
                Next::Event(_) => {}
                Next::Starved => break,
                Next::Closed => return end.flush(),
            }
        }
        end.flush();
    }
}

/// A host with commands of all kinds.
fn open_host(digests: Digests) -> ConnectionEnd<HostConnection> {
    let config = TcpHostConfig {
        digests,
        queue_entries: 4,
        in_capsule_bytes: 16,
        r2t_outstanding: 2,
        ..TcpHostConfig::default()
    };
    let mut end = ConnectionEnd::with_part_limit(HostConnection::new(config), 4);
    end.stage(&Raw::ic(1, 0, 0, digests.encode(), 4096).bytes());
    for data in [HostData::In(48), HostData::Out(60), HostData::Out(8), HostData::None] {
        let tag = end.engine.submit(command(READ, 0), data).unwrap();
        let (HostData::In(len) | HostData::Out(len)) = data else { continue };
        end.memory(tag, len as usize);
    }
    assert!(matches!(end.next(), Next::Event(TcpHostEvent::Ready(_))));
    end.flush();
    end
}

proptest! {
    #![proptest_config(weft_testing::properties!(512))]

    #[test]
    fn any_bytes_do_a_target_no_harm(bytes in vec(any::<u8>(), 0..400), piece in 1..64usize, fresh in any::<bool>(), digests in digests()) {
        let mut end = if fresh { ConnectionEnd::new(TcpTargetConnection::new(TcpTargetConfig::default())) } else { open_target(digests, 2) };
        drive_target(&mut end, &bytes, piece, &[Deed::Fetch]);
    }

    #[test]
    fn any_bytes_do_a_host_no_harm(bytes in vec(any::<u8>(), 0..400), piece in 1..64usize, fresh in any::<bool>(), digests in digests()) {
        let mut end = if fresh { ConnectionEnd::new(HostConnection::new(TcpHostConfig::default())) } else { open_host(digests) };
        drive_host(&mut end, &bytes, piece);
    }

    #[test]
    fn any_pdus_do_a_target_no_harm(
        pdus in vec(pdu(), 1..24), piece in 1..200usize, deeds in vec(deed(), 1..8), digests in digests(), windows in 1..4u8,
    ) {
        let mut end = open_target(digests, windows);
        for raw in pdus {
            if !drive_target(&mut end, &raw.sealed(digests), piece, &deeds) {
                break;
            }
        }
    }

    #[test]
    fn any_pdus_do_a_host_no_harm(pdus in vec(pdu(), 1..24), piece in 1..200usize, digests in digests()) {
        let mut end = open_host(digests);
        for raw in pdus {
            drive_host(&mut end, &raw.sealed(digests), piece);
        }
    }
}

/// Commands of a valid session: opcode and length.
fn session() -> impl Strategy<Value = Vec<(u8, u32)>> {
    let len = prop_oneof![3 => 1..2000u32, 2 => 2000..20_000u32, 1 => Just(4096u32)];
    vec(
        (prop_oneof![3 => Just(WRITE), 3 => Just(READ), 1 => Just(FAIL), 1 => Just(FEATURE)], len),
        1..20,
    )
}

prop_compose! {
    fn configs()(
        digests in digests(), allowed in digests(), hpda in 0..32u8, cpda in 0..32u8, host_r2t in 1..9u8, target_r2t in 1..9u8,
        in_capsule in 0..9000u32, h2c in 1024..8192u32, c2h in 1..20_000u32, r2t in 500..20_000u32,
    ) -> (TcpHostConfig, TcpTargetConfig) {
        let host = TcpHostConfig { digests, hpda, r2t_outstanding: host_r2t, in_capsule_bytes: in_capsule, queue_entries: 20 };
        let target = TcpTargetConfig {
            digests: allowed,
            cpda,
            r2t_outstanding: target_r2t,
            in_capsule_bytes: in_capsule,
            max_h2c_data_bytes: h2c * 4,
            max_c2h_data_bytes: c2h,
            max_r2t_bytes: r2t,
            queue_entries: 20,
            ..TcpTargetConfig::default()
        };
        (host, target)
    }
}

/// Place that command `i` reads or writes: each has its own, and reads are apart from writes.
fn place(opcode: u8, i: usize) -> u32 {
    (i as u32) * 20_000 + if opcode == READ { 1 << 20 } else { 0 }
}

proptest! {
    #![proptest_config(weft_testing::properties!(256))]

    #[test]
    fn any_session_arrives_whole(
        (host, target) in configs(), commands in session(), piece in 1..5000usize, success in any::<bool>(), hold in any::<bool>(),
    ) {
        let mut pair = Pair::new(host, target);
        pair.piece = piece;
        pair.disk.end.engine.set_success_flag(success);
        pair.host.hold_releases = hold;
        let mut tags = Vec::new();
        for (i, &(opcode, len)) in commands.iter().enumerate() {
            let at = place(opcode, i);
            let data: Vec<u8> = (0..len).map(|n| (n as u8).wrapping_mul(7).wrapping_add(i as u8)).collect();
            tags.push(match opcode {
                READ => pair.read(at, len),
                FEATURE => pair.host.engine.submit(command(FEATURE, 0), HostData::None).unwrap(),
                _ => pair.out(opcode, at, &data),
            });
        }
        pair.run();
        pair.host.release_held();
        pair.run();
        prop_assert_eq!(pair.host.engine.violation(), None);
        prop_assert_eq!(pair.disk.end.engine.violation(), None);
        prop_assert_eq!(pair.host.engine.outstanding(), 0);
        for (i, (&(opcode, len), &tag)) in commands.iter().zip(&tags).enumerate() {
            let at = place(opcode, i) as usize;
            let outcome = pair.outcome(tag);
            prop_assert_eq!(outcome.cqe.status.is_success(), opcode != FAIL);
            let stored = &pair.disk.store[at..at + len as usize];
            match opcode {
                READ => prop_assert_eq!(&outcome.data[..], stored),
                WRITE => prop_assert!(stored.iter().enumerate().all(|(n, &b)| b == (n as u8).wrapping_mul(7).wrapping_add(i as u8))),
                _ => {}
            }
        }
        prop_assert!(!pair.host.engine.wants_transmit() && !pair.disk.end.engine.wants_transmit());
    }
}
