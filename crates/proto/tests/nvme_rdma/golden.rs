//! Bytes of private data, descriptors and capsules. The private data is as Linux 6.12 and SPDK
//! 24.09 lay it out.

use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Nsid, Qid};
use weft_proto::nvme_rdma::cm::{AcceptError, CmAccept, CmOffer, CmRequest, Reject, RejectStatus};
use weft_proto::nvme_rdma::keyed::{KEYED_BYTES_MAX, Keyed};
use weft_proto::nvme_rdma::{
    HostQueuePair, RdmaHostConfig, RdmaTargetConfig, RemoteMemory, TargetQueuePair,
};

/// An I/O queue of 128 entries.
const REQUEST: CmRequest =
    CmRequest { qid: Qid(0x0203), receives: 128, hsqsize: 127, cntlid: Cntlid(0x1122) };

fn padded(start: &[u8], bytes: usize) -> Vec<u8> {
    let mut padded = start.to_vec();
    padded.resize(bytes, 0);
    padded
}

#[test]
fn requests() {
    let wire = padded(&[0, 0, 3, 2, 128, 0, 127, 0, 0x22, 0x11], 32);
    assert_eq!(REQUEST.encode()[..], wire);
    assert_eq!(CmRequest::decode(&wire), Ok(REQUEST));
    assert_eq!(REQUEST.entries(), 128);
    // InfiniBand's connection manager pads to 56 bytes.
    assert_eq!(CmRequest::decode(&padded(&wire, 56)), Ok(REQUEST));
    let mut reserved = wire.clone();
    reserved[10..].fill(0xff);
    assert_eq!(CmRequest::decode(&reserved), Ok(REQUEST), "reserved bytes are not looked at");
    for bytes in 0..32 {
        assert_eq!(
            CmRequest::decode(&wire[..bytes]),
            Err(RejectStatus::INVALID_LENGTH),
            "{bytes} bytes"
        );
    }
    for format in [1u16, 0x100, 0xffff] {
        let other = [&format.to_le_bytes(), &wire[2..]].concat();
        assert_eq!(CmRequest::decode(&other), Err(RejectStatus::INVALID_RECFMT));
    }
}

#[test]
fn requests_that_are_rejected() {
    let offer = CmOffer { io_queues: 8, admin_entries: 32, io_entries: 128 };
    let request =
        |qid, receives, hsqsize| CmRequest { qid: Qid(qid), receives, hsqsize, cntlid: Cntlid(1) };
    for (request, reads, expected) in [
        (request(0, 32, 31), 1, Ok(())),
        (request(8, 1, 127), 1, Ok(())),
        (request(1, 128, 1), 1, Ok(())),
        (request(9, 128, 127), 1, Err(RejectStatus::INVALID_QID)),
        (request(0xffff, 128, 127), 1, Err(RejectStatus::INVALID_QID)),
        (request(0, 32, 32), 1, Err(RejectStatus::INVALID_HSQSIZE)),
        (request(1, 128, 128), 1, Err(RejectStatus::INVALID_HSQSIZE)),
        (request(1, 128, 0xffff), 1, Err(RejectStatus::INVALID_HSQSIZE)),
        (request(1, 128, 0), 1, Err(RejectStatus::INVALID_HSQSIZE)),
        (request(1, 0, 127), 1, Err(RejectStatus::INVALID_HRQSIZE)),
        (request(1, 128, 127), 0, Err(RejectStatus::INVALID_IRD)),
    ] {
        assert_eq!(request.check(&offer, reads), expected, "{request:?}, {reads} reads");
    }
    let large = CmOffer { io_entries: u16::MAX, ..offer };
    assert_eq!(
        request(1, 1, 1024).check(&large, 1),
        Err(RejectStatus::INVALID_HSQSIZE),
        "no queue is larger than that"
    );
}

#[test]
fn accepts() {
    let wire = padded(&[0, 0, 0x80, 0x01], 32);
    assert_eq!(CmAccept { receives: 0x180 }.encode()[..], wire);
    assert_eq!(CmAccept::decode(&wire), Ok(CmAccept { receives: 0x180 }));
    assert_eq!(CmAccept::decode(&padded(&wire, 196)), Ok(CmAccept { receives: 0x180 }));
    for bytes in 0..32 {
        assert_eq!(CmAccept::decode(&wire[..bytes]), Err(AcceptError::Length(bytes)));
    }
    assert_eq!(CmAccept::decode(&padded(&[2, 0, 0x80], 32)), Err(AcceptError::RecordFormat(2)));
    assert_eq!(CmAccept::decode(&[0; 32]), Err(AcceptError::NoReceives));
}

