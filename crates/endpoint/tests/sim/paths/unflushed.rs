//! A target that restarts and loses completed writes that were not flushed.

use super::cached::Cached;
use super::rig::{Rig, only_writer};
use crate::sim::protocols::{PROTOCOLS, Protocol};
use std::time::Duration;
use weft_block::{OpKind, Outcome};
use weft_endpoint::PathOptions;
use weft_io::sim::Cut;

/// A rig whose only target serves a disk with a cache.
fn rig(protocol: Protocol, paths: PathOptions) -> (Rig, Cached) {
    let disk = Cached::default();
    let mut rig = Rig::over(protocol, paths, disk.device());
    let first = rig.read(0);
    rig.succeed(first);
    (rig, disk)
}

fn restart(rig: &mut Rig, disk: &Cached) {
    rig.kill_target();
    disk.lose();
    rig.start_target(disk.device());
}

#[test]
fn completed_writes_are_written_again_in_order_before_anything_else() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, only_writer());
        for (lba, value) in [(1, 1), (2, 2), (1, 3)] {
            let write = rig.write(lba, value);
            rig.succeed(write);
        }
        let durable = rig.submit(OpKind::Write { fua: true }, 2, 4);
        rig.succeed(durable);
        let zeroes = rig.submit(OpKind::WriteZeroes { deallocate: false, fua: false }, 3, 0);
        rig.succeed(zeroes);
        restart(&mut rig, &disk);
        assert_eq!((disk.value(1), disk.value(2)), (0, 4), "the cache is lost");
        let reads = [1, 2, 3].map(|lba| rig.read(lba));
        for (read, value) in reads.into_iter().zip([3, 4, 0]) {
            rig.succeed(read);
            assert_eq!(rig.value(read), value, "{protocol:?}");
        }
        let flush = rig.submit(OpKind::Flush, 0, 0);
        rig.succeed(flush);
        restart(&mut rig, &disk);
        let read = rig.read(1);
        rig.succeed(read);
        assert_eq!(rig.value(read), 3, "it was flushed");
        rig.close();
    }
}

#[test]
fn without_the_log_acknowledged_writes_would_be_lost() {
    let (mut rig, disk) = rig(Protocol::Nbd, PathOptions { unflushed_bytes: 0, ..only_writer() });
    let write = rig.write(1, 1);
    rig.succeed(write);
    restart(&mut rig, &disk);
    let read = rig.read(1);
    rig.succeed(read);
    assert_eq!(rig.value(read), 0, "this is what the log is for");
    rig.close();
}

#[test]
fn what_a_flush_covered_is_not_written_again() {
    let (mut rig, disk) = rig(Protocol::NvmeTcp, only_writer());
    let write = rig.write(1, 1);
    rig.succeed(write);
    let flush = rig.submit(OpKind::Flush, 0, 0);
    rig.succeed(flush);
    restart(&mut rig, &disk);
    let read = rig.read(1);
    rig.succeed(read);
    assert_eq!((rig.value(read), disk.value(1), disk.flushes() > 0), (1, 1, true));
    disk.lose();
    assert_eq!(disk.value(1), 1, "it was not written again since");
    rig.close();
}

#[test]
fn writes_that_were_under_way_are_done_too() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, only_writer());
        let before = rig.write(1, 1);
        rig.succeed(before);
        rig.cut(Cut::Reset);
        let late: Vec<u64> = (0..50).map(|n| rig.write(1 + n % 5, 100 + n as u8)).collect();
        restart(&mut rig, &disk);
        for write in late {
            assert_eq!(rig.wait(write).0, Outcome::SUCCESS);
        }
        for lba in 1..6 {
            let read = rig.read(lba);
            rig.succeed(read);
            assert_eq!(rig.value(read), disk.value(lba), "{protocol:?}");
            assert!(rig.value(read) >= 100);
        }
        rig.close();
    }
}

#[test]
fn where_more_was_lost_than_is_kept_the_next_flush_fails_once() {
    // All NVMe targets of this process are one start.
    for protocol in [Protocol::Iscsi, Protocol::Nbd] {
        let (mut rig, disk) = rig(protocol, PathOptions { unflushed_bytes: 2048, ..only_writer() });
        for n in 0..6 {
            let write = rig.write(n, n as u8 + 1);
            rig.succeed(write);
        }
        restart(&mut rig, &disk);
        let read = rig.read(5);
        rig.succeed(read);
        assert_eq!((rig.value(read), disk.value(0)), (6, 0), "the newest writes are kept");
        let flush = rig.submit(OpKind::Flush, 0, 0);
        let (outcome, _) = rig.wait(flush);
        assert!(!outcome.is_success(), "{protocol:?}: it would hide the loss: {outcome:?}");
        let again = rig.submit(OpKind::Flush, 0, 0);
        rig.succeed(again);
        rig.close();
    }
}

#[test]
fn a_connection_that_breaks_is_no_restart() {
    let (mut rig, disk) =
        rig(Protocol::NvmeTcp, PathOptions { unflushed_bytes: 2048, ..only_writer() });
    for n in 0..6 {
        let write = rig.write(n, n as u8 + 1);
        rig.succeed(write);
    }
    rig.cut(Cut::Reset);
    let flush = rig.submit(OpKind::Flush, 0, 0);
    rig.succeed(flush);
    assert_eq!(disk.value(0), 1);
    rig.close();
}

/// Nothing tells whether an NBD server was started anew, so a connection that breaks counts as
/// that.
#[test]
fn a_connection_of_nbd_that_breaks_is_a_restart() {
    for unflushed_bytes in [0, 2048] {
        let (mut rig, disk) = rig(Protocol::Nbd, PathOptions { unflushed_bytes, ..only_writer() });
        for n in 0..6 {
            let write = rig.write(n, n as u8 + 1);
            rig.succeed(write);
        }
        rig.cut(Cut::Reset);
        let flush = rig.submit(OpKind::Flush, 0, 0);
        let (outcome, _) = rig.wait(flush);
        assert!(
            !outcome.is_success(),
            "{unflushed_bytes} bytes: the server may have lost the first writes: {outcome:?}"
        );
        assert_eq!(disk.value(0), 1, "it has not");
        let again = rig.submit(OpKind::Flush, 0, 0);
        rig.succeed(again);
        rig.cut(Cut::Reset);
        let flush = rig.submit(OpKind::Flush, 0, 0);
        rig.succeed(flush);
        rig.close();
    }
}

/// Wherever its connection breaks, a flush succeeds only if the server had answered it, or all that
/// it covers was written again.
#[test]
fn a_flush_that_is_sent_again_does_not_hide_a_loss() {
    let mut lost = 0;
    for step in 0..40 {
        let (mut rig, disk) =
            rig(Protocol::Nbd, PathOptions { unflushed_bytes: 2048, ..only_writer() });
        for n in 0..6 {
            let write = rig.write(n, n as u8 + 1);
            rig.succeed(write);
        }
        let flush = rig.submit(OpKind::Flush, 0, 0);
        rig.run_for(step * Duration::from_micros(10));
        let was_answered = rig.outcome(flush).is_some();
        restart(&mut rig, &disk);
        let (outcome, _) = rig.wait(flush);
        assert_eq!(outcome.is_success(), was_answered, "after {} µs: {outcome:?}", step * 10);
        lost += u32::from(!was_answered);
        rig.close();
    }
    assert!(lost > 0, "the flush takes some time");
}
