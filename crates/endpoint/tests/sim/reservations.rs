//! Initiators that reserve a device of a target.

use crate::sim::protocols::{AnyScene, Protocol};
use crate::sim::scene::{Setup, options, run_ops};
use std::time::Duration;
use uuid::Uuid;
use weft_block::limits::RESERVATION_REPORT_BYTES;
use weft_block::{
    Device, Op, OpKind, OpenOptions, Outcome, ReservationKind, ReservationReport, ReserveAction,
    StatusKind,
};
use weft_endpoint::ConnectOptions;

const BLOCK: usize = 512;
const KIND: ReservationKind = ReservationKind::WriteExclusiveRegistrantsOnly;
/// How the queues of a device can be used: with NVMe all of them write, with iSCSI only that of a
/// lone session.
const NVME: (Protocol, u16) = (Protocol::NvmeTcp, 4);
const ISCSI: (Protocol, u16) = (Protocol::Iscsi, 1);

struct Hosts {
    scene: AnyScene,
    url: String,
    queues: u16,
    devices: Vec<Device>,
}

impl Hosts {
    /// Openers of one host with the same device, with so many queues each.
    fn new((protocol, queues): (Protocol, u16), openers: &[Option<u128>]) -> Self {
        let store = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        let scene = protocol.scene(Setup::new(1, store));
        let mut hosts = Self { scene, url: protocol.url(), queues, devices: Vec::new() };
        hosts.devices = openers.iter().map(|opener| hosts.open(*opener)).collect();
        hosts
    }

    fn open(&mut self, opener: Option<u128>) -> Device {
        let options = ConnectOptions {
            opener: opener.map(Uuid::from_u128),
            nr_io_queues: self.queues,
            ..options()
        };
        self.scene.open_url(&self.url, &options).unwrap()
    }

    fn run(&mut self, host: usize, kind: OpKind, bytes: usize) -> (Outcome, Vec<u8>) {
        let on = self.scene.io_loop(0);
        let mut op = Op::bare(kind, 0, (bytes / BLOCK) as u32, 0);
        if bytes > 0 {
            let mut data = on.pool().take(bytes).unwrap();
            data.fill(0xee);
            op.data.push(data.into());
        }
        let done =
            run_ops(&mut self.scene.world, &on, self.devices[host].as_ref(), vec![op]).remove(0);
        self.pass(Duration::from_millis(1));
        (done.outcome, done.op.data.first().map_or_else(Vec::new, |data| data.to_vec()))
    }

    /// Lets time pass: until a queue that was dropped has given its connection back, for example.
    fn pass(&mut self, time: Duration) {
        self.scene.world.run_for(time);
    }

    fn reserve(&mut self, host: usize, action: ReserveAction) -> StatusKind {
        self.run(host, OpKind::Reserve(action), 0).0.status().kind
    }

    fn write(&mut self, host: usize) -> StatusKind {
        self.run(host, OpKind::Write { fua: false }, BLOCK).0.status().kind
    }

