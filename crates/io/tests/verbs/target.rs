//! A peer that breaks the rules of NVMe over RDMA, at the target whose address is
//! `WEFT_RDMA_TARGET`. The engine's tests show the result of each violation; this one shows the
//! reaction of a device.

use super::ends::{Bench, End, SLOT};
use std::net::SocketAddr;
use weft_io::rdma::{Exposure, QueuePairEvent, RemoteMemory};

/// A request for an admin queue of 32 entries, as the connection manager carries it.
const REQUEST: [u8; 32] = {
    let mut request = [0; 32];
    (request[4], request[6]) = (32, 31);
    request
};

const CONNECT_DATA_BYTES: u32 = 1024;

fn target() -> SocketAddr {
    std::env::var("WEFT_RDMA_TARGET")
        .expect("WEFT_RDMA_TARGET is an address")
        .parse()
        .expect("an address with a port")
}

/// Asks the target for a connection, with an answer.
fn ask(bench: &mut Bench, request: &[u8]) -> (End, QueuePairEvent) {
    let host = bench.connect(target());
    assert_eq!(bench.next(&host), QueuePairEvent::Resolved);
    host.begin(Some(Exposure::Registration));
    host.qp().open(request).unwrap();
    let answer = bench.next(&host);
    (host, answer)
}

/// The connection ends, whatever else is reported before.
fn ends(bench: &mut Bench, host: &End) {
    while bench.next(host) != QueuePairEvent::Disconnected {}
}

#[test]
#[ignore = "needs an RDMA device and a target"]
fn private_data_of_every_length_is_answered() {
    let mut bench = Bench::new();
    for len in 0..=REQUEST.len() {
        let (host, answer) = ask(&mut bench, &REQUEST[..len]);
        let said = host.qp().private_data().to_vec();
        match answer {
            // InfiniBand's messages have fields of a fixed size, so that zeros follow: a request
            // whose HSQSIZE is there is complete.
            QueuePairEvent::Established if len > 6 => {
                assert!(said.starts_with(&[0, 0, 32, 0]), "{len}: {said:?}")
            }
            QueuePairEvent::Rejected if len <= 6 => {
                assert!(
                    said.starts_with(&[0, 0, 4, 0]) || said.starts_with(&[0, 0, 1, 0]),
                    "{len}: {said:?}"
                )
            }
            // iWARP says how much there is.
            QueuePairEvent::Rejected => {
                assert!(len < 32 && said.starts_with(&[0, 0, 1, 0]), "{len}: {said:?}")
            }
            other => panic!("{len}: {other:?}"),
        }
    }
}

#[test]
#[ignore = "needs an RDMA device and a target"]
fn requests_that_cannot_be_are_rejected_with_the_reason() {
    // Where in the request, what is there, and the reason.
    for (at, value, reason) in [(0, 1u16, 2), (2, 0xffff, 3), (4, 0, 5), (6, 0, 4), (6, 0xffff, 4)]
    {
        let mut bench = Bench::new();
        let mut request = REQUEST;
        request[at..at + 2].copy_from_slice(&value.to_le_bytes());
        let (host, answer) = ask(&mut bench, &request);
        assert_eq!(answer, QueuePairEvent::Rejected, "{value:#x} at {at}");
        assert!(
            host.qp().private_data().starts_with(&[0, 0, reason, 0]),
            "{value:#x} at {at}: {:?}",
            host.qp().private_data()
        );
    }
}

/// Connect of the admin queue, with a descriptor of this type.
fn connect(from: RemoteMemory, bytes: u32, kind: u8) -> [u8; 64] {
    let mut sqe = [0; 64];
    (sqe[0], sqe[1], sqe[4]) = (0x7f, 0x40, 1);
    sqe[24..32].copy_from_slice(&from.address.to_le_bytes());
    sqe[32..35].copy_from_slice(&bytes.to_le_bytes()[..3]);
    sqe[35..39].copy_from_slice(&from.key.to_le_bytes());
    sqe[39] = kind;
    sqe[44] = 31;
    sqe
}

