//! Persistent reservations, and RESERVE(6).

use super::rig::{BLOCK, Ended, Rig};
use weft_proto::limits::REGISTRANTS_MAX;
use weft_proto::reservation::Registrant;
use weft_proto::scsi::cdb::{Command, Extent, PageControl};
use weft_proto::scsi::initiator::parameters::reserve_out;
use weft_proto::scsi::lun::{Arrival, Nexus};
use weft_proto::scsi::opcode::{ReservationType as Type, ReserveIn as In, ReserveOut as Out};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, ScsiStatus};

const GOOD: ScsiStatus = ScsiStatus::GOOD;
const CONFLICT: ScsiStatus = ScsiStatus::RESERVATION_CONFLICT;
const ALL_TYPES: [Type; 6] = [
    Type::WRITE_EXCLUSIVE,
    Type::EXCLUSIVE_ACCESS,
    Type::WRITE_EXCLUSIVE_REGISTRANTS_ONLY,
    Type::EXCLUSIVE_ACCESS_REGISTRANTS_ONLY,
    Type::WRITE_EXCLUSIVE_ALL_REGISTRANTS,
    Type::EXCLUSIVE_ACCESS_ALL_REGISTRANTS,
];

fn out(rig: &mut Rig, host: &mut Nexus, action: Out, kind: Type, keys: (u64, u64)) -> Ended {
    let list = reserve_out(keys.0, keys.1);
    rig.run(
        host,
        Command::ReserveOut { action, scope: 0, kind: kind.0, parameters: list.len() as u32 },
        &list,
    )
}

fn register(rig: &mut Rig, host: &mut Nexus, key: u64) {
    assert!(out(rig, host, Out::REGISTER_AND_IGNORE, Type(0), (0, key)).is_good());
}

fn inquire(rig: &mut Rig, host: &mut Nexus, action: In) -> Vec<u8> {
    let ended = rig.run(host, Command::ReserveIn { action, allocation: 0xffff }, &[]);
    assert!(ended.is_good());
    ended.data
}

fn keys(rig: &mut Rig, host: &mut Nexus) -> (u32, Vec<u64>) {
    let data = inquire(rig, host, In::READ_KEYS);
    assert_eq!(u32::from_be_bytes(data[4..8].try_into().unwrap()) as usize, data.len() - 8);
    let keys =
        data[8..].chunks_exact(8).map(|key| u64::from_be_bytes(key.try_into().unwrap())).collect();
    (u32::from_be_bytes(data[..4].try_into().unwrap()), keys)
}

/// Key and type of the reservation.
fn reservation(rig: &mut Rig, host: &mut Nexus) -> Option<(u64, Type)> {
    let data = inquire(rig, host, In::READ_RESERVATION);
    let held = data.get(8..24)?;
    Some((u64::from_be_bytes(held[..8].try_into().unwrap()), Type(held[13])))
}

fn told(rig: &mut Rig, host: &mut Nexus) -> Option<Code> {
    rig.run(host, Command::TestUnitReady, &[]).sense.map(|sense| sense.code)
}

/// Returns whether a host may read, and write.
fn access(rig: &mut Rig, host: &mut Nexus) -> (bool, bool) {
    let extent = Extent { lba: 0, blocks: 1 };
    let read = rig.run(host, Command::Read { extent, dpo: false, fua: false }, &[]).status;
    let write =
        rig.run(host, Command::Write { extent, dpo: false, fua: false }, &[0; BLOCK]).status;
    assert!([read, write].iter().all(|status| [GOOD, CONFLICT].contains(status)));
    (read == GOOD, write == GOOD)
}

#[test]
fn keys_are_checked_and_changed() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    assert_eq!(out(&mut rig, host, Out::REGISTER, Type(0), (1, 2)).status, CONFLICT);
    assert_eq!(out(&mut rig, host, Out::REGISTER, Type(0), (0, 2)).status, GOOD);
    assert_eq!(keys(&mut rig, host), (1, vec![2]));
    assert_eq!(out(&mut rig, host, Out::REGISTER, Type(0), (1, 3)).status, CONFLICT);
    assert_eq!(out(&mut rig, host, Out::REGISTER, Type(0), (2, 3)).status, GOOD);
    assert_eq!(keys(&mut rig, host), (2, vec![3]));
    assert_eq!(out(&mut rig, host, Out::REGISTER_AND_IGNORE, Type(0), (9, 4)).status, GOOD);
    assert_eq!(keys(&mut rig, host), (3, vec![4]));
    assert_eq!(out(&mut rig, host, Out::REGISTER, Type(0), (4, 0)).status, GOOD);
    assert_eq!(keys(&mut rig, host), (4, vec![]));
    assert_eq!(out(&mut rig, host, Out::REGISTER, Type(0), (0, 0)).status, GOOD);
    assert_eq!(keys(&mut rig, host), (4, vec![]));
}

