//! Fused Compare and Write: pairing, every way in which a pair can break, and aborts.

use crate::nvme_controller_support::*;
use weft_proto::nvme::controller::{
    AbortTarget, DeviceOutcome, IoNext, IoQueue, IoRequestKind, Namespace,
};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::{Fuse, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Lba};
use weft_proto::stream::Tag;

const A: Tag = Tag(1);
const B: Tag = Tag(2);
const C: Tag = Tag(3);

fn queue() -> IoQueue {
    Rig::io().connect_io(1).unwrap()
}

fn half(fuse: Fuse, opcode: NvmOpcode, lba: u64, count: u32, id: u16) -> Sqe {
    let mut sqe = cid(blocks(opcode, 1, lba, count), id);
    sqe.set_fuse(fuse);
    sqe
}

fn first() -> Sqe {
    half(Fuse::First, NvmOpcode::COMPARE, 10, 1, 0xa)
}

fn second() -> Sqe {
    half(Fuse::Second, NvmOpcode::WRITE, 10, 1, 0xb)
}

fn other() -> Sqe {
    cid(blocks(NvmOpcode::READ, 1, 0, 1), 0xc)
}

const FETCH: IoNext = IoNext::Fetch { bytes: 512 };

fn orphan(queue: &mut IoQueue) -> Option<(Tag, Status)> {
    queue.orphan().map(|(tag, cqe)| (tag, cqe.status))
}

/// Starts both halves.
fn paired() -> IoQueue {
    let mut queue = queue();
    assert_eq!(queue.start(A, &first(), 0), FETCH);
    assert_eq!(queue.start(B, &second(), 0), FETCH);
    queue
}

fn pair(next: IoNext) -> [(Tag, Cid, Status); 2] {
    let IoNext::ReplyPair { first, second } = next else { panic!("{next:?}") };
    [first, second].map(|(tag, Cqe { cid, status, .. })| (tag, cid, status))
}

#[test]
fn data_may_come_in_either_order() {
    for order in [[A, B], [B, A]] {
        let mut queue = paired();
        assert_eq!(queue.data(order[0], &[]), IoNext::Hold);
        let request = submitted(queue.data(order[1], &[]));
        assert_eq!(
            (request.tag, request.kind, request.lba),
            (B, IoRequestKind::CompareAndWrite { first: A }, Lba(10))
        );
        let done = pair(queue.finished(B, DeviceOutcome::DONE, &[]));
        assert_eq!(done, [(A, Cid(0xa), Status::SUCCESS), (B, Cid(0xb), Status::SUCCESS)]);
        assert_eq!((queue.outstanding(), orphan(&mut queue)), (0, None));
    }
}

#[test]
fn the_first_may_have_its_data_before_the_second_comes() {
    let mut queue = queue();
    queue.start(A, &first(), 0);
    assert_eq!(queue.data(A, &[]), IoNext::Hold);
    assert_eq!(queue.start(B, &second(), 0), FETCH);
    assert_eq!(submitted(queue.data(B, &[])).tag, B);
}

#[test]
fn outcomes_of_the_pair() {
    let cases = [
        (Status::COMPARE_FAILURE, Status::COMPARE_FAILURE, Status::FAILED_FUSED),
        (Status::UNRECOVERED_READ_ERROR, Status::UNRECOVERED_READ_ERROR, Status::FAILED_FUSED),
        (Status::INTERNAL_ERROR, Status::INTERNAL_ERROR, Status::FAILED_FUSED),
        (Status::ABORT_REQUESTED, Status::ABORT_REQUESTED, Status::FAILED_FUSED),
        (Status::WRITE_FAULT, Status::SUCCESS, Status::WRITE_FAULT),
        (Status::CAPACITY_EXCEEDED, Status::SUCCESS, Status::CAPACITY_EXCEEDED),
    ];
    for (outcome, compare, write) in cases {
        let mut queue = paired();
        queue.data(A, &[]);
        queue.data(B, &[]);
        let done = pair(queue.finished(B, DeviceOutcome::failed(outcome), &[]));
        assert_eq!([done[0].2, done[1].2], [compare, write], "{outcome}");
    }
}

#[test]
fn a_second_alone() {
    let mut queue = queue();
    assert_eq!(replied(queue.start(B, &second(), 0)).status, Status::MISSING_FUSED);
    assert_eq!(queue.outstanding(), 0);
}

#[test]
fn a_second_after_a_first_that_was_refused() {
    let wrong = [
        (half(Fuse::First, NvmOpcode::WRITE, 10, 1, 1), Status::INVALID_FIELD),
        (half(Fuse::First, NvmOpcode::READ, 10, 1, 1), Status::INVALID_FIELD),
        (half(Fuse::First, NvmOpcode::COMPARE, 1000, 1, 1), Status::LBA_OUT_OF_RANGE),
    ];
    for (sqe, status) in wrong {
        let mut queue = queue();
        assert_eq!(replied(queue.start(A, &sqe, 0)).status, status);
        assert_eq!(replied(queue.start(B, &second(), 0)).status, Status::FAILED_FUSED);
        assert_eq!(
            replied(queue.start(B, &second(), 0)).status,
            Status::MISSING_FUSED,
            "only the next one"
        );
    }
    let mut queue = queue();
    replied(queue.start(A, &wrong[2].0, 0));
    submitted(queue.start(B, &other(), 0));
    assert_eq!(replied(queue.start(C, &second(), 0)).status, Status::MISSING_FUSED);
}

