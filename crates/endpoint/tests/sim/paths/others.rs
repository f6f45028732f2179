//! Hosts that are not the only writers of what they write: after a restart of the target they look,
//! and write nothing.

use super::cached::Cached;
use super::rig::{BLOCK, MS, Rig, S, WRITE, only_writer};
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::scene::{options, run_ops};
use std::sync::Arc;
use weft_block::{Device, Op, OpKind, Outcome, StatusKind};
use weft_endpoint::{ConnectOptions, PathOptions};

fn rig(protocol: Protocol, paths: PathOptions) -> (Rig, Cached) {
    let disk = Cached::default();
    let mut rig = Rig::over(protocol, paths, disk.device());
    let first = rig.read(0);
    rig.succeed(first);
    (rig, disk)
}

/// Kills the target and starts another over the same disk, which tells of a restart.
fn restart(rig: &mut Rig, disk: &Cached, is_lost: bool) {
    rig.kill_target();
    if is_lost {
        disk.lose();
    } else {
        disk.keep();
    }
    rig.start_target(disk.device());
}

fn flush(rig: &mut Rig) -> Outcome {
    let flush = rig.submit(OpKind::Flush, 0, 0);
    rig.wait(flush).0
}

/// What a block reads as.
fn read(rig: &mut Rig, lba: u64) -> u8 {
    let read = rig.read(lba);
    rig.succeed(read);
    rig.value(read)
}

/// Another host writes a block and flushes.
fn other_writes(rig: &mut Rig, lba: u64, value: u8) {
    let own = ConnectOptions { paths: PathOptions::default(), ..options() };
    let other = rig.scene.open_url(&rig.protocol.url(), &own).unwrap();
    let on = rig.scene.io_loop(0);
    let mut data = on.pool().take(BLOCK).unwrap();
    data.fill(value);
    let write = Op::new(WRITE, lba, 1, 0, [data.into()].into());
    for op in [write, Op::bare(OpKind::Flush, 0, 0, 1)] {
        let done = run_ops(&mut rig.scene.world, &on, other.as_ref(), vec![op]);
        assert_eq!(done[0].outcome, Outcome::SUCCESS);
        // Its queue is returned.
        rig.run_for(100 * MS);
    }
}

#[test]
fn newer_data_of_another_host_is_not_overwritten() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, PathOptions::default());
        let write = rig.write(5, 1);
        rig.succeed(write);
        other_writes(&mut rig, 5, 2);
        restart(&mut rig, &disk, false);
        assert_eq!(
            (read(&mut rig, 5), disk.value(5)),
            (2, 2),
            "{protocol:?}: the other host has flushed it"
        );
        assert!(
            !flush(&mut rig).is_success(),
            "{protocol:?}: what was written is not there any more"
        );
        assert_eq!(flush(&mut rig), Outcome::SUCCESS, "{protocol:?}: it is told once");
        restart(&mut rig, &disk, false);
        assert_eq!((read(&mut rig, 5), flush(&mut rig)), (2, Outcome::SUCCESS), "{protocol:?}");
        rig.close();
    }
}

#[test]
fn what_the_target_still_has_nobody_notices() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, PathOptions::default());
        for kind in [WRITE, OpKind::WriteZeroes { deallocate: false, fua: false }] {
            let op = rig.submit(kind, 1 + u64::from(kind != WRITE), 7);
            rig.succeed(op);
        }
        restart(&mut rig, &disk, false);
        assert_eq!((read(&mut rig, 1), flush(&mut rig)), (7, Outcome::SUCCESS), "{protocol:?}");
        let write = rig.write(1, 8);
        rig.succeed(write);
        restart(&mut rig, &disk, false);
        assert_eq!(read(&mut rig, 1), 8);
        restart(&mut rig, &disk, true);
        assert_eq!((read(&mut rig, 1), disk.value(1)), (7, 7), "{protocol:?}: nothing is written");
        assert!(!flush(&mut rig).is_success(), "{protocol:?}: it was in the log still");
        rig.close();
    }
}

