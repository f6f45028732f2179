//! Two targets over the same blocks.

use super::rig::{MS, Rig, S};
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::scene::{options, port};
use weft_block::OpKind;
use weft_block::path::PathState;
use weft_endpoint::paths::IoPolicy;
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_io::sim::{Cut, PortAnswer};

fn two(protocol: Protocol, io_policy: IoPolicy) -> Rig {
    let paths = PathOptions { io_policy, ..PathOptions::default() };
    Rig::with(protocol, ConnectOptions { paths, ..options() }, 2)
}

/// Operations that each path has completed.
fn counts(rig: &Rig) -> [u64; 2] {
    let paths = rig.paths();
    [paths[0].operations, paths[1].operations]
}

#[test]
fn operations_take_the_paths_in_turn_and_the_other_one_when_one_is_cut() {
    for protocol in PROTOCOLS {
        let mut rig = two(protocol, IoPolicy::RoundRobin);
        for n in 0..40 {
            let write = rig.write(n, n as u8 + 1);
            rig.succeed(write);
        }
        assert_eq!(counts(&rig), [20, 20], "{protocol:?}");
        rig.cut_from(1, Cut::Reset);
        for n in 0..40 {
            let read = rig.read(n);
            assert!(rig.succeed(read) < S);
            assert_eq!(rig.value(read), n as u8 + 1);
        }
        assert!(rig.until(11 * S, |rig| rig.paths()[1].state == PathState::Live));
        let before = counts(&rig);
        for n in 0..10 {
            let read = rig.read(n);
            rig.succeed(read);
        }
        assert_eq!(counts(&rig), before.map(|count| count + 5), "it takes its share again");
        assert_eq!(rig.paths().iter().map(|path| path.errors).sum::<u64>(), 0);
        rig.close();
    }
}

#[test]
fn the_first_path_is_used_while_it_works() {
    let mut rig = two(Protocol::NvmeTcp, IoPolicy::Numa);
    for n in 0..10 {
        let read = rig.read(n);
        rig.succeed(read);
    }
    assert_eq!(counts(&rig), [10, 0]);
    rig.knobs[0].freeze(true);
    let read = rig.read(1);
    rig.run_for(10 * MS);
    rig.cut_from(0, Cut::Reset);
    let took = rig.succeed(read);
    assert!(took < S, "a read moves to the other path at once: {took:?}");
    assert_eq!(counts(&rig), [10, 1]);
    assert_eq!(rig.paths()[0].retries, 0, "it was the queue that was lost");
    rig.close();
}

#[test]
fn a_slow_path_gets_fewer_operations() {
    for policy in [IoPolicy::QueueDepth, IoPolicy::Latency] {
        let mut rig = two(Protocol::NvmeTcp, policy);
        rig.knobs[0].set_delay(50 * MS);
        for round in 0..20 {
            let ops: Vec<u64> = (0..16).map(|n| rig.read(n + round)).collect();
            rig.run_for(20 * MS);
            drop(ops);
        }
        assert!(rig.until(10 * S, |rig| rig.completions() == 320));
        let [slow, fast] = counts(&rig);
        assert!(slow * 2 < fast, "{policy:?}: {slow} and {fast}");
        assert!(rig.paths()[0].latency > rig.paths()[1].latency);
        rig.close();
    }
}

#[test]
fn a_lost_write_holds_back_later_ones_on_the_other_path_too() {
    for (protocol, bound) in PROTOCOLS.into_iter().zip([20 * S, 12 * S, 10 * S]) {
        let mut rig = two(protocol, IoPolicy::Numa);
        rig.knobs[0].freeze(true);
        rig.knobs[0].honour_cancel(false);
        let old = rig.write(3, 1);
        assert!(rig.until(S, |rig| rig.knobs[0].held() == 1));
        rig.scene.world.set_answer(port(), PortAnswer::Refuse);
        rig.cut_from(0, Cut::Reset);
        rig.run_for(100 * MS);
        let (new, other, read) = (rig.write(3, 2), rig.write(4, 2), rig.read(3));
        assert!(rig.succeed(other) < S, "others do not wait");
        rig.run_for(5 * S);
        assert_eq!((rig.outcome(old), rig.outcome(new), rig.outcome(read)), (None, None, None));
        // The first target executes it late.
        rig.knobs[0].freeze(false);
        let took = rig.succeed(new);
        assert!(took + 6 * S >= bound, "{protocol:?}: {took:?}");
        rig.succeed(old);
        rig.succeed(read);
        assert_eq!(rig.stored(3), 2, "{protocol:?}");
        rig.close();
    }
}

#[test]
fn a_flush_and_a_compare_and_write_go_by_any_path() {
    let mut rig = two(Protocol::NvmeTcp, IoPolicy::RoundRobin);
    for kind in
        [OpKind::Flush, OpKind::CompareAndWrite { fua: false }, OpKind::Flush, OpKind::Discard]
    {
        let op = rig.submit(kind, 1, 0);
        rig.succeed(op);
    }
    rig.close();
}
