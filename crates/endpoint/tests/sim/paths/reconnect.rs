//! One path that is lost and comes back.

use super::rig::{MS, Rig, S, WRITE};
use crate::devices::Testing;
use crate::sim::protocols::PROTOCOLS;
use crate::sim::scene::{options, port};
use std::sync::Arc;
use std::time::Duration;
use weft_block::path::PathState;
use weft_block::{DeviceChange, OpKind, Outcome, Presence, StatusKind};
use weft_endpoint::limits::PATH_WAITING_OPS;
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_io::sim::{Cut, PortAnswer, Side};

#[test]
fn reads_go_on_as_soon_as_the_connection_is_back() {
    for protocol in PROTOCOLS {
        for how in [Cut::Reset, Cut::Close, Cut::HalfOpen(Side::Client)] {
            let mut rig = Rig::new(protocol, PathOptions::default());
            let first = rig.write(1, 7);
            rig.succeed(first);
            rig.cut(how);
            let read = rig.read(1);
            let took = rig.succeed(read);
            assert_eq!(rig.value(read), 7);
            assert!(took < S, "{protocol:?} {how:?}: {took:?}");
            assert_eq!(
                (rig.presence(), rig.changes.borrow().len()),
                (Presence::Here, 0),
                "the user does not notice"
            );
            let path = &rig.paths()[0];
            assert_eq!((path.state, path.reconnects), (PathState::Live, 1));
            rig.close();
            if how != Cut::HalfOpen(Side::Client) {
                rig.scene.settle(60 * S);
            }
        }
    }
}

#[test]
fn a_silent_connection_is_noticed_and_replaced() {
    for protocol in PROTOCOLS {
        let mut rig = Rig::new(protocol, PathOptions::default());
        let read = rig.read(1);
        rig.succeed(read);
        rig.cut(Cut::Silence);
        let read = rig.read(1);
        let took = rig.succeed(read);
        // Keep alive, or the time limit of a command: 30 s, abort and reset.
        assert!(took < 75 * S, "{protocol:?}: {took:?}");
        rig.close();
    }
}

#[test]
fn operations_wait_for_a_target_that_is_away_for_ninety_seconds() {
    for protocol in PROTOCOLS {
        let mut rig = Rig::new(protocol, PathOptions::default());
        rig.scene.world.set_answer(port(), PortAnswer::Refuse);
        rig.cut(Cut::Reset);
        let ops = [rig.write(1, 1), rig.read(2), rig.submit(OpKind::Flush, 0, 0)];
        rig.run_for(90 * S);
        assert_eq!((rig.completions(), rig.presence()), (0, Presence::Here));
        assert!(rig.paths()[0].why.is_some());
        rig.scene.world.set_answer(port(), PortAnswer::Usual);
        for op in ops {
            let took = rig.succeed(op);
            assert!(took <= 10 * S, "{protocol:?}: the pauses are at most ten seconds; {took:?}");
        }
        assert_eq!(rig.stored(1), 1);
        rig.close();
        rig.scene.settle(60 * S);
    }
}

#[test]
fn a_lost_write_is_sent_again_when_it_cannot_be_executed_any_more() {
    // Two keep alive timeouts and the quiesce time, at the latest; when the login with the same
    // ISID is answered; the quiesce time.
    for (protocol, bounds) in PROTOCOLS.into_iter().zip([S..22 * S, S..3 * S, 10 * S..12 * S]) {
        let mut rig = Rig::new(protocol, PathOptions::default());
        rig.knobs[0].freeze(true);
        rig.knobs[0].honour_cancel(false);
        let write = rig.write(3, 9);
        assert!(rig.until(S, |rig| rig.knobs[0].held() == 1));
        rig.cut(Cut::Reset);
        rig.run_for(S);
        rig.knobs[0].freeze(false);
        let took = rig.succeed(write) + S;
        assert!(bounds.contains(&took), "{protocol:?}: {took:?}");
        assert_eq!(rig.knobs[0].writes(), 2, "late, and again");
        assert_eq!(rig.stored(3), 9);
        rig.close();
        rig.scene.settle(60 * S);
    }
}

#[test]
fn a_later_operation_on_the_blocks_of_a_lost_write_waits_for_it() {
    for protocol in PROTOCOLS {
        let mut rig = Rig::new(protocol, PathOptions::default());
        rig.knobs[0].freeze(true);
        rig.knobs[0].honour_cancel(false);
        let write = rig.write(3, 9);
        assert!(rig.until(S, |rig| rig.knobs[0].held() == 1));
        rig.cut(Cut::Reset);
        rig.run_for(S);
        rig.knobs[0].freeze(false);
        let (same, read, other) = (rig.write(3, 5), rig.read(3), rig.write(4, 5));
        assert!(rig.succeed(other) < S);
        // The others have targets that say when it is over.
        if matches!(protocol, crate::sim::protocols::Protocol::Nbd) {
            assert_eq!(
                (rig.outcome(write), rig.outcome(same), rig.outcome(read)),
                (None, None, None)
            );
        }
        rig.succeed(same);
        rig.succeed(read);
        assert_eq!(rig.outcome(write), Some(Outcome::SUCCESS));
        assert_eq!(rig.stored(3), 5, "the later write is the last one");
        rig.close();
        rig.scene.settle(60 * S);
    }
}