#[test]
fn what_the_target_has_lost_the_next_flush_tells_once() {
    for protocol in PROTOCOLS {
        for kind in [WRITE, OpKind::WriteZeroes { deallocate: false, fua: false }] {
            let (mut rig, disk) = rig(protocol, PathOptions::default());
            let before = rig.submit(OpKind::Write { fua: true }, 1, 9);
            rig.succeed(before);
            let op = rig.submit(kind, 1, 7);
            rig.succeed(op);
            restart(&mut rig, &disk, true);
            assert_eq!(
                (read(&mut rig, 1), disk.value(1)),
                (9, 9),
                "{protocol:?} {kind:?}: nothing is written"
            );
            let outcomes = [flush(&mut rig), flush(&mut rig)].map(|outcome| outcome.is_success());
            assert_eq!(outcomes, [false, true], "{protocol:?} {kind:?}");
            rig.close();
        }
    }
}

#[test]
fn a_loss_beyond_the_log_and_one_within_it_are_one() {
    let (mut rig, disk) =
        rig(Protocol::Nbd, PathOptions { unflushed_bytes: 2048, ..PathOptions::default() });
    for n in 0..6 {
        let write = rig.write(n, n as u8 + 1);
        rig.succeed(write);
    }
    let waiting = {
        rig.kill_target();
        let flush = rig.submit(OpKind::Flush, 0, 0);
        disk.lose();
        rig.start_target(disk.device());
        flush
    };
    assert!(!rig.wait(waiting).0.is_success());
    assert_eq!(flush(&mut rig), Outcome::SUCCESS);
    rig.close();
}

#[test]
fn overlapping_writes_are_written_again_in_the_order_of_their_execution() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, only_writer());
        disk.hold();
        let writes = [1, 2].map(|value| rig.write(1, value));
        rig.run_for(100 * MS);
        disk.release();
        for write in writes {
            rig.succeed(write);
        }
        assert_eq!(disk.value(1), 2);
        restart(&mut rig, &disk, true);
        assert_eq!(read(&mut rig, 1), 2, "{protocol:?}: a read may have returned it before");
        rig.close();
    }
}

#[test]
fn overlapping_writes_over_a_volatile_cache_go_out_one_after_the_other() {
    for protocol in PROTOCOLS {
        let mut rig = Rig::new(protocol, PathOptions::default());
        rig.knobs[0].freeze(true);
        let mut writes: Vec<u64> =
            [(1, 1), (1, 2), (2, 3), (1, 4)].map(|(lba, value)| rig.write(lba, value)).into();
        rig.run_for(100 * MS);
        assert_eq!(rig.knobs[0].held(), 2, "{protocol:?}: block 2 does not wait for block 1");
        // What waits can be cancelled, and holds nothing back then.
        let cancelled = writes.remove(1);
        rig.cancel(cancelled);
        assert!(!rig.wait(cancelled).0.is_success());
        rig.knobs[0].freeze(false);
        for write in writes {
            rig.succeed(write);
        }
        assert_eq!((rig.stored(1), rig.stored(2)), (4, 3));
        rig.close();
    }
}

/// A write that is acknowledged and not flushed, and one over it whose answer is lost with the
/// target's process.
fn restart_below_a_write(rig: &mut Rig, disk: &Cached, is_lost: bool) -> u64 {
    let write = rig.write(5, 1);
    rig.succeed(write);
    disk.hold();
    let second = rig.write(5, 2);
    rig.run_for(100 * MS);
    assert_eq!(disk.value(5), 2);
    rig.kill_target();
    disk.release();
    if is_lost {
        disk.lose();
    } else {
        disk.keep();
    }
    second
}

#[test]
fn a_write_under_way_on_its_blocks_is_no_loss() {
    for (protocol, is_lost) in PROTOCOLS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let (mut rig, disk) = rig(protocol, PathOptions::default());
        let second = restart_below_a_write(&mut rig, &disk, is_lost);
        rig.start_target(disk.device());
        let second = rig.wait(second).0;
        let value = read(&mut rig, 5);
        assert_eq!(
            (second, value, flush(&mut rig)),
            (Outcome::SUCCESS, 2, Outcome::SUCCESS),
            "{protocol:?}"
        );
        rig.close();
    }
}

