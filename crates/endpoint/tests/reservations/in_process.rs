//! A host in the serving process, and hosts of other protocols on the same namespace.

use super::nvme::NvmeHost;
use super::{GOOD, INITIATOR, NQN, Testbed, reserve_out};
use crate::devices::Testing;
use crate::iscsi_wire::host::Host;
use crate::served;
use std::sync::Arc;
use std::thread;
use weft_block::limits::RESERVATION_REPORT_BYTES;
use weft_block::testing::{Rig, TestOp, TestPlan};
use weft_block::{
    BlockDevice, OpKind, ReservationKind, ReservationReport, ReserveAction, StatusKind,
};
use weft_endpoint::export::in_process::InProcess;
use weft_endpoint::export::stop_all;
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};
use weft_testing::wait::until;

const EXCLUSIVE: ReservationKind = ReservationKind::ExclusiveAccess;
const CONFLICT: StatusKind = StatusKind::ReservationConflict;

/// A host in this process.
fn open(export: &InProcess, number: u8) -> Arc<dyn BlockDevice> {
    let nqn = Nqn::new(&format!("nqn.2026-01.example.host:{number}")).unwrap();
    let host = HostIdentity { nqn, id: Id128([number; 16]) };
    export.open(host, &Nqn::new(NQN).unwrap(), Nsid(1)).unwrap()
}

fn rig(export: &InProcess, number: u8) -> Rig {
    Rig::new(&open(export, number), TestPlan::default())
}

fn reserve(action: ReserveAction) -> TestOp {
    let kind = OpKind::Reserve(action);
    TestOp { kind, lba: 0, blocks: 0, data: Vec::new(), cuts: Vec::new() }
}

fn report(rig: &Rig) -> ReservationReport {
    let data = vec![0xee; RESERVATION_REPORT_BYTES];
    let answer = rig.one(0, rig.request(OpKind::ReservationReport, 0, data));
    ReservationReport::decode(&answer).unwrap()
}

fn write(rig: &Rig) -> TestOp {
    rig.request(OpKind::Write { fua: false }, 0, vec![3; 512])
}

#[test]
fn a_host_in_this_process_and_hosts_of_other_protocols_keep_each_other_out() {
    let subsystem = SubsystemConfig::new(Nqn::new(NQN).unwrap());
    let inventory = LiveInventory::of_devices(subsystem, served::devices(&["ram:1MiB"])).unwrap();
    let export = InProcess::start(&inventory);
    let stage = Testbed::serve(inventory);
    let (rig, mut nvme) = (rig(&export, 9), stage.nvme_host(1));
    let mut scsi = Host::logged_in(&stage.iscsi, INITIATOR);

    // The host in this process reserves.
    rig.fails(0, reserve(ReserveAction::Acquire { key: 5, kind: EXCLUSIVE }), CONFLICT);
    rig.one(0, reserve(ReserveAction::Register { key: 5 }));
    rig.one(0, reserve(ReserveAction::Acquire { key: 5, kind: EXCLUSIVE }));
    rig.one(0, write(&rig));
    assert_eq!([nvme.read(), nvme.write()], [Status::RESERVATION_CONFLICT; 2]);
    let told = report(&rig);
    assert_eq!((told.kind, told.registrants.len()), (Some(EXCLUSIVE), 1));
    assert_eq!((told.registrants[0].host, told.registrants[0].key), ([9; 16], 5));

    // The NVMe host preempts it.
    assert_eq!(nvme.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 1]), Status::SUCCESS);
    assert_eq!(nvme.reserve(NvmOpcode::RESERVATION_ACQUIRE, 2 | 2 << 8, [1, 5]), Status::SUCCESS);
    rig.fails(0, write(&rig), CONFLICT);
    rig.fails(0, rig.request(OpKind::Read, 0, vec![0; 512]), CONFLICT);
    assert_eq!(nvme.write(), Status::SUCCESS);

    // And it takes it back; the initiator then takes it from both.
    rig.one(0, reserve(ReserveAction::Register { key: 6 }));
    rig.one(0, reserve(ReserveAction::Preempt { key: 6, of: 1, kind: EXCLUSIVE }));
    rig.one(0, write(&rig));
    assert_eq!(nvme.write(), Status::RESERVATION_CONFLICT);
    assert_eq!(reserve_out(&mut scsi, 6, 0, [0, 0x11]), GOOD);
    assert_eq!(reserve_out(&mut scsi, 4, 1, [0x11, 6]), GOOD);
    rig.fails(0, write(&rig), CONFLICT);
    assert_eq!(rig.read(0, 0, 1).len(), 512, "all read");
    assert_eq!(report(&rig).registrants.len(), 1);
    assert_eq!(reserve_out(&mut scsi, 3, 0, [0x11, 0]), GOOD);
    rig.one(0, write(&rig));
    rig.end();
    stop_all(&[&export], &[]).unwrap();
}

/// Preempt and Abort is answered only when no device has commands of the host that was preempted,
/// while other commands of the same device go on.
#[test]
fn preempting_waits_for_the_commands_of_a_host_in_this_process() {
    let testing = Testing::new("ram:1MiB");
    let subsystem = SubsystemConfig::new(Nqn::new(NQN).unwrap());
    let device = Arc::clone(&testing) as Arc<dyn BlockDevice>;
    let inventory = LiveInventory::of_devices(subsystem, vec![device]).unwrap();
    let export = InProcess::start(&inventory);
    let stage = Testbed::serve(Arc::clone(&inventory));
    let (fenced, other) = (rig(&export, 9), rig(&export, 8));
    for (host, key) in [(&fenced, 1), (&other, 2)] {
        host.one(0, reserve(ReserveAction::Register { key }));
    }
    let kind = ReservationKind::WriteExclusiveRegistrantsOnly;
    fenced.one(0, reserve(ReserveAction::Acquire { key: 1, kind }));
    let mut nvme: NvmeHost = stage.nvme_host(3);
    assert_eq!(nvme.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 3]), Status::SUCCESS);
    testing.knobs.freeze(true);
    let under_way = fenced.start(0, vec![write(&fenced)]);
    until("the write is in the device", || testing.knobs.held() == 1);
    let preempting = thread::spawn(move || {
        let status = nvme.reserve(NvmOpcode::RESERVATION_ACQUIRE, 2 | 3 << 8, [3, 1]);
        (status, nvme)
    });
    until("the write is cancelled", || testing.knobs.cancels_asked() > 0);
    assert!(!preempting.is_finished(), "the device has a command of the host");
    testing.knobs.freeze(false);
    let answer = fenced.wait(0, &under_way).remove(0);
    let (status, nvme) = preempting.join().unwrap();
    assert_eq!(status, Status::SUCCESS);
    assert!(
        answer.outcome.is_success() || answer.outcome.status().kind == StatusKind::Aborted,
        "{answer:?}"
    );
    fenced.fails(0, write(&fenced), CONFLICT);
    other.one(0, write(&other));
    drop(nvme);
    fenced.end();
    other.end();
    stop_all(&[&export], &[]).unwrap();
}