#[test]
fn a_first_without_its_second() {
    // Its data is there already: it is answered at once, and the other command goes its way.
    let mut queue = queue();
    queue.start(A, &first(), 0);
    queue.data(A, &[]);
    submitted(queue.start(C, &other(), 0));
    assert_eq!(orphan(&mut queue), Some((A, Status::MISSING_FUSED)));
    assert_eq!(replied(queue.start(B, &second(), 0)).status, Status::MISSING_FUSED);

    // Its data is on the way: it is answered when that has come.
    let mut queue = self::queue();
    queue.start(A, &first(), 0);
    submitted(queue.start(C, &other(), 0));
    assert_eq!(orphan(&mut queue), None);
    assert_eq!(replied(queue.data(A, &[])).status, Status::MISSING_FUSED);

    // Another first follows, which is as good as any.
    let mut queue = self::queue();
    queue.start(A, &first(), 0);
    assert_eq!(queue.start(C, &first(), 0), FETCH);
    assert_eq!(queue.start(B, &second(), 0), FETCH);
    assert_eq!(replied(queue.data(A, &[])).status, Status::MISSING_FUSED);
    queue.data(C, &[]);
    assert_eq!(submitted(queue.data(B, &[])).kind, IoRequestKind::CompareAndWrite { first: C });

    // A refused command stands in between as well.
    let mut queue = self::queue();
    queue.start(A, &first(), 0);
    replied(queue.start(C, &Sqe::new(0x99, weft_proto::nvme::types::Nsid(1)), 0));
    assert_eq!(replied(queue.data(A, &[])).status, Status::MISSING_FUSED);
}

#[test]
fn a_second_that_does_not_fit() {
    let other_namespace = {
        let mut sqe = second();
        sqe.set_dword(1, 2);
        sqe
    };
    let cases = [
        (
            "other address",
            half(Fuse::Second, NvmOpcode::WRITE, 11, 1, 2),
            Status::INVALID_FIELD,
            Status::INVALID_FIELD,
        ),
        (
            "other length",
            half(Fuse::Second, NvmOpcode::WRITE, 10, 2, 2),
            Status::INVALID_FIELD,
            Status::INVALID_FIELD,
        ),
        ("other namespace", other_namespace, Status::INVALID_FIELD, Status::INVALID_FIELD),
        (
            "no Write",
            half(Fuse::Second, NvmOpcode::READ, 10, 1, 2),
            Status::INVALID_FIELD,
            Status::FAILED_FUSED,
        ),
        (
            "out of range",
            half(Fuse::Second, NvmOpcode::WRITE, 1000, 1, 2),
            Status::LBA_OUT_OF_RANGE,
            Status::FAILED_FUSED,
        ),
    ];
    for (name, sqe, status, status_of_first) in cases {
        for data_first in [true, false] {
            let mut queue = queue();
            queue.start(A, &first(), 0);
            if data_first {
                queue.data(A, &[]);
            }
            assert_eq!(replied(queue.start(B, &sqe, 0)).status, status, "{name}");
            let of_first = match orphan(&mut queue) {
                Some((A, status)) if data_first => status,
                None if !data_first => replied(queue.data(A, &[])).status,
                wrong => panic!("{name}: {wrong:?}"),
            };
            assert_eq!((of_first, queue.outstanding()), (status_of_first, 0), "{name}");
        }
    }
}

#[test]
fn pairs_that_the_namespace_cannot_execute() {
    let too_long = [
        half(Fuse::First, NvmOpcode::COMPARE, 0, 9, 1),
        half(Fuse::Second, NvmOpcode::WRITE, 0, 9, 2),
    ];
    let mut queue = queue();
    assert_eq!(queue.start(A, &too_long[0], 0), IoNext::Hold, "its data is not wanted");
    assert_eq!(replied(queue.start(B, &too_long[1], 0)).status, Status::ATOMIC_WRITE_UNIT_EXCEEDED);
    assert_eq!(orphan(&mut queue), Some((A, Status::ATOMIC_WRITE_UNIT_EXCEEDED)));

    let mut rig = Rig::io();
    rig.subsystem.set_namespace(Namespace { compare_write_blocks: 0, ..namespace(1) }).unwrap();
    let mut queue = rig.connect_io(1).unwrap();
    queue.start(A, &first(), 0);
    assert_eq!(replied(queue.start(B, &second(), 0)).status, Status::INVALID_FIELD);
    assert_eq!(orphan(&mut queue), Some((A, Status::INVALID_FIELD)));
}

