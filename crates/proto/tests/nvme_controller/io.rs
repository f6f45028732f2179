//! I/O commands: what each is turned into.

use crate::nvme_controller_support::*;
use weft_proto::nvme::controller::{DeviceOutcome, IoNext, IoQueue, IoRequest, IoRequestKind};
use weft_proto::nvme::log_page::{ErrorEntry, LogPageId, SmartLog};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Lba, Nsid};
use weft_proto::stream::Tag;

const FUA: u32 = 1 << 30;

pub fn queue() -> IoQueue {
    Rig::io().connect_io(1).unwrap()
}

pub fn dsm(ranges: &[(u64, u32)], attributes: u32) -> (Sqe, Vec<u8>) {
    let mut data = Vec::new();
    for (lba, blocks) in ranges {
        data.extend_from_slice(&[0; 4]);
        data.extend_from_slice(&blocks.to_le_bytes());
        data.extend_from_slice(&lba.to_le_bytes());
    }
    let mut sqe = Sqe::new(NvmOpcode::DATASET_MANAGEMENT.0, Nsid(1));
    sqe.set_dword(10, ranges.len() as u32 - 1);
    sqe.set_dword(11, attributes);
    sqe.set_sgl(Sgl::transport(data.len() as u32));
    (sqe, data)
}

