//! Legs in the status of a mirror: the operations of the home and of all loops, errors, and the
//! number of returns of a leg.

use super::leg::{LEG_BYTES, Leg};
use super::{is_whole, opened};
use crate::closing::close;
use std::time::Duration;
use uuid::Uuid;
use weft_block::mirror::HotLimit;
use weft_block::mirror::admin;
use weft_block::path::PathStatus;
use weft_block::testing::{Rig, TestPlan};
use weft_block::{Device, OpKind};
use weft_testing::wait::until;

const LOOPS: usize = 3;
/// Writes of each loop, and as many reads.
const EACH: u64 = 40;

fn two_legs() -> Vec<Leg> {
    let areas =
        admin::create(Uuid::from_u128(5), &[LEG_BYTES; 2], None, 512, 3, admin::Holding::TheSame)
            .unwrap();
    areas.iter().map(|area| Leg::new(area)).collect()
}

/// Operations, bytes and errors of a leg, by its status.
fn told(path: &PathStatus) -> [u64; 3] {
    [path.operations, path.bytes, path.errors]
}

/// Waits until the mirror does nothing more, and has counted exactly what its legs have done.
fn are_exact(device: &Device, legs: &[Leg]) {
    until("the status says what the legs have done", || {
        device.paths().iter().zip(legs).all(|(path, leg)| told(path) == leg.ended())
    });
}

#[test]
fn the_operations_of_the_home_and_of_all_loops_are_counted() {
    let legs = two_legs();
    let (device, closed) = opened(&legs, HotLimit::default());
    until("the legs are equal", || is_whole(&device));
    are_exact(&device, &legs);
    let before: u64 = device.paths().iter().map(|path| path.operations).sum();
    let rig = Rig::new(&device, TestPlan { loops: LOOPS, ..TestPlan::default() });
    for on_loop in 0..LOOPS {
        let lba = |n: u64| (on_loop as u64 * EACH + n) * 8;
        let write = |n| rig.request(OpKind::Write { fua: false }, lba(n), vec![7; 4096]);
        let read = |n| rig.request(OpKind::Read, lba(n), vec![0; 4096]);
        for requests in [(0..EACH).map(write).collect(), (0..EACH).map(read).collect()] {
            let answers = rig.run(on_loop, requests);
            assert!(answers.iter().all(|answer| answer.outcome.is_success()));
        }
        rig.one(on_loop, rig.request(OpKind::Flush, 0, Vec::new()));
        let swap = [vec![7; 512], vec![8; 512]].concat();
        rig.one(on_loop, rig.request(OpKind::CompareAndWrite { fua: false }, lba(0), swap));
    }
    are_exact(&device, &legs);
    let paths = device.paths();
    // Writes and flushes go to both, comparisons and reads to one of them.
    let least = LOOPS as u64 * (2 * EACH + EACH + 2 + 3);
    let after: u64 = paths.iter().map(|path| path.operations).sum();
    assert!(after - before >= least, "{paths:?}");
    for path in &paths {
        assert_eq!((path.errors, path.retries, path.reconnects), (0, 0, 0), "{path:?}");
        assert!(path.latency.is_some_and(|latency| latency > Duration::ZERO), "{path:?}");
    }
    rig.end();
    are_exact(&device, &legs);
    close(device, &closed);
}

#[test]
fn errors_and_returns_of_a_leg_are_counted_and_the_other_leg_has_none() {
    let legs = two_legs();
    let (device, closed) = opened(&legs, HotLimit::default());
    until("the legs are equal", || is_whole(&device));
    let rig = Rig::new(&device, TestPlan { loops: 2, ..TestPlan::default() });
    let come_back = |reconnects| {
        until("the leg is back", || {
            rig.write(0, 0, &[1; 512]);
            rig.write(1, 4096, &[2; 512]);
            is_whole(&device) && device.paths()[0].reconnects == reconnects
        });
    };
    // A write fails there, and the leg is opened again.
    legs[0].fail_once();
    come_back(1);
    // Its connections are lost.
    legs[0].lose();
    until("the leg is away", || !is_whole(&device));
    legs[0].come_back();
    come_back(2);
    // Loops read from this leg if they read nothing else. They cannot read some blocks, which the
    // home reads again, and mends.
    legs[0].make_unreadable((0..64).map(|at| at * 128));
    until("what cannot be read was written again", || {
        (0..64).for_each(|at| drop(rig.read((at % 2) as usize, at * 128, 1)));
        legs[0].unreadable().is_empty()
    });
    rig.end();
    are_exact(&device, &legs);
    let [lost, sound] = &device.paths()[..] else { panic!("two legs") };
    assert_eq!((sound.errors, sound.retries, sound.reconnects), (0, 0, 0), "{sound:?}");
    assert!(lost.errors >= 2 && lost.retries >= 1 && lost.reconnects == 2, "{lost:?}");
    close(device, &closed);
}
