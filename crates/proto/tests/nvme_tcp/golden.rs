//! Bytes on the wire as the figures of the specification lay them out (NVMe TCP 1.1 §3.6), and as
//! Linux 6.12 sends them.

use crate::support::pair::{FEATURE, READ, WRITE, command};
use crate::support::raw::Raw;
use crate::support::{ConnectionEnd, Next};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::{CommonHeader, DataTransfer, Flags, IcReq, IcResp, PduType};
use weft_proto::nvme_tcp::{
    HostConnection, HostData, TcpHostConfig, TcpHostEvent, TcpTargetConfig, TcpTargetConnection,
    TcpTargetEvent,
};
use weft_proto::stream::Tag;

fn with_zeros(start: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = start.to_vec();
    bytes.resize(len, 0);
    bytes
}

/// A target that a Linux host has initialized.
fn target(digests: u8) -> ConnectionEnd<TcpTargetConnection> {
    let mut end = ConnectionEnd::new(TcpTargetConnection::new(TcpTargetConfig {
        queue_entries: 32,
        ..TcpTargetConfig::default()
    }));
    end.stage(&Raw::ic(0, 0, 0, digests, 0).bytes());
    assert!(matches!(end.next(), Next::Event(TcpTargetEvent::Ready(_))));
    end.flush();
    end.take_wire();
    end
}

/// A host that a Linux target has accepted.
fn host(digests: Digests) -> ConnectionEnd<HostConnection> {
    let config = TcpHostConfig { digests, in_capsule_bytes: 4096, ..TcpHostConfig::default() };
    let mut end = ConnectionEnd::new(HostConnection::new(config));
    end.flush();
    end.take_wire();
    end.stage(&Raw::ic(1, 0, 0, digests.encode(), 0x40_0000).bytes());
    let next = end.next();
    assert!(
        matches!(next, Next::Event(TcpHostEvent::Ready(n)) if n.max_h2c_data_bytes == 0x40_0000)
    );
    end
}

#[test]
fn ic_req() {
    let linux = with_zeros(&[0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0], 128);
    let request = IcReq { pfv: 0, hpda: 0, digests: Digests::BOTH, maxr2t: 0 };
    assert_eq!(request.encode()[..], linux);
    assert_eq!(IcReq::decode(linux.first_chunk().unwrap()), request);

    let config = TcpHostConfig {
        hpda: 3,
        r2t_outstanding: 4,
        digests: Digests { header: true, data: false },
        ..TcpHostConfig::default()
    };
    let mut end = ConnectionEnd::new(HostConnection::new(config));
    end.flush();
    assert_eq!(end.wire, with_zeros(&[0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 3, 1, 3, 0, 0, 0], 128));
}

#[test]
fn ic_resp() {
    let mut end = ConnectionEnd::new(TcpTargetConnection::new(TcpTargetConfig {
        cpda: 1,
        ..TcpTargetConfig::default()
    }));
    end.stage(&with_zeros(&[0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0], 128));
    let Next::Event(TcpTargetEvent::Ready(negotiated)) = end.next() else { panic!() };
    assert_eq!(
        (
            negotiated.max_r2t,
            negotiated.host_alignment_bytes,
            negotiated.controller_alignment_bytes
        ),
        (1, 4, 8)
    );
    end.flush();
    let expected = with_zeros(&[1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 1, 2, 0, 0, 2, 0], 128);
    assert_eq!(end.wire, expected);
    let response = IcResp {
        pfv: 0,
        cpda: 1,
        digests: Digests { header: false, data: true },
        max_h2c_data_bytes: 0x20000,
    };
    assert_eq!(IcResp::decode(expected.first_chunk().unwrap()), response);
}

/// Command capsules as Linux makes them: PDO is 0 without data.
#[test]
fn linux_capsules() {
    let mut sqe = command(READ, 0);
    sqe.set_cid(Cid(0x1234));
    sqe.set_sgl(Sgl::transport(4096));
    let mut bytes = vec![4, 0, 72, 0, 72, 0, 0, 0];
    bytes.extend_from_slice(&sqe.0);
    let mut end = target(0);
    end.stage(&bytes);
    assert_eq!(
        end.next(),
        Next::Event(TcpTargetEvent::Command { tag: Tag(0), in_capsule_bytes: 0 })
    );
    assert_eq!(*end.engine.sqe(), sqe);

    sqe.set_sgl(Sgl::in_capsule(4096));
    let mut bytes = vec![4, 0, 72, 72, 0x48, 0x10, 0, 0];
    bytes.extend_from_slice(&sqe.0);
    bytes.extend_from_slice(&[0xa5; 4096]);
    end.stage(&bytes);
    assert_eq!(
        end.next(),
        Next::Event(TcpTargetEvent::Command { tag: Tag(1), in_capsule_bytes: 4096 })
    );
    assert_eq!(*end.engine.sqe(), sqe);
    end.engine.fetch(Tag(1), 4096).unwrap();
    end.memory(Tag(1), 4096);
    assert_eq!(end.next(), Next::Event(TcpTargetEvent::DataArrived { tag: Tag(1) }));
    assert_eq!(end.memory[1], [0xa5; 4096]);
}