#[test]
fn what_each_type_forbids() {
    for kind in ALL_TYPES {
        let mut rig = Rig::new();
        let (mut holder, mut registered, mut stranger) = (rig.host(1), rig.host(2), rig.host(3));
        register(&mut rig, &mut holder, 1);
        register(&mut rig, &mut registered, 2);
        assert!(out(&mut rig, &mut holder, Out::RESERVE, kind, (1, 0)).is_good());
        let is_shared = kind.0 >= 5;
        let readable = [1, 5, 7].contains(&kind.0);
        assert_eq!(access(&mut rig, &mut holder), (true, true), "{kind}");
        assert_eq!(access(&mut rig, &mut registered), (is_shared || readable, is_shared), "{kind}");
        assert_eq!(access(&mut rig, &mut stranger), (readable, false), "{kind}");
        let key = if kind.0 >= 7 { 0 } else { 1 };
        assert_eq!(reservation(&mut rig, &mut stranger), Some((key, kind)));
    }
}

#[test]
fn commands_that_are_allowed_in_spite_of_it() {
    let mut rig = Rig::new();
    let (mut holder, mut stranger) = (rig.host(1), rig.host(2));
    register(&mut rig, &mut holder, 1);
    assert!(out(&mut rig, &mut holder, Out::RESERVE, Type::EXCLUSIVE_ACCESS, (1, 0)).is_good());
    for command in [
        Command::TestUnitReady,
        Command::Inquiry { page: None, allocation: 36 },
        Command::ReportLuns { select: 0, allocation: 16 },
        Command::ReadCapacity10,
        Command::ReadCapacity16 { allocation: 32 },
        Command::RequestSense { descriptor: false, allocation: 18 },
        Command::ReportTargetPortGroups { extended: false, allocation: 64 },
        Command::PreventAllow { prevent: false },
    ] {
        assert_eq!(rig.run(&mut stranger, command, &[]).status, GOOD, "{command:?}");
    }
    let mode = PageControl::Current;
    for command in [
        Command::PreventAllow { prevent: true },
        Command::SynchronizeCache { extent: Extent::default(), immediate: false },
        Command::ModeSelect { ten: false, parameters: 0 },
        Command::ModeSense {
            ten: false,
            no_descriptors: true,
            long_lba: false,
            control: mode,
            page: 8,
            subpage: 0,
            allocation: 255,
        },
        Command::Reserve,
    ] {
        assert_eq!(rig.run(&mut stranger, command, &[]).status, CONFLICT, "{command:?}");
    }
}

#[test]
fn who_may_reserve_and_release() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    let (we, ea) = (Type::WRITE_EXCLUSIVE, Type::EXCLUSIVE_ACCESS_REGISTRANTS_ONLY);
    assert_eq!(out(&mut rig, &mut one, Out::RESERVE, ea, (0, 0)).status, CONFLICT);
    register(&mut rig, &mut one, 1);
    register(&mut rig, &mut two, 2);
    assert_eq!(out(&mut rig, &mut one, Out::RESERVE, ea, (2, 0)).status, CONFLICT);
    assert_eq!(out(&mut rig, &mut one, Out::RESERVE, ea, (1, 0)).status, GOOD);
    assert_eq!(out(&mut rig, &mut one, Out::RESERVE, ea, (1, 0)).status, GOOD);
    assert_eq!(out(&mut rig, &mut one, Out::RESERVE, we, (1, 0)).status, CONFLICT);
    assert_eq!(out(&mut rig, &mut two, Out::RESERVE, ea, (2, 0)).status, CONFLICT);
    assert_eq!(out(&mut rig, &mut two, Out::RELEASE, ea, (2, 0)).status, GOOD);
    assert_eq!(reservation(&mut rig, &mut two), Some((1, ea)));
    let wrong = out(&mut rig, &mut one, Out::RELEASE, we, (1, 0));
    assert_eq!(wrong.sense, Some(Sense::illegal(Code::INVALID_RELEASE)));
    assert_eq!(out(&mut rig, &mut one, Out::RELEASE, ea, (1, 0)).status, GOOD);
    assert_eq!(told(&mut rig, &mut two), Some(Code::RESERVATIONS_RELEASED));
    assert_eq!((told(&mut rig, &mut one), reservation(&mut rig, &mut two)), (None, None));
}