    /// The type, and the key of each registrant and whether it holds the reservation; and that all
    /// are different hosts.
    fn report(&mut self, host: usize) -> (Option<ReservationKind>, Vec<(u64, bool)>) {
        let (outcome, data) = self.run(host, OpKind::ReservationReport, RESERVATION_REPORT_BYTES);
        assert_eq!(outcome, Outcome::SUCCESS);
        let report = ReservationReport::decode(&data).unwrap();
        assert!(!report.is_cut);
        let mut hosts: Vec<_> = report.registrants.iter().map(|of| of.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        assert_eq!(hosts.len(), report.registrants.len());
        let mut registrants: Vec<_> =
            report.registrants.iter().map(|of| (of.key, of.holds)).collect();
        registrants.sort_unstable();
        (report.kind, registrants)
    }
}

const OK: StatusKind = StatusKind::Success;
const CONFLICT: StatusKind = StatusKind::ReservationConflict;

#[test]
fn openers_of_one_host_reserve_a_namespace_against_each_other() {
    reserve_against_each_other(NVME);
}

#[test]
fn openers_of_one_host_reserve_a_logical_unit_against_each_other() {
    reserve_against_each_other(ISCSI);
}

fn reserve_against_each_other(how: (Protocol, u16)) {
    let mut hosts = Hosts::new(how, &[Some(1), Some(2)]);
    assert!(hosts.devices.iter().all(|device| device.features().reservations));
    assert_eq!(
        hosts.reserve(0, ReserveAction::Acquire { key: 1, kind: KIND }),
        CONFLICT,
        "it is not registered"
    );
    assert_eq!(hosts.reserve(0, ReserveAction::Register { key: 1 }), OK);
    assert_eq!(hosts.reserve(0, ReserveAction::Acquire { key: 1, kind: KIND }), OK);
    assert_eq!(hosts.report(1), (Some(KIND), vec![(1, true)]));
    assert_eq!((hosts.write(0), hosts.write(1)), (OK, CONFLICT));
    assert_eq!(hosts.reserve(1, ReserveAction::Register { key: 2 }), OK);
    assert_eq!((hosts.write(0), hosts.write(1)), (OK, OK));
    assert_eq!(hosts.reserve(1, ReserveAction::Preempt { key: 2, of: 1, kind: KIND }), OK);
    assert_eq!(hosts.report(0), (Some(KIND), vec![(2, true)]));
    assert_eq!((hosts.write(0), hosts.write(1)), (CONFLICT, OK));
    assert_eq!(hosts.reserve(1, ReserveAction::Release { key: 2, kind: KIND }), OK);
    assert_eq!(hosts.report(0), (None, vec![(2, false)]));
    assert_eq!(hosts.reserve(1, ReserveAction::Unregister { key: 2 }), OK);
    assert_eq!(hosts.report(0), (None, vec![]));
}

#[test]
fn an_opener_that_is_registered_already_gets_its_new_key() {
    let mut hosts = Hosts::new(NVME, &[Some(1), Some(1), None]);
    assert_eq!(hosts.reserve(0, ReserveAction::Register { key: 1 }), OK);
    // The same opener, after a restart for example, does not know the key.
    assert_eq!(hosts.reserve(1, ReserveAction::Register { key: 7 }), OK);
    assert_eq!(hosts.report(0), (None, vec![(7, false)]));
    assert_eq!(hosts.reserve(2, ReserveAction::Register { key: 7 }), OK);
    assert_eq!(hosts.report(0), (None, vec![(7, false), (7, false)]));
}

#[test]
fn an_opener_that_comes_back_is_the_registrant_that_it_was() {
    let mut hosts = Hosts::new(ISCSI, &[Some(1), Some(2)]);
    let kind = ReservationKind::WriteExclusive;
    assert_eq!(hosts.reserve(0, ReserveAction::Register { key: 1 }), OK);
    assert_eq!(hosts.reserve(0, ReserveAction::Acquire { key: 1, kind }), OK);
    assert_eq!((hosts.write(0), hosts.write(1)), (OK, CONFLICT));
    drop(hosts.devices.remove(0));
    hosts.pass(Duration::from_secs(1));
    let again = hosts.open(Some(1));
    hosts.devices.insert(0, again);
    assert_eq!((hosts.write(0), hosts.write(1)), (OK, CONFLICT));
    assert_eq!(hosts.reserve(0, ReserveAction::Unregister { key: 1 }), OK);
    assert_eq!((hosts.report(0), hosts.write(1)), ((None, vec![]), OK));
}

#[test]
fn one_of_several_sessions_reports_and_does_not_shut_out_the_others() {
    let mut hosts = Hosts::new((Protocol::Iscsi, 2), &[Some(1), None]);
    assert_eq!(hosts.reserve(0, ReserveAction::Register { key: 1 }), StatusKind::Unsupported);
    assert_eq!(hosts.report(0), (None, vec![]));
    assert_eq!((hosts.write(0), hosts.write(1)), (OK, OK));
}