#[test]
fn a_flush_waits_for_a_write_that_hides_what_may_be_lost() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, PathOptions::default());
        let second = restart_below_a_write(&mut rig, &disk, true);
        disk.hold();
        rig.start_target(disk.device());
        let asked = rig.submit(OpKind::Flush, 0, 0);
        rig.until(10 * S, |_| disk.value(5) == 2);
        rig.run_for(100 * MS);
        assert_eq!(
            disk.flushes(),
            0,
            "{protocol:?}: it would vouch for what was acknowledged first"
        );
        disk.release();
        assert_eq!((rig.wait(second).0, rig.wait(asked).0), (Outcome::SUCCESS, Outcome::SUCCESS));
        rig.close();
    }
}

#[test]
fn what_a_write_hides_is_lost_when_the_write_fails() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, PathOptions::default());
        let second = restart_below_a_write(&mut rig, &disk, true);
        disk.refuse(1, StatusKind::Media);
        rig.start_target(disk.device());
        let asked = rig.submit(OpKind::Flush, 0, 0);
        assert!(!rig.wait(second).0.is_success());
        assert!(
            !rig.wait(asked).0.is_success(),
            "{protocol:?}: what was acknowledged first is lost"
        );
        assert_eq!(flush(&mut rig), Outcome::SUCCESS, "it is told once");
        rig.close();
    }
}

#[test]
fn below_a_write_that_may_have_been_executed_either_data_is_right() {
    for (protocol, is_lost) in PROTOCOLS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let (mut rig, disk) = rig(protocol, PathOptions::default());
        let second = restart_below_a_write(&mut rig, &disk, is_lost);
        rig.run_for(40 * S);
        rig.cancel(second);
        assert!(!rig.wait(second).0.is_success());
        rig.start_target(disk.device());
        assert_eq!(read(&mut rig, 5), if is_lost { 0 } else { 2 });
        assert_eq!(flush(&mut rig).is_success(), !is_lost, "{protocol:?}");
        assert_eq!(flush(&mut rig), Outcome::SUCCESS);
        rig.close();
    }
}

#[test]
fn a_loss_is_told_to_the_queue_that_comes_after() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, PathOptions::default());
        let before = rig.submit(OpKind::Write { fua: true }, 1, 9);
        rig.succeed(before);
        let write = rig.write(1, 7);
        rig.succeed(write);
        restart(&mut rig, &disk, true);
        let value = read(&mut rig, 1);
        // The client connects again: its queue is closed and another one opened.
        rig.reopen();
        assert_eq!(value, 9);
        assert!(
            !flush(&mut rig).is_success(),
            "{protocol:?}: the next queue of the client is told"
        );
        assert!(flush(&mut rig).is_success());
        rig.close();
    }
}

/// The device as exports serve it to several clients.
fn served(rig: &mut Rig) -> Device {
    rig.stop();
    weft_block::sharing::share(
        Arc::clone(rig.device.as_ref().unwrap()),
        &[rig.scene.io_loop(0).remote()],
    )
}

/// The end of what [`served`] began.
fn end(mut rig: Rig, served: Device) {
    drop(served);
    rig.run_for(100 * MS);
    rig.use_it();
    rig.close();
}

