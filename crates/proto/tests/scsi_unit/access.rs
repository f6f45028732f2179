//! Asymmetric logical unit access: the target ports as hosts see them, and refusals in each state.

use super::attentions::{READY, told};
use super::rig::Rig;
use weft_proto::limits::SCSI_PORTS_MAX;
use weft_proto::scsi::cdb::{Command, Extent, Operation, PageControl, ReportingOptions};
use weft_proto::scsi::lun::{AccessState, Nexus, PortAccess};
use weft_proto::scsi::opcode::{OpCode, ReservationType, ReserveIn, ReserveOut};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, SenseKey as Key};

const fn at(port: u16, state: AccessState) -> PortAccess {
    PortAccess { port, state, is_open: true }
}

const BOTH: [PortAccess; 2] = [at(1, AccessState::OPTIMIZED), at(2, AccessState::OPTIMIZED)];
const GROUPS: Command = Command::ReportTargetPortGroups { extended: false, allocation: 4096 };

/// A host at each of two ports.
fn hosts(rig: &mut Rig) -> (Nexus, Nexus) {
    assert!(!rig.unit.set_access(&BOTH, true), "nobody is to be told of ports that come");
    let (mut one, mut two) = (rig.new_host_at(1, 1), rig.new_host_at(2, 1));
    for host in [&mut one, &mut two] {
        assert_eq!(told(rig, host), Some(Code::POWER_ON_OR_RESET));
    }
    (one, two)
}

#[test]
fn each_port_is_a_group_and_its_state_is_told_to_all() {
    let mut rig = Rig::new();
    let (mut one, mut two) = hosts(&mut rig);
    assert!(rig.unit.set_access(&[BOTH[0], at(2, AccessState::NON_OPTIMIZED)], true));
    for (host, port) in [(&mut one, 1), (&mut two, 2)] {
        assert_eq!(told(&mut rig, host), Some(Code::ACCESS_STATE_CHANGED));
        assert_eq!(told(&mut rig, host), None);
        let first = [0, 0, 0, 24, 0, 0xcf, 0, 1, 0, 2, 0, 1, 0, 0, 0, 1];
        let second = [1, 0xcf, 0, 2, 0, 2, 0, 1, 0, 0, 0, 2];
        assert_eq!(rig.run(host, GROUPS, &[]).data, [&first[..], &second].concat());
        let page = rig.run(host, Command::Inquiry { page: Some(0x83), allocation: 512 }, &[]).data;
        let names = [
            &[0x51, 0x94, 0, 4, 0, 0, 0, port, 0x51, 0x95, 0, 4, 0, 0, 0, port][..],
            b"\x53\x98\0\x20iqn.2026-11.example:t,t,0x000",
        ];
        let names = [&names.concat()[..], &[b'0' + port, 0, 0]].concat();
        assert!(page.ends_with(&names), "{page:02x?}");
        let standard = rig.run(host, Command::Inquiry { page: None, allocation: 96 }, &[]).data;
        assert_eq!(standard[5..7], [0x10, 0x10], "TPGS: implicit; MULTIP");
        assert!(rig.run(host, READY, &[]).is_good());
    }
    assert!(!rig.unit.set_access(&[BOTH[0], at(2, AccessState::NON_OPTIMIZED)], true));
    assert_eq!(told(&mut rig, &mut one), None, "nothing has changed");
}

