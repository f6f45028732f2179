//! Hosts that have not proved who they are, byte by byte.

use super::{Demanding, host, knows, secret, subsystem, with};
use crate::chap::{authenticate_for_key, receive, send};
use crate::hostile::tcp::Tcp;
use crate::wire::{Peer, Who, capsule, capsule_moving, connect, greet, response};
use weft_endpoint::limits::AUTHENTICATIONS_MAX;
use weft_proto::nvme::auth::{Concatenation, Group, Hash, HostAuthentication, HostKeys, HostStep};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::{ConnectResponse, Property, Security};
use weft_proto::nvme::opcode::{AdminOpcode, NvmOpcode};
use weft_proto::nvme::property::{Configuration, PropertyOffset};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Nsid};
use weft_testing::wait::until;

const ON: u32 = Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES;

pub fn who() -> Who {
    Who { host: host(), subsystem: subsystem(), keep_alive_ms: 0 }
}

/// A queue that was connected and not authenticated.
fn queue(target: &Demanding, qid: u16, cntlid: Cntlid) -> (Tcp, Cqe) {
    let mut peer = Tcp::new(target.target.addresses()[0]);
    greet(&mut peer);
    let cqe = connect(&mut peer, &who(), qid, cntlid, 32);
    (peer, cqe)
}

pub fn keys() -> HostKeys {
    HostKeys {
        hostnqn: host().nqn.as_str().to_owned(),
        subnqn: subsystem().as_str().to_owned(),
        secret: secret(1),
        controller: None,
        hashes: Hash::ALL.to_vec(),
        groups: vec![Group::Null],
        concatenation: Concatenation::None,
    }
}

/// Authenticates, with `change` of each message that is sent.
pub fn authenticate(
    peer: &mut impl Peer,
    keys: HostKeys,
    in_capsule: bool,
    change: impl FnMut(&mut Vec<u8>),
) -> Result<(), HostStep> {
    authenticate_for_key(peer, keys, in_capsule, change).map(drop)
}

pub fn simple(peer: &mut impl Peer, sqe: &Sqe) -> Status {
    peer.put(&capsule(sqe, 9, &[]));
    response(peer).status
}

#[test]
fn nothing_but_the_authentication_is_answered_before_it_is_done() {
    let target = Demanding::new(knows(&[1]));
    let (mut peer, cqe) = queue(&target, 0, Cntlid::DYNAMIC);
    let connected = ConnectResponse::decode(cqe.result as u32);
    assert_eq!(
        (cqe.status, connected.authentication),
        (Status::SUCCESS, ConnectResponse::AUTHENTICATION_REQUIRED)
    );
    let others = [
        Property::get(PropertyOffset::CAP),
        Property::set(PropertyOffset::CC, ON.into()),
        Sqe::new(AdminOpcode::KEEP_ALIVE.0, Nsid(0)),
        Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0)),
        Sqe::fabrics(8),
    ];
    for other in &others {
        assert_eq!(simple(&mut peer, other), Status::AUTHENTICATION_REQUIRED);
    }
    peer.put(&capsule_moving(&Sqe::new(AdminOpcode::IDENTIFY.0, Nsid(0)), 5, 4096));
    assert_eq!(response(&mut peer).status, Status::AUTHENTICATION_REQUIRED);
    // Nor can an I/O queue be had with the identifier of a controller whose host has proved
    // nothing.
    assert_ne!(queue(&target, 1, connected.cntlid).1.status, Status::SUCCESS);
    assert_eq!(
        receive(&mut peer).unwrap_err(),
        Status::COMMAND_SEQUENCE_ERROR,
        "it is the host's turn"
    );
    authenticate(&mut peer, keys(), true, |_| ()).ok().expect("the secret is right");
    assert_eq!(simple(&mut peer, &others[0]), Status::SUCCESS);
    assert_eq!(simple(&mut peer, &others[1]), Status::SUCCESS);
}

