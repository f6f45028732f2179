//! Reservations as NVMe hosts ask for them: commands, what they keep out, notifications, features.

use std::sync::Arc;

use crate::nvme_controller_support::{
    Rig, aer, blocks, get_feature, get_log, identify, namespace, replied, set_feature, submitted,
    subsystem,
};
use weft_proto::nvme::controller::{ControlEvent, DeviceOutcome, IoNext, IoQueue, Namespace, Next};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::identify::Cns;
use weft_proto::nvme::log_page::LogPageId;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Id128, Nsid};
use weft_proto::reservation::{
    Action, KeyCheck, Kind, Notice, Registrant, ReservationRequest, ReservationState, Reservations,
};
use weft_proto::scsi::lun::{NexusName, TransportId};
use weft_proto::stream::Tag;

const T: Tag = Tag(3);
const HOST: Id128 = crate::nvme_controller_support::HOST_ID;
const ACQUIRE: NvmOpcode = NvmOpcode::RESERVATION_ACQUIRE;
const REGISTER: NvmOpcode = NvmOpcode::RESERVATION_REGISTER;
const RELEASE: NvmOpcode = NvmOpcode::RESERVATION_RELEASE;

/// A controller, its I/O queue, and the reservations of namespace 1.
struct ReservationRig {
    rig: Rig,
    queue: IoQueue,
    reservations: Arc<Reservations>,
}

impl ReservationRig {
    fn new() -> Self {
        Self::with(Reservations::volatile())
    }

    fn with(reservations: Arc<Reservations>) -> Self {
        let mut subsystem = subsystem();
        subsystem
            .set_namespace(Namespace {
                reservations: Some(Arc::clone(&reservations)),
                ..namespace(1)
            })
            .unwrap();
        let mut rig = Rig::enabled(subsystem);
        let queue = rig.connect_io(1).unwrap();
        Self { rig, queue, reservations }
    }

    /// Sends a command that changes reservations, with these keys.
    fn send(&mut self, opcode: NvmOpcode, dword10: u32, keys: &[u64]) -> Cqe {
        let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        let sqe = command(opcode, dword10, data.len() as u32);
        match self.queue.start(T, &sqe, 0) {
            IoNext::Fetch { bytes } => assert_eq!(bytes as usize, data.len()),
            refused => return replied(refused),
        }
        let next = self.queue.data(T, &data);
        let IoNext::Reserve { namespace } = next else { return replied(next) };
        assert_eq!(namespace, 0);
        let outcome = self.reservations.execute(&self.queue.take_operation().unwrap());
        replied(self.queue.reserved(T, outcome.map(|_| ())))
    }

    fn status(&mut self, opcode: NvmOpcode, dword10: u32, keys: &[u64]) -> Status {
        self.send(opcode, dword10, keys).status
    }

    /// Another host, or an initiator, does something.
    fn other(&self, by: &Registrant, action: Action) {
        self.reservations
            .execute(&ReservationRequest { by: by.clone(), action, persist: None })
            .unwrap();
    }

    fn report(&mut self, bytes: u32) -> Vec<u8> {
        let mut memory = vec![0xee; bytes as usize];
        assert_eq!(self.queue.start(T, &report(bytes, 1), 0), IoNext::Report { bytes });
        match self.queue.report(T, &mut memory) {
            IoNext::Reply { cqe, data_bytes } if data_bytes == bytes => {
                assert_eq!(cqe.status, Status::SUCCESS)
            }
            other => panic!("{other:?}"),
        }
        memory
    }

    /// The status of a command that the device would get.
    fn access(&mut self, opcode: NvmOpcode) -> Status {
        let next = match self.queue.start(T, &blocks(opcode, 1, 0, 1), 0) {
            IoNext::Fetch { .. } => self.queue.data(T, &[]),
            next => next,
        };
        match next {
            IoNext::Submit(_) => replied(self.queue.finished(T, DeviceOutcome::DONE, &[])).status,
            next => replied(next).status,
        }
    }
}

fn command(opcode: NvmOpcode, dword10: u32, bytes: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode.0, Nsid(1));
    sqe.set_dword(10, dword10);
    sqe.set_sgl(Sgl::transport(bytes));
    sqe
}

