//! I/O commands that are wrong and their status; what is ignored.

use super::io::{dsm, queue};
use crate::nvme_controller_support::*;
use weft_proto::nvme::controller::{DeviceOutcome, IoNext, IoRequestKind};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::{Fuse, Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Nsid};
use weft_proto::stream::Tag;

/// A command that is wrong, the data in its capsule in bytes, and its status.
type Wrong = (&'static str, Sqe, u32, Status);

fn wrong_opcodes_and_namespaces() -> Vec<Wrong> {
    vec![
        ("unknown opcode", Sqe::new(0x03, Nsid(1)), 0, Status::INVALID_OPCODE),
        ("vendor opcode", Sqe::new(0x80, Nsid(1)), 0, Status::INVALID_OPCODE),
        ("Write Uncorrectable", Sqe::new(0x04, Nsid(1)), 0, Status::INVALID_OPCODE),
        ("Verify", Sqe::new(0x0c, Nsid(1)), 0, Status::INVALID_OPCODE),
        ("Property Get", Sqe::fabrics(4), 0, Status::INVALID_OPCODE),
        ("Disconnect", Sqe::fabrics(8), 0, Status::INVALID_OPCODE),
        ("Connect", Sqe::fabrics(1), 0, Status::COMMAND_SEQUENCE_ERROR),
        ("NSID 0", blocks(NvmOpcode::READ, 0, 0, 1), 0, Status::INVALID_NAMESPACE),
        ("NSID not active", blocks(NvmOpcode::READ, 3, 0, 1), 0, Status::INVALID_NAMESPACE),
        ("NSID of no table", blocks(NvmOpcode::WRITE, 99, 0, 1), 0, Status::INVALID_NAMESPACE),
        ("all namespaces", blocks(NvmOpcode::READ, u32::MAX, 0, 1), 0, Status::INVALID_NAMESPACE),
        ("Flush of none", Sqe::new(0, Nsid(3)), 0, Status::INVALID_NAMESPACE),
        ("Compare of none", blocks(NvmOpcode::COMPARE, 3, 0, 1), 0, Status::INVALID_NAMESPACE),
    ]
}

fn wrong_blocks() -> Vec<Wrong> {
    let read = || blocks(NvmOpcode::READ, 1, 0, 1);
    vec![
        (
            "ends behind the last block",
            blocks(NvmOpcode::READ, 1, 999, 2),
            0,
            Status::LBA_OUT_OF_RANGE,
        ),
        ("address overflows", blocks(NvmOpcode::READ, 1, u64::MAX, 2), 0, Status::LBA_OUT_OF_RANGE),
        (
            "zeroes behind the end",
            blocks(NvmOpcode::WRITE_ZEROES, 1, 1, 1000),
            0,
            Status::LBA_OUT_OF_RANGE,
        ),
        (
            "more than MDTS",
            with(blocks(NvmOpcode::READ, 1, 0, 2049), |_| ()),
            0,
            Status::INVALID_FIELD,
        ),
        ("NLB FFFFh", with(read(), |sqe| sqe.set_dword(12, 0xffff)), 0, Status::INVALID_FIELD),
        (
            "write-protected",
            blocks(NvmOpcode::WRITE, 4, 0, 1),
            0,
            Status::NAMESPACE_WRITE_PROTECTED,
        ),
        (
            "zeroes, write-protected",
            blocks(NvmOpcode::WRITE_ZEROES, 4, 0, 1),
            0,
            Status::NAMESPACE_WRITE_PROTECTED,
        ),
    ]
}

fn wrong_data_pointers_of_reads() -> Vec<Wrong> {
    let read = || blocks(NvmOpcode::READ, 1, 0, 1);
    vec![
        ("PRP", with(read(), |sqe| sqe.0[1] = 0), 0, Status::INVALID_FIELD),
        (
            "read too long",
            with(read(), |sqe| sqe.set_sgl(Sgl::transport(1024))),
            0,
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        (
            "read without SGL",
            with(read(), |sqe| sqe.set_sgl(Sgl::transport(0))),
            0,
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        (
            "read into the capsule",
            with(read(), |sqe| sqe.set_sgl(Sgl::in_capsule(512))),
            512,
            Status::SGL_TYPE_INVALID,
        ),
    ]
}

fn wrong_data_pointers_of_writes() -> Vec<Wrong> {
    let write = || blocks(NvmOpcode::WRITE, 1, 0, 1);
    let sgl = |length, identifier| Sgl { address: 0, length, identifier };
    vec![
        ("PSDT 3", with(write(), |sqe| sqe.0[1] = 0xc0), 0, Status::INVALID_FIELD),
        (
            "keyed SGL",
            with(write(), |sqe| sqe.set_sgl(sgl(512, 0x40))),
            0,
            Status::SGL_TYPE_INVALID,
        ),
        (
            "SGL segment",
            with(write(), |sqe| sqe.set_sgl(sgl(512, 0x30))),
            0,
            Status::SGL_TYPE_INVALID,
        ),
        (
            "write too short",
            with(write(), |sqe| sqe.set_sgl(Sgl::transport(511))),
            0,
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        (
            "capsule too short",
            with(write(), |sqe| sqe.set_sgl(Sgl::in_capsule(512))),
            256,
            Status::SGL_OFFSET_INVALID,
        ),
        (
            "capsule with an offset",
            with(write(), |sqe| sqe.set_sgl(Sgl { address: 8, ..Sgl::in_capsule(512) })),
            520,
            Status::SGL_OFFSET_INVALID,
        ),
        (
            "too few ranges",
            with(dsm(&[(0, 1); 3], 4).0, |sqe| sqe.set_dword(10, 3)),
            0,
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        (
            "too many ranges",
            with(dsm(&[(0, 1)], 4).0, |sqe| sqe.set_sgl(Sgl::transport(4112))),
            0,
            Status::DATA_SGL_LENGTH_INVALID,
        ),
    ]
}

#[test]
fn wrong_commands_and_their_status() {
    let cases = [
        wrong_opcodes_and_namespaces(),
        wrong_blocks(),
        wrong_data_pointers_of_reads(),
        wrong_data_pointers_of_writes(),
    ]
    .concat();
    assert_eq!(cases.len(), 32);
    let mut queue = queue();
    for (name, sqe, in_capsule_bytes, expected) in cases {
        let cqe = replied(queue.start(Tag(0), &cid(sqe, 77), in_capsule_bytes));
        assert_eq!((cqe.status, cqe.do_not_retry, cqe.cid), (expected, true, Cid(77)), "{name}");
        assert_eq!(queue.outstanding(), 0, "{name}");
    }
}

#[test]
fn what_is_ignored() {
    let mut queue = queue();
    // Protection information and tags of a namespace without them, Limited Retry, metadata pointer,
    // PSDT 2.
    let sqe = with(blocks(NvmOpcode::READ, 1, 0, 1), |sqe| {
        sqe.0[1] = 0x80;
        sqe.set_dword(12, 0xf << 26 | 1 << 31 | 1 << 24);
        sqe.set_dword(14, 0xdead);
        sqe.set_dword(15, 0xbeef);
        sqe.set_qword(4, 0x1000);
    });
    assert_eq!(submitted(queue.start(Tag(0), &sqe, 0)).blocks, 1);
    // The data pointer of a command without data; Linux sets a transport SGL of no bytes, others
    // nothing.
    let sqe = with(Sqe::new(NvmOpcode::FLUSH.0, Nsid(1)), |sqe| sqe.0[1] = 0);
    assert_eq!(submitted(queue.start(Tag(1), &sqe, 0)).kind, IoRequestKind::Flush);
}

#[test]
fn fused_bits_that_mean_nothing() {
    let mut queue = queue();
    let reserved = with(blocks(NvmOpcode::READ, 1, 0, 1), |sqe| sqe.set_fuse(Fuse::Reserved));
    assert_eq!(replied(queue.start(Tag(0), &reserved, 0)).status, Status::INVALID_FIELD);
}

#[test]
fn tags_beyond_the_queue_are_refused() {
    let mut queue = queue();
    assert_eq!(
        replied(queue.start(Tag(32), &blocks(NvmOpcode::READ, 1, 0, 1), 0)).status,
        Status::INTERNAL_ERROR
    );
    for tag in [Tag(0), Tag(31), Tag(u16::MAX)] {
        assert_eq!(queue.data(tag, &[]), IoNext::Hold);
        assert_eq!(queue.finished(tag, DeviceOutcome::DONE, &[]), IoNext::Hold);
        assert_eq!(queue.data_failed(tag, Status::INTERNAL_ERROR), IoNext::Hold);
    }
}
