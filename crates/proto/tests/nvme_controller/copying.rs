//! Copy: how it is executed piece by piece, what it refuses, and what ends it.

use crate::nvme_controller_support::*;
use weft_proto::limits::{COPY_MAX_BYTES, COPY_PIECE_BYTES};
use weft_proto::nvme::controller::{
    AbortTarget, DeviceOutcome, IoNext, IoQueue, IoRequestKind, Namespace, Next, Subsystem,
};
use weft_proto::nvme::copy::{Copy, CopyFormat, CopyRange, HostBehavior};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::identify::{Cns, IdentifyController, IdentifyNamespace};
use weft_proto::nvme::log_page::{EffectsLog, LogPageId};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Lba, Nsid};
use weft_proto::reservation::{
    Action, KeyCheck, Kind, Registrant, ReservationRequest, Reservations,
};
use weft_proto::stream::Tag;

const T: Tag = Tag(0);
/// Blocks of a large namespace.
const LARGE: u64 = 1 << 20;

fn range(nsid: u32, lba: u64, blocks: u32) -> CopyRange {
    CopyRange { nsid: Nsid(nsid), lba: Lba(lba), blocks, fast_only: false }
}

fn command(to: u32, lba: u64, format: CopyFormat, ranges: &[CopyRange]) -> (Sqe, Vec<u8>) {
    let copy = Copy { to: Lba(lba), ranges: ranges.len() as u32, format, fua: true };
    let data = ranges.iter().flat_map(|range| range.encode()).collect::<Vec<_>>();
    let mut sqe = copy.encode(Nsid(to));
    sqe.set_sgl(Sgl::transport(data.len() as u32));
    (sqe, data)
}

/// Returns the queue's reaction to a command whose data has come.
fn start(queue: &mut IoQueue, (sqe, data): (Sqe, Vec<u8>)) -> IoNext {
    match queue.start(T, &sqe, 0) {
        IoNext::Fetch { bytes } => {
            assert_eq!(bytes as usize, data.len());
            queue.data(T, &data)
        }
        next => next,
    }
}

fn behavior(copy_formats: u16) -> Vec<u8> {
    HostBehavior { enabled: [0; 4], copy_formats }.encode().to_vec()
}

fn set_behavior(rig: &mut Rig, data: &[u8]) -> Status {
    let set = set_feature(FeatureId::HOST_BEHAVIOR_SUPPORT, 0);
    assert_eq!(rig.start(5, set), Next::Fetch { bytes: 512 });
    match rig.control.data(Tag(5), Ok(data)) {
        Next::Reply { cqe, data_bytes: 0 } => cqe.status,
        other => panic!("{other:?}"),
    }
}

/// A subsystem with the namespaces 1, 2 and 4 of [`subsystem`], and 5 and 6, which are large.
fn large() -> Subsystem {
    let mut subsystem = subsystem();
    for nsid in [5, 6] {
        subsystem.set_namespace(Namespace { blocks: LARGE, ..namespace(nsid) }).unwrap();
    }
    subsystem
}

/// A controller whose host copies across namespaces.
fn across(subsystem: Subsystem) -> (Rig, IoQueue) {
    let mut rig = Rig::enabled(subsystem);
    assert_eq!(set_behavior(&mut rig, &behavior(4)), Status::SUCCESS);
    let queue = rig.connect_io(1).unwrap();
    (rig, queue)
}

#[test]
fn a_range_is_read_as_it_was_written() {
    for fast_only in [false, true] {
        let range = CopyRange { fast_only, ..range(0x0102_0304, 0x0506_0708_090a_0b0c, 0xffff) };
        assert_eq!(CopyRange::decode(&range.encode()), range);
    }
}

#[test]
fn a_copy_is_read_and_written_piece_by_piece() {
    let (_rig, mut queue) = across(large());
    let piece = COPY_PIECE_BYTES / 512;
    let ranges = [range(6, 100, piece + 7), range(5, 50, 1)];
    let mut next = start(&mut queue, command(5, 1000, CopyFormat::ACROSS_NAMESPACES, &ranges));
    let steps = [(6, 100, 1000, piece), (6, 100 + u64::from(piece), 1000 + u64::from(piece), 7)];
    let last = (5, 50, 1007 + u64::from(piece), 1);
    for (nsid, from, to, blocks) in steps.into_iter().chain([last]) {
        let read = submitted(next);
        let place = (read.kind, read.namespace, read.lba, read.blocks, read.bytes, read.fua);
        let expected = (IoRequestKind::CopyRead, nsid - 1, Lba(from), blocks, blocks * 512, false);
        assert_eq!(place, expected);
        let write = submitted(queue.finished(T, DeviceOutcome::DONE, &[]));
        let place = (write.kind, write.namespace, write.lba, write.blocks, write.bytes, write.fua);
        assert_eq!(place, (IoRequestKind::Write, 4, Lba(to), blocks, blocks * 512, true));
        next = queue.finished(T, DeviceOutcome::DONE, &[]);
    }
    let IoNext::Reply { cqe, data_bytes: 0 } = next else { panic!("{next:?}") };
    assert_eq!((cqe.status, cqe.result), (Status::SUCCESS, 0));
    let bytes = u64::from(piece + 8) * 512;
    let counted = queue.statistics();
    assert_eq!((counted.reads, counted.writes), (1, 1));
    assert_eq!((counted.bytes_read, counted.bytes_written), (bytes, bytes));
}

