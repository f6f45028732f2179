//! One iSCSI target with two ports, whose access states change under I/O (asymmetric logical unit
//! access).

use super::rig::{Rig, S};
use crate::sim::protocols::second_port;
use crate::sim::scene::{options, port};
use weft_block::AccessState;
use weft_block::path::PathState;
use weft_endpoint::paths::IoPolicy;
use weft_endpoint::{ConnectOptions, PathOptions};

const REFUSING: [AccessState; 3] =
    [AccessState::Inaccessible, AccessState::Transition, AccessState::PersistentLoss];

fn rig() -> Rig {
    let paths = PathOptions { io_policy: IoPolicy::RoundRobin, ..PathOptions::default() };
    let mut rig = Rig::two_ports(ConnectOptions { paths, ..options() });
    assert!(rig.until(S, |rig| rig.paths().iter().all(|path| path.state == PathState::Live)));
    rig
}

/// Sets the state of one port, 0 or 1, of the namespace's group.
fn set(rig: &Rig, at: usize, state: AccessState) {
    let listener = [port(), second_port()][at];
    rig.scene.inventory.set_access_state(1, Some(listener), state).unwrap();
}

fn counts(rig: &Rig) -> [u64; 2] {
    [0, 1].map(|path| rig.paths()[path].operations)
}

/// Writes and reads back; how many operations went by each path.
fn work(rig: &mut Rig, value: u8) -> [u64; 2] {
    let before = counts(rig);
    for lba in 0..10 {
        let write = rig.write(lba, value);
        rig.succeed(write);
        let read = rig.read(lba);
        rig.succeed(read);
        assert_eq!(rig.value(read), value);
    }
    let after = counts(rig);
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn operations_follow_the_states_of_the_ports() {
    let mut rig = rig();
    assert_eq!(work(&mut rig, 1), [10, 10]);
    for (n, state) in [AccessState::NonOptimized].into_iter().chain(REFUSING).enumerate() {
        for at in [1, 0] {
            set(&rig, at, state);
            assert!(
                rig.until(S, |rig| rig.paths()[at].access == state),
                "an idle initiator is told: {state:?}"
            );
            let value = 2 + n as u8;
            let moved = work(&mut rig, value);
            assert_eq!((moved[at], moved[1 - at]), (0, 20), "{state:?} at {at}");
            set(&rig, at, AccessState::Optimized);
            assert!(
                rig.until(S, |rig| rig.paths()[at].access == AccessState::Optimized),
                "{state:?}"
            );
            assert_eq!(work(&mut rig, value), [10, 10], "it takes its share again after {state:?}");
        }
    }
    let errors = rig.paths().iter().map(|path| path.errors + path.reconnects).sum::<u64>();
    assert_eq!(errors, 0, "no error, and no connection was lost");
    rig.close();
}

#[test]
fn operations_under_way_do_not_fail_when_a_state_changes() {
    let mut rig = rig();
    for (n, state) in REFUSING.into_iter().cycle().take(12).enumerate() {
        let at = n % 2;
        let ops: Vec<u64> = (0..32)
            .map(|lba| if lba % 2 == 0 { rig.write(lba, n as u8) } else { rig.read(lba) })
            .collect();
        set(&rig, at, state);
        ops.into_iter().for_each(|op| _ = rig.succeed(op));
        set(&rig, at, AccessState::Optimized);
        assert!(rig.until(S, |rig| rig.paths()[at].access == AccessState::Optimized), "{state:?}");
    }
    assert_eq!(rig.paths().iter().map(|path| path.errors).sum::<u64>(), 0);
    rig.close();
}

#[test]
fn operations_wait_while_no_port_executes_them() {
    let mut rig = rig();
    rig.scene.inventory.set_access_state(1, None, AccessState::Inaccessible).unwrap();
    let write = rig.write(1, 7);
    rig.run_for(30 * S);
    assert_eq!(rig.outcome(write), None);
    for path in rig.paths() {
        assert_eq!(path.state, PathState::Live);
        assert!(path.why.is_some_and(|why| why.starts_with("inaccessible")), "{}", path.url);
    }
    set(&rig, 1, AccessState::NonOptimized);
    assert!(rig.succeed(write) < S);
    assert_eq!(rig.paths()[1].why, None);
    assert_eq!(rig.stored(1), 7);
    rig.close();
}