#[test]
fn a_stolen_identifier_of_a_controller_opens_no_queue() {
    let target = Demanding::new(knows(&[1]));
    let (mut admin, cqe) = queue(&target, 0, Cntlid::DYNAMIC);
    let cntlid = ConnectResponse::decode(cqe.result as u32).cntlid;
    authenticate(&mut admin, keys(), false, |_| ()).ok().expect("the secret is right");
    assert_eq!(simple(&mut admin, &Property::set(PropertyOffset::CC, ON.into())), Status::SUCCESS);
    let (mut io, cqe) = queue(&target, 1, cntlid);
    assert_eq!(
        ConnectResponse::decode(cqe.result as u32).authentication,
        ConnectResponse::AUTHENTICATION_REQUIRED
    );
    let flush = Sqe::new(NvmOpcode::FLUSH.0, Nsid(1));
    assert_eq!(simple(&mut io, &flush), Status::AUTHENTICATION_REQUIRED);
    authenticate(&mut io, keys(), true, |_| ()).ok().expect("the secret is right");
    assert_eq!(simple(&mut io, &flush), Status::SUCCESS);
    // Anew, on queues that are in use.
    for in_capsule in [true, false] {
        authenticate(&mut io, keys(), in_capsule, |_| ()).ok().expect("the secret is right");
        authenticate(&mut admin, keys(), in_capsule, |_| ()).ok().expect("the secret is right");
    }
    assert_eq!(simple(&mut io, &flush), Status::SUCCESS);
    // Another name than that of the admin queue.
    let mut other = Tcp::new(target.target.addresses()[0]);
    greet(&mut other);
    let stranger = Who { host: crate::hostile::tcp::identity("stranger"), ..who() };
    assert_eq!(
        connect(&mut other, &stranger, 2, cntlid, 32).status,
        Status::CONNECT_INVALID_PARAMETERS
    );
    // A host that fails to prove anew who it is loses the connection.
    let wrong = HostKeys { secret: secret(2), ..keys() };
    assert!(authenticate(&mut io, wrong, true, |_| ()).is_err());
    io.wait_for_end();
    assert_eq!(simple(&mut admin, &Property::get(PropertyOffset::CSTS)), Status::SUCCESS);
}

#[test]
fn a_connection_ends_with_the_reason() {
    let target = Demanding::new(knows(&[1]));
    let (mut peer, _) = queue(&target, 0, Cntlid::DYNAMIC);
    let wrong = HostKeys { secret: secret(2), ..keys() };
    let failed = authenticate(&mut peer, wrong, true, |_| ()).expect_err("the secret is wrong");
    assert!(matches!(failed, HostStep::Failed(reason, true) if reason.0 == 1));
    peer.wait_for_end();
    target.uses(with(1)).unwrap();
}

#[test]
fn what_was_heard_on_one_connection_is_of_no_use_on_another() {
    let target = Demanding::new(knows(&[1]));
    let (mut peer, _) = queue(&target, 0, Cntlid::DYNAMIC);
    let mut heard = Vec::new();
    authenticate(&mut peer, keys(), true, |message| heard.push(message.clone()))
        .ok()
        .expect("the secret is right");
    let (mut other, _) = queue(&target, 0, Cntlid::DYNAMIC);
    assert_eq!(send(&mut other, &heard[0], true).status, Status::SUCCESS);
    receive(&mut other).unwrap();
    assert_eq!(send(&mut other, &heard[1], true).status, Status::SUCCESS);
    let failure = receive(&mut other).unwrap();
    assert_eq!((&failure[..2], failure[7]), (&[0, 0xf1][..], 1), "Failure1");
    other.wait_for_end();
}

#[test]
fn a_message_that_is_cut_anywhere_lets_nobody_in() {
    let target = Demanding::new(knows(&[1]));
    let mut whole = Vec::new();
    let (mut peer, _) = queue(&target, 0, Cntlid::DYNAMIC);
    authenticate(&mut peer, keys(), true, |message| whole.push(message.len()))
        .ok()
        .expect("the secret is right");
    for (number, len) in whole.into_iter().enumerate() {
        for cut in (1..len).step_by(if number == 0 { 7 } else { 11 }) {
            let (mut peer, _) = queue(&target, 0, Cntlid::DYNAMIC);
            let mut nth = 0;
            let outcome = authenticate(&mut peer, keys(), cut % 2 == 0, |message| {
                if nth == number {
                    message.truncate(cut);
                }
                nth += 1;
            });
            assert!(outcome.is_err(), "message {number} cut at {cut}");
            peer.wait_for_end();
        }
    }
    target.uses(with(1)).unwrap();
}