#[test]
fn a_failure_names_the_first_range_that_is_not_copied() {
    let mut queue = Rig::io().connect_io(1).unwrap();
    let ranges = [range(0, 0, 4), range(9, 10, 4)];
    submitted(start(&mut queue, command(1, 500, CopyFormat::SAME_NAMESPACE, &ranges)));
    submitted(queue.finished(T, DeviceOutcome::DONE, &[]));
    submitted(queue.finished(T, DeviceOutcome::DONE, &[]));
    let failed = DeviceOutcome::failed(Status::UNRECOVERED_READ_ERROR);
    let cqe = replied(queue.finished(T, failed, &[]));
    assert_eq!((cqe.status, cqe.result), (Status::UNRECOVERED_READ_ERROR, 1));
    assert_eq!(queue.outstanding(), 0);
    // Nothing of it stays for the next command of the tag.
    submitted(start(&mut queue, command(1, 500, CopyFormat::SAME_NAMESPACE, &ranges)));
    let cqe = replied(queue.finished(T, failed, &[]));
    assert_eq!((cqe.status, cqe.result), (Status::UNRECOVERED_READ_ERROR, 0));
}

#[test]
fn what_is_wrong_is_refused_before_anything_is_copied() {
    const SAME: CopyFormat = CopyFormat::SAME_NAMESPACE;
    const ACROSS: CopyFormat = CopyFormat::ACROSS_NAMESPACES;
    let (_rig, mut queue) = across(large());
    let most = COPY_MAX_BYTES / 512;
    let fast = CopyRange { fast_only: true, ..range(6, 0, 1) };
    let size = Status::COMMAND_SIZE_LIMIT_EXCEEDED;
    let cases = [
        ("129 ranges", 5, 0, SAME, vec![range(0, 9, 1); 129], size),
        ("a range beyond MSSRL", 5, 0, ACROSS, vec![range(6, 0, 65536)], size),
        ("more than MCL", 5, 0, ACROSS, vec![range(6, 0, most / 2), range(6, 0, most)], size),
        ("source behind the end", 5, 0, ACROSS, vec![range(1, 999, 2)], Status::LBA_OUT_OF_RANGE),
        ("address overflows", 5, 0, ACROSS, vec![range(6, u64::MAX, 2)], Status::LBA_OUT_OF_RANGE),
        ("written behind the end", 1, 999, SAME, vec![range(0, 0, 2)], Status::LBA_OUT_OF_RANGE),
        ("written overflows", 1, u64::MAX, SAME, vec![range(0, 0, 2)], Status::LBA_OUT_OF_RANGE),
        ("overlaps", 1, 10, SAME, vec![range(0, 0, 8), range(0, 3, 8)], Status::OVERLAPPING_RANGE),
        ("overlaps by format 2h", 1, 3, ACROSS, vec![range(1, 2, 2)], Status::OVERLAPPING_RANGE),
        ("no such source", 5, 0, ACROSS, vec![range(9, 0, 1)], Status::INVALID_NAMESPACE),
        ("source 0", 5, 0, ACROSS, vec![range(0, 0, 1)], Status::INVALID_NAMESPACE),
        ("every source", 5, 0, ACROSS, vec![range(u32::MAX, 0, 1)], Status::INVALID_NAMESPACE),
        ("other blocks", 5, 0, ACROSS, vec![range(4, 0, 1)], Status::INCOMPATIBLE_NAMESPACE),
        ("fast only", 5, 0, ACROSS, vec![fast], Status::FAST_COPY_NOT_POSSIBLE),
        ("write-protected", 4, 0, SAME, vec![range(0, 1, 1)], Status::NAMESPACE_WRITE_PROTECTED),
        ("format 1h", 5, 0, CopyFormat(1), vec![range(0, 9, 1)], Status::INVALID_FIELD),
        ("format 3h", 5, 0, CopyFormat(3), vec![range(6, 0, 1)], Status::INVALID_FIELD),
        ("to no namespace", 9, 0, SAME, vec![range(0, 9, 1)], Status::INVALID_NAMESPACE),
    ];
    for (name, to, lba, format, ranges, status) in cases {
        let cqe = replied(start(&mut queue, command(to, lba, format, &ranges)));
        assert_eq!((cqe.status, cqe.result), (status, 0), "{name}");
        assert!(cqe.do_not_retry, "{name}");
    }
    // Ranges next to what is written, and twice the same one, are fine.
    let beside = [range(0, 0, 10), range(0, 12, 1), range(0, 12, 1)];
    submitted(start(&mut queue, command(1, 13, SAME, &beside)));
}