#[test]
fn a_registration_that_goes_takes_its_reservation_along() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    for (kind, remains, code) in [
        (Type::WRITE_EXCLUSIVE, false, None),
        (Type::WRITE_EXCLUSIVE_REGISTRANTS_ONLY, false, Some(Code::RESERVATIONS_RELEASED)),
        (Type::WRITE_EXCLUSIVE_ALL_REGISTRANTS, true, None),
    ] {
        register(&mut rig, &mut one, 1);
        register(&mut rig, &mut two, 2);
        assert!(out(&mut rig, &mut one, Out::RESERVE, kind, (1, 0)).is_good());
        register(&mut rig, &mut one, 0);
        assert_eq!(told(&mut rig, &mut two), code, "{kind}");
        assert_eq!(reservation(&mut rig, &mut two).is_some(), remains, "{kind}");
        register(&mut rig, &mut two, 0);
        assert_eq!(reservation(&mut rig, &mut two), None);
    }
}

#[test]
fn clear_takes_all_away() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    register(&mut rig, &mut one, 1);
    register(&mut rig, &mut two, 2);
    assert!(out(&mut rig, &mut one, Out::RESERVE, Type::EXCLUSIVE_ACCESS, (1, 0)).is_good());
    assert_eq!(out(&mut rig, &mut two, Out::CLEAR, Type(0), (2, 0)).status, GOOD);
    assert_eq!(told(&mut rig, &mut one), Some(Code::RESERVATIONS_PREEMPTED));
    assert_eq!((keys(&mut rig, &mut one), reservation(&mut rig, &mut one)), ((3, vec![]), None));
    assert_eq!(access(&mut rig, &mut two), (true, true));
}

#[test]
fn preempting_the_holder_takes_the_reservation_over() {
    let mut rig = Rig::new();
    let (mut one, mut two, mut three) = (rig.host(1), rig.host(2), rig.host(3));
    for (host, key) in [(&mut one, 1), (&mut two, 2), (&mut three, 3)] {
        register(&mut rig, host, key);
    }
    assert!(out(&mut rig, &mut one, Out::RESERVE, Type::WRITE_EXCLUSIVE, (1, 0)).is_good());
    let taken = out(
        &mut rig,
        &mut two,
        Out::PREEMPT_AND_ABORT,
        Type::EXCLUSIVE_ACCESS_REGISTRANTS_ONLY,
        (2, 1),
    );
    assert_eq!(taken.status, GOOD);
    assert_eq!(rig.aborted, [Registrant::Nexus(one.name().clone())]);
    assert_eq!((one.take_abort(), three.take_abort()), (Some(0), None));
    assert_eq!(told(&mut rig, &mut one), Some(Code::REGISTRATIONS_PREEMPTED));
    assert_eq!(told(&mut rig, &mut three), Some(Code::RESERVATIONS_RELEASED));
    assert_eq!(reservation(&mut rig, &mut one), Some((2, Type::EXCLUSIVE_ACCESS_REGISTRANTS_ONLY)));
    assert_eq!(keys(&mut rig, &mut one), (4, vec![2, 3]));
    assert_eq!(access(&mut rig, &mut one), (false, false));
    assert_eq!(access(&mut rig, &mut three), (true, true));
}

