//! Tables of commands without a connection.

use super::*;
use weft_block::ReserveAction;
use weft_proto::nvme_tcp::{HostConnection, TcpHostConfig};

pub(in crate::source::nvme) fn namespace() -> RemoteNamespace {
    RemoteNamespace {
        nsid: weft_proto::nvme::types::Nsid(1),
        blocks: 1000,
        block_bytes: 512,
        uuid: None,
        nguid: None,
        eui64: None,
        shared: false,
        write_protected: false,
        volatile_cache: false,
        deallocated_reads_zero: false,
        transfer_blocks_max: 128,
        atomic_write_blocks: 1,
        atomic_power_fail_blocks: 1,
        preferred_write_blocks: 1,
        boundary_blocks: 0,
        compare: true,
        compare_and_write_blocks_max: 1,
        write_zeroes: None,
        reservations: true,
        reservations_persist: true,
        deallocate: None,
        identify: Box::default(),
    }
}

/// A table with a fused pair under way, and the tags of its halves.
fn pair() -> (Table, HostConnection, [Tag; 2]) {
    let (mut table, mut engine) =
        (Table::new(namespace(), 8), HostConnection::new(TcpHostConfig::default()));
    let op = Op::bare(OpKind::CompareAndWrite { fua: false }, 0, 1, 7);
    assert!(table.offer(&mut engine, Time::ZERO, op).is_none());
    (table, engine, [Tag(0), Tag(1)])
}

/// Whoever was told that a command is overdue waits to hear that it has ended, and resets the
/// controller otherwise.
#[test]
fn an_overdue_pair_is_reported_as_ended_whichever_half_ends_first() {
    for write_first in [true, false] {
        let (mut table, mut engine, [compare, write]) = pair();
        let now = Time::ZERO + core::time::Duration::from_secs(3);
        assert_eq!(table.next_overdue(now), Some(write));
        let overdue = CommandEngine::cid(&engine, write).unwrap();
        for tag in if write_first { [write, compare] } else { [compare, write] } {
            assert!(table.recovered.is_empty());
            let cqe =
                Cqe::new(CommandEngine::cid(&engine, tag).unwrap(), NvmeStatus::ABORT_REQUESTED);
            table.response(&mut engine, now, tag, cqe, 0);
        }
        assert_eq!(
            (table.recovered.as_slice(), table.running(), table.done.len()),
            (&[overdue][..], 0, 1)
        );
    }
}

/// It may be sent again, elsewhere: neither half was executed.
#[test]
fn a_pair_whose_write_could_not_be_sent_has_not_been_executed() {
    for write_first in [true, false] {
        let (mut table, mut engine, [compare, write]) = pair();
        let answers =
            [(compare, NvmeStatus::MISSING_FUSED), (write, NvmeStatus::HOST_PATHING_ERROR)];
        for index in if write_first { [1, 0] } else { [0, 1] } {
            let (tag, status) = answers[index];
            let cqe = Cqe::new(CommandEngine::cid(&engine, tag).unwrap(), status);
            table.response(&mut engine, Time::ZERO, tag, cqe, 0);
        }
        let ended: Vec<_> = table.done.drain(..).map(|it| it.outcome.status().kind).collect();
        assert_eq!(ended, [StatusKind::Path]);
    }
}

/// Two blocks are more than the controller compares and writes at once: half of it might be done.
#[test]
fn a_compare_and_write_that_would_be_torn_is_not_sent() {
    let (mut table, mut engine) =
        (Table::new(namespace(), 8), HostConnection::new(TcpHostConfig::default()));
    let op = Op::bare(OpKind::CompareAndWrite { fua: false }, 0, 2, 7);
    assert!(table.offer(&mut engine, Time::ZERO, op).is_none());
    assert_eq!((engine.outstanding(), table.running()), (0, 0));
    let outcomes: Vec<_> =
        table.done.drain(..).map(|done| done.op.done(done.outcome).outcome.status().kind).collect();
    assert_eq!(outcomes, [StatusKind::Invalid]);
}

/// A controller refuses to register a host that has another key; then that is replaced. A second
/// refusal is the outcome.
#[test]
fn whoever_is_registered_already_replaces_the_key() {
    let (mut table, mut engine) =
        (Table::new(namespace(), 8), HostConnection::new(TcpHostConfig::default()));
    let register = OpKind::Reserve(ReserveAction::Register { key: 5 });
    assert!(table.offer(&mut engine, Time::ZERO, Op::bare(register, 0, 0, 7)).is_none());
    assert_eq!(table.memory(Tag(0), 8, 8), Some(&[5, 0, 0, 0, 0, 0, 0, 0][..]));
    for (ended, tag) in [(0, Tag(0)), (1, Tag(1))] {
        assert_eq!((table.done.len(), table.running()), (0, 1));
        let cid = CommandEngine::cid(&engine, tag).unwrap();
        table.response(
            &mut engine,
            Time::ZERO,
            tag,
            Cqe::new(cid, NvmeStatus::RESERVATION_CONFLICT),
            0,
        );
        assert_eq!(table.done.len(), ended);
    }
    let outcomes: Vec<_> =
        table.done.drain(..).map(|done| done.op.done(done.outcome).outcome.status().kind).collect();
    assert_eq!(outcomes, [StatusKind::ReservationConflict]);
}

/// Whoever asked for a command to be aborted waits to hear that it has ended.
#[test]
fn a_cancelled_command_is_reported_as_ended() {
    for user in [7, 8] {
        let (mut table, mut engine) =
            (Table::new(namespace(), 8), HostConnection::new(TcpHostConfig::default()));
        assert!(table.offer(&mut engine, Time::ZERO, Op::bare(OpKind::Flush, 0, 0, 7)).is_none());
        let cancelled = table.find(user);
        assert_eq!(cancelled.is_some(), user == 7);
        let cid = CommandEngine::cid(&engine, Tag(0)).unwrap();
        table.response(
            &mut engine,
            Time::ZERO,
            Tag(0),
            Cqe::new(cid, NvmeStatus::ABORT_REQUESTED),
            0,
        );
        let expected = if user == 7 { vec![cid] } else { Vec::new() };
        assert_eq!((&table.recovered, table.running()), (&expected, 0));
    }
}
