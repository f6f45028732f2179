//! Nothing passes while unflushed writes are written again, however long that takes.

use super::cached::Cached;
use super::rig::{Rig, only_writer};
use crate::sim::protocols::{PROTOCOLS, Protocol};
use weft_block::{OpKind, StatusKind};
use weft_endpoint::PathOptions;
use weft_endpoint::limits::REPLAY_ATTEMPTS;

/// A rig whose target has lost two writes of block 1 and one of block 2, and is away.
fn rig(protocol: Protocol, paths: PathOptions) -> (Rig, Cached) {
    let disk = Cached::default();
    let mut rig = Rig::over(protocol, paths, disk.device());
    for (lba, value) in [(1, 1), (2, 2), (1, 3)] {
        let write = rig.write(lba, value);
        rig.succeed(write);
    }
    rig.kill_target();
    disk.lose();
    (rig, disk)
}

/// How a read and a flush end that are submitted while the target comes back and refuses so many
/// writes; and how the next flush does.
fn flushed(protocol: Protocol, refused: usize, kind: StatusKind) -> (u8, [bool; 2]) {
    let (mut rig, disk) = rig(protocol, only_writer());
    disk.refuse(refused, kind);
    let (read, flush) = (rig.read(1), rig.submit(OpKind::Flush, 0, 0));
    rig.start_target(disk.device());
    rig.wait(read);
    let (outcome, _) = rig.wait(flush);
    assert_eq!(disk.to_refuse(), 0, "nothing is answered before all is written again, or given up");
    let again = rig.submit(OpKind::Flush, 0, 0);
    let (second, _) = rig.wait(again);
    let value = rig.value(read);
    rig.close();
    (value, [outcome, second].map(|outcome| outcome.is_success()))
}

#[test]
fn writing_again_is_tried_until_it_succeeds() {
    for protocol in PROTOCOLS {
        // The first attempt ends both writes.
        let refused = REPLAY_ATTEMPTS as usize - 1;
        assert_eq!(
            flushed(protocol, refused, StatusKind::Media),
            (3, [true, true]),
            "{protocol:?}"
        );
    }
}

#[test]
fn data_that_is_refused_each_time_is_lost_and_the_next_flush_tells() {
    for protocol in PROTOCOLS {
        // Both writes are refused, in each attempt. Whatever a later attempt brings back, the flush
        // has to tell.
        let refused = REPLAY_ATTEMPTS as usize * 2;
        assert_eq!(flushed(protocol, refused, StatusKind::Media).1, [false, true], "{protocol:?}");
    }
}

#[test]
fn a_path_without_access_is_no_refusal() {
    let refused = REPLAY_ATTEMPTS as usize * 4;
    assert_eq!(flushed(Protocol::NvmeTcp, refused, StatusKind::Path), (3, [true, true]));
}

#[test]
fn every_flush_that_waits_tells_of_a_loss() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, PathOptions { unflushed_bytes: 512, ..only_writer() });
        let waiting = [(); 3].map(|()| rig.submit(OpKind::Flush, 0, 0));
        rig.start_target(disk.device());
        for flush in waiting {
            let (outcome, _) = rig.wait(flush);
            assert!(!outcome.is_success(), "{protocol:?}: its submitter knows of no other flush");
        }
        let next = rig.submit(OpKind::Flush, 0, 0);
        rig.succeed(next);
        rig.close();
    }
}

#[test]
fn a_disk_that_another_host_has_reserved_meanwhile_can_be_read() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, only_writer());
        disk.refuse(usize::MAX, StatusKind::ReservationConflict);
        let (read, flush) = (rig.read(1), rig.submit(OpKind::Flush, 0, 0));
        rig.start_target(disk.device());
        rig.succeed(read);
        assert!(!rig.wait(flush).0.is_success(), "{protocol:?}: what was written before is lost");
        let again = rig.submit(OpKind::Flush, 0, 0);
        rig.succeed(again);
        // Nothing of it is written when the reservation is gone.
        disk.refuse(0, StatusKind::Success);
        rig.kill_target();
        disk.lose();
        rig.start_target(disk.device());
        let read = rig.read(1);
        rig.succeed(read);
        assert_eq!(rig.value(read), 0);
        rig.close();
    }
}