#[test]
fn a_read() {
    let mut queue = queue();
    let sqe = with(cid(blocks(NvmOpcode::READ, 1, 990, 10), 9), |sqe| {
        sqe.set_dword(12, 9 | FUA | 1 << 31)
    });
    let request = submitted(queue.start(Tag(3), &sqe, 0));
    let expected = IoRequest {
        tag: Tag(3),
        namespace: 0,
        kind: IoRequestKind::Read,
        lba: Lba(990),
        blocks: 10,
        bytes: 5120,
        fua: true,
    };
    assert_eq!(request, expected);
    match queue.finished(Tag(3), DeviceOutcome::DONE, &[]) {
        IoNext::Reply { cqe, data_bytes: 5120 } => {
            assert_eq!((cqe.cid, cqe.status, cqe.sq_head), (Cid(9), Status::SUCCESS, 2))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(queue.outstanding(), 0);
}

#[test]
fn a_read_that_fails_sends_no_data() {
    let mut queue = queue();
    queue.start(Tag(0), &blocks(NvmOpcode::READ, 1, 0, 1), 0);
    let outcome = DeviceOutcome { status: Status::UNRECOVERED_READ_ERROR, do_not_retry: true };
    match queue.finished(Tag(0), outcome, &[]) {
        IoNext::Reply { cqe, data_bytes: 0 } => {
            assert_eq!((cqe.status, cqe.do_not_retry), (outcome.status, true))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(queue.statistics().media_errors, 1);
}

#[test]
fn a_write_from_the_capsule_and_by_the_transport() {
    let mut queue = queue();
    let in_capsule =
        with(blocks(NvmOpcode::WRITE, 2, 0, 8), |sqe| sqe.set_sgl(Sgl::in_capsule(4096)));
    for (sqe, in_capsule_bytes) in [(in_capsule, 4096), (blocks(NvmOpcode::WRITE, 2, 0, 8), 0)] {
        assert_eq!(queue.start(Tag(0), &sqe, in_capsule_bytes), IoNext::Fetch { bytes: 4096 });
        let request = submitted(queue.data(Tag(0), &[]));
        assert_eq!(
            (request.kind, request.namespace, request.blocks, request.fua),
            (IoRequestKind::Write, 1, 8, false)
        );
        assert_eq!(
            replied(queue.finished(Tag(0), DeviceOutcome::DONE, &[])).status,
            Status::SUCCESS
        );
    }
    assert_eq!((queue.statistics().writes, queue.statistics().bytes_written), (2, 8192));
}

#[test]
fn a_write_that_is_stored_as_it_arrives_ends_with_that() {
    let mut queue = queue();
    let failed = DeviceOutcome { status: Status::WRITE_FAULT, do_not_retry: true };
    for outcome in [DeviceOutcome::DONE, failed] {
        assert_eq!(queue.stored(Tag(0), outcome), IoNext::Hold, "there is no such command");
        queue.start(Tag(0), &blocks(NvmOpcode::WRITE, 1, 8, 8), 0);
        let request = *queue.destination(Tag(0)).unwrap();
        assert_eq!((request.lba, request.blocks), (Lba(8), 8));
        let cqe = replied(queue.stored(Tag(0), outcome));
        assert_eq!((cqe.status, cqe.do_not_retry), (outcome.status, outcome.do_not_retry));
        assert_eq!(queue.outstanding(), 0);
    }
    assert_eq!((queue.statistics().writes, queue.statistics().bytes_written), (1, 4096));
    // Other data is not for one place.
    queue.start(Tag(0), &blocks(NvmOpcode::COMPARE, 1, 0, 1), 0);
    assert_eq!(queue.destination(Tag(0)), None);
}

#[test]
fn damaged_data_fails_its_command() {
    let mut queue = queue();
    queue.start(Tag(0), &blocks(NvmOpcode::WRITE, 1, 0, 1), 0);
    let cqe = replied(queue.data_failed(Tag(0), Status::TRANSIENT_TRANSPORT_ERROR));
    assert_eq!((cqe.status, cqe.do_not_retry), (Status::TRANSIENT_TRANSPORT_ERROR, false));
    assert_eq!(queue.outstanding(), 0);
}

#[test]
fn write_zeroes_and_compare() {
    let mut queue = queue();
    let zeroes = with(blocks(NvmOpcode::WRITE_ZEROES, 1, 0, 1000), |sqe| {
        sqe.set_dword(12, 999 | FUA | 1 << 25)
    });
    let request = submitted(queue.start(Tag(0), &zeroes, 0));
    assert_eq!(
        (request.kind, request.blocks, request.bytes, request.fua),
        (IoRequestKind::WriteZeroes { deallocate: true }, 1000, 0, true)
    );
    replied(queue.finished(Tag(0), DeviceOutcome::DONE, &[]));

    assert_eq!(
        queue.start(Tag(0), &blocks(NvmOpcode::COMPARE, 1, 5, 2), 0),
        IoNext::Fetch { bytes: 1024 }
    );
    assert_eq!(submitted(queue.data(Tag(0), &[])).kind, IoRequestKind::Compare);
    let differs = DeviceOutcome::failed(Status::COMPARE_FAILURE);
    assert_eq!(replied(queue.finished(Tag(0), differs, &[])).status, Status::COMPARE_FAILURE);
    assert_eq!(queue.statistics().media_errors, 0, "a miscompare is no error of the medium");
}

#[test]
fn flush_of_one_and_of_all_namespaces() {
    let mut queue = queue();
    let flush = |nsid| Sqe::new(NvmOpcode::FLUSH.0, nsid);
    let request = submitted(queue.start(Tag(0), &flush(Nsid(1)), 0));
    assert_eq!((request.kind, request.namespace), (IoRequestKind::Flush, 0));
    assert_eq!(replied(queue.finished(Tag(0), DeviceOutcome::DONE, &[])).status, Status::SUCCESS);
    assert_eq!(
        replied(queue.start(Tag(0), &flush(Nsid(2)), 0)).status,
        Status::SUCCESS,
        "nothing is cached"
    );

    // Of 1, 2 and 4 the second has no cache.
    assert_eq!(submitted(queue.start(Tag(0), &flush(Nsid::ALL), 0)).namespace, 0);
    assert_eq!(submitted(queue.finished(Tag(0), DeviceOutcome::DONE, &[])).namespace, 3);
    assert_eq!(replied(queue.finished(Tag(0), DeviceOutcome::DONE, &[])).status, Status::SUCCESS);

    submitted(queue.start(Tag(0), &flush(Nsid::ALL), 0));
    let failed = queue.finished(Tag(0), DeviceOutcome::failed(Status::WRITE_FAULT), &[]);
    assert_eq!(replied(failed).status, Status::WRITE_FAULT);
}

#[test]
fn ranges_are_discarded_one_by_one() {
    let mut queue = queue();
    let (sqe, data) = dsm(&[(10, 5), (0, 0), (900, 100)], 4);
    assert_eq!(queue.start(Tag(0), &sqe, 0), IoNext::Fetch { bytes: 48 });
    let first = submitted(queue.data(Tag(0), &data));
    assert_eq!((first.kind, first.lba, first.blocks), (IoRequestKind::Discard, Lba(10), 5));
    let second = submitted(queue.finished(Tag(0), DeviceOutcome::DONE, &data));
    assert_eq!(
        (second.lba, second.blocks, second.tag),
        (Lba(900), 100, Tag(0)),
        "the empty range is skipped"
    );
    assert_eq!(replied(queue.finished(Tag(0), DeviceOutcome::DONE, &data)).status, Status::SUCCESS);
}

#[test]
fn ranges_as_linux_sends_them() {
    let mut queue = queue();
    let (mut sqe, mut data) = dsm(&[(0, 8)], 4);
    data.resize(4096, 0);
    sqe.set_sgl(Sgl::in_capsule(4096));
    assert_eq!(queue.start(Tag(0), &sqe, 4096), IoNext::Fetch { bytes: 4096 });
    assert_eq!(submitted(queue.data(Tag(0), &data)).blocks, 8);
    assert_eq!(replied(queue.finished(Tag(0), DeviceOutcome::DONE, &data)).status, Status::SUCCESS);
}

#[test]
fn ranges_that_are_wrong_or_empty_or_only_advice() {
    let mut queue = queue();
    for range in [(999, 2), (1000, 1), (u64::MAX, 1)] {
        let (sqe, data) = dsm(&[(0, 1), range], 4);
        queue.start(Tag(0), &sqe, 0);
        let cqe = replied(queue.data(Tag(0), &data));
        assert_eq!((cqe.status, cqe.do_not_retry), (Status::LBA_OUT_OF_RANGE, true), "{range:?}");
    }
    let (sqe, data) = dsm(&[(0, 0), (1000, 0)], 4);
    queue.start(Tag(0), &sqe, 0);
    assert_eq!(replied(queue.data(Tag(0), &data)).status, Status::SUCCESS);
    let (sqe, _) = dsm(&[(0, 1)], 3);
    assert_eq!(
        replied(queue.start(Tag(0), &sqe, 0)).status,
        Status::SUCCESS,
        "no Deallocate: advice"
    );
    // Data that ends early, as no pump should do.
    let (sqe, data) = dsm(&[(0, 1), (1, 1)], 4);
    queue.start(Tag(0), &sqe, 0);
    assert_eq!(replied(queue.data(Tag(0), &data[..20])).status, Status::LBA_OUT_OF_RANGE);
    // A failed range ends the command.
    queue.start(Tag(0), &sqe, 0);
    submitted(queue.data(Tag(0), &data));
    let failed = queue.finished(Tag(0), DeviceOutcome::failed(Status::INTERNAL_ERROR), &data);
    assert_eq!(replied(failed).status, Status::INTERNAL_ERROR);
}

#[test]
fn the_largest_transfer() {
    let mut rig = Rig::io();
    rig.subsystem
        .set_namespace(weft_proto::nvme::controller::Namespace { blocks: 1 << 40, ..namespace(7) })
        .unwrap();
    let mut queue = rig.connect_io(1).unwrap();
    let most = blocks(NvmOpcode::READ, 7, (1 << 40) - 2048, 2048);
    assert_eq!(submitted(queue.start(Tag(0), &most, 0)).bytes, TRANSFER);
    let more = blocks(NvmOpcode::READ, 7, 0, 2049);
    assert_eq!(replied(queue.start(Tag(1), &more, 0)).status, Status::INVALID_FIELD);
    let zeroes = with(blocks(NvmOpcode::WRITE_ZEROES, 7, 0, 1), |sqe| sqe.set_dword(12, 0xffff));
    assert_eq!(submitted(queue.start(Tag(1), &zeroes, 0)).blocks, 65536, "no data is moved");
}

#[test]
fn the_head_of_the_submission_queue_wraps() {
    let mut queue = queue();
    let heads: Vec<u16> = (0..40)
        .map(|_| replied(queue.start(Tag(0), &Sqe::new(NvmOpcode::FLUSH.0, Nsid(2)), 0)).sq_head)
        .collect();
    assert_eq!(heads[..2], [2, 3]);
    assert_eq!(heads[29..32], [31, 0, 1]);
}

#[test]
fn errors_and_counters_reach_the_log_pages() {
    let mut rig = Rig::io();
    let mut queue = rig.connect_io(5).unwrap();
    replied(queue.start(Tag(0), &cid(blocks(NvmOpcode::READ, 1, 2000, 1), 0x1234), 0));
    queue.start(Tag(0), &blocks(NvmOpcode::READ, 1, 0, 1000), 0);
    queue.finished(Tag(0), DeviceOutcome::DONE, &[]);
    queue.start(Tag(0), &cid(blocks(NvmOpcode::READ, 1, 3, 1), 0x4321), 0);
    queue.finished(Tag(0), DeviceOutcome::failed(Status::UNRECOVERED_READ_ERROR), &[]);
    drop(queue);

    let page = rig.data(get_log(LogPageId::ERROR_INFORMATION, 0, 128));
    let newest = ErrorEntry::decode(&page).unwrap();
    assert_eq!((newest.error_count, newest.sq_id, newest.cid, newest.lba), (2, 5, 0x4321, 3));
    assert_eq!(
        (newest.status_field, newest.nsid, newest.opcode, newest.parameter_location),
        ((0x2000 | 0x281) << 1, Nsid(1), 2, 0xffff)
    );
    let older = ErrorEntry::decode(&page[64..]).unwrap();
    assert_eq!(
        (older.error_count, older.cid, older.lba, older.parameter_location),
        (1, 0x1234, 2000, 40)
    );

    let smart = SmartLog::decode(&rig.data(get_log(LogPageId::SMART, 0, 512))).unwrap();
    assert_eq!(
        (smart.host_reads, smart.data_units_read, smart.media_errors, smart.error_entries),
        (1, 1, 1, 2)
    );
}

#[test]
fn a_queue_follows_the_table_of_namespaces() {
    let mut rig = Rig::io();
    let mut queue = rig.connect_io(1).unwrap();
    queue.start(Tag(0), &blocks(NvmOpcode::READ, 1, 0, 1), 0);
    queue.set_namespaces(rig.subsystem.remove_namespace(Nsid(1)));
    assert_eq!(
        replied(queue.start(Tag(1), &blocks(NvmOpcode::READ, 1, 0, 1), 0)).status,
        Status::INVALID_NAMESPACE
    );
    assert_eq!(replied(queue.finished(Tag(0), DeviceOutcome::DONE, &[])).status, Status::SUCCESS);
    assert_eq!(
        submitted(queue.start(Tag(1), &blocks(NvmOpcode::READ, 2, 0, 1), 0)).namespace,
        1,
        "indexes stay"
    );
}
