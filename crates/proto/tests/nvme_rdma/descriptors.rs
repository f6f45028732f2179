//! Data descriptors that only fail their command.

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sgl;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_rdma::keyed::Keyed;
use weft_proto::nvme_rdma::{QueuePairEngine, RdmaTargetEvent, ReceiveBuffer, Work};
use weft_proto::stream::Tag;

use crate::nvme_rdma::layer::{READ, WRITE};
use crate::nvme_rdma::violations::{KEYED, capsule, fetching, message};

/// The command, its result, the data in the capsule, and its status.
type DescriptorCase = (&'static str, Result<Keyed, Sgl>, u32, u32, Status);

fn wrong_descriptors() -> Vec<DescriptorCase> {
    let in_capsule = |address, length| Sgl { address, length, identifier: Sgl::IN_CAPSULE };
    vec![
        ("too long", Ok(KEYED), 513, 0, Status::DATA_SGL_LENGTH_INVALID),
        (
            "more than a command may have",
            Ok(Keyed { bytes: 2 << 20, ..KEYED }),
            2 << 20,
            0,
            Status::INVALID_FIELD,
        ),
        ("nothing is asked for", Ok(KEYED), 0, 0, Status::INVALID_FIELD),
        ("no key", Ok(Keyed { key: 0, ..KEYED }), 512, 0, Status::INVALID_FIELD),
        (
            "it wraps",
            Ok(Keyed { address: u64::MAX - 510, ..KEYED }),
            512,
            0,
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        (
            "it wraps behind what is read",
            Ok(Keyed { address: u64::MAX, ..KEYED }),
            1,
            0,
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        ("another transport's", Err(Sgl::transport(512)), 512, 0, Status::SGL_TYPE_INVALID),
        (
            "a segment",
            Err(Sgl { address: 0, length: 16, identifier: 0x31 }),
            512,
            16,
            Status::INVALID_SGL_COUNT,
        ),
        ("an offset", Err(in_capsule(8, 8)), 8, 16, Status::SGL_OFFSET_INVALID),
        ("longer than the capsule", Err(in_capsule(0, 17)), 17, 16, Status::SGL_OFFSET_INVALID),
        ("no data in the capsule", Err(in_capsule(0, 8)), 8, 0, Status::SGL_OFFSET_INVALID),
        ("not all of it", Err(in_capsule(0, 16)), 8, 16, Status::DATA_SGL_LENGTH_INVALID),
    ]
}

#[test]
fn descriptors_that_only_fail_their_command() {
    let mut write = capsule(WRITE, KEYED);
    for (name, pointer, bytes, data, status) in wrong_descriptors() {
        let mut wire = fetching();
        match pointer {
            Ok(keyed) => keyed.put(&mut write),
            Err(sgl) => write.set_sgl(sgl),
        }
        wire.target.received(&message(1, &[&write.0[..], &vec![0; data as usize]].concat()));
        assert_eq!(
            wire.target.poll_event(),
            Some(RdmaTargetEvent::Command { tag: Tag(1), in_capsule_bytes: data }),
            "{name}"
        );
        assert_eq!(wire.target.fetch(Tag(1), bytes), Err(status), "{name}");
        wire.target.complete(Tag(1), Cqe::refuse(Cid(7), status), 0);
        let posted: Vec<_> = std::iter::from_fn(|| wire.target.next_work()).collect();
        assert!(posted.contains(&Work::PostReceive(ReceiveBuffer(1))), "{name}: {posted:?}");
        assert!(
            matches!(posted.last(), Some(Work::Send { tag: Tag(1), .. })),
            "{name}: {posted:?}"
        );
        assert_eq!(wire.target.violation(), None, "{name}");
    }
    assert_eq!(fetching().target.fetch(Tag(0), 512), Err(Status::INTERNAL_ERROR), "once is enough");
}

#[test]
fn data_for_memory_that_cannot_be_is_not_sent() {
    for (keyed, status) in [
        (Keyed { key: 0, ..KEYED }, Status::INVALID_FIELD),
        (Keyed { address: u64::MAX, ..KEYED }, Status::DATA_SGL_LENGTH_INVALID),
    ] {
        let mut wire = fetching();
        wire.target.received(&message(1, &capsule(READ, keyed).0));
        wire.target.poll_event();
        wire.target.complete(Tag(1), Cqe::new(Cid(7), Status::SUCCESS), 512);
        while let Some(work) = wire.target.next_work() {
            assert!(!matches!(work, Work::Write { .. }));
        }
        let cqe = Cqe::decode(&wire.target.capsule(Tag(1)));
        assert_eq!((cqe.status, cqe.do_not_retry, cqe.cid), (status, true, Cid(7)));
    }
}