#[test]
fn a_compare_and_write_that_was_lost_ends_with_its_outcome() {
    let mut rig = Rig::new(crate::sim::protocols::Protocol::NvmeTcp, PathOptions::default());
    rig.knobs[0].freeze(true);
    let swap = rig.submit(OpKind::CompareAndWrite { fua: false }, 3, 0);
    assert!(rig.until(S, |rig| rig.knobs[0].held() == 1));
    rig.cut(Cut::Reset);
    rig.run_for(S);
    rig.knobs[0].freeze(false);
    let (outcome, _) = rig.wait(swap);
    assert!(matches!(outcome, Outcome::MayHaveExecuted { settled: true, .. }), "{outcome:?}");
    rig.close();
}

#[test]
fn pauses_between_attempts_grow_up_to_the_maximum() {
    let paths = PathOptions { reconnect_delay: 4 * S, ..PathOptions::default() };
    let mut rig = Rig::with(
        PROTOCOLS[0],
        ConnectOptions { paths, connect_timeout: 100 * MS, ..options() },
        1,
    );
    rig.scene.world.set_answer(port(), PortAnswer::Never);
    rig.cut(Cut::Reset);
    let (mut attempts, mut was) = (Vec::new(), PathState::Live);
    let start = rig.scene.world.now();
    while rig.scene.world.now() - start < 60 * S {
        rig.run_for(MS);
        let state = rig.paths()[0].state;
        if state == PathState::Waiting && was != PathState::Waiting {
            attempts.push(rig.scene.world.now() - start);
        }
        was = state;
    }
    let pauses: Vec<Duration> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] <= 350 * MS, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= 4 * S + 110 * MS), "{pauses:?}");
    assert!((15..30).contains(&pauses.len()), "{pauses:?}");
    assert!(
        pauses.windows(2).any(|pair| pair[0] != pair[1] && pair[1] > 3 * S),
        "they are not the same: {pauses:?}"
    );
}

#[test]
fn a_path_that_does_not_come_back_in_time_is_given_up() {
    for protocol in PROTOCOLS {
        let mut rig = Rig::new(
            protocol,
            PathOptions { ctrl_loss_timeout: Some(30 * S), ..PathOptions::default() },
        );
        rig.scene.world.set_answer(port(), PortAnswer::Refuse);
        rig.cut(Cut::Reset);
        let read = rig.read(1);
        let (outcome, took) = rig.wait(read);
        assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
        assert!((30 * S..31 * S).contains(&took), "{took:?}");
        assert_eq!(
            (rig.presence(), rig.changes.borrow().clone()),
            (Presence::Gone, vec![DeviceChange::Gone])
        );
        let late = rig.write(1, 1);
        assert!(rig.wait(late).1 < S);
        rig.close();
        rig.scene.settle(60 * S);
    }
}

#[test]
fn operations_fail_after_the_time_that_they_may_wait_and_work_again_later() {
    for protocol in PROTOCOLS {
        let mut rig = Rig::new(
            protocol,
            PathOptions { fast_io_fail_timeout: Some(5 * S), ..PathOptions::default() },
        );
        rig.scene.world.set_answer(port(), PortAnswer::Refuse);
        rig.cut(Cut::Reset);
        let read = rig.read(1);
        let (outcome, took) = rig.wait(read);
        assert!(
            matches!(outcome, Outcome::NotSent(status) if status.kind == StatusKind::Gone),
            "{outcome:?}"
        );
        assert!((5 * S..6 * S).contains(&took), "{took:?}");
        assert_eq!(rig.presence(), Presence::Away);
        let late = rig.read(1);
        assert!(rig.wait(late).1 < 10 * MS, "others fail at once");
        let device = Arc::clone(rig.device.as_ref().unwrap());
        let (mut newcomer, start) = (rig.client(&device), rig.scene.world.now());
        let outcome = rig.ask(&mut newcomer, OpKind::Read, 1, 0);
        assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
        assert!(rig.scene.world.now() - start < 10 * MS, "and those of a queue that is new");
        rig.leave(newcomer);
        rig.scene.world.set_answer(port(), PortAnswer::Usual);
        assert!(rig.until(11 * S, |rig| rig.presence() == Presence::Here));
        let again = rig.read(1);
        rig.succeed(again);
        assert_eq!(*rig.changes.borrow(), [DeviceChange::Away, DeviceChange::Back]);
        rig.close();
    }
}