#[test]
fn preempting_others_takes_their_registrations_only() {
    let mut rig = Rig::new();
    let (mut one, mut two, mut three) = (rig.host(1), rig.host(2), rig.host(3));
    for (host, key) in [(&mut one, 1), (&mut two, 2), (&mut three, 2)] {
        register(&mut rig, host, key);
    }
    let kind = Type::WRITE_EXCLUSIVE_REGISTRANTS_ONLY;
    assert!(out(&mut rig, &mut one, Out::RESERVE, kind, (1, 0)).is_good());
    assert_eq!(out(&mut rig, &mut one, Out::PREEMPT, kind, (1, 7)).status, CONFLICT);
    assert_eq!(
        out(&mut rig, &mut one, Out::PREEMPT, kind, (1, 0)).sense,
        Some(Sense::parameter(8))
    );
    assert_eq!(out(&mut rig, &mut one, Out::PREEMPT, kind, (1, 2)).status, GOOD);
    for host in [&mut two, &mut three] {
        assert_eq!(told(&mut rig, host), Some(Code::REGISTRATIONS_PREEMPTED));
    }
    assert_eq!(
        (keys(&mut rig, &mut one).1, reservation(&mut rig, &mut one)),
        (vec![1], Some((1, kind)))
    );
    assert_eq!(rig.aborted, []);
}

#[test]
fn all_registrants_are_preempted_by_zero() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    register(&mut rig, &mut one, 1);
    register(&mut rig, &mut two, 2);
    let kind = Type::EXCLUSIVE_ACCESS_ALL_REGISTRANTS;
    assert!(out(&mut rig, &mut one, Out::RESERVE, kind, (1, 0)).is_good());
    assert_eq!(out(&mut rig, &mut two, Out::PREEMPT, Type::WRITE_EXCLUSIVE, (2, 0)).status, GOOD);
    assert_eq!(reservation(&mut rig, &mut two), Some((2, Type::WRITE_EXCLUSIVE)));
    assert_eq!(
        (keys(&mut rig, &mut two).1, told(&mut rig, &mut one)),
        (vec![2], Some(Code::REGISTRATIONS_PREEMPTED))
    );
}

#[test]
fn a_reservation_moves_to_another_nexus() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    register(&mut rig, &mut one, 1);
    let id = two.name().initiator.as_bytes().to_vec();
    let mut list = reserve_out(1, 5).to_vec();
    list[17] = 2;
    list[19] = 1;
    list[23] = id.len() as u8;
    list.extend(&id);
    let command = Command::ReserveOut {
        action: Out::REGISTER_AND_MOVE,
        scope: 0,
        kind: 0,
        parameters: list.len() as u32,
    };
    assert_eq!(rig.run(&mut one, command, &list).sense, Some(Sense::cdb_bit(1, 4)));
    assert!(out(&mut rig, &mut one, Out::RESERVE, Type::EXCLUSIVE_ACCESS, (1, 0)).is_good());
    assert_eq!(rig.run(&mut one, command, &list).status, GOOD);
    assert_eq!(reservation(&mut rig, &mut two), Some((5, Type::EXCLUSIVE_ACCESS)));
    assert_eq!(keys(&mut rig, &mut two).1, [5]);
    assert_eq!(
        (access(&mut rig, &mut one), access(&mut rig, &mut two)),
        ((false, false), (true, true))
    );
}

#[test]
fn registrations_outlive_their_nexus() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    register(&mut rig, &mut one, 1);
    assert!(out(&mut rig, &mut one, Out::RESERVE, Type::EXCLUSIVE_ACCESS, (1, 0)).is_good());
    let initiator = one.name().initiator.clone();
    drop(one);
    assert_eq!(access(&mut rig, &mut two), (false, false));
    let mut one = rig.target.attach(initiator.clone(), 1, Arrival::Again, &rig.units);
    let _ = told(&mut rig, &mut one);
    assert_eq!(access(&mut rig, &mut one), (true, true));
    // Another port of the target is another nexus.
    let mut other = rig.target.attach(initiator, 2, Arrival::New, &rig.units);
    let _ = told(&mut rig, &mut other);
    assert_eq!(access(&mut rig, &mut other), (false, false));
    two.reset_unit(0);
    let _ = told(&mut rig, &mut two);
    assert_eq!(access(&mut rig, &mut two), (false, false));
}

#[test]
fn full_status_names_the_ports() {
    let mut rig = Rig::new();
    let mut one = rig.host(1);
    register(&mut rig, &mut one, 0x0102);
    assert!(out(&mut rig, &mut one, Out::RESERVE, Type::EXCLUSIVE_ACCESS, (0x0102, 0)).is_good());
    let data = inquire(&mut rig, &mut one, In::READ_FULL_STATUS);
    let id = one.name().initiator.as_bytes();
    assert_eq!(data[..8], [0, 0, 0, 1, 0, 0, 0, 24 + id.len() as u8]);
    assert_eq!(
        data[8..32],
        [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, id.len() as u8]
    );
    assert_eq!(data[32..], *id);
    assert_eq!(
        inquire(&mut rig, &mut one, In::REPORT_CAPABILITIES),
        [0, 8, 4, 0x80, 0xea, 1, 0, 0]
    );
}

