//! Devices that are reserved while they are open: what a target has lost is written again if it
//! says that they still are.

use super::cached::Cached;
use super::rig::{BLOCK, MS, Rig, S, WRITE};
use crate::sim::protocols::Protocol;
use crate::sim::scene::{options, run_ops};
use weft_block::limits::RESERVATION_REPORT_BYTES;
use weft_block::{
    Device, Error, ErrorKind, Op, OpKind, ReservationKind, ReservationReport, ReserveAction,
    StatusKind,
};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::reservations::ReservationTable;
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_proto::nvme::types::{Id128, Nqn};

const KIND: ReservationKind = ReservationKind::WriteExclusive;

fn reserving() -> ConnectOptions {
    ConnectOptions { paths: PathOptions { reserve: true, ..PathOptions::default() }, ..options() }
}

/// A target whose reservations outlive it, and its disk, which is open and reserved.
struct Testbed {
    rig: Rig,
    disk: Cached,
    table: ReservationTable,
}

impl Testbed {
    fn new() -> Self {
        let disk = Cached::default();
        let mut rig = Rig::over(Protocol::NvmeTcp, PathOptions::default(), disk.device());
        rig.close();
        let mut stage = Self { rig, disk, table: ReservationTable::volatile() };
        stage.restart();
        stage.rig.run_for(S);
        let device = stage.open(&reserving()).unwrap();
        stage.use_it(device);
        stage
    }

    fn restart(&mut self) {
        self.rig.kill_target();
        self.rig.start_target_knowing(self.disk.device(), self.table.clone());
    }

    fn open(&mut self, options: &ConnectOptions) -> Result<Device, Error> {
        self.rig.scene.open_url(&self.rig.protocol.url(), options)
    }

    fn use_it(&mut self, device: Device) {
        self.rig.device = Some(device);
        self.rig.use_it();
    }

    fn other(&mut self) -> Device {
        let host = HostIdentity {
            nqn: Nqn::new("nqn.2026-01.example.host:other").unwrap(),
            id: Id128([7; 16]),
        };
        self.open(&ConnectOptions { host: Some(host), paths: PathOptions::default(), ..options() })
            .unwrap()
    }

    /// Another host does this.
    fn does(&mut self, other: &Device, op: Op) -> (StatusKind, Op) {
        let on = self.rig.scene.io_loop(0);
        let mut done = run_ops(&mut self.rig.scene.world, &on, other.as_ref(), vec![op]);
        // Its queue is returned.
        self.rig.run_for(100 * MS);
        let done = done.remove(0);
        (done.outcome.status().kind, done.op)
    }

    fn reserves(&mut self, other: &Device, action: ReserveAction) -> StatusKind {
        self.does(other, Op::bare(OpKind::Reserve(action), 0, 0, 0)).0
    }

    fn writes(&mut self, other: &Device, lba: u64, value: u8) -> StatusKind {
        let mut data = self.rig.scene.io_loop(0).pool().take(BLOCK).unwrap();
        data.fill(value);
        let written = self.does(other, Op::new(WRITE, lba, 1, 0, [data.into()].into())).0;
        self.does(other, Op::bare(OpKind::Flush, 0, 0, 1));
        written
    }

    fn report(&mut self, other: &Device) -> ReservationReport {
        let data = self.rig.scene.io_loop(0).pool().take(RESERVATION_REPORT_BYTES).unwrap();
        let blocks = RESERVATION_REPORT_BYTES / BLOCK;
        let op = Op::new(OpKind::ReservationReport, 0, blocks as u32, 0, [data.into()].into());
        let (status, op) = self.does(other, op);
        assert_eq!(status, StatusKind::Success);
        ReservationReport::decode(&op.data[0]).unwrap()
    }

    fn read(&mut self, lba: u64) -> u8 {
        let read = self.rig.read(lba);
        self.rig.succeed(read);
        self.rig.value(read)
    }

    fn flush(&mut self) -> StatusKind {
        let flush = self.rig.submit(OpKind::Flush, 0, 0);
        self.rig.wait(flush).0.status().kind
    }
}