#[test]
fn data_of_one_half_is_damaged() {
    for (damaged, healthy) in [(A, B), (B, A)] {
        // The healthy half waits: it is answered at once.
        let mut queue = paired();
        assert_eq!(queue.data(healthy, &[]), IoNext::Hold);
        let failed = queue.data_failed(damaged, Status::TRANSIENT_TRANSPORT_ERROR);
        assert_eq!(replied(failed).status, Status::TRANSIENT_TRANSPORT_ERROR);
        assert_eq!(orphan(&mut queue), Some((healthy, Status::FAILED_FUSED)));
        assert_eq!(queue.outstanding(), 0);

        // Its data is on the way.
        let mut queue = paired();
        replied(queue.data_failed(damaged, Status::TRANSIENT_TRANSPORT_ERROR));
        assert_eq!(orphan(&mut queue), None);
        // The tag of the damaged half is used again; that is none of the other half's business.
        queue.start(damaged, &blocks(NvmOpcode::WRITE, 1, 0, 1), 0);
        assert_eq!(
            queue.abort(if healthy == A { Cid(0xa) } else { Cid(0xb) }),
            AbortTarget::Doomed(healthy)
        );
        assert_eq!(replied(queue.data(healthy, &[])).status, Status::FAILED_FUSED);
        assert_eq!(submitted(queue.data(damaged, &[])).kind, IoRequestKind::Write);
    }
    // The first's data is damaged before the second comes.
    let mut queue = queue();
    queue.start(A, &first(), 0);
    replied(queue.data_failed(A, Status::TRANSIENT_TRANSPORT_ERROR));
    assert_eq!(replied(queue.start(B, &second(), 0)).status, Status::FAILED_FUSED);
}

#[test]
fn aborts_of_single_commands() {
    let mut queue = queue();
    assert_eq!(queue.abort(Cid(9)), AbortTarget::Unknown);
    submitted(queue.start(A, &cid(blocks(NvmOpcode::READ, 1, 0, 1), 9), 0));
    assert_eq!(queue.abort(Cid(9)), AbortTarget::InDevice(A));
    assert_eq!(
        replied(queue.finished(A, DeviceOutcome::failed(Status::ABORT_REQUESTED), &[])).status,
        Status::ABORT_REQUESTED
    );
    assert_eq!(queue.abort(Cid(9)), AbortTarget::Unknown);

    queue.start(A, &cid(blocks(NvmOpcode::WRITE, 1, 0, 1), 9), 0);
    assert!(queue.destination(A).is_some());
    assert_eq!(queue.abort(Cid(9)), AbortTarget::Doomed(A));
    assert_eq!(orphan(&mut queue), None, "its data is on the way");
    assert_eq!(queue.revoked(A), Some(Status::ABORT_REQUESTED), "until it completes");
    assert_eq!(queue.destination(A), None, "nor is it stored where it arrives");
    assert_eq!(replied(queue.data(A, &[])).status, Status::ABORT_REQUESTED);
    assert_eq!(queue.revoked(A), None);
    queue.start(A, &blocks(NvmOpcode::WRITE, 1, 0, 1), 0);
    assert_eq!(queue.revoked(A), None, "another command under the same tag");
}

#[test]
fn aborts_of_halves() {
    for (target, id, partner) in [(A, Cid(0xa), B), (B, Cid(0xb), A)] {
        // Both wait for data.
        let mut queue = paired();
        assert_eq!(queue.abort(id), AbortTarget::Doomed(target));
        assert_eq!(replied(queue.data(target, &[])).status, Status::ABORT_REQUESTED);
        assert_eq!(replied(queue.data(partner, &[])).status, Status::FAILED_FUSED);

        // The target has its data.
        let mut queue = paired();
        queue.data(target, &[]);
        assert_eq!(queue.abort(id), AbortTarget::Aborted);
        assert_eq!(orphan(&mut queue), Some((target, Status::ABORT_REQUESTED)));
        assert_eq!(replied(queue.data(partner, &[])).status, Status::FAILED_FUSED);

        // The partner has its data.
        let mut queue = paired();
        queue.data(partner, &[]);
        assert_eq!(queue.abort(id), AbortTarget::Doomed(target));
        assert_eq!(orphan(&mut queue), Some((partner, Status::FAILED_FUSED)));
        assert_eq!(replied(queue.data(target, &[])).status, Status::ABORT_REQUESTED);

        // The device has both.
        let mut queue = paired();
        queue.data(A, &[]);
        queue.data(B, &[]);
        assert_eq!(queue.abort(id), AbortTarget::InDevice(B));
    }
    // The first is aborted before the second comes.
    let mut queue = queue();
    queue.start(A, &first(), 0);
    queue.data(A, &[]);
    assert_eq!(queue.abort(Cid(0xa)), AbortTarget::Aborted);
    assert_eq!(orphan(&mut queue), Some((A, Status::ABORT_REQUESTED)));
    assert_eq!(replied(queue.start(B, &second(), 0)).status, Status::FAILED_FUSED);
}