#[test]
fn only_so_many_operations_wait_and_the_others_stay_with_their_owner() {
    let mut rig = Rig::new(PROTOCOLS[0], PathOptions::default());
    rig.scene.world.set_answer(port(), PortAnswer::Refuse);
    rig.cut(Cut::Reset);
    rig.run_for(S);
    let ops: Vec<u64> =
        (0..PATH_WAITING_OPS as u64 + 100).map(|n| rig.write(n % 1000, 1)).collect();
    rig.run_for(S);
    assert_eq!((rig.left(), rig.completions()), (100, 0));
    rig.scene.world.set_answer(port(), PortAnswer::Usual);
    for op in ops {
        rig.succeed(op);
    }
    rig.close();
    rig.scene.settle(60 * S);
}

#[test]
fn what_waits_can_be_cancelled_and_dropped_at_once() {
    let mut rig = Rig::new(PROTOCOLS[0], PathOptions::default());
    rig.scene.world.set_answer(port(), PortAnswer::Refuse);
    rig.cut(Cut::Reset);
    let (write, other) = (rig.write(1, 1), rig.read(2));
    rig.run_for(S);
    rig.cancel(write);
    let (outcome, took) = rig.wait(write);
    assert!(
        matches!(outcome, Outcome::NotSent(status) if status.kind == StatusKind::Aborted),
        "{outcome:?}"
    );
    assert!(took < 10 * MS);
    assert_eq!(rig.outcome(other), None);
    rig.close();
    rig.scene.settle(10 * S);
}

#[test]
fn a_target_that_starts_again_is_used_and_another_disk_in_its_place_is_not() {
    for protocol in PROTOCOLS {
        let mut rig = Rig::new(protocol, PathOptions::default());
        let write = rig.write(1, 7);
        rig.succeed(write);
        rig.kill_target();
        let read = rig.read(1);
        rig.run_for(5 * S);
        assert_eq!(rig.outcome(read), None);
        rig.start_target(Testing::over(Arc::clone(&rig.store)));
        rig.succeed(read);
        assert_eq!(rig.value(read), 7);
        rig.kill_target();
        let other =
            weft_block::open("ram:1MiB,block=4096", &weft_block::OpenOptions::default()).unwrap();
        let refused = Testing::over(other);
        let knobs = Arc::clone(&refused.knobs);
        rig.start_target(refused);
        let write = rig.submit(WRITE, 2, 3);
        rig.run_for(30 * S);
        if protocol == crate::sim::protocols::Protocol::Nbd {
            // Its blocks are of 512 bytes whatever the device has; NBD has no names.
            assert_eq!(rig.outcome(write), Some(Outcome::SUCCESS));
        } else {
            assert_eq!((rig.outcome(write), knobs.writes()), (None, 0), "{protocol:?}");
            let why = rig.paths()[0].why.clone().unwrap_or_default();
            assert!(why.contains("4096"), "{why}");
        }
        rig.close();
    }
}

/// Of the same size, with the same blocks: nothing but its name tells.
#[test]
fn another_disk_of_the_same_kind_is_not_used() {
    for protocol in [PROTOCOLS[0], PROTOCOLS[1]] {
        let mut rig = Rig::new(protocol, PathOptions::default());
        let write = rig.write(1, 7);
        rig.succeed(write);
        rig.kill_target();
        rig.start_target(
            weft_block::open("ram:1MiB", &weft_block::OpenOptions::default()).unwrap(),
        );
        let (read, write) = (rig.read(1), rig.write(2, 3));
        rig.run_for(30 * S);
        assert_eq!((rig.outcome(read), rig.outcome(write)), (None, None), "{protocol:?}");
        let why = rig.paths()[0].why.clone().unwrap_or_default();
        assert!(why.contains("another device: its UUID is"), "{protocol:?}: {why}");
        rig.kill_target();
        rig.start_target(Testing::over(Arc::clone(&rig.store)));
        rig.succeed(read);
        assert_eq!(rig.value(read), 7, "{protocol:?}: the right one is used again");
        rig.succeed(write);
        rig.close();
    }
}

#[test]
fn another_size_is_taken_over() {
    for protocol in PROTOCOLS {
        let mut rig = Rig::new(protocol, PathOptions::default());
        rig.kill_target();
        rig.start_target(Testing::new("ram:2MiB"));
        let read = rig.read(1);
        rig.succeed(read);
        assert_eq!(*rig.changes.borrow(), [DeviceChange::Resized { blocks: 4096 }], "{protocol:?}");
        assert_eq!(rig.device.as_ref().unwrap().geometry().blocks, 4096);
        rig.close();
    }
}