#[test]
fn the_response_is_cut_at_the_allocation_length_and_bounded() {
    let mut rig = Rig::new();
    let (mut host, _) = hosts(&mut rig);
    let groups = |extended, allocation| Command::ReportTargetPortGroups { extended, allocation };
    let whole = rig.run(&mut host, groups(true, 4096), &[]).data;
    assert_eq!(whole[..8], [0, 0, 0, 28, 0x10, 10, 0, 0], "the time of a transition in seconds");
    for allocation in [0, 1, 4, 9, 31, 32] {
        let cut = rig.run(&mut host, groups(true, allocation), &[]);
        assert!(cut.is_good());
        assert_eq!(cut.data, whole[..allocation as usize], "the length tells what there would be");
    }
    let most: Vec<_> =
        (1..=SCSI_PORTS_MAX as u16).map(|port| at(port, AccessState::STANDBY)).collect();
    rig.unit.set_access(&most, true);
    assert_eq!(told(&mut rig, &mut host), Some(Code::ACCESS_STATE_CHANGED));
    assert_eq!(rig.run(&mut host, groups(true, u32::MAX), &[]).data.len(), 8 + 12 * SCSI_PORTS_MAX);
    let mut cdb = GROUPS.encode().bytes;
    cdb[1] |= 0x40;
    assert_eq!(
        rig.send(&mut host, 0, &cdb, &[]).sense,
        Some(Sense::cdb_bit(1, 7)),
        "there is no such format"
    );
}

#[test]
fn a_closed_port_is_told_only_to_those_that_came_by_it() {
    let mut rig = Rig::new();
    let (mut one, mut two) = hosts(&mut rig);
    let closed = PortAccess { is_open: false, ..at(2, AccessState::STANDBY) };
    rig.unit.set_access(&[BOTH[0], closed], true);
    for (host, length) in [(&mut one, 12), (&mut two, 24)] {
        assert_eq!(told(&mut rig, host), Some(Code::ACCESS_STATE_CHANGED));
        assert_eq!(rig.run(host, GROUPS, &[]).data[3], length);
    }
}

fn extent() -> Extent {
    Extent { lba: 0, blocks: 1 }
}

/// Commands that only report properties.
fn telling() -> [Command; 9] {
    let (page, allocation) = (0x08, 64);
    let (ten, no_descriptors, long_lba, control, subpage) =
        (false, true, false, PageControl::Current, 0);
    [
        Command::Inquiry { page: None, allocation },
        Command::ReportLuns { select: 0, allocation },
        Command::RequestSense { descriptor: false, allocation },
        GROUPS,
        Command::ReportOpCodes { options: ReportingOptions::All, timeouts: false, allocation },
        Command::ReportTaskManagement { extended: false, allocation },
        Command::ReadCapacity10,
        Command::ReadCapacity16 { allocation },
        Command::ModeSense { ten, no_descriptors, long_lba, control, page, subpage, allocation },
    ]
}

/// Commands, and the data that is sent with them.
fn of_media() -> Vec<(Command, usize)> {
    let (dpo, fua, immediate) = (false, false, false);
    vec![
        (READY, 0),
        (Command::Read { extent: extent(), dpo, fua }, 0),
        (Command::Write { extent: extent(), dpo, fua }, 512),
        (Command::SynchronizeCache { extent: extent(), immediate }, 0),
        (Command::Unmap { anchor: false, parameters: 24 }, 24),
        (Command::WriteSame { extent: extent(), unmap: false, anchor: false, no_data: true }, 0),
        (Command::CompareAndWrite { extent: extent(), dpo, fua }, 1024),
        (Command::LbaStatus { lba: 0, allocation: 64 }, 0),
        (Command::Reserve, 0),
        (Command::PreventAllow { prevent: true }, 0),
    ]
}

