//! The sequence of SPDK's host library from ICReq to the first read, as `spdk_nvme_perf` starts it
//! without options: byte for byte, on one connection and in one controller. It gives no host NQN,
//! selects all I/O command sets, and names its keep alive timeout on I/O queues too.

use std::time::Duration;

use weft_proto::nvme::controller::{
    CONNECT_BYTES, ControllerCore, IoNext, IoQueue, IoRequestKind, Next, Subsystem, before_connect,
    subsystem_name,
};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::deviation::Deviation;
use weft_proto::nvme::identify::{IdentifyController, NamespaceList};
use weft_proto::nvme::property::Configuration;
use weft_proto::nvme::sqe::{HostMemory, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Nsid;
use weft_proto::nvme_tcp::{TcpTargetConfig, TcpTargetConnection, TcpTargetEvent};
use weft_proto::stream::Tag;

use crate::nvme_controller_support::{ON, PORT, allocated, nqn, subsystem};
use crate::support::{ConnectionEnd, Next as Pumped};

/// A command as SPDK fills it in: PSDT 01b, and an SGL of `bytes` bytes that the transport moves.
fn command(opcode: u8, cid: u8, nsid: u8, bytes: u32, dwords: [u32; 3]) -> Sqe {
    let mut sqe = [0; 64];
    sqe[..5].copy_from_slice(&[opcode, 0x40, cid, 0, nsid]);
    sqe[32..36].copy_from_slice(&bytes.to_le_bytes());
    sqe[39] = 0x5a;
    for (n, dword) in dwords.into_iter().enumerate() {
        sqe[40 + n * 4..44 + n * 4].copy_from_slice(&dword.to_le_bytes());
    }
    Sqe(sqe)
}

/// Connect with its data in the capsule: the whole PDU.
fn connect(cid: u8, qid: u32, sq_size: u32, cntlid: u16) -> Vec<u8> {
    let mut sqe = command(0x7f, cid, 1, CONNECT_BYTES as u32, [qid << 16, sq_size, 10_000]);
    sqe.0[39] = 0x01;
    let mut data = vec![0; CONNECT_BYTES];
    data[..16].fill(0x5d);
    data[16..18].copy_from_slice(&cntlid.to_le_bytes());
    let subsystem = nqn("disk");
    data[256..256 + subsystem.as_str().len()].copy_from_slice(subsystem.as_str().as_bytes());
    [&[4, 0, 72, 72, 0x48, 4, 0, 0][..], &sqe.0, &data].concat()
}

/// A connection up to its Connect: the command and its data.
fn arrive(capsule: &[u8]) -> (Sqe, [u8; CONNECT_BYTES]) {
    let mut end = ConnectionEnd::new(TcpTargetConnection::new(TcpTargetConfig::default()));
    let mut ic_req = vec![0; 128];
    (ic_req[2], ic_req[4]) = (128, 128);
    end.stage(&ic_req);
    assert!(
        matches!(end.next(), Pumped::Event(TcpTargetEvent::Ready(agreed)) if agreed.max_r2t == 1)
    );
    end.stage(capsule);
    let Pumped::Event(TcpTargetEvent::Command { tag, in_capsule_bytes }) = end.next() else {
        panic!("no command")
    };
    let sqe = *end.engine.sqe();
    assert_eq!(
        before_connect(&sqe, in_capsule_bytes, HostMemory::Transport),
        Next::Fetch { bytes: 1024 }
    );
    end.memory(tag, 1024);
    assert_eq!(end.engine.fetch(tag, 1024), Ok(()));
    assert_eq!(end.next(), Pumped::Event(TcpTargetEvent::DataArrived { tag }));
    assert_eq!(end.engine.violation(), None);
    (sqe, end.memory[tag.index()].as_slice().try_into().unwrap())
}

fn admin(subsystem: &mut Subsystem) -> ControllerCore {
    let (sqe, data) = arrive(&connect(0, 0, 31, 0xffff));
    assert_eq!(subsystem_name(&data), Some(nqn("disk")));
    let connected = subsystem.connect(Duration::ZERO, &sqe, &data, PORT).unwrap();
    assert_eq!((connected.cqe.status, connected.cqe.result as u16), (Status::SUCCESS, 1));
    connected.queue
}

/// Runs a command that succeeds: its result and data.
fn run(control: &mut ControllerCore, sqe: &Sqe) -> (Cqe, Vec<u8>) {
    let mut data = Vec::new();
    let mut next = control.start(Duration::ZERO, Tag(0), sqe);
    if let Next::Produce { bytes } = next {
        data = vec![0; bytes as usize];
        next = control.produce(Duration::ZERO, Tag(0), &mut data);
    }
    if next == Next::Hold {
        next = allocated(control, Duration::ZERO, Tag(0));
    }
    let Next::Reply { cqe, .. } = next else { panic!("{sqe:?}: {next:?}") };
    assert_eq!(cqe.status, Status::SUCCESS, "{sqe:?}");
    (cqe, data)
}

fn io(subsystem: &mut Subsystem) -> IoQueue {
    let (sqe, data) = arrive(&connect(0, 1, 255, 1));
    let connected = subsystem.connect_io(&sqe, &data).unwrap();
    assert_eq!(connected.cqe.status, Status::SUCCESS);
    connected.queue
}

#[test]
fn from_icreq_to_the_first_read() {
    let mut subsystem = subsystem();
    let control = &mut admin(&mut subsystem);
    let get = |control: &mut ControllerCore, offset: u32, size: u32| {
        run(control, &command(0x7f, 1, 4, 0, [size, offset, 0])).0.result
    };
    assert_eq!(get(control, 0x08, 0), 0x0002_0000);
    let cap = get(control, 0, 1);
    assert_eq!(get(control, 0x14, 0), 0);
    assert_eq!(get(control, 0x1c, 0), 0);
    // CSS: 110b where CAP.CSS has bit 6.
    assert_eq!(cap >> 43 & 1, 1);
    let cc = 0x0046_0061;
    assert_eq!(cc, ON | Configuration::ALL_COMMAND_SETS);
    run(control, &command(0x7f, 2, 0, 0, [0, 0x14, cc]));
    assert_eq!(get(control, 0x1c, 0), 1);

    let id =
        IdentifyController::decode(&run(control, &command(0x06, 3, 0, 4096, [1, 0, 0])).1).unwrap();
    assert_eq!((id.cntlid.0, id.oaes), (1, 0x10_0900));
    // All SMART warnings, and the notices that OAES has.
    run(control, &command(0x09, 4, 0, 0, [0x0b, 0x11f, 0]));
    for n in 0..=u16::from(id.aerl).min(7) {
        assert_eq!(
            control.start(Duration::ZERO, Tag(n + 1), &command(0x0c, 5 + n as u8, 0, 0, [0; 3])),
            Next::Hold
        );
    }
    assert_eq!(run(control, &command(0x0a, 20, 0, 0, [0x0f, 0, 0])).0.result, 10_000);
    run(control, &command(0x06, 21, 0, 4096, [6, 0, 0]));
    run(control, &command(0x09, 22, 0, 0, [0x07, 0x007e_007e, 0]));
    let active =
        NamespaceList::decode(&run(control, &command(0x06, 23, 0, 4096, [2, 0, 0])).1).unwrap();
    assert_eq!(active.0, [1, 2, 4].map(Nsid));
    for nsid in [1, 2, 4] {
        run(control, &command(0x06, 24, nsid, 4096, [0, 0, 0]));
        run(control, &command(0x06, 25, nsid, 4096, [3, 0, 0]));
        run(control, &command(0x06, 26, nsid, 4096, [5, 0, 0]));
    }
    run(control, &command(0x18, 27, 0, 0, [0; 3]));
    assert_eq!(control.take_deviations().iter().collect::<Vec<_>>(), [Deviation::NoHostName]);

    let mut queue = io(&mut subsystem);
    assert_eq!(queue.take_deviations().iter().collect::<Vec<_>>(), [Deviation::IoQueueKeepAlive]);
    assert_eq!(queue.entries(), 256);
    let next = queue.start(Tag(0), &command(0x02, 0, 1, 4096, [8, 0, 7]), 0);
    assert!(
        matches!(next, IoNext::Submit(request) if request.kind == IoRequestKind::Read && request.bytes == 4096),
        "{next:?}"
    );
}
