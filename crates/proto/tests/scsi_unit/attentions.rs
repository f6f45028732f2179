//! Unit attentions: their contents and their times.

use super::rig::{ALL, BLOCKS, Rig, config};
use std::sync::Arc;
use weft_proto::scsi::cdb::{Command, Extent};
use weft_proto::scsi::lun::{
    Arrival, LogicalUnit, Nexus, Step, Task, UnitConfig, UnitGeometry, lun_of,
};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, ScsiStatus, SenseKey as Key};

pub const READY: Command = Command::TestUnitReady;

/// Returns the unit attention that a host gets before its next command.
pub fn told(rig: &mut Rig, host: &mut Nexus) -> Option<Code> {
    let ended = rig.run(host, READY, &[]);
    assert!(ended.sense.is_none_or(|sense| sense.key == Key::UNIT_ATTENTION));
    ended.sense.map(|sense| sense.code)
}

#[test]
fn who_comes_is_told_once() {
    let mut rig = Rig::new();
    let mut host = rig.new_host(1);
    assert_eq!(told(&mut rig, &mut host), Some(Code::POWER_ON_OR_RESET));
    assert_eq!(told(&mut rig, &mut host), None);
    let initiator = host.name().initiator.clone();
    drop(host);
    let mut host = rig.target.attach(initiator, 1, Arrival::Again, &rig.units);
    assert_eq!(told(&mut rig, &mut host), Some(Code::NEXUS_LOSS));
}

#[test]
fn some_commands_look_past_what_waits() {
    let mut rig = Rig::new();
    let mut host = rig.new_host(1);
    assert!(rig.run(&mut host, Command::Inquiry { page: None, allocation: 96 }, &[]).is_good());
    assert!(rig.run(&mut host, Command::ReportLuns { select: 0, allocation: 16 }, &[]).is_good());
    let ended =
        rig.run(&mut host, Command::RequestSense { descriptor: false, allocation: 18 }, &[]);
    assert_eq!(
        Sense::decode(&ended.data),
        Some(Sense::new(Key::UNIT_ATTENTION, Code::POWER_ON_OR_RESET))
    );
    assert_eq!(told(&mut rig, &mut host), None);
    let ended =
        rig.run(&mut host, Command::RequestSense { descriptor: true, allocation: 252 }, &[]);
    assert_eq!(Sense::decode(&ended.data), Some(Sense::default()));
}

#[test]
fn an_unknown_command_waits_its_turn() {
    let mut rig = Rig::new();
    let mut host = rig.new_host(1);
    let mut cdb = [0; 16];
    cdb[0] = 0xff;
    assert_eq!(
        rig.send(&mut host, 0, &cdb, &[]).sense.map(|sense| sense.code),
        Some(Code::POWER_ON_OR_RESET)
    );
    assert_eq!(
        rig.send(&mut host, 0, &cdb, &[]).sense.map(|sense| sense.code),
        Some(Code::INVALID_COMMAND_OPERATION_CODE)
    );
}

#[test]
fn a_new_size_is_told_to_all() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    rig.unit.resize(1000);
    rig.unit.resize(1000);
    for host in [&mut one, &mut two] {
        assert_eq!(told(&mut rig, host), Some(Code::CAPACITY_DATA_CHANGED));
        let ended = rig.run(host, Command::ReadCapacity10, &[]);
        assert_eq!(ended.data[..4], 999u32.to_be_bytes());
        assert_eq!(told(&mut rig, host), None);
    }
}

#[test]
fn a_reset_is_told_to_all_and_ends_the_others_commands() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    assert!(one.reset_unit(0) && !one.reset_unit(lun_of(3)));
    assert_eq!((one.take_wake(), one.take_wake()), (Some(two.id()), None));
    assert_eq!((two.take_abort(), two.take_abort(), one.take_abort()), (Some(0), None, None));
    assert_eq!(told(&mut rig, &mut two), Some(Code::DEVICE_RESET));
    assert_eq!(told(&mut rig, &mut one), Some(Code::DEVICE_RESET));
}

#[test]
fn a_cleared_task_set_is_told_to_the_others() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    assert!(one.clear_task_set(0));
    assert_eq!(one.take_wake(), Some(two.id()));
    assert_eq!(two.take_abort(), Some(0));
    assert_eq!(
        (told(&mut rig, &mut one), told(&mut rig, &mut two)),
        (None, Some(Code::COMMANDS_CLEARED))
    );
}

