//! Hosts that go wrong at a point of their own choice. Each costs itself its connection; a
//! bystander does verified I/O all along.

use crate::hostile::tcp::{Bystander, NQN, Served, Tcp, who};
use crate::wire::{self, ON, Peer, Who};
use std::io::Write;
use std::time::Duration;
use weft_endpoint::export::nvme::TargetLimits;
use weft_proto::nvme::fabrics::{Connect, InvalidParameter, Property};
use weft_proto::nvme::host::command;
use weft_proto::nvme::property::PropertyOffset;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Lba, Nqn, Nsid};
use weft_proto::nvme_tcp::digest::{Digests, crc32c};
use weft_proto::nvme_tcp::pdu::{Flags, PduType};
use weft_testing::wait::until_some;

fn short() -> TargetLimits {
    TargetLimits { handshake: Duration::from_millis(300), ..TargetLimits::default() }
}

/// The queues of a controller that came up as it should.
struct Good {
    admin: Tcp,
    io: Tcp,
    cntlid: Cntlid,
}

fn good(served: &Served) -> Good {
    let (mut admin, mut io) = (served.connect(), served.connect());
    let cntlid = wire::admin(&mut admin, &who());
    wire::io_queue(&mut io, &who(), cntlid, 1, 32);
    Good { admin, io, cntlid }
}

fn read(lba: u64) -> Sqe {
    command::read(Nsid(1), Lba(lba), 8)
}

#[test]
fn whoever_is_slow_before_connect_is_cut_off() {
    let served = Served::new(short());
    let bystander = Bystander::new(&served);
    let ic_req = wire::ic_req(Digests::NONE);
    let connect = wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32);
    let all = [ic_req.clone(), connect].concat();
    // Silence after nothing, half an ICReq, an ICReq, half a Connect, half of its data.
    for bytes in [0, 1, 64, ic_req.len(), ic_req.len() + 40, ic_req.len() + 72, all.len() - 1] {
        let mut tcp = served.connect();
        tcp.try_put(&all[..bytes]);
        tcp.wait_for_end();
        bystander.goes_on();
    }
    // One byte at a time, for ever.
    let mut tcp = served.connect();
    for byte in all.iter().cycle() {
        if tcp.stream.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // A connection that is refused may try again, but not for ever.
    until_some("a Connect is refused", || refused(&served)).wait_for_end();
    drop(bystander);
}

/// A connection whose Connect was refused. `None`: on a loaded machine the target's short limit may
/// cut it off before.
fn refused(served: &Served) -> Option<Tcp> {
    let nobody = Who { subsystem: Nqn::new("nqn.2026-01.example.weft:nobody").unwrap(), ..who() };
    let mut tcp = served.connect();
    tcp.try_put(&wire::ic_req(Digests::NONE));
    assert_eq!(tcp.pdu()?.kind(), PduType::IC_RESP);
    tcp.try_put(&wire::connect_capsule(&nobody, 0, Cntlid::DYNAMIC, 32));
    assert_eq!(tcp.pdu()?.cqe().status, Status::CONNECT_INVALID_PARAMETERS);
    Some(tcp)
}

/// A host that counts by SQHD learns of a command's end from its completion only.
#[test]
fn success_is_said_in_data_only_to_hosts_without_flow_control() {
    let served = Served::new(TargetLimits::default());
    for flow_control in [true, false] {
        let (mut admin, mut io) = (served.connect(), served.connect());
        let cntlid = wire::admin(&mut admin, &who());
        wire::greet(&mut io);
        let (mut sqe, data) = wire::connect_parts(&who(), 1, cntlid, 8);
        if !flow_control {
            sqe.set_dword(11, sqe.dword(11) | u32::from(Connect::DISABLE_FLOW_CONTROL) << 16);
        }
        io.put(&wire::capsule(&sqe, 0, &data));
        assert_eq!(wire::response(&mut io).sq_head == 0xffff, !flow_control);
        for n in 0..20 {
            io.put(&wire::capsule_moving(&read(0), n, 4096));
            let pdu = io.pdu().unwrap();
            assert_eq!(
                (pdu.kind(), pdu.header().flags.has(Flags::SUCCESS)),
                (PduType::C2H_DATA, !flow_control)
            );
            if flow_control {
                let cqe = wire::response(&mut io);
                assert_eq!((cqe.status, cqe.sq_head), (Status::SUCCESS, (n + 2) % 8));
            }
        }
    }
}

#[test]
fn whoever_hangs_up_in_a_handshake_leaves_nothing_behind() {
    let served = Served::new(TargetLimits::default());
    let bystander = Bystander::new(&served);
    let set = wire::capsule(&Property::set(PropertyOffset::CC, ON.into()), 1, &[]);
    let all = [
        wire::ic_req(Digests::NONE),
        wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32),
        set,
        vec![4, 0, 72],
    ]
    .concat();
    for bytes in (0..all.len()).step_by(61).chain([all.len()]) {
        let mut tcp = served.connect();
        tcp.put(&all[..bytes]);
        if bytes % 2 == 0 {
            tcp.finish();
            tcp.wait_for_end();
        }
    }
    bystander.goes_on();
}

#[test]
fn a_command_whose_data_had_a_wrong_digest_may_be_sent_again() {
    let served = Served::new(TargetLimits::default());
    let bystander = Bystander::new(&served);
    let mut tcp = served.connect();
    tcp.put(&wire::ic_req(Digests { header: false, data: true }));
    assert_eq!(tcp.pdu().unwrap().kind(), PduType::IC_RESP);
    for (spoil, status) in [(1, Status::TRANSIENT_TRANSPORT_ERROR), (0, Status::SUCCESS)] {
        let mut capsule = wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32);
        capsule[1] = 2;
        capsule[4..8].copy_from_slice(&(72u32 + 1024 + 4).to_le_bytes());
        let digest = crc32c(&capsule[72..]) ^ spoil;
        capsule.extend_from_slice(&digest.to_le_bytes());
        tcp.put(&capsule);
        assert_eq!(wire::response(&mut tcp).status, status);
    }
    bystander.goes_on();
}