#[test]
fn rejects() {
    let names = [
        (RejectStatus::INVALID_LENGTH, 1),
        (RejectStatus::INVALID_RECFMT, 2),
        (RejectStatus::INVALID_QID, 3),
        (RejectStatus::INVALID_HSQSIZE, 4),
        (RejectStatus::INVALID_HRQSIZE, 5),
        (RejectStatus::NO_RESOURCES, 6),
        (RejectStatus::INVALID_IRD, 7),
        (RejectStatus::INVALID_ORD, 8),
        (RejectStatus::INVALID_CNTLID, 9),
    ];
    for (status, number) in names {
        assert_eq!(Reject { status }.encode(), [0, 0, number, 0]);
        assert_eq!(Reject::decode(&[0, 0, number, 0]), Some(Reject { status }));
        assert!(status.to_string().ends_with(&format!("({number:#x})")), "{status}");
    }
    assert_eq!(
        Reject::decode(&padded(&[0, 0, 0x34, 0x12], 148)),
        Some(Reject { status: RejectStatus(0x1234) })
    );
    assert_eq!(RejectStatus(0x1234).to_string(), "status 0x1234");
    assert_eq!(Reject::decode(&[0, 0, 1]), None);
    assert_eq!(Reject::decode(&[1, 0, 1, 0]), None);
    assert_eq!(Reject::decode(&[0; 148]), None, "the connection manager's own, padded");
}

#[test]
fn queues_announce_what_they_post() {
    let host = HostQueuePair::new(RdmaHostConfig {
        qid: Qid(1),
        cntlid: Cntlid(7),
        queue_entries: 64,
        ..RdmaHostConfig::default()
    });
    let request = host.request();
    assert_eq!(request, CmRequest { qid: Qid(1), receives: 64, hsqsize: 63, cntlid: Cntlid(7) });
    assert_eq!(
        TargetQueuePair::new(RdmaTargetConfig::for_request(&request)).accept(),
        CmAccept { receives: 64 }
    );
    let least =
        HostQueuePair::new(RdmaHostConfig { queue_entries: 0, ..RdmaHostConfig::default() })
            .request();
    assert_eq!((least.receives, least.hsqsize), (2, 1));
}

#[test]
fn keyed_descriptors() {
    let mut sqe = Sqe::new(1, Nsid(1));
    let keyed = Keyed {
        address: 0x1122_3344_5566_7788,
        bytes: 0x0a_0b0c,
        key: 0xd1d2_d3d4,
        invalidate: false,
    };
    let address_to_key =
        [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x0c, 0x0b, 0x0a, 0xd4, 0xd3, 0xd2, 0xd1];
    for (invalidate, identifier) in [(false, 0x40), (true, 0x4f)] {
        let keyed = Keyed { invalidate, ..keyed };
        keyed.put(&mut sqe);
        assert_eq!(sqe.0[24..39], address_to_key);
        assert_eq!(sqe.0[39], identifier);
        assert_eq!(Keyed::read(&sqe), Ok(keyed));
        assert_eq!(keyed.invalidates(), invalidate.then_some(0xd1d2_d3d4));
    }
    Keyed::NONE.put(&mut sqe);
    assert_eq!(sqe.0[24..40], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40]);
    let all = Keyed { bytes: KEYED_BYTES_MAX, ..keyed };
    all.put(&mut sqe);
    assert_eq!((sqe.0[32..35].to_vec(), Keyed::read(&sqe)), (vec![0xff; 3], Ok(all)));
    sqe.set_sgl(Sgl::in_capsule(0x1234_5678));
    assert_eq!(sqe.0[24..40], [0, 0, 0, 0, 0, 0, 0, 0, 0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0x01]);
}

#[test]
fn other_descriptors_are_refused() {
    let mut sqe = Sqe::new(1, Nsid(1));
    for (identifier, status) in [
        (0x00, Status::SGL_TYPE_INVALID),
        (0x01, Status::SGL_TYPE_INVALID),
        (0x5a, Status::SGL_TYPE_INVALID),
        (0x41, Status::SGL_TYPE_INVALID),
        (0x4a, Status::SGL_TYPE_INVALID),
        (0xff, Status::SGL_TYPE_INVALID),
        (0x20, Status::INVALID_SGL_COUNT),
        (0x31, Status::INVALID_SGL_COUNT),
    ] {
        sqe.0[39] = identifier;
        assert_eq!(Keyed::read(&sqe), Err(status), "{identifier:#x}");
    }
}

#[test]
fn memory_that_cannot_be() {
    let keyed = Keyed { address: 0x1000, bytes: 4096, key: 7, invalidate: true };
    assert_eq!(keyed.start(4096), Ok(RemoteMemory { address: 0x1000, key: 7 }));
    assert_eq!(keyed.start(4097), Err(Status::DATA_SGL_LENGTH_INVALID));
    assert_eq!(Keyed { key: 0, ..keyed }.start(1), Err(Status::INVALID_FIELD));
    assert_eq!(Keyed { key: 0, ..keyed }.invalidates(), None);
    let last = Keyed { address: u64::MAX - 4095, ..keyed };
    assert_eq!(last.start(1), Ok(RemoteMemory { address: u64::MAX - 4095, key: 7 }));
    assert_eq!(
        Keyed { address: u64::MAX - 4094, ..keyed }.start(1),
        Err(Status::DATA_SGL_LENGTH_INVALID),
        "it wraps"
    );
}