#[test]
fn units_come_and_go() {
    let mut rig = Rig::new();
    let mut host = rig.host(1);
    let further = LogicalUnit::new(config(ALL), None);
    assert!(rig.units.insert(256, further.clone()).is_err());
    rig.units.insert(3, further).unwrap();
    host.set_units(&rig.units);
    assert_eq!(told(&mut rig, &mut host), Some(Code::REPORTED_LUNS_DATA_CHANGED));
    let luns = Command::ReportLuns { select: 0, allocation: 256 };
    let data = rig.run(&mut host, luns, &[]).data;
    assert_eq!(
        data,
        [[0, 0, 0, 16, 0, 0, 0, 0], lun_of(0).to_be_bytes(), lun_of(3).to_be_bytes()].concat()
    );
    let ready = READY.encode().bytes;
    assert_eq!(
        rig.send(&mut host, lun_of(3), &ready, &[]).sense.map(|sense| sense.code),
        Some(Code::POWER_ON_OR_RESET)
    );
    assert!(rig.units.remove(3).is_some() && rig.units.remove(3).is_none());
    host.set_units(&rig.units);
    // Who reads the list needs not be told.
    assert_eq!(rig.run(&mut host, luns, &[]).data.len(), 16);
    assert_eq!(told(&mut rig, &mut host), None);
    let ended = rig.send(&mut host, lun_of(3), &ready, &[]);
    assert_eq!(
        (ended.status, ended.sense.map(|sense| sense.code)),
        (ScsiStatus::CHECK_CONDITION, Some(Code::LOGICAL_UNIT_NOT_SUPPORTED))
    );
    host.set_units(&rig.units);
    assert_eq!(told(&mut rig, &mut host), None, "nothing has changed");
}

/// The disk with other features and another size.
fn another(blocks: u64) -> Arc<LogicalUnit> {
    let config = config(ALL);
    LogicalUnit::new(
        UnitConfig { geometry: UnitGeometry { blocks, ..config.geometry }, ..config },
        None,
    )
}

#[test]
fn another_unit_under_the_same_number_is_told() {
    let mut rig = Rig::new();
    let mut host = rig.host(1);
    rig.units.insert(0, another(BLOCKS)).unwrap();
    host.set_units(&rig.units);
    assert_eq!(told(&mut rig, &mut host), Some(Code::INQUIRY_DATA_CHANGED));
    assert_eq!(told(&mut rig, &mut host), None);
    rig.units.insert(0, another(BLOCKS / 2)).unwrap();
    host.set_units(&rig.units);
    assert_eq!(told(&mut rig, &mut host), Some(Code::CAPACITY_DATA_CHANGED));
    assert_eq!(told(&mut rig, &mut host), Some(Code::INQUIRY_DATA_CHANGED));
    assert_eq!(told(&mut rig, &mut host), None);
}

#[test]
fn each_host_has_a_list_of_its_own() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    let mut of_two = rig.units.clone();
    of_two.insert(1, another(BLOCKS)).unwrap();
    two.set_units(&of_two);
    assert_eq!(
        (told(&mut rig, &mut one), told(&mut rig, &mut two)),
        (None, Some(Code::REPORTED_LUNS_DATA_CHANGED))
    );
    let luns = Command::ReportLuns { select: 0, allocation: 256 };
    assert_eq!(
        (rig.run(&mut one, luns, &[]).data.len(), rig.run(&mut two, luns, &[]).data.len()),
        (16, 24)
    );
    let ended = rig.send(&mut one, lun_of(1), &READY.encode().bytes, &[]);
    assert_eq!(ended.sense.map(|sense| sense.code), Some(Code::LOGICAL_UNIT_NOT_SUPPORTED));
}

#[test]
fn data_never_goes_to_another_unit_than_it_was_meant_for() {
    let write = Command::Write { extent: Extent { lba: 8, blocks: 2 }, dpo: false, fua: false };
    let cdb = write.encode().bytes;
    for (what, after) in [("replaced", Some(another(BLOCKS))), ("removed", None)] {
        let mut rig = Rig::new();
        let mut host = rig.host(1);
        let mut task = Task::new();
        assert_eq!(host.start(&mut task, 0, &cdb, 1024), Step::Fetch { bytes: 1024 });
        match after {
            Some(unit) => rig.units.insert(0, unit).unwrap(),
            None => _ = rig.units.remove(0),
        }
        host.set_units(&rig.units);
        let Step::Reply(reply) = host.data(&mut task, &[1; 1024]) else { panic!("{what}") };
        let code = reply.sense.map(|sense| sense.code);
        assert_eq!(
            (reply.status, code),
            (ScsiStatus::CHECK_CONDITION, Some(Code::LOGICAL_UNIT_NOT_SUPPORTED)),
            "{what}"
        );
    }
}

#[test]
fn a_request_that_waits_is_revoked_when_its_blocks_are_gone() {
    let mut rig = Rig::new();
    let mut host = rig.host(1);
    let read = Command::Read { extent: Extent { lba: 8, blocks: 2 }, dpo: false, fua: false };
    let mut task = Task::new();
    let Step::Submit(request) = host.start(&mut task, 0, &read.encode().bytes, 0) else { panic!() };
    assert!(!host.revoked(&task, request.lba, request.blocks));
    rig.unit.resize(10);
    assert!(!host.revoked(&task, request.lba, request.blocks));
    rig.unit.resize(9);
    assert!(host.revoked(&task, request.lba, request.blocks));
    rig.unit.resize(BLOCKS);
    rig.units.insert(0, another(BLOCKS)).unwrap();
    host.set_units(&rig.units);
    assert!(host.revoked(&task, request.lba, request.blocks));
}