/// CRC32C of the header and of the data of [`linux_capsule_with_digests`], computed bit by bit
/// elsewhere.
const HEADER_DIGEST: u32 = 0x17aa_4085;
const DATA_DIGEST: u32 = 0xce1f_a707;

/// The same with both digests.
#[test]
fn linux_capsule_with_digests() {
    let mut sqe = Sqe::default();
    sqe.0[0] = WRITE;
    sqe.0[1] = 0x40;
    sqe.set_cid(Cid(7));
    sqe.set_sgl(Sgl::in_capsule(8));
    let mut bytes = vec![4, 3, 72, 76, 88, 0, 0, 0];
    bytes.extend_from_slice(&sqe.0);
    bytes.extend_from_slice(&HEADER_DIGEST.to_le_bytes());
    bytes.extend_from_slice(b"weft\0\0\0\0");
    bytes.extend_from_slice(&DATA_DIGEST.to_le_bytes());
    let mut end = target(3);
    end.stage(&bytes);
    assert_eq!(
        end.next(),
        Next::Event(TcpTargetEvent::Command { tag: Tag(0), in_capsule_bytes: 8 })
    );
    assert_eq!(*end.engine.sqe(), sqe);
    end.engine.fetch(Tag(0), 8).unwrap();
    end.memory(Tag(0), 8);
    assert_eq!(end.next(), Next::Event(TcpTargetEvent::DataArrived { tag: Tag(0) }));

    let mut end = host(Digests::BOTH);
    let tag = end.engine.submit(sqe, HostData::Out(8)).unwrap();
    end.memory(tag, 8).copy_from_slice(b"weft\0\0\0\0");
    end.flush();
    sqe.set_cid(end.engine.cid(tag).unwrap());
    let expected = Raw::capsule(&sqe).data(b"weft\0\0\0\0").sealed(Digests::BOTH);
    assert_eq!(expected[..8], bytes[..8]);
    assert_eq!(end.wire, expected);
}

#[test]
fn r2t_and_h2c_data() {
    let mut sqe = command(WRITE, 0);
    sqe.set_cid(Cid(0x0201));
    sqe.set_sgl(Sgl::transport(0x1_2000));
    let mut end = target(0);
    end.stage(&Raw::capsule(&sqe).bytes());
    let Next::Event(TcpTargetEvent::Command { tag, .. }) = end.next() else { panic!() };
    end.engine.fetch(tag, 0x1_2000).unwrap();
    end.flush();
    let r2t = [9, 0, 24, 0, 24, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0x20, 1, 0, 0, 0, 0, 0];
    assert_eq!(end.take_wire(), r2t);
    assert_eq!(CommonHeader::decode(r2t.first_chunk().unwrap()).pdu_type, PduType::R2T);
    assert_eq!(
        DataTransfer::decode(&r2t),
        DataTransfer { cid: Cid(0x0201), ttag: 0, offset: 0, bytes: 0x1_2000 }
    );

    let mut end = host(Digests::NONE);
    let tag = end.engine.submit(command(WRITE, 0), HostData::Out(0x1_2000)).unwrap();
    end.memory(tag, 0x1_2000);
    end.flush();
    assert_eq!(end.take_wire()[..8], [4, 0, 72, 0, 72, 0, 0, 0]);
    let [low, high] = end.engine.cid(tag).unwrap().0.to_le_bytes();
    end.stage(&[
        9, 0, 24, 0, 24, 0, 0, 0, low, high, 0xcd, 0xab, 0, 0, 0, 0, 0, 0x20, 1, 0, 0, 0, 0, 0,
    ]);
    assert_eq!(end.next(), Next::Starved);
    end.flush();
    let expected = [
        6, 4, 24, 24, 0x18, 0x20, 1, 0, low, high, 0xcd, 0xab, 0, 0, 0, 0, 0, 0x20, 1, 0, 0, 0, 0,
        0,
    ];
    assert_eq!(end.wire[..24], expected);
    assert_eq!(end.wire.len(), 24 + 0x1_2000);
}

