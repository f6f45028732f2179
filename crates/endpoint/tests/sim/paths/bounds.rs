//! Time limits of an operation: how the limits of `docs/reconnect.md` add up, and their effect on a
//! command that hangs while its target answers.

use super::rig::{Rig, S, WRITE};
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::scene::options;
use core::ops::Range;
use std::time::Duration;
use weft_block::{OpKind, Outcome, StatusKind};
use weft_endpoint::limits::PATH_REPEATS_MAX;
use weft_endpoint::{ConnectOptions, PathOptions};

/// The time after which an operation fails whose target is stopped, with `--ctrl-loss-tmo 5`.
fn stopped(protocol: Protocol, kind: OpKind) -> Duration {
    let paths = PathOptions { ctrl_loss_timeout: Some(5 * S), ..PathOptions::default() };
    let mut rig = Rig::new(protocol, paths);
    let first = rig.write(1, 7);
    rig.succeed(first);
    for id in rig.scene.target_loops.clone() {
        rig.scene.world.pause(id, 1000 * S);
    }
    let op = rig.submit(kind, 1, 9);
    let (outcome, took) = rig.wait(op);
    let settled = match outcome {
        Outcome::MayHaveExecuted { settled, .. } => settled,
        Outcome::Done(_) | Outcome::NotSent(_) => true,
    };
    assert!(!outcome.is_success() && settled, "{protocol:?} {kind:?}: {outcome:?}");
    rig.close();
    took
}

#[test]
fn a_stopped_target_holds_a_write_until_it_can_no_longer_execute_it() {
    // NVMe: the keep alive, the reset, and then --ctrl-loss-tmo, or 2 × KATO + CQT; targets of
    // these tests report none, so that --quiesce-time counts. iSCSI: the ping, and then
    // --ctrl-loss-tmo, or the times of the session and --quiesce-time. NBD: the time limit of the
    // command, and then --quiesce-time.
    let expected: [[Range<Duration>; 2]; 3] = [
        [17 * S..26 * S, 35 * S..38 * S],
        [5 * S..20 * S, 10 * S..40 * S],
        [30 * S..50 * S, 30 * S..60 * S],
    ];
    for (protocol, ranges) in PROTOCOLS.into_iter().zip(expected) {
        for (kind, range) in [OpKind::Read, WRITE].into_iter().zip(ranges) {
            let took = stopped(protocol, kind);
            assert!(range.contains(&took), "{protocol:?} {kind:?}: {took:?}");
        }
    }
}

/// A device behind a target that goes on; it executes nothing, and can be told to give up.
fn hanging(protocol: Protocol) -> Rig {
    let options = ConnectOptions { io_timeout: 2 * S, paths: PathOptions::default(), ..options() };
    let mut rig = Rig::with(protocol, options, 1);
    let first = rig.write(1, 7);
    rig.succeed(first);
    rig.knobs[0].honour_cancel(true);
    rig.knobs[0].freeze(true);
    rig
}

#[test]
fn a_command_that_hangs_is_aborted_and_sent_again_a_few_times() {
    for protocol in [Protocol::NvmeTcp, Protocol::Iscsi] {
        for kind in [OpKind::Read, WRITE] {
            let mut rig = hanging(protocol);
            let op = rig.submit(kind, 1, 9);
            let (outcome, took) = rig.wait(op);
            assert_eq!(outcome.status().kind, StatusKind::Aborted, "{protocol:?} {kind:?}");
            let sent = u32::from(PATH_REPEATS_MAX) + 1;
            assert_eq!(rig.knobs[0].cancels_asked(), sent as usize, "{protocol:?} {kind:?}");
            // It is looked for four times within the limit.
            assert!((2 * S * sent..3 * S * sent).contains(&took), "{protocol:?}: {took:?}");
            rig.knobs[0].freeze(false);
            let later = rig.write(2, 1);
            rig.succeed(later);
            rig.close();
        }
    }
}

/// NBD cannot abort a command, so its connection ends, and the command is sent again.
#[test]
fn a_command_of_nbd_that_hangs_is_sent_again_until_it_is_cancelled() {
    let mut rig = hanging(Protocol::Nbd);
    let (read, other) = (rig.read(1), rig.read(2));
    rig.run_for(100 * S);
    assert_eq!((rig.outcome(read), rig.outcome(other)), (None, None));
    rig.cancel(read);
    let (outcome, took) = rig.wait(read);
    assert!(!outcome.is_success() && took <= 3 * S, "{outcome:?} {took:?}");
    rig.knobs[0].freeze(false);
    rig.succeed(other);
    rig.close();
}