#[test]
fn what_is_not_supported_is_refused() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    for flag in [1, 5, 8] {
        let mut list = reserve_out(0, 1);
        list[20] = flag;
        let command =
            Command::ReserveOut { action: Out::REGISTER, scope: 0, kind: 0, parameters: 24 };
        assert_eq!(rig.run(host, command, &list).sense, Some(Sense::parameter(20)));
    }
    let command = |scope, kind, parameters| Command::ReserveOut {
        action: Out::RESERVE,
        scope,
        kind,
        parameters,
    };
    assert_eq!(rig.run(host, command(1, 1, 24), &[0; 24]).sense, Some(Sense::cdb_bit(2, 7)));
    assert_eq!(rig.run(host, command(0, 2, 24), &[0; 24]).sense, Some(Sense::cdb_bit(2, 3)));
    let short = rig.run(host, command(0, 1, 23), &[0; 23]).sense;
    assert_eq!(short, Some(Sense::illegal(Code::PARAMETER_LIST_LENGTH_ERROR)));
    assert_eq!(keys(&mut rig, host).1, []);
}

#[test]
fn registrations_are_bounded() {
    let mut rig = Rig::new();
    let mut hosts: Vec<_> = (0..REGISTRANTS_MAX).map(|n| rig.host(n as u8)).collect();
    for host in &mut hosts {
        register(&mut rig, host, 1);
    }
    let mut further = rig.host(255);
    let ended = out(&mut rig, &mut further, Out::REGISTER, Type(0), (0, 1));
    assert_eq!(ended.sense, Some(Sense::illegal(Code::INSUFFICIENT_REGISTRATION_RESOURCES)));
    let data = inquire(&mut rig, &mut further, In::READ_FULL_STATUS);
    assert_eq!(u32::from_be_bytes(data[4..8].try_into().unwrap()) as usize, data.len() - 8);
}

#[test]
fn reserve_6_keeps_the_others_out_until_release() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    assert!(rig.run(&mut one, Command::Reserve, &[]).is_good());
    assert!(rig.run(&mut one, Command::Reserve, &[]).is_good());
    assert_eq!(rig.run(&mut two, Command::Reserve, &[]).status, CONFLICT);
    assert_eq!(rig.run(&mut two, Command::TestUnitReady, &[]).status, CONFLICT);
    assert_eq!(
        (access(&mut rig, &mut one), access(&mut rig, &mut two)),
        ((true, true), (false, false))
    );
    assert!(rig.run(&mut two, Command::Release, &[]).is_good());
    assert_eq!(access(&mut rig, &mut two), (false, false));
    assert!(rig.run(&mut one, Command::Release, &[]).is_good());
    assert_eq!(access(&mut rig, &mut two), (true, true));
    assert!(rig.run(&mut one, Command::Reserve, &[]).is_good());
    drop(one);
    assert_eq!(access(&mut rig, &mut two), (true, true));
    register(&mut rig, &mut two, 1);
    assert_eq!(rig.run(&mut two, Command::Reserve, &[]).status, CONFLICT);
}

/// fence_scsi and others register so, also where there is one port.
#[test]
fn a_registration_at_all_ports_is_one_at_the_only_port() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    for action in [Out::REGISTER, Out::REGISTER_AND_IGNORE] {
        let mut list = reserve_out(0, 7);
        list[20] = 0x04;
        let command =
            Command::ReserveOut { action, scope: 0, kind: 0, parameters: list.len() as u32 };
        let host = if action == Out::REGISTER { &mut one } else { &mut two };
        assert!(rig.run(host, command, &list).is_good());
    }
    assert_eq!(keys(&mut rig, &mut one).1, [7, 7]);
    let status = inquire(&mut rig, &mut one, In::READ_FULL_STATUS);
    assert_eq!(status[8 + 12], 0x02, "ALL_TG_PT, and no holder");
    assert!(out(&mut rig, &mut one, Out::RESERVE, Type::WRITE_EXCLUSIVE, (7, 0)).is_good());
    assert_eq!(inquire(&mut rig, &mut one, In::READ_FULL_STATUS)[8 + 12], 0x03);
}