#[test]
fn c2h_data_and_response() {
    let mut sqe = command(READ, 0);
    sqe.set_cid(Cid(0x0201));
    sqe.set_sgl(Sgl::transport(512));
    let cqe = Cqe { result: 0, sq_head: 5, ..Cqe::new(Cid(0x0201), Status::SUCCESS) };
    let data = [7, 4, 24, 24, 0x18, 2, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0];
    let response = [5, 0, 24, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 2, 0, 0];

    let mut end = target(0);
    end.stage(&Raw::capsule(&sqe).bytes());
    let Next::Event(TcpTargetEvent::Command { tag, .. }) = end.next() else { panic!() };
    end.memory(tag, 512).fill(0x5a);
    end.engine.complete(tag, cqe, 512);
    end.flush();
    assert_eq!(end.wire[..24], data);
    assert_eq!(end.wire[24..536], [0x5a; 512]);
    assert_eq!(end.wire[536..], response);
}

#[test]
fn success_flag_and_refusal() {
    let mut sqe = command(READ, 0);
    sqe.set_cid(Cid(9));
    sqe.set_sgl(Sgl::transport(4));
    let mut end = target(0);
    end.engine.set_success_flag(true);
    end.stage(&Raw::capsule(&sqe).bytes());
    let Next::Event(TcpTargetEvent::Command { tag, .. }) = end.next() else { panic!() };
    end.memory(tag, 4).copy_from_slice(b"weft");
    end.engine.complete(tag, Cqe::new(Cid(9), Status::SUCCESS), 4);
    end.flush();
    let expected = [
        7, 0xc, 24, 24, 28, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, b'w', b'e',
        b'f', b't',
    ];
    assert_eq!(end.take_wire(), expected);

    end.stage(&Raw::capsule(&sqe).bytes());
    let Next::Event(TcpTargetEvent::Command { tag, .. }) = end.next() else { panic!() };
    end.engine.complete(tag, Cqe::refuse(Cid(9), Status::INVALID_OPCODE), 0);
    end.flush();
    // Status 001h with Do Not Retry, one bit up for the phase tag: 8002h.
    assert_eq!(
        end.take_wire(),
        [5, 0, 24, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 0x80]
    );
}

#[test]
fn nvmet_answers() {
    let mut end = host(Digests { header: true, data: false });
    let tag = end.engine.submit(command(FEATURE, 0), HostData::None).unwrap();
    end.flush();
    let cid = end.engine.cid(tag).unwrap();
    let cqe = Cqe { result: 42, ..Cqe::new(cid, Status::SUCCESS) };
    let response = Raw::new(5, &cqe.encode()).sealed(Digests { header: true, data: false });
    assert_eq!(response[..8], [5, 1, 24, 0, 28, 0, 0, 0]);
    end.stage(&response);
    assert_eq!(end.next(), Next::Event(TcpHostEvent::Response { tag, cqe, received_bytes: 0 }));
}

#[test]
fn padding_of_c2h_data() {
    let mut end = ConnectionEnd::new(TcpTargetConnection::new(TcpTargetConfig::default()));
    end.stage(&Raw::ic(0, 0, 15, 3, 0).bytes());
    assert!(
        matches!(end.next(), Next::Event(TcpTargetEvent::Ready(n)) if n.host_alignment_bytes == 64)
    );
    end.flush();
    end.take_wire();
    let mut sqe = command(READ, 0);
    sqe.set_sgl(Sgl::transport(8));
    end.stage(&Raw::capsule(&sqe).sealed(Digests::BOTH));
    let Next::Event(TcpTargetEvent::Command { tag, .. }) = end.next() else { panic!() };
    end.memory(tag, 8);
    end.engine.complete(tag, Cqe::new(Cid(0), Status::SUCCESS), 8);
    end.flush();
    assert_eq!(end.wire[..8], [7, 7, 24, 64, 76, 0, 0, 0]);
    assert_eq!(end.wire[28..64], [0; 36]);
    assert_eq!(end.wire[64..72], [0xee; 8]);
    assert_eq!(end.wire[76], 5);
}