#[test]
fn what_the_target_has_lost_is_written_again_while_the_reservation_is_held() {
    let mut stage = Testbed::new();
    let write = stage.rig.write(5, 1);
    stage.rig.succeed(write);
    let other = stage.other();
    assert_eq!(stage.writes(&other, 5, 2), StatusKind::ReservationConflict, "nobody else writes");
    drop(other);
    stage.rig.kill_target();
    stage.disk.lose();
    let table = stage.table.clone();
    stage.rig.start_target_knowing(stage.disk.device(), table);
    assert_eq!((stage.read(5), stage.disk.value(5)), (1, 1));
    assert_eq!(stage.flush(), StatusKind::Success);
    stage.rig.close();
}

#[test]
fn nothing_is_written_again_when_another_host_has_taken_the_reservation() {
    let mut stage = Testbed::new();
    let write = stage.rig.write(5, 1);
    stage.rig.succeed(write);
    let other = stage.other();
    let of = stage.report(&other).registrants[0].key;
    assert_eq!(stage.reserves(&other, ReserveAction::Register { key: 9 }), StatusKind::Success);
    assert_eq!(
        stage.reserves(&other, ReserveAction::Preempt { key: 9, of, kind: KIND }),
        StatusKind::Success
    );
    assert_eq!(stage.writes(&other, 5, 2), StatusKind::Success);
    assert_eq!(stage.reserves(&other, ReserveAction::Unregister { key: 9 }), StatusKind::Success);
    drop(other);
    stage.rig.kill_target();
    stage.disk.keep();
    let table = stage.table.clone();
    stage.rig.start_target_knowing(stage.disk.device(), table);
    assert_eq!((stage.read(5), stage.disk.value(5)), (2, 2), "the other host has flushed it");
    assert_eq!(
        [stage.flush(), stage.flush()],
        [StatusKind::Internal, StatusKind::Success],
        "it is told once"
    );
    stage.rig.close();
}

#[test]
fn nothing_is_written_again_when_the_target_has_forgotten_the_reservation() {
    let mut stage = Testbed::new();
    let write = stage.rig.write(5, 1);
    stage.rig.succeed(write);
    stage.rig.kill_target();
    stage.disk.lose();
    stage.rig.start_target(stage.disk.device());
    assert_eq!((stage.read(5), stage.disk.value(5)), (0, 0), "others may have written");
    assert_eq!(
        [stage.flush(), stage.flush()],
        [StatusKind::Internal, StatusKind::Success],
        "it is told once"
    );
    stage.rig.close();
}

#[test]
fn a_disk_that_another_host_has_reserved_is_not_opened_and_one_that_is_closed_is_free() {
    let mut stage = Testbed::new();
    let host = HostIdentity {
        nqn: Nqn::new("nqn.2026-01.example.host:third").unwrap(),
        id: Id128([3; 16]),
    };
    let third = ConnectOptions { host: Some(host), ..reserving() };
    let refused = stage.open(&third).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::InUse);
    assert!(refused.to_string().contains("another host has reserved it"), "{refused}");
    stage.rig.close();
    stage.rig.run_for(S);
    let other = stage.other();
    assert_eq!(stage.report(&other).registrants, [], "it is given back");
    drop(other);
    let device = stage.open(&third).unwrap();
    stage.use_it(device);
    stage.rig.close();
}

#[test]
fn an_opening_of_the_same_host_takes_the_place_of_an_earlier_one() {
    let mut stage = Testbed::new();
    let later = stage.open(&reserving()).unwrap();
    let write = stage.rig.write(5, 1);
    assert_eq!(
        stage.rig.wait(write).0.status().kind,
        StatusKind::ReservationConflict,
        "the earlier one is shut out"
    );
    assert_eq!(stage.writes(&later, 5, 2), StatusKind::Success);
    drop(later);
    stage.rig.close();
}

#[test]
fn a_device_without_reservations_is_refused() {
    let mut rig = Rig::new(Protocol::Nbd, PathOptions::default());
    rig.close();
    let refused = rig.scene.open_url(&rig.protocol.url(), &reserving()).err().unwrap();
    assert!(
        refused.kind() == ErrorKind::Usage && refused.to_string().contains("--reserve"),
        "{refused}"
    );
}