#[test]
fn states_refuse_media_and_never_what_only_tells() {
    let states = [
        (AccessState::STANDBY, Code::ACCESS_STATE_STANDBY),
        (AccessState::UNAVAILABLE, Code::ACCESS_STATE_UNAVAILABLE),
        (AccessState::OFFLINE, Code::ACCESS_STATE_OFFLINE),
        (AccessState::TRANSITIONING, Code::ACCESS_STATE_TRANSITION),
        (AccessState(0x7), Code::ACCESS_STATE_UNAVAILABLE),
    ];
    for (state, code) in states {
        let mut rig = Rig::new();
        let (mut one, mut two) = hosts(&mut rig);
        rig.unit.set_access(&[BOTH[0], at(2, state)], true);
        assert_eq!(told(&mut rig, &mut one), Some(Code::ACCESS_STATE_CHANGED));
        assert_eq!(told(&mut rig, &mut two), Some(Code::ACCESS_STATE_CHANGED));
        for (command, bytes) in of_media() {
            let refused = rig.run(&mut two, command, &vec![0; bytes]);
            assert_eq!(
                refused.sense,
                Some(Sense::new(Key::NOT_READY, code)),
                "{command:?} in {state}"
            );
        }
        assert!(rig.disk.requests.is_empty(), "{state}: nothing reaches the disk");
        for command in telling() {
            assert!(rig.run(&mut two, command, &[]).is_good(), "{command:?} in {state}");
        }
        let keys = Command::ReserveIn { action: ReserveIn::READ_KEYS, allocation: 64 };
        assert_eq!(
            rig.run(&mut two, keys, &[]).is_good(),
            state == AccessState::STANDBY,
            "{state}"
        );
        // The other port is as it was.
        let read = Command::Read { extent: extent(), dpo: false, fua: false };
        assert!(rig.run(&mut one, read, &[]).is_good());
        rig.unit.set_access(&BOTH, true);
        assert_eq!(told(&mut rig, &mut two), Some(Code::ACCESS_STATE_CHANGED));
        assert!(rig.run(&mut two, read, &[]).is_good(), "after {state}");
    }
}

#[test]
fn a_host_registers_with_a_port_in_standby() {
    let mut rig = Rig::new();
    let (_, mut two) = hosts(&mut rig);
    rig.unit.set_access(&[BOTH[0], at(2, AccessState::STANDBY)], true);
    assert_eq!(told(&mut rig, &mut two), Some(Code::ACCESS_STATE_CHANGED));
    let register =
        Command::ReserveOut { action: ReserveOut::REGISTER, scope: 0, kind: 0, parameters: 24 };
    let mut list = [0; 24];
    list[8..16].copy_from_slice(&7_u64.to_be_bytes());
    assert!(rig.run(&mut two, register, &list).is_good());
    let status = Command::ReserveIn { action: ReserveIn::READ_FULL_STATUS, allocation: 256 };
    assert_eq!(rig.run(&mut two, status, &[]).data[8 + 18..8 + 20], [0, 2], "at its own port");
}

#[test]
fn a_unit_whose_device_is_away_is_unavailable_and_the_device_answers() {
    let mut rig = Rig::new();
    let (mut host, _) = hosts(&mut rig);
    assert!(rig.unit.set_access(&[BOTH[0], at(2, AccessState::STANDBY)], false));
    assert_eq!(told(&mut rig, &mut host), Some(Code::ACCESS_STATE_CHANGED));
    let sense = rig.run(&mut host, READY, &[]).sense;
    assert_eq!(sense, Some(Sense::new(Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE)));
    let groups = rig.run(&mut host, GROUPS, &[]).data;
    assert_eq!((groups[4], groups[16]), (AccessState::UNAVAILABLE.0, AccessState::STANDBY.0));
    let read = Command::Read { extent: extent(), dpo: false, fua: false };
    assert!(rig.run(&mut host, read, &[]).is_good());
    rig.unit.set_access(&BOTH, true);
    assert_eq!(told(&mut rig, &mut host), Some(Code::ACCESS_STATE_CHANGED));
    assert_eq!(told(&mut rig, &mut host), None);
}

