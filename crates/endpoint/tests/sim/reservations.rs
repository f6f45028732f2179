//! Initiators that reserve a namespace of a target.

use crate::protocols::{AnyScene, Protocol};
use crate::scene::{Setup, options, run_ops};
use uuid::Uuid;
use weft_block::limits::RESERVATION_REPORT_BYTES;
use weft_block::{Device, Op, OpKind, OpenOptions, Outcome, ReservationKind, ReservationReport, ReserveAction, StatusKind};
use weft_endpoint::ConnectOptions;

const BLOCK: usize = 512;
const KIND: ReservationKind = ReservationKind::WriteExclusiveRegistrantsOnly;
/// Each operation of a test has a queue of its own.
const QUEUES: u16 = 12;

struct Hosts {
    scene: AnyScene,
    devices: Vec<Device>,
}

impl Hosts {
    /// Openers of one host with the same namespace.
    fn new(openers: &[Option<u128>]) -> Self {
        let store = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        let mut scene = Protocol::NvmeTcp.scene(Setup::new(1, store));
        let of = |opener: Option<u128>| ConnectOptions { opener: opener.map(Uuid::from_u128), nr_io_queues: QUEUES, ..options() };
        let url = Protocol::NvmeTcp.url();
        let devices = openers.iter().map(|opener| scene.open_url(&url, &of(*opener)).unwrap()).collect();
        Self { scene, devices }
    }

    fn run(&mut self, host: usize, kind: OpKind, bytes: usize) -> (Outcome, Vec<u8>) {
        let on = self.scene.io_loop(0);
        let mut op = Op::bare(kind, 0, (bytes / BLOCK) as u32, 0);
        if bytes > 0 {
            let mut data = on.pool().take(bytes).unwrap();
            data.fill(0xee);
            op.data.push(data.into());
        }
        let done = run_ops(&mut self.scene.world, &on, self.devices[host].as_ref(), vec![op]).remove(0);
        (done.outcome, done.op.data.first().map_or_else(Vec::new, |data| data.to_vec()))
    }

    fn reserve(&mut self, host: usize, action: ReserveAction) -> StatusKind {
        self.run(host, OpKind::Reserve(action), 0).0.status().kind
    }

    fn write(&mut self, host: usize) -> StatusKind {
        self.run(host, OpKind::Write { fua: false }, BLOCK).0.status().kind
    }

    /// The type, and the key of each registrant and whether it holds the reservation; and that all are different hosts.
    fn report(&mut self, host: usize) -> (Option<ReservationKind>, Vec<(u64, bool)>) {
        let (outcome, data) = self.run(host, OpKind::ReservationReport, RESERVATION_REPORT_BYTES);
        assert_eq!(outcome, Outcome::SUCCESS);
        let report = ReservationReport::decode(&data).unwrap();
        assert!(!report.is_cut);
        let mut hosts: Vec<_> = report.registrants.iter().map(|of| of.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        assert_eq!(hosts.len(), report.registrants.len());
        let mut registrants: Vec<_> = report.registrants.iter().map(|of| (of.key, of.holds)).collect();
        registrants.sort_unstable();
        (report.kind, registrants)
    }
}

const OK: StatusKind = StatusKind::Success;
const CONFLICT: StatusKind = StatusKind::ReservationConflict;

#[test]
fn openers_of_one_host_reserve_against_each_other() {
    let mut hosts = Hosts::new(&[Some(1), Some(2)]);
    assert!(hosts.devices.iter().all(|device| device.features().reservations));
    assert_eq!(hosts.reserve(0, ReserveAction::Acquire { key: 1, kind: KIND }), CONFLICT, "it is not registered");
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
    let mut hosts = Hosts::new(&[Some(1), Some(1), None]);
    assert_eq!(hosts.reserve(0, ReserveAction::Register { key: 1 }), OK);
    // The same opener, after a restart for example, does not know the key.
    assert_eq!(hosts.reserve(1, ReserveAction::Register { key: 7 }), OK);
    assert_eq!(hosts.report(0), (None, vec![(7, false)]));
    assert_eq!(hosts.reserve(2, ReserveAction::Register { key: 7 }), OK);
    assert_eq!(hosts.report(0), (None, vec![(7, false), (7, false)]));
}
