//! Hosts that are the only writers unless another host is registered with the device.

use super::cached::Cached;
use super::rig::{BLOCK, MS, Rig, S, WRITE};
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::scene::{options, run_ops};
use weft_block::{Device, Op, OpKind, Outcome, ReserveAction};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_proto::nvme::types::{Id128, Nqn};

/// The target, whose disk another host may have reserved already.
fn rig(protocol: Protocol) -> (Rig, Cached) {
    let disk = Cached::default();
    let paths = PathOptions { only_writer_if_alone: true, ..PathOptions::default() };
    let mut rig = Rig::over(protocol, paths, disk.device());
    let first = rig.read(0);
    rig.succeed(first);
    (rig, disk)
}

/// Opens the disk again, as a host that has not registered before.
fn open_again(rig: &mut Rig) {
    rig.close();
    let paths = PathOptions { only_writer_if_alone: true, ..PathOptions::default() };
    rig.device = Some(
        rig.scene.open_url(&rig.protocol.url(), &ConnectOptions { paths, ..options() }).unwrap(),
    );
    rig.use_it();
}

fn other_host(rig: &mut Rig) -> Device {
    let host = HostIdentity {
        nqn: Nqn::new("nqn.2026-01.example.host:other").unwrap(),
        id: Id128([7; 16]),
    };
    let own = ConnectOptions { host: Some(host), paths: PathOptions::default(), ..options() };
    rig.scene.open_url(&rig.protocol.url(), &own).unwrap()
}

/// Another host does this.
fn does(rig: &mut Rig, other: &Device, op: Op) {
    let on = rig.scene.io_loop(0);
    let done = run_ops(&mut rig.scene.world, &on, other.as_ref(), vec![op]);
    assert_eq!(done[0].outcome, Outcome::SUCCESS);
    // Its queue is returned.
    rig.run_for(100 * MS);
}

fn register(rig: &mut Rig) -> Device {
    let other = other_host(rig);
    does(rig, &other, Op::bare(OpKind::Reserve(ReserveAction::Register { key: 1 }), 0, 0, 0));
    other
}

/// It writes a block and flushes.
fn other_writes(rig: &mut Rig, other: &Device, lba: u64, value: u8) {
    let mut data = rig.scene.io_loop(0).pool().take(BLOCK).unwrap();
    data.fill(value);
    does(rig, other, Op::new(WRITE, lba, 1, 0, [data.into()].into()));
    does(rig, other, Op::bare(OpKind::Flush, 0, 0, 1));
}

fn flush(rig: &mut Rig) -> bool {
    let flush = rig.submit(OpKind::Flush, 0, 0);
    rig.wait(flush).0.is_success()
}

fn read(rig: &mut Rig, lba: u64) -> u8 {
    let read = rig.read(lba);
    rig.succeed(read);
    rig.value(read)
}

#[test]
fn a_host_with_whom_nobody_is_registered_writes_again() {
    for protocol in PROTOCOLS {
        let (mut rig, disk) = rig(protocol);
        let write = rig.write(5, 1);
        rig.succeed(write);
        rig.kill_target();
        disk.lose();
        rig.start_target(disk.device());
        assert_eq!((read(&mut rig, 5), disk.value(5)), (1, 1), "{protocol:?}");
        assert!(flush(&mut rig));
        rig.close();
    }
}

#[test]
fn one_that_is_registered_when_the_target_is_back_is_not_overwritten() {
    let (mut rig, disk) = rig(Protocol::NvmeTcp);
    let write = rig.write(5, 1);
    rig.succeed(write);
    // It is not registered yet.
    let other = other_host(&mut rig);
    other_writes(&mut rig, &other, 5, 2);
    drop(other);
    rig.kill_target();
    // So long that the next attempt is some seconds away.
    rig.run_for(30 * S);
    disk.keep();
    rig.start_target(disk.device());
    let other = register(&mut rig);
    assert_eq!((read(&mut rig, 5), disk.value(5)), (2, 2), "the other host has flushed it");
    assert_eq!([flush(&mut rig), flush(&mut rig)], [false, true], "it is told once");
    drop(other);
    rig.close();
}

#[test]
fn one_that_was_registered_before_is_not_overwritten_when_the_target_has_forgotten_it() {
    let (mut rig, disk) = rig(Protocol::NvmeTcp);
    let other = register(&mut rig);
    open_again(&mut rig);
    let write = rig.write(5, 1);
    rig.succeed(write);
    other_writes(&mut rig, &other, 5, 2);
    drop(other);
    rig.kill_target();
    disk.keep();
    // With nobody registered.
    rig.start_target(disk.device());
    assert_eq!((read(&mut rig, 5), disk.value(5)), (2, 2), "the other host has flushed it");
    assert_eq!([flush(&mut rig), flush(&mut rig)], [false, true], "it is told once");
    rig.close();
}