fn report(bytes: u32, dword11: u32) -> Sqe {
    let mut sqe = command(NvmOpcode::RESERVATION_REPORT, bytes / 4 - 1, bytes);
    sqe.set_dword(11, dword11);
    sqe
}

fn other() -> Registrant {
    Registrant::Host(Id128([9; 16]))
}

fn register(key: u64) -> Action {
    Action::Register { check: KeyCheck::Ignore, key, all_ports: false }
}

fn typed(action: u32, kind: Kind) -> u32 {
    action | u32::from(kind.nvme()) << 8
}

#[test]
fn a_host_registers_replaces_its_key_and_unregisters() {
    let mut stage = ReservationRig::new();
    assert_eq!(stage.status(REGISTER, 0, &[0, 1]), Status::SUCCESS);
    assert_eq!(stage.status(REGISTER, 0, &[0, 1]), Status::SUCCESS, "the same key again");
    assert_eq!(stage.status(REGISTER, 0, &[0, 2]), Status::RESERVATION_CONFLICT);
    assert_eq!(stage.status(REGISTER, 2, &[5, 2]), Status::RESERVATION_CONFLICT);
    assert_eq!(stage.status(REGISTER, 2, &[1, 2]), Status::SUCCESS);
    assert_eq!(stage.status(REGISTER, 2 | 8, &[77, 3]), Status::SUCCESS, "IEKEY");
    assert_eq!(stage.status(REGISTER, 1, &[2, 0]), Status::RESERVATION_CONFLICT);
    assert_eq!(stage.status(REGISTER, 1 | 8, &[2, 0]), Status::SUCCESS, "IEKEY");
    assert_eq!(
        stage.status(REGISTER, 1, &[0, 0]),
        Status::RESERVATION_CONFLICT,
        "who is not registered"
    );
    assert_eq!(stage.reservations.look(ReservationState::generation), 5);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut stage = ReservationRig::new();
    let invalid = [
        (REGISTER, 3, 16),
        (REGISTER, 1 << 30, 16),
        (ACQUIRE, 1 << 8 | 3, 16),
        (ACQUIRE, 0, 16),
        (ACQUIRE, 7 << 8, 16),
        (ACQUIRE, 1 << 8 | 8, 16),
        (RELEASE, 1 << 8 | 2, 8),
        (RELEASE, 1 << 8 | 8, 8),
    ];
    for (opcode, dword10, bytes) in invalid {
        let cqe = replied(stage.queue.start(T, &command(opcode, dword10, bytes), 0));
        assert_eq!(
            (cqe.status, cqe.do_not_retry),
            (Status::INVALID_FIELD, true),
            "{opcode} {dword10:#x}"
        );
    }
    for (opcode, bytes) in [(REGISTER, 8), (ACQUIRE, 24), (RELEASE, 4)] {
        let cqe = replied(stage.queue.start(T, &command(opcode, 1 << 8, bytes), 0));
        assert_eq!(cqe.status, Status::DATA_SGL_LENGTH_INVALID);
    }
    assert_eq!(stage.status(REGISTER, 0, &[0, 0]), Status::INVALID_FIELD, "key zero");
    assert_eq!(
        stage.status(REGISTER, 3 << 30, &[0, 1]),
        Status::INVALID_FIELD,
        "PTPL, which RESCAP does not have"
    );
    assert_eq!(replied(stage.queue.start(T, &report(64, 0), 0)).status, Status::HOST_ID_FORMAT);
    let mut elsewhere = command(REGISTER, 0, 16);
    for (nsid, status) in [(2, Status::INVALID_OPCODE), (3, Status::INVALID_NAMESPACE)] {
        elsewhere.set_dword(1, nsid);
        assert_eq!(replied(stage.queue.start(T, &elsewhere, 0)).status, status);
    }
    let mut without = Rig::io();
    let mut queue = without.connect_io(1).unwrap();
    assert_eq!(
        replied(queue.start(T, &command(REGISTER, 0, 16), 0)).status,
        Status::INVALID_OPCODE
    );
}