/// A host that is connected, and its memory for the data of Connect, accessible.
fn host(bench: &mut Bench, accessible: u32) -> (End, RemoteMemory) {
    let (host, answer) = ask(bench, &REQUEST);
    assert_eq!(answer, QueuePairEvent::Established);
    host.fill(&[0; CONNECT_DATA_BYTES as usize]);
    let at = host.qp().expose(0, SLOT, accessible, false).unwrap();
    (host, at)
}

const KEYED: u8 = 0x40;

#[test]
#[ignore = "needs an RDMA device and a target"]
fn descriptors_that_cannot_be_are_answered_with_the_reason() {
    type Wrong = fn(RemoteMemory) -> [u8; 64];
    let cases: [(Wrong, u16); 5] = [
        (|at| connect(at, CONNECT_DATA_BYTES / 2, KEYED), 0x0f),
        (
            |at| connect(RemoteMemory { address: u64::MAX - 100, ..at }, CONNECT_DATA_BYTES, KEYED),
            0x0f,
        ),
        (|at| connect(RemoteMemory { key: 0, ..at }, CONNECT_DATA_BYTES, KEYED), 0x02),
        (|at| connect(at, CONNECT_DATA_BYTES, 0x30), 0x11),
        (|at| connect(at, CONNECT_DATA_BYTES, 0x10), 0x11),
    ];
    for (nth, (wrong, status)) in cases.into_iter().enumerate() {
        let mut bench = Bench::new();
        let (host, at) = host(&mut bench, CONNECT_DATA_BYTES);
        host.qp().send(1, &wrong(at), None, None);
        let cqe = bench.until(|| {
            host.taken().into_iter().find_map(|event| match event {
                QueuePairEvent::Received { buffer, .. } => {
                    Some(host.qp().received(buffer).to_vec())
                }
                _ => None,
            })
        });
        assert_eq!(cqe.len(), 16);
        assert_eq!(
            u16::from_le_bytes([cqe[14], cqe[15]]) >> 1 & 0x7ff,
            status,
            "case {nth}: {cqe:02x?}"
        );
    }
}

#[test]
#[ignore = "needs an RDMA device and a target"]
fn memory_that_is_not_accessible_ends_the_connection() {
    // Another key; fewer bytes than the descriptor says.
    for (key, accessible) in [(0x100, CONNECT_DATA_BYTES), (0, CONNECT_DATA_BYTES / 2)] {
        let mut bench = Bench::new();
        let (host, at) = host(&mut bench, accessible);
        host.qp().send(
            1,
            &connect(RemoteMemory { key: at.key ^ key, ..at }, CONNECT_DATA_BYTES, KEYED),
            None,
            None,
        );
        ends(&mut bench, &host);
    }
}

#[test]
#[ignore = "needs an RDMA device and a target"]
fn more_commands_than_there_is_room_for_end_the_connection() {
    let mut bench = Bench::new();
    let (host, at) = host(&mut bench, CONNECT_DATA_BYTES);
    let connect = connect(at, CONNECT_DATA_BYTES, KEYED);
    for id in 1..=8 {
        host.qp().send(id, &connect, None, None);
    }
    ends(&mut bench, &host);
}

#[test]
#[ignore = "needs an RDMA device and a target"]
fn capsules_of_other_lengths_end_the_connection() {
    for bytes in [1, 63] {
        let mut bench = Bench::new();
        let (host, _) = host(&mut bench, CONNECT_DATA_BYTES);
        host.qp().send(1, &[0x7f; 64][..bytes], None, None);
        ends(&mut bench, &host);
    }
}

#[test]
#[ignore = "needs an RDMA device and a target"]
fn a_host_that_is_gone_while_its_data_is_read_is_survived() {
    for _ in 0..5 {
        let mut bench = Bench::new();
        let (host, at) = host(&mut bench, CONNECT_DATA_BYTES);
        host.qp().send(1, &connect(at, CONNECT_DATA_BYTES, KEYED), None, None);
        host.qp().destroy();
    }
}
