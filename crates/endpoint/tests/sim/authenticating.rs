//! Hosts that authenticate, in virtual time: what strangers can have computed, and where, and what
//! a host gets in plain text that is to use TLS.

use crate::chap::authenticate_for_key;
use crate::devices::Testing;
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{NQN, Scene, Setup};
use crate::wire::{self, ON, Peer, capsule, capsule_moving, connect, greet, response};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_endpoint::inventory::Authentication;
use weft_endpoint::limits::{
    AUTHENTICATION_ADDRESS_MS, AUTHENTICATION_ADDRESS_PERCENT, AUTHENTICATION_THREADS,
    CONCATENATION_PLAIN_S,
};
use weft_endpoint::reservations::Threads;
use weft_proto::nvme::auth::{
    Concatenation, DhchapSecret, FailureReason, Group, Hash, HostAuthentication, HostKeys,
    HostStep, SecureChannel,
};
use weft_proto::nvme::fabrics::{Property, Security};
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::property::PropertyOffset;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Nqn, Nsid};

/// Connections of the stranger.
const STRANGERS: usize = 240;

/// What an exchange costs with the largest group, nominally.
const COST_US: u64 = 54_000;

/// Threads that run when a test has them run, or at once.
#[derive(Default)]
struct Held {
    is_inline: bool,
    started: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Threads for Held {
    fn start(&self, _: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        match self.is_inline {
            true => work(),
            false => self.started.lock().unwrap().push(work),
        }
        Ok(())
    }
}

/// There are none.
struct NoThreads;

impl Threads for NoThreads {
    fn start(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

fn secret(byte: u8) -> DhchapSecret {
    DhchapSecret::of_key(&[byte; 32], None).unwrap()
}

/// A target that demands this of its host, and computes on these threads.
fn demanding(groups: Vec<Group>, channel: SecureChannel, threads: Arc<dyn Threads>) -> Scene {
    let scene = Scene::new(Setup::new(1, Testing::new("ram:16MiB")));
    let hosts = BTreeMap::from([(who().host.nqn, vec![secret(1)])]);
    let demanded = Authentication { hosts, groups, channel, ..Authentication::default() };
    let nqn = Nqn::new(NQN).unwrap();
    scene.inventory.change(|to| to.authenticate(&nqn, Some(demanded)).map(drop)).unwrap();
    scene.inventory.compute_on(threads);
    scene
}

fn keys(group: Group, concatenation: Concatenation) -> HostKeys {
    HostKeys {
        hostnqn: who().host.nqn.as_str().to_owned(),
        subnqn: NQN.to_owned(),
        secret: secret(1),
        controller: None,
        hashes: vec![Hash::Sha256],
        groups: vec![group],
        concatenation,
    }
}

/// An admin queue that was connected and not authenticated.
fn admin(scene: &mut Scene) -> Puppet {
    let puppet = Puppet::new(scene);
    greet(&mut puppet.within(scene));
    assert_eq!(
        connect(&mut puppet.within(scene), &who(), 0, Cntlid::DYNAMIC, 32).status,
        Status::SUCCESS
    );
    puppet
}

fn simple(peer: &mut impl Peer, sqe: &Sqe) -> Status {
    peer.put(&capsule(sqe, 9, &[]));
    response(peer).status
}

fn negotiate(group: Group) -> Vec<u8> {
    let (_, HostStep::Send(message)) =
        HostAuthentication::begin(keys(group, Concatenation::None), 77)
    else {
        panic!("a host begins")
    };
    capsule(&Security::send(message.len() as u32), 3, &message)
}

#[test]
fn a_loop_computes_nothing_for_strangers_and_no_more_is_computed_than_their_budget_has() {
    let held = Arc::new(Held::default());
    let mut scene =
        demanding(vec![Group::Null, Group::Ffdhe8192], SecureChannel::None, held.clone());
    let host = admin(&mut scene);
    authenticate_for_key(
        &mut host.within(&mut scene),
        keys(Group::Null, Concatenation::None),
        true,
        |_| (),
    )
    .ok()
    .unwrap();
    assert_eq!(wire::set_cc(&mut host.within(&mut scene), ON).status, Status::SUCCESS);
    let strangers: Vec<Puppet> = (0..STRANGERS).map(|_| admin(&mut scene)).collect();
    let begun = scene.world.now();
    strangers.iter().for_each(|stranger| stranger.put(&negotiate(Group::Ffdhe8192)));
    // The host is served while all these wait: the loop goes on.
    let keep_alive = Sqe::new(AdminOpcode::KEEP_ALIVE.0, Nsid(0));
    assert_eq!(simple(&mut host.within(&mut scene), &keep_alive), Status::SUCCESS);
    scene.world.run_for(Duration::from_secs(1));
    let answers: Vec<Status> =
        strangers.iter().filter_map(|it| it.take()).map(|pdu| pdu.cqe().status).collect();
    let interrupted =
        answers.iter().filter(|status| **status == Status::COMMAND_INTERRUPTED).count();
    assert_eq!(interrupted, answers.len(), "a loop has computed for the others");
    let came_back_ms =
        (scene.world.now() - begun).as_millis() as u64 * AUTHENTICATION_ADDRESS_PERCENT / 100;
    let least = AUTHENTICATION_ADDRESS_MS * 1000 / COST_US;
    let most = (AUTHENTICATION_ADDRESS_MS + came_back_ms) * 1000 / COST_US;
    let waiting = (STRANGERS - answers.len()) as u64;
    assert!(
        (least..=most).contains(&waiting),
        "{waiting} exchanges are to be computed, not {least} to {most}"
    );
    assert_eq!(held.started.lock().unwrap().len(), AUTHENTICATION_THREADS, "threads");
    // Nothing is computed for those that have gone.
    strangers.iter().for_each(Puppet::hang_up);
    scene.world.run_for(Duration::from_secs(1));
    let work = held.started.lock().unwrap().pop().unwrap();
    work();
    assert_eq!(simple(&mut host.within(&mut scene), &keep_alive), Status::SUCCESS);
}

#[test]
fn groups_that_cost_much_are_for_configurations_that_ask_for_them() {
    let groups = Authentication::default().groups;
    let mut scene = demanding(
        groups,
        SecureChannel::None,
        Arc::new(Held { is_inline: true, ..Held::default() }),
    );
    for (group, is_taken) in
        [(Group::Ffdhe2048, true), (Group::Ffdhe6144, false), (Group::Ffdhe8192, false)]
    {
        let host = admin(&mut scene);
        let keys = keys(group, Concatenation::None);
        let outcome = authenticate_for_key(&mut host.within(&mut scene), keys, true, |_| ());
        assert_eq!(outcome.is_ok(), is_taken, "{group:?}");
        if let Err(step) = outcome {
            assert!(
                matches!(step, HostStep::Failed(reason, true) if reason == FailureReason::GROUP_UNUSABLE),
                "{group:?}"
            );
        }
    }
}

#[test]
fn a_host_tries_again_where_nothing_can_be_computed() {
    let mut scene = demanding(vec![Group::Ffdhe2048], SecureChannel::None, Arc::new(NoThreads));
    let host = admin(&mut scene);
    host.put(&negotiate(Group::Ffdhe2048));
    let cqe = response(&mut host.within(&mut scene));
    assert_eq!((cqe.status, cqe.do_not_retry), (Status::COMMAND_INTERRUPTED, false));
    scene.inventory.compute_on(Arc::new(Held { is_inline: true, ..Held::default() }));
    let keys = keys(Group::Ffdhe2048, Concatenation::None);
    authenticate_for_key(&mut host.within(&mut scene), keys, true, |_| ())
        .ok()
        .expect("the secret is right");
}

#[test]
fn in_plain_text_nothing_is_changed_by_a_host_that_has_a_key_for_tls() {
    for channel in [SecureChannel::Required, SecureChannel::Allowed] {
        let inline = Arc::new(Held { is_inline: true, ..Held::default() });
        let mut scene = demanding(vec![Group::Ffdhe2048], channel, inline);
        let puppet = admin(&mut scene);
        let keys = keys(Group::Ffdhe2048, Concatenation::New);
        let key =
            authenticate_for_key(&mut puppet.within(&mut scene), keys, true, |_| ()).ok().flatten();
        assert!(key.is_some());
        let mut peer = puppet.within(&mut scene);
        // What hosts of Linux do before they come again.
        assert_eq!(simple(&mut peer, &Property::get(PropertyOffset::CAP)), Status::SUCCESS);
        assert_eq!(wire::set_cc(&mut peer, ON).status, Status::SUCCESS);
        let mut identify = Sqe::new(AdminOpcode::IDENTIFY.0, Nsid(0));
        identify.set_dword(10, 1);
        peer.put(&capsule_moving(&identify, 5, 4096));
        assert!(peer.pdu().expect("Identify data").0.len() > 4096);
        assert_eq!(response(&mut peer).status, Status::SUCCESS);
        assert_eq!(
            simple(&mut peer, &Sqe::new(AdminOpcode::KEEP_ALIVE.0, Nsid(0))),
            Status::SUCCESS
        );
        // Reservation Persistence, which outlasts the connection.
        let mut persistence = Sqe::new(AdminOpcode::SET_FEATURES.0, Nsid(1));
        persistence.set_dword(10, 0x83);
        persistence.set_dword(11, 1);
        assert_eq!(simple(&mut peer, &persistence), Status::OPERATION_DENIED, "{channel:?}");
        for opcode in
            [AdminOpcode::ASYNC_EVENT_REQUEST, AdminOpcode::ABORT, AdminOpcode::GET_FEATURES]
        {
            assert_eq!(
                simple(&mut peer, &Sqe::new(opcode.0, Nsid(0))),
                Status::OPERATION_DENIED,
                "{opcode:?}"
            );
        }
        // It is kept alive, and ends all the same.
        assert!(!puppet.has_ended());
        for _ in 0..CONCATENATION_PLAIN_S + 2 {
            puppet.put(&capsule(&Sqe::new(AdminOpcode::KEEP_ALIVE.0, Nsid(0)), 9, &[]));
            scene.world.run_for(Duration::from_secs(1));
        }
        assert!(puppet.has_ended(), "{channel:?}: the plain connection stays");
    }
}