#[test]
fn an_address_that_fails_often_has_to_wait_and_is_not_turned_away_for_good() {
    let target = Demanding::new(knows(&[1]));
    let (mut peer, _) = queue(&target, 0, Cntlid::DYNAMIC);
    let (_, HostStep::Send(negotiate)) = HostAuthentication::begin(keys(), 77) else {
        panic!("a host begins")
    };
    // A host may begin anew, which counts each time. Some of it is forgotten meanwhile.
    let answers = (0..AUTHENTICATIONS_MAX * 8).map(|_| send(&mut peer, &negotiate, true));
    let refused = answers.enumerate().find(|(_, cqe)| cqe.status != Status::SUCCESS);
    let (begun, cqe) = refused.expect("it goes on for ever");
    assert!(begun >= AUTHENTICATIONS_MAX as usize, "{begun}");
    assert_eq!((cqe.status, cqe.do_not_retry), (Status::COMMAND_INTERRUPTED, false));
    // Attempts are forgotten one by one, and this host needs two at once. It asks much more often
    // than they are forgotten.
    until("another host of that address is let in", || target.uses(with(1)).is_ok());
}

#[test]
fn a_queue_is_not_kept_from_its_host_by_somebody_who_has_proved_nothing() {
    let target = Demanding::new(knows(&[1]));
    let (mut admin, cqe) = queue(&target, 0, Cntlid::DYNAMIC);
    let cntlid = ConnectResponse::decode(cqe.result as u32).cntlid;
    authenticate(&mut admin, keys(), true, |_| ()).ok().expect("the secret is right");
    assert_eq!(simple(&mut admin, &Property::set(PropertyOffset::CC, ON.into())), Status::SUCCESS);
    // Strangers with the right names, before the host and after it.
    let mut strangers: Vec<_> = (0..3).map(|_| queue(&target, 1, cntlid)).collect();
    assert!(strangers.iter().all(|(_, cqe)| cqe.status == Status::SUCCESS));
    let (mut io, cqe) = queue(&target, 1, cntlid);
    assert_eq!(cqe.status, Status::SUCCESS);
    authenticate(&mut io, keys(), true, |_| ()).ok().expect("the secret is right");
    let flush = Sqe::new(NvmOpcode::FLUSH.0, Nsid(1));
    assert_eq!(simple(&mut io, &flush), Status::SUCCESS);
    assert_eq!(
        queue(&target, 1, cntlid).1.status,
        Status::INVALID_QUEUE_IDENTIFIER,
        "it is in use"
    );
    // One goes, one says nothing, and one knows the secret, but comes too late.
    let (mut late, _) = strangers.pop().expect("three");
    drop(strangers.pop());
    let (_, HostStep::Send(mut message)) = HostAuthentication::begin(keys(), 77) else {
        panic!("a host begins")
    };
    assert_eq!(send(&mut late, &message, true).status, Status::SUCCESS);
    let (mut host, _) = HostAuthentication::begin(keys(), 77);
    let _ = host.sent();
    let challenge = receive(&mut late).expect("a challenge");
    match host.received(&challenge, 5, &mut |bytes| bytes.fill(9)) {
        HostStep::Send(reply) => message = reply,
        _ => panic!("the host replies"),
    }
    assert_eq!(send(&mut late, &message, true).status, Status::SUCCESS);
    late.put(&capsule_moving(&Security::receive(4096), 4, 4096));
    late.wait_for_end();
    assert_eq!(simple(&mut io, &flush), Status::SUCCESS);
    assert_eq!(simple(&mut admin, &Property::get(PropertyOffset::CSTS)), Status::SUCCESS);
    // A queue whose controller was disabled meanwhile is none.
    assert_eq!(simple(&mut admin, &Property::set(PropertyOffset::CC, 0)), Status::SUCCESS);
    io.wait_for_end();
}