#[test]
fn each_type_keeps_out_what_it_should() {
    for kind in Kind::ALL {
        let mut stage = ReservationRig::new();
        stage.other(&other(), register(9));
        stage.other(&other(), Action::Acquire { key: 9, kind });
        let read = if kind.others().read { Status::SUCCESS } else { Status::RESERVATION_CONFLICT };
        for (opcode, status) in [
            (NvmOpcode::READ, read),
            (NvmOpcode::COMPARE, read),
            (NvmOpcode::WRITE, Status::RESERVATION_CONFLICT),
            (NvmOpcode::WRITE_ZEROES, Status::RESERVATION_CONFLICT),
            (NvmOpcode::FLUSH, Status::RESERVATION_CONFLICT),
        ] {
            assert_eq!(stage.access(opcode), status, "{opcode} under {kind:?}");
        }
        assert_eq!(stage.status(REGISTER, 0, &[0, 1]), Status::SUCCESS);
        let shared = if kind.is_shared() { Status::SUCCESS } else { Status::RESERVATION_CONFLICT };
        assert_eq!(stage.access(NvmOpcode::WRITE), shared, "{kind:?}");
        let again = if kind.all_hold() { Status::SUCCESS } else { Status::RESERVATION_CONFLICT };
        assert_eq!(stage.status(ACQUIRE, typed(0, kind), &[1, 0]), again);
        assert_eq!(
            stage.status(ACQUIRE, typed(1, kind), &[1, if kind.all_hold() { 0 } else { 9 }]),
            Status::SUCCESS
        );
        assert_eq!(stage.access(NvmOpcode::WRITE), Status::SUCCESS);
        assert_eq!(stage.status(RELEASE, typed(0, kind), &[1]), Status::SUCCESS);
        assert_eq!(stage.reservations.epoch(), 0);
    }
}

#[test]
fn a_write_whose_data_comes_after_the_reservation_is_not_stored() {
    let mut stage = ReservationRig::new();
    assert_eq!(
        stage.queue.start(T, &blocks(NvmOpcode::WRITE, 1, 0, 1), 0),
        IoNext::Fetch { bytes: 512 }
    );
    stage.other(&other(), register(9));
    stage.other(&other(), Action::Acquire { key: 9, kind: Kind::WriteExclusive });
    assert_eq!(replied(stage.queue.data(T, &[])).status, Status::RESERVATION_CONFLICT);
}

#[test]
fn releasing_and_clearing() {
    let mut stage = ReservationRig::new();
    let kind = Kind::ExclusiveAccess;
    assert_eq!(
        stage.status(RELEASE, typed(0, kind), &[1, 0]),
        Status::RESERVATION_CONFLICT,
        "who is not registered"
    );
    assert_eq!(stage.status(REGISTER, 0, &[0, 1]), Status::SUCCESS);
    assert_eq!(stage.status(RELEASE, typed(0, kind), &[1]), Status::SUCCESS, "who holds nothing");
    assert_eq!(stage.status(ACQUIRE, typed(0, kind), &[1, 0]), Status::SUCCESS);
    assert_eq!(stage.status(RELEASE, typed(0, Kind::WriteExclusive), &[1]), Status::INVALID_FIELD);
    assert_eq!(stage.status(RELEASE, 1, &[2]), Status::RESERVATION_CONFLICT);
    assert_eq!(stage.status(RELEASE, 1, &[1]), Status::SUCCESS);
    assert!(stage.reservations.look(|state| state.registrations().is_empty()));
}