#[test]
fn hosts_cannot_set_the_states() {
    let mut rig = Rig::new();
    let (mut host, _) = hosts(&mut rig);
    let cdb = [0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0];
    let refused = rig.send(&mut host, 0, &cdb, &[0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(refused.sense, Some(Sense::illegal(Code::INVALID_COMMAND_OPERATION_CODE)));
    assert!(Operation::of(OpCode(0xa4)).next().is_none());
    let options = ReportingOptions::ServiceAction(0xa3, 0x0a);
    let listed = rig.run(
        &mut host,
        Command::ReportOpCodes { options, timeouts: false, allocation: 64 },
        &[],
    );
    assert_eq!(listed.data[..6], [0, 3, 0, 12, 0xa3, 0xea]);
}

/// PERSISTENT RESERVE OUT with these keys, for one port or for all.
fn reserve_out(
    rig: &mut Rig,
    host: &mut Nexus,
    action: ReserveOut,
    keys: [u64; 2],
    all_ports: bool,
) -> bool {
    let mut list = [0; 24];
    list[..8].copy_from_slice(&keys[0].to_be_bytes());
    list[8..16].copy_from_slice(&keys[1].to_be_bytes());
    list[20] = u8::from(all_ports) << 2;
    let kind = ReservationType::WRITE_EXCLUSIVE_REGISTRANTS_ONLY.0;
    rig.run(host, Command::ReserveOut { action, scope: 0, kind, parameters: 24 }, &list).is_good()
}

fn writes(rig: &mut Rig, host: &mut Nexus) -> bool {
    rig.run(host, Command::Write { extent: extent(), dpo: false, fua: false }, &[1; 512]).is_good()
}

#[test]
fn a_registration_at_one_port_is_none_at_the_other_unless_it_is_for_all() {
    let mut rig = Rig::new();
    let (mut one, mut two) = hosts(&mut rig);
    assert!(reserve_out(&mut rig, &mut one, ReserveOut::REGISTER, [0, 7], false));
    assert!(reserve_out(&mut rig, &mut one, ReserveOut::RESERVE, [7, 0], false));
    assert!(
        writes(&mut rig, &mut one) && !writes(&mut rig, &mut two),
        "the same initiator port, at another target port"
    );
    assert!(!reserve_out(&mut rig, &mut two, ReserveOut::RELEASE, [7, 0], false));
    assert!(reserve_out(&mut rig, &mut one, ReserveOut::REGISTER, [7, 8], true));
    assert!(writes(&mut rig, &mut one) && writes(&mut rig, &mut two));
    let status = Command::ReserveIn { action: ReserveIn::READ_FULL_STATUS, allocation: 256 };
    let status = rig.run(&mut one, status, &[]).data;
    assert_eq!(
        (status[7], status[8 + 12], &status[8 + 18..8 + 20]),
        (68, 0x03, &[0, 0][..]),
        "one, of the holder, for all ports"
    );
    // Another initiator takes it away, and both nexuses are told.
    let mut other = rig.host(9);
    assert!(reserve_out(&mut rig, &mut other, ReserveOut::REGISTER, [0, 9], false));
    assert!(reserve_out(&mut rig, &mut other, ReserveOut::PREEMPT_AND_ABORT, [9, 8], false));
    assert_eq!((one.take_abort(), two.take_abort()), (Some(0), Some(0)));
    for host in [&mut one, &mut two] {
        assert_eq!(told(&mut rig, host), Some(Code::REGISTRATIONS_PREEMPTED));
        assert!(!writes(&mut rig, host));
    }
    assert!(writes(&mut rig, &mut other));
}

#[test]
fn any_port_changes_a_registration_for_all() {
    let mut rig = Rig::new();
    let (mut one, mut two) = hosts(&mut rig);
    assert!(reserve_out(&mut rig, &mut two, ReserveOut::REGISTER, [0, 3], false));
    assert!(reserve_out(&mut rig, &mut one, ReserveOut::REGISTER, [0, 7], true));
    let keys = Command::ReserveIn { action: ReserveIn::READ_KEYS, allocation: 64 };
    let told_keys = rig.run(&mut one, keys, &[]).data;
    assert_eq!(told_keys[4..], [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7], "in place of the other");
    assert!(reserve_out(&mut rig, &mut two, ReserveOut::REGISTER, [7, 8], false));
    assert!(reserve_out(&mut rig, &mut two, ReserveOut::RESERVE, [8, 0], false));
    assert!(reserve_out(&mut rig, &mut one, ReserveOut::RELEASE, [8, 0], false));
    assert!(reserve_out(&mut rig, &mut one, ReserveOut::REGISTER, [8, 0], false));
    assert_eq!(rig.run(&mut one, keys, &[]).data.len(), 8);
}