/// The figure "Controller to Host Data Transfer Example": 12,288 bytes in four C2HData PDUs and a
/// response.
#[test]
fn controller_to_host_example() {
    let mut end = host(Digests::NONE);
    let tag = end.engine.submit(command(READ, 0), HostData::In(0x3000)).unwrap();
    end.memory(tag, 0x3000);
    end.flush();
    let cid = end.engine.cid(tag).unwrap();
    for (offset, bytes, flags) in
        [(0, 0x3e8, 0), (0x3e8, 0x7d0, 0), (0xbb8, 0x2000, 0), (0x2bb8, 0x448, 4)]
    {
        end.stage(
            &Raw::transfer(7, cid.0, 0, offset, bytes)
                .flags(flags)
                .data(&vec![offset as u8; bytes as usize])
                .bytes(),
        );
        assert_eq!(end.next(), Next::Starved);
        assert!(
            end.memory[tag.index()][offset as usize..][..bytes as usize]
                .iter()
                .all(|&b| b == offset as u8)
        );
    }
    let cqe = Cqe::new(cid, Status::SUCCESS);
    end.stage(&Raw::new(5, &cqe.encode()).bytes());
    assert_eq!(
        end.next(),
        Next::Event(TcpHostEvent::Response { tag, cqe, received_bytes: 0x3000 })
    );
}

/// The figure "Host to Controller Data Transfer Example": 12,288 bytes in three R2Ts, the last two
/// outstanding together, each answered by one H2CData PDU here.
#[test]
fn host_to_controller_example() {
    let mut end = host(Digests::NONE);
    let tag = end.engine.submit(command(WRITE, 0), HostData::Out(0x3000)).unwrap();
    end.memory(tag, 0x3000);
    end.flush();
    end.take_wire();
    let cid = end.engine.cid(tag).unwrap();
    for together in [&[(0, 0xbb8)][..], &[(0xbb8, 0x2000), (0x2bb8, 0x448)]] {
        let mut expected = Vec::new();
        for &(offset, bytes) in together {
            end.stage(&Raw::transfer(9, cid.0, offset as u16, offset, bytes).bytes());
            let data = Raw::transfer(6, cid.0, offset as u16, offset, bytes)
                .flags(4)
                .data(&vec![0xee; bytes as usize]);
            expected.extend(data.bytes());
        }
        assert_eq!(end.next(), Next::Starved);
        end.flush();
        assert_eq!(end.take_wire(), expected);
    }
}

/// The two examples of 64 and 16 bytes of alignment: 40 and 8 bytes of padding behind a header
/// of 24.
#[test]
fn alignment_examples() {
    let mut end = ConnectionEnd::new(HostConnection::new(TcpHostConfig::default()));
    end.stage(&Raw::ic(1, 0, 0x0f, 0, 4096).bytes());
    let next = end.next();
    assert!(
        matches!(next, Next::Event(TcpHostEvent::Ready(n)) if n.controller_alignment_bytes == 64)
    );
    let tag = end.engine.submit(command(WRITE, 0), HostData::Out(4)).unwrap();
    end.memory(tag, 4);
    end.flush();
    end.take_wire();
    end.stage(&Raw::transfer(9, end.engine.cid(tag).unwrap().0, 0, 0, 4).bytes());
    assert_eq!(end.next(), Next::Starved);
    end.flush();
    assert_eq!((end.wire[3], &end.wire[24..64], end.wire.len()), (64, &[0; 40][..], 68));

    let mut end = ConnectionEnd::new(TcpTargetConnection::new(TcpTargetConfig::default()));
    end.stage(&Raw::ic(0, 0, 3, 0, 0).bytes());
    assert!(
        matches!(end.next(), Next::Event(TcpTargetEvent::Ready(n)) if n.host_alignment_bytes == 16)
    );
    end.flush();
    end.take_wire();
    let mut sqe = command(READ, 0);
    sqe.set_sgl(Sgl::transport(4));
    end.stage(&Raw::capsule(&sqe).bytes());
    let Next::Event(TcpTargetEvent::Command { tag, .. }) = end.next() else { panic!() };
    end.memory(tag, 4);
    end.engine.complete(tag, Cqe::new(Cid(0), Status::SUCCESS), 4);
    end.flush();
    assert_eq!(
        (end.wire[3], &end.wire[24..32], &end.wire[32..36]),
        (32, &[0; 8][..], &[0xee; 4][..])
    );
}

#[test]
fn flags_and_types_keep_unknown_values() {
    let header = CommonHeader {
        pdu_type: PduType(0x77),
        flags: Flags(0xf0),
        hlen: 1,
        pdo: 2,
        plen: 0x0403_0201,
    };
    assert_eq!(header.encode(), [0x77, 0xf0, 1, 2, 1, 2, 3, 4]);
    assert_eq!(CommonHeader::decode(&header.encode()), header);
    assert_eq!(PduType(0x77).header_bytes(), None);
}