#[test]
fn a_loss_is_told_to_each_client_of_a_gateway() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol, PathOptions::default());
        let shared = served(&mut rig);
        // Both clients are connected all the time.
        let (mut a, mut b) = (rig.client(&shared), rig.client(&shared));
        let before = rig.ask(&mut a, OpKind::Write { fua: true }, 1, 9);
        let first = rig.ask(&mut a, WRITE, 1, 7);
        let second = rig.ask(&mut b, WRITE, 2, 7);
        assert_eq!([before, first, second], [Outcome::SUCCESS; 3]);
        restart(&mut rig, &disk, true);
        let (of_a, of_b) =
            (rig.ask(&mut a, OpKind::Flush, 0, 0), rig.ask(&mut b, OpKind::Flush, 0, 0));
        assert_eq!((disk.value(1), disk.value(2)), (9, 0));
        assert!(
            !of_a.is_success() && !of_b.is_success(),
            "{protocol:?}: each is told: {of_a:?} {of_b:?}"
        );
        assert_eq!(
            [rig.ask(&mut a, OpKind::Flush, 0, 0), rig.ask(&mut b, OpKind::Flush, 0, 0)],
            [Outcome::SUCCESS; 2],
            "once"
        );
        rig.leave(a);
        rig.leave(b);
        end(rig, shared);
    }
}

#[test]
fn a_client_that_was_away_is_told_though_another_one_was_told_meanwhile() {
    for (protocol, leaves_before, other_leaves) in PROTOCOLS
        .into_iter()
        .flat_map(|it| [(it, true, false), (it, false, false), (it, false, true)])
    {
        let (mut rig, disk) = rig(protocol, PathOptions::default());
        let shared = served(&mut rig);
        let (mut a, mut b) = (rig.client(&shared), rig.client(&shared));
        assert_eq!(
            [rig.ask(&mut a, WRITE, 1, 7), rig.ask(&mut b, WRITE, 2, 7)],
            [Outcome::SUCCESS; 2]
        );
        let mut b = Some(b);
        if leaves_before {
            b.take().into_iter().for_each(|b| rig.leave(b));
        }
        restart(&mut rig, &disk, true);
        rig.run_for(10 * S);
        b.into_iter().for_each(|b| rig.leave(b));
        if other_leaves {
            rig.leave(a);
            rig.run_for(100 * MS);
            a = rig.client(&shared);
        }
        let (of_a, again) =
            (rig.ask(&mut a, OpKind::Flush, 0, 0), rig.ask(&mut a, OpKind::Flush, 0, 0));
        // The target flushes when a host shuts down: that is nobody's flush.
        let mut shutdown = rig.client(&shared);
        rig.ask(&mut shutdown, OpKind::Flush, 0, 0);
        rig.leave(shutdown);
        let mut b = rig.client(&shared);
        let of_b = rig.ask(&mut b, OpKind::Flush, 0, 0);
        assert!(
            !of_a.is_success() && !of_b.is_success(),
            "{protocol:?}: each is told: {of_a:?} {of_b:?}"
        );
        assert_eq!([again, rig.ask(&mut b, OpKind::Flush, 0, 0)], [Outcome::SUCCESS; 2], "once");
        rig.leave(a);
        rig.leave(b);
        end(rig, shared);
    }
}

#[test]
fn what_was_read_of_a_write_that_may_have_been_executed_is_not_undone() {
    let ways = [(false, false), (false, true), (true, false), (true, true)];
    for (protocol, (waits, is_lost)) in
        PROTOCOLS.into_iter().flat_map(|it| ways.map(|way| (it, way)))
    {
        let (mut rig, disk) = rig(protocol, only_writer());
        let write = rig.write(5, 1);
        rig.succeed(write);
        // Another write, cancelled when it was executed.
        disk.hold();
        let second = rig.write(5, 2);
        rig.run_for(100 * MS);
        assert_eq!(disk.value(5), 2);
        if !waits {
            rig.cancel(second);
        }
        rig.kill_target();
        disk.release();
        if waits {
            // No path has it any more.
            rig.run_for(40 * S);
            rig.cancel(second);
        }
        rig.start_target(disk.device());
        assert!(!rig.wait(second).0.is_success());
        let value = read(&mut rig, 5);
        restart(&mut rig, &disk, is_lost);
        assert_eq!(
            read(&mut rig, 5),
            if is_lost { 0 } else { value },
            "{protocol:?} {waits}: what was read is not undone"
        );
        assert_eq!(
            flush(&mut rig).is_success(),
            !is_lost,
            "{protocol:?} {waits}: what is below is lost"
        );
        assert!(flush(&mut rig).is_success());
        rig.close();
    }
}
