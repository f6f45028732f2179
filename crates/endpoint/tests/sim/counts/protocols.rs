//! Both ends of each protocol.

use crate::sim::counts::measure::{
    BLOCK_BYTES, Cost, FEW_POINTS, Judge, LARGE_BYTES, Limit, Point, READ, WRITE, costs,
    like_the_loopback,
};
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::scene::{Setup, options};
use weft_block::OpenOptions;

/// Calls for each batch: one receives, one sends, one sleeps; and of large payloads, which are
/// received into place, every other one is answered by a call of its own.
pub const CALLS: f64 = 3.5;

/// Beside those at which all are counted: other depths, and larger ones. NVMe/TCP alone has them,
/// as the loop and the pump are the same for all.
const FURTHER_POINTS: [Point; 6] = [
    Point::new(READ, 4, 8),
    Point::new(READ, 4, 128),
    Point::new(WRITE, 4, 8),
    Point::new(WRITE, 4, 128),
    Point::new(READ, 1024, 8),
    Point::new(WRITE, 1024, 8),
];

/// Returns the cost of an operation at each end, the initiator first.
pub fn of_ends(protocol: Protocol, point: Point) -> [Cost; 2] {
    let disk = format!("ram:32MiB,block={BLOCK_BYTES}");
    let device = weft_block::open(&disk, &OpenOptions::default()).unwrap();
    let mut scene = protocol.scene(Setup::new(7, device));
    like_the_loopback(&mut scene);
    let remote = scene.open_url(&protocol.url(), &options()).unwrap();
    let (from, target) = (scene.client_loops[1], scene.target_loops[0]);
    costs(&mut scene, from, remote.as_ref(), point, [from, target])
}

/// How often a target copies a short write on its way to memory. It is stored from where it is
/// received, but iSCSI takes memory for it, from which the device copies it once more.
const fn copies_of_write(protocol: Protocol) -> f64 {
    if matches!(protocol, Protocol::Iscsi) { 2.0 } else { 1.0 }
}

fn judge(protocol: Protocol, points: &[Point]) {
    let mut judge = Judge::default();
    for &point in points {
        let is_short = point.kind == WRITE && point.bytes < LARGE_BYTES;
        let each = if is_short { copies_of_write(protocol) } else { 1.0 };
        let limit = Limit { calls: point.calls(CALLS), copies: each * point.copies() };
        for (end, found) in ["initiator", "target"].into_iter().zip(of_ends(protocol, point)) {
            judge.judge(&format!("{protocol:?}, {point:?}, {end}"), found, limit);
        }
    }
    judge.end();
}

#[test]
fn calls_and_copies_of_an_operation_are_few() {
    judge(Protocol::NvmeTcp, &FEW_POINTS);
    judge(Protocol::NvmeTcp, &FURTHER_POINTS);
}

#[test]
fn calls_and_copies_of_iscsi_are_few() {
    judge(Protocol::Iscsi, &FEW_POINTS);
}

#[test]
fn calls_and_copies_of_nbd_are_few() {
    judge(Protocol::Nbd, &FEW_POINTS);
}

#[test]
fn counts_do_not_depend_on_the_run() {
    let point = Point::new(READ, 4, 32);
    for protocol in PROTOCOLS {
        assert_eq!(of_ends(protocol, point), of_ends(protocol, point), "{protocol:?}");
    }
}