#[test]
fn data_that_is_too_short_or_too_long_is_refused() {
    let mut queue = Rig::io().connect_io(1).unwrap();
    for (bytes, status) in [(31, false), (32, true), (4096, true), (4128, false)] {
        let (mut sqe, mut data) = command(1, 500, CopyFormat::SAME_NAMESPACE, &[range(0, 0, 1)]);
        sqe.set_sgl(Sgl::transport(bytes));
        data.resize(bytes as usize, 0xee);
        let next = start(&mut queue, (sqe, data));
        match status {
            true => {
                submitted(next);
                replied(queue.finished(T, DeviceOutcome::failed(Status::WRITE_FAULT), &[]));
            }
            false => assert_eq!(replied(next).status, Status::DATA_SGL_LENGTH_INVALID),
        }
    }
    let fused =
        with(command(1, 5, CopyFormat::SAME_NAMESPACE, &[range(0, 0, 1)]).0, |sqe| sqe.0[1] |= 1);
    assert_eq!(replied(queue.start(T, &fused, 0)).status, Status::INVALID_FIELD);
}

#[test]
fn a_host_enables_copies_across_namespaces() {
    let mut rig = Rig::enabled(large());
    let mut queue = rig.connect_io(1).unwrap();
    let copy = || command(5, 0, CopyFormat::ACROSS_NAMESPACES, &[range(6, 0, 1)]);
    let read = |rig: &mut Rig| {
        let get = get_feature(FeatureId::HOST_BEHAVIOR_SUPPORT, 0);
        HostBehavior::decode(&rig.data(get)).unwrap()
    };
    assert_eq!(replied(start(&mut queue, copy())).status, Status::INVALID_FIELD);
    assert_eq!(set_behavior(&mut rig, &behavior(8)), Status::INVALID_FIELD);
    assert_eq!(set_behavior(&mut rig, &[2; 512]), Status::INVALID_FIELD);
    assert_eq!(read(&mut rig), HostBehavior::default());
    assert_eq!(set_behavior(&mut rig, &behavior(4)), Status::SUCCESS);
    assert_eq!(read(&mut rig).copy_formats, 4);
    submitted(start(&mut queue, copy()));
    replied(queue.finished(T, DeviceOutcome::failed(Status::WRITE_FAULT), &[]));

    // Data that does not come, or is of another length.
    let set = |bytes| {
        with(set_feature(FeatureId::HOST_BEHAVIOR_SUPPORT, 0), |sqe| {
            sqe.set_sgl(Sgl::transport(bytes))
        })
    };
    assert_eq!(rig.status(set(64)), Status::DATA_SGL_LENGTH_INVALID);
    assert_eq!(rig.start(3, set(512)), Next::Fetch { bytes: 512 });
    let failed = rig.control.data(Tag(3), Err(Status::TRANSIENT_TRANSPORT_ERROR));
    let Next::Reply { cqe, .. } = failed else { panic!("{failed:?}") };
    assert_eq!((cqe.status, cqe.do_not_retry), (Status::TRANSIENT_TRANSPORT_ERROR, false));
    assert_eq!(rig.control.data(Tag(3), Ok(&behavior(0))), Next::Hold, "it is over");
    // A reset forgets it.
    rig.set_cc(0);
    rig.set_cc(ON);
    assert_eq!(replied(start(&mut queue, copy())).status, Status::INVALID_FIELD);
}

#[test]
fn what_is_supported_is_told() {
    let mut rig = Rig::enabled(large());
    let controller = IdentifyController::decode(&rig.data(identify(Cns::CONTROLLER, 0))).unwrap();
    assert_ne!(controller.oncs & IdentifyController::ONCS_COPY, 0);
    assert_eq!(controller.cdfs, 0b101);
    let decode = |data: Vec<u8>| IdentifyNamespace::decode(&data).unwrap();
    let small = decode(rig.data(identify(Cns::NAMESPACE, 1)));
    assert_eq!((small.msrc, small.mcl, small.mssrl), (127, 65536, 65535));
    let large = decode(rig.data(identify(Cns::NAMESPACE, 4)));
    assert_eq!((large.msrc, large.mcl, large.mssrl), (127, 8192, 8192));
    let effects =
        EffectsLog::decode(&rig.data(get_log(LogPageId::COMMAND_EFFECTS, 0, 4096))).unwrap();
    let copy = effects.io[usize::from(NvmOpcode::COPY.0)];
    assert_eq!(copy, EffectsLog::SUPPORTED | EffectsLog::CONTENT_CHANGE);
}

