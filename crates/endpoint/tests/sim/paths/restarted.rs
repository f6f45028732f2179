//! A disk of an iSCSI target that restarts while the session goes on: a unit attention reports it.

use super::cached::Cached;
use super::rig::{BLOCK, Rig, S, only_writer};
use crate::sim::protocols::Protocol;
use crate::sim::scene::{NQN, options, run_ops};
use weft_block::path::PathState;
use weft_block::{Op, OpKind, Outcome};
use weft_endpoint::inventory::NamespaceConfig;
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_proto::nvme::types::{Nqn, Nsid};

/// A rig with one iSCSI target, which serves a disk with a cache.
fn rig(options: ConnectOptions) -> (Rig, Cached) {
    let disk = Cached::default();
    let mut rig = Rig::over_with(Protocol::Iscsi, options, disk.device());
    let first = rig.read(0);
    rig.succeed(first);
    (rig, disk)
}

/// Loses the cache and has the target tell by 29h/00h that the disk was started anew: it takes the
/// logical unit away and brings it back.
fn restart(rig: &mut Rig, disk: &Cached) {
    let nqn = Nqn::new(NQN).unwrap();
    let inventory = &rig.scene.inventory;
    inventory.change(|builder| builder.remove_namespace(&nqn, Nsid(1)).map(drop)).unwrap();
    disk.lose();
    let config = NamespaceConfig::new(disk.device());
    inventory.change(|builder| builder.add_namespace(&nqn, Nsid(1), config).map(drop)).unwrap();
}

fn paths(unflushed_bytes: usize) -> ConnectOptions {
    ConnectOptions { paths: PathOptions { unflushed_bytes, ..only_writer() }, ..options() }
}

#[test]
fn completed_writes_are_written_again_before_the_next_flush_or_read() {
    for first in [OpKind::Flush, OpKind::Read] {
        let (mut rig, disk) = rig(paths(1 << 20));
        for (lba, value) in [(1, 1), (2, 2), (1, 3)] {
            let write = rig.write(lba, value);
            rig.succeed(write);
        }
        restart(&mut rig, &disk);
        assert_eq!((disk.value(1), disk.value(2)), (0, 0), "the cache is lost");
        // Several are under way when the first of them hears of it.
        let ops: Vec<u64> = (0..8).map(|_| rig.submit(first, 1, 0)).collect();
        for op in &ops {
            rig.succeed(*op);
        }
        if first == OpKind::Read {
            assert!(ops.iter().all(|read| rig.value(*read) == 3));
            let flush = rig.submit(OpKind::Flush, 0, 0);
            rig.succeed(flush);
        }
        disk.lose();
        assert_eq!(
            (disk.value(1), disk.value(2)),
            (3, 2),
            "a flush that succeeds covers them: {first:?}"
        );
        assert_eq!(rig.paths()[0].reconnects, 1);
        rig.close();
        rig.scene.settle(60 * S);
    }
}

#[test]
fn an_idle_device_hears_of_it_without_being_used() {
    let (mut rig, disk) = rig(paths(1 << 20));
    let write = rig.write(1, 7);
    rig.succeed(write);
    restart(&mut rig, &disk);
    assert!(rig.until(60 * S, |_| disk.value(1) == 7), "a look at the idle disk hears of it");
    rig.close();
}

#[test]
fn where_more_was_lost_than_is_kept_the_next_flush_fails_once() {
    let (mut rig, disk) = rig(paths(2048));
    for n in 0..6 {
        let write = rig.write(n, n as u8 + 1);
        rig.succeed(write);
    }
    restart(&mut rig, &disk);
    let flush = rig.submit(OpKind::Flush, 0, 0);
    let (outcome, _) = rig.wait(flush);
    assert!(!outcome.is_success(), "it would hide the loss: {outcome:?}");
    let again = rig.submit(OpKind::Flush, 0, 0);
    rig.succeed(again);
    rig.close();
}

#[test]
fn what_the_target_tells_each_new_session_is_no_restart() {
    for sessions in [1, 4] {
        let (mut rig, disk) = rig(ConnectOptions { nr_io_queues: sessions, ..paths(1 << 20) });
        let write = rig.write(1, 7);
        rig.succeed(write);
        if sessions > 1 {
            // A queue on a session that has executed nothing yet.
            let (on, device) = (rig.scene.io_loop(0), rig.device.clone().unwrap());
            let read =
                Op::new(OpKind::Read, 1, 1, 0, [on.pool().take(BLOCK).unwrap().into()].into());
            let done = run_ops(&mut rig.scene.world, &on, device.as_ref(), vec![read]);
            assert_eq!((done[0].outcome, done[0].op.data[0][0]), (Outcome::SUCCESS, 7));
        }
        rig.run_for(5 * S);
        let path = rig.paths().remove(0);
        assert_eq!((path.state, path.reconnects), (PathState::Live, 0), "{sessions} sessions");
        assert_eq!(disk.value(1), 7);
        rig.close();
    }
}