#[test]
fn queues_that_cannot_be_had_are_refused_with_the_reason() {
    let served =
        Served::with(TargetLimits::default(), &crate::served::loops(2), Some(vec![who().host.nqn]));
    let Good { mut admin, io, cntlid } = good(&served);
    let data = |offset: u16| u64::from(InvalidParameter::data(offset).encode());
    let field = |offset: u16| u64::from(InvalidParameter::command(offset).encode());
    let nobody = Who { subsystem: Nqn::new("nqn.2026-01.example.weft:nobody").unwrap(), ..who() };
    let stranger = Who { host: crate::hostile::tcp::identity("stranger"), ..who() };
    let invalid = Status::CONNECT_INVALID_PARAMETERS;
    let mut tcp = served.connect();
    wire::greet(&mut tcp);
    for (who, qid, cntlid, entries, status, result) in [
        (&nobody, 0, Cntlid::DYNAMIC, 32, invalid, data(256)),
        (&stranger, 0, Cntlid::DYNAMIC, 32, Status::CONNECT_INVALID_HOST, 0),
        (&who(), 0, Cntlid(3), 32, invalid, data(16)),
        (&who(), 0, Cntlid::DYNAMIC, 1, invalid, field(44)),
        (&who(), 0, Cntlid::DYNAMIC, 5000, invalid, field(44)),
        (&who(), 1, cntlid, 32, Status::INVALID_QUEUE_IDENTIFIER, 0),
        (&who(), 500, cntlid, 32, invalid, field(42)),
        (&who(), 2, Cntlid(999), 32, invalid, data(16)),
        (&stranger, 2, cntlid, 32, invalid, data(512)),
    ] {
        let cqe = wire::connect(&mut tcp, who, qid, cntlid, entries);
        assert_eq!(
            (cqe.status, cqe.result),
            (status, result),
            "qid {qid} of {cntlid}, {entries} entries"
        );
        assert!(cqe.do_not_retry);
    }
    // Not before the controller is enabled.
    let mut fresh = served.connect();
    wire::greet(&mut fresh);
    let disabled = wire::connect(&mut fresh, &who(), 0, Cntlid::DYNAMIC, 32);
    assert_eq!(disabled.status, Status::SUCCESS);
    assert_eq!(
        wire::connect(&mut tcp, &who(), 1, Cntlid(disabled.result as u16), 32).status,
        invalid
    );
    // And something else than Connect comes too early.
    tcp.put(&wire::capsule(&read(0), 7, &[]));
    assert_eq!(wire::response(&mut tcp).status, Status::COMMAND_SEQUENCE_ERROR);
    assert!(wire::status(&mut admin).ready());
    drop(io);
    assert_eq!(served.target().addresses().len(), 1, "{NQN}");
}

#[test]
fn commands_on_the_heels_of_connect_are_borne_or_cut_off() {
    let served = Served::new(TargetLimits::default());
    let bystander = Bystander::new(&served);
    // Behind a whole Connect: it is served after it.
    let mut tcp = served.connect();
    let connect = wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32);
    let get = wire::capsule(&Property::get(PropertyOffset::VS), 5, &[]);
    tcp.put(&[wire::ic_req(Digests::NONE), connect.clone(), get.clone()].concat());
    assert_eq!(tcp.pdu().unwrap().kind(), PduType::IC_RESP);
    assert_eq!(wire::response(&mut tcp).status, Status::SUCCESS);
    assert_eq!(wire::response(&mut tcp).cid.0, 5);
    // While the target waits for Connect's data: the queue has room for one.
    let (sqe, _) = wire::connect_parts(&who(), 0, Cntlid::DYNAMIC, 32);
    let mut tcp = served.connect();
    tcp.put(&[wire::ic_req(Digests::NONE), wire::capsule_moving(&sqe, 0, 1024), get].concat());
    let last = tcp.rest().pop().unwrap();
    assert_eq!(last.kind(), PduType::C2H_TERM_REQ);
    // Connect's data through R2T, as some hosts send it.
    let (sqe, data) = wire::connect_parts(&who(), 0, Cntlid::DYNAMIC, 32);
    let mut tcp = served.connect();
    wire::greet(&mut tcp);
    tcp.put(&wire::capsule_moving(&sqe, 0, 1024));
    let r2t = tcp.pdu().unwrap();
    assert_eq!(r2t.kind(), PduType::R2T);
    tcp.put(&wire::h2c_data(&r2t.transfer(), &data));
    assert_eq!(wire::response(&mut tcp).status, Status::SUCCESS);
    // Connect twice.
    tcp.put(&connect);
    assert_eq!(wire::response(&mut tcp).status, Status::COMMAND_SEQUENCE_ERROR);
    bystander.goes_on();
}

#[test]
fn more_connections_than_allowed_are_closed_at_once() {
    let served = Served::new(TargetLimits { connections: 5, ..TargetLimits::default() });
    let bystander = Bystander::new(&served);
    served.wait_for(3);
    let mut kept: Vec<_> = (0..2).map(|_| served.connect()).collect();
    kept.iter_mut().for_each(wire::greet);
    for _ in 0..20 {
        served.connect().wait_for_end();
    }
    bystander.goes_on();
    drop(kept.pop());
    served.wait_for(4);
    wire::greet(&mut served.connect());
}