#[test]
fn an_abort_ends_a_copy_before_its_next_piece() {
    let mut queue = Rig::io().connect_io(1).unwrap();
    let (sqe, data) = command(1, 500, CopyFormat::SAME_NAMESPACE, &[range(0, 0, 4)]);
    submitted(start(&mut queue, (cid(sqe, 9), data)));
    assert_eq!(queue.abort(cid(sqe, 9).cid()), AbortTarget::InDevice(T));
    let cqe = replied(queue.finished(T, DeviceOutcome::DONE, &[]));
    assert_eq!((cqe.status, queue.outstanding()), (Status::ABORT_REQUESTED, 0));
}

/// Change of a subsystem.
type Change = fn(&mut Subsystem);

#[test]
fn a_namespace_that_goes_or_changes_ends_a_copy() {
    let ends: [(Change, Status); 4] = [
        (|it| _ = it.remove_namespace(Nsid(6)), Status::INVALID_NAMESPACE),
        (|it| _ = it.remove_namespace(Nsid(5)), Status::INVALID_NAMESPACE),
        (
            |it| {
                let other = Namespace { incarnation: 1, blocks: LARGE, ..namespace(6) };
                _ = it.set_namespace(other).unwrap()
            },
            Status::INVALID_NAMESPACE,
        ),
        (|it| _ = it.set_namespace(namespace(6)).unwrap(), Status::LBA_OUT_OF_RANGE),
    ];
    for (change, status) in ends {
        let (mut rig, mut queue) = across(large());
        let ranges = [range(1, 0, 1), range(6, 2000, 4)];
        submitted(start(&mut queue, command(5, 0, CopyFormat::ACROSS_NAMESPACES, &ranges)));
        change(&mut rig.subsystem);
        queue.set_namespaces(rig.subsystem.namespaces());
        assert_eq!(queue.revoked(T), Some(status));
        assert_eq!(replied(queue.finished(T, DeviceOutcome::DONE, &[])).status, status);
    }
}

/// A namespace that another host reserves in this way.
fn reserved(
    nsid: u32,
    kind: Kind,
) -> (Namespace, std::sync::Arc<Reservations>, ReservationRequest) {
    let reservations = Reservations::volatile();
    let by = Registrant::Host(weft_proto::nvme::types::Id128([9; 16]));
    let register = Action::Register { check: KeyCheck::New, key: 1, all_ports: false };
    let action = |action| ReservationRequest { by: by.clone(), action, persist: None };
    reservations.execute(&action(register)).unwrap();
    let of = Namespace { reservations: Some(reservations.clone()), ..namespace(nsid) };
    (of, reservations, action(Action::Acquire { key: 1, kind }))
}

#[test]
fn reservations_of_others_hold_for_both_ends() {
    let status = |next: IoNext| -> Cqe { replied(next) };
    for (nsid, kind, is_forbidden) in [
        (1, Kind::ExclusiveAccess, true),
        (1, Kind::WriteExclusive, false),
        (2, Kind::WriteExclusive, true),
        (2, Kind::ExclusiveAccess, true),
    ] {
        let (namespace, reservations, acquire) = reserved(nsid, kind);
        let mut subsystem = large();
        subsystem.set_namespace(namespace).unwrap();
        let (_rig, mut queue) = across(subsystem);
        let copy = || command(2, 0, CopyFormat::ACROSS_NAMESPACES, &[range(1, 0, 4)]);
        // It is reserved while the copy is under way, then before another one.
        submitted(start(&mut queue, copy()));
        reservations.execute(&acquire).unwrap();
        let mut next = queue.finished(T, DeviceOutcome::DONE, &[]);
        let holds_now = is_forbidden && nsid == 2;
        if !holds_now {
            submitted(next);
            next = queue.finished(T, DeviceOutcome::DONE, &[]);
        }
        let expected = if holds_now { Status::RESERVATION_CONFLICT } else { Status::SUCCESS };
        assert_eq!(status(next).status, expected, "{nsid} {kind:?}");
        match start(&mut queue, copy()) {
            IoNext::Submit(_) => assert!(!is_forbidden, "{nsid} {kind:?}"),
            next => {
                assert!(is_forbidden, "{nsid} {kind:?}");
                assert_eq!(status(next).status, Status::RESERVATION_CONFLICT);
            }
        }
    }
}