#[test]
fn a_report_names_registrants_of_both_protocols() {
    let mut stage = ReservationRig::new();
    assert_eq!(stage.status(REGISTER, 0, &[0, 0x0102_0304_0506_0708]), Status::SUCCESS);
    let initiator = TransportId::iscsi("iqn.2026-11.example:i", [0x40, 0, 1, 0x37, 0, 2]);
    let nexus = Registrant::Nexus(NexusName { initiator, target_port: 1 });
    stage.other(&nexus, register(5));
    let kind = Kind::ExclusiveAccessRegistrantsOnly;
    assert_eq!(stage.status(ACQUIRE, typed(0, kind), &[0x0102_0304_0506_0708, 0]), Status::SUCCESS);
    let data = stage.report(64 * 4);
    assert_eq!(data[..10], [2, 0, 0, 0, 4, 2, 0, 0, 0, 0]);
    assert!(data[10..64].iter().all(|byte| *byte == 0));
    assert_eq!(data[64..80], [0xff, 0xff, 1, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(data[80..96], HOST.0);
    assert_eq!(data[128..144], [0xff, 0xff, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_ne!(data[144..160], [0; 16]);
    assert!(data[192..].iter().all(|byte| *byte == 0));
    assert_eq!(stage.report(64), data[..64]);
}

#[test]
fn preempting_and_aborting_dooms_what_has_not_reached_a_device() {
    let mut stage = ReservationRig::new();
    let (fetching, in_device, elsewhere) = (Tag(5), Tag(6), Tag(7));
    let sqe = |nsid| crate::nvme_controller_support::cid(blocks(NvmOpcode::WRITE, nsid, 0, 1), 1);
    assert_eq!(stage.queue.start(fetching, &sqe(1), 0), IoNext::Fetch { bytes: 512 });
    for (tag, nsid) in [(in_device, 1), (elsewhere, 2)] {
        assert_eq!(stage.queue.start(tag, &sqe(nsid), 0), IoNext::Fetch { bytes: 512 });
        submitted(stage.queue.data(tag, &[]));
    }
    assert_eq!(stage.queue.preempt(Some(Nsid(1))), [in_device]);
    assert_eq!(replied(stage.queue.data(fetching, &[])).status, Status::PREEMPT_ABORT);
    assert_eq!(stage.queue.revoked(in_device), Some(Status::PREEMPT_ABORT));
    assert_eq!(
        replied(stage.queue.finished(in_device, DeviceOutcome::DONE, &[])).status,
        Status::SUCCESS
    );
    assert_eq!(
        replied(stage.queue.finished(elsewhere, DeviceOutcome::DONE, &[])).status,
        Status::SUCCESS
    );
}

#[test]
fn preempting_waits_for_commands_of_a_namespace_that_is_gone() {
    let mut stage = ReservationRig::new();
    let (of_before, elsewhere) = (Tag(6), Tag(7));
    for (tag, nsid) in [(of_before, 1), (elsewhere, 2)] {
        let sqe = crate::nvme_controller_support::cid(blocks(NvmOpcode::WRITE, nsid, 0, 1), 1);
        assert_eq!(stage.queue.start(tag, &sqe, 0), IoNext::Fetch { bytes: 512 });
        submitted(stage.queue.data(tag, &[]));
    }
    assert_eq!(stage.queue.preempt(None), [], "nothing is gone");
    let mut rest = stage.queue.namespaces().clone();
    assert!(rest.remove(Nsid(1)));
    stage.queue.set_namespaces(Arc::new(rest));
    assert_eq!(stage.queue.preempt(None), [of_before]);
    assert_eq!(
        replied(stage.queue.finished(of_before, DeviceOutcome::DONE, &[])).status,
        Status::SUCCESS
    );
    assert_eq!(stage.queue.preempt(None), []);
}

#[test]
fn what_can_be_done_is_advertised() {
    let mut stage =
        ReservationRig::with(Arc::new(Reservations::new(ReservationState::default(), true)));
    let controller = stage.rig.data(identify(Cns::CONTROLLER, 0));
    assert_ne!(u16::from_le_bytes([controller[520], controller[521]]) & 1 << 5, 0, "ONCS");
    assert_eq!(controller[96] & 1, 1, "CTRATT: 128-bit host identifiers");
    assert_eq!(stage.rig.data(identify(Cns::NAMESPACE, 1))[31], 0xff, "RESCAP");
    assert_eq!(stage.rig.data(identify(Cns::INDEPENDENT_NAMESPACE, 1))[2], 0xff, "RESCAP");
    assert_eq!(stage.rig.data(identify(Cns::NAMESPACE, 2))[31], 0);
    assert_eq!(
        ReservationRig::new().rig.data(identify(Cns::NAMESPACE, 1))[31],
        0xfe,
        "without persistence"
    );
    let controller = Rig::io().data(identify(Cns::CONTROLLER, 0));
    assert_eq!(u16::from_le_bytes([controller[520], controller[521]]) & 1 << 5, 0, "ONCS");
}

#[test]
fn a_host_hears_of_what_others_did() {
    let mut stage = ReservationRig::new();
    assert_eq!(stage.rig.start(9, aer()), Next::Hold);
    let cid = stage.rig.last_cid();
    stage.rig.control.reservation_changed(Nsid(1), Notice::RegistrationPreempted);
    stage.rig.control.reservation_changed(Nsid(1), Notice::ReservationReleased);
    let (tag, cqe) = stage.rig.poll_reply();
    // Type 6, information 0, log page 80h.
    assert_eq!((tag, cqe.cid, cqe.result), (Tag(9), cid, 0x0080_0006));
    assert_eq!(stage.rig.poll(), None, "one event until the page is read");
    let page = get_log(LogPageId::RESERVATION_NOTIFICATION, 0, 64);
    assert_eq!(stage.rig.data(page)[..16], [1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0]);
    assert_eq!(stage.rig.data(page)[..16], [2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(stage.rig.data(page), [0; 64]);
    assert_eq!(stage.rig.start(9, aer()), Next::Hold);
    stage.rig.control.reservation_changed(Nsid(1), Notice::ReservationPreempted);
    assert_eq!(stage.rig.poll_reply().1.result, 0x0080_0006);
}

#[test]
fn a_host_masks_what_it_does_not_want_to_hear() {
    let mut stage = ReservationRig::new();
    let mask = |sqe: Sqe, nsid: u32| {
        let mut sqe = sqe;
        sqe.set_dword(1, nsid);
        sqe
    };
    let (id, all) = (FeatureId::RESERVATION_NOTIFICATION_MASK, 0xffff_ffff);
    assert_eq!(stage.rig.status(mask(set_feature(id, 0b1110), 3)), Status::INVALID_NAMESPACE);
    assert_eq!(stage.rig.status(mask(set_feature(id, 0b1110), all)), Status::SUCCESS);
    assert_eq!(stage.rig.status(mask(set_feature(id, 0b0010), 1)), Status::SUCCESS);
    assert_eq!(stage.rig.run(mask(get_feature(id, 0), 1)).0.result, 0b0010);
    assert_eq!(stage.rig.run(mask(get_feature(id, 0), 2)).0.result, 0b1110);
    stage.rig.control.reservation_changed(Nsid(1), Notice::RegistrationPreempted);
    let page = get_log(LogPageId::RESERVATION_NOTIFICATION, 0, 64);
    assert_eq!(stage.rig.data(page), [0; 64]);
    stage.rig.control.reservation_changed(Nsid(1), Notice::ReservationReleased);
    assert_eq!(stage.rig.data(page)[8], 2);
    assert_eq!(
        Rig::io().status(mask(get_feature(id, 0), 1)),
        Status::INVALID_FIELD,
        "no namespace can be reserved"
    );
}

#[test]
fn persistence_is_a_feature_too() {
    let mut stage =
        ReservationRig::with(Arc::new(Reservations::new(ReservationState::default(), true)));
    let mut set = set_feature(FeatureId::RESERVATION_PERSISTENCE, 1);
    set.set_dword(1, 1);
    assert_eq!(stage.rig.start(4, set), Next::Hold);
    let cid: Cid = stage.rig.last_cid();
    let Some(ControlEvent::Persist { ticket, nsid: Nsid(1), persist: true }) = stage.rig.poll()
    else {
        panic!("no event")
    };
    let outcome = stage.reservations.execute(&stage.rig.control.persistence(true));
    stage.rig.control.persisted(ticket, outcome.map(|_| ()));
    let (tag, cqe) = stage.rig.poll_reply();
    assert_eq!((tag, cqe.cid, cqe.status), (Tag(4), cid, Status::SUCCESS));
    let mut get = get_feature(FeatureId::RESERVATION_PERSISTENCE, 0);
    get.set_dword(1, 1);
    assert_eq!(stage.rig.run(get).0.result, 1);
    assert_eq!(stage.status(REGISTER, 0, &[0, 1]), Status::SUCCESS);
    assert_eq!(stage.report(64)[9], 1, "PTPLS");
    assert_eq!(stage.status(REGISTER, 2 << 30 | 2, &[1, 2]), Status::SUCCESS);
    assert_eq!(stage.report(64)[9], 0);
}
