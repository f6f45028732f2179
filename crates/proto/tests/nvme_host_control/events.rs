//! Asynchronous events: namespaces and discovery logs that change while a host is connected.

use std::time::Duration;

use weft_proto::nvme::feature::{AsyncEvent, AsyncEventType};
use weft_proto::nvme::host::{HostAction, HostConfig};
use weft_proto::nvme::identify::NamespaceDescriptors;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Nqn, Nsid};

use super::fake::{Fake, Reply, entry, namespace};
use super::world::{World, config, discovery_config};

const NAMESPACE_CHANGED: u32 = 0x0004_0002;
const LOG_CHANGED: u32 = 0x0070_f002;

fn is_event(action: Option<HostAction>) -> bool {
    matches!(action, Some(HostAction::Event(_)))
}

#[test]
fn a_new_namespace_is_seen() {
    let mut world = World::ready();
    world.fake.namespaces.insert(3, namespace(3, 3000));
    world.event(NAMESPACE_CHANGED);
    assert!(is_event(world.said.pop_front()));
    assert_eq!(world.said.pop_front(), Some(HostAction::NamespacesChanged));
    assert_eq!(world.host.namespaces().len(), 3);
    assert_eq!(world.outstanding(0x0c), 1, "the next event is asked for");
    world.fake.namespaces.get_mut(&1).unwrap().0.nsze = 5000;
    world.event(NAMESPACE_CHANGED);
    assert_eq!(world.host.namespaces()[0].blocks, 5000);
    world.fake.namespaces.clear();
    world.event(NAMESPACE_CHANGED);
    assert!(world.host.namespaces().is_empty());
}

#[test]
fn an_event_without_a_change_says_nothing() {
    let mut world = World::ready();
    world.event(NAMESPACE_CHANGED);
    assert!(is_event(world.said.pop_front()));
    assert_eq!(world.said.pop_front(), None);
}

#[test]
fn events_of_other_kinds_are_passed_on() {
    let mut world = World::ready();
    let seen = world.fake.seen.len();
    world.event(0x0002_0101);
    let Some(HostAction::Event(AsyncEvent { kind, information, .. })) = world.said.pop_front()
    else {
        panic!()
    };
    assert_eq!((kind, information), (AsyncEventType::HEALTH, 1));
    assert_eq!(world.fake.seen[seen..], ["Asynchronous Event Request"]);
}

#[test]
fn a_controller_that_says_it_has_failed_is_reset() {
    let mut world = World::ready();
    world.event(0x0001_0300);
    assert!(is_event(world.said.pop_front()));
    assert_eq!(world.said.pop_front(), Some(HostAction::StopIo));
    assert!(matches!(world.said.pop_front(), Some(HostAction::Failed { confirmed: true, .. })));
}

#[test]
fn an_event_during_setup_is_not_lost() {
    let mut world = World::scripted(config(), Fake::default(), |_, sqe, _, fake| {
        // The event comes before the list is read; the change comes after it.
        match (sqe.opcode(), sqe.dword(10)) {
            (0x0c, _) if fake.namespaces.len() == 2 => {
                Some(Reply::result(NAMESPACE_CHANGED.into()))
            }
            (6, 0) if sqe.nsid() == Nsid(2) => {
                fake.namespaces.insert(3, namespace(3, 1));
                None
            }
            _ => None,
        }
    });
    world.run();
    assert!(is_event(world.said.pop_front()));
    assert_eq!(world.said.pop_front(), Some(HostAction::Ready));
    assert_eq!(world.said.pop_front(), Some(HostAction::NamespacesChanged));
    assert_eq!(world.host.namespaces().len(), 3);
}

#[test]
fn a_controller_without_events_is_left_alone() {
    let mut world = World::scripted(config(), Fake::default(), |_, sqe, _, _| {
        (sqe.opcode() == 0x0c).then(|| Reply::status(Status::INVALID_OPCODE))
    });
    world.pass(Duration::from_secs(60));
    assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
    assert_eq!(
        world.fake.seen.iter().filter(|name| *name == "Asynchronous Event Request").count(),
        0
    );
}

#[test]
fn a_list_that_cannot_be_read_is_tried_again() {
    let mut refusals = 2;
    let mut world = World::scripted(config(), Fake::default(), move |number, sqe, _, _| {
        let refuse = number > 20 && sqe.opcode() == 6 && sqe.dword(10) == 2 && refusals > 0;
        refusals -= u32::from(refuse);
        refuse.then(|| Reply::status(Status::INTERNAL_ERROR))
    });
    world.run();
    world.pass(Duration::from_secs(30));
    world.fake.namespaces.insert(3, namespace(3, 3000));
    world.event(NAMESPACE_CHANGED);
    assert_eq!(world.host.namespaces().len(), 2);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.host.namespaces().len(), 3);
    assert_eq!(world.outstanding(0x0c), 1);
}

#[test]
fn a_list_that_is_never_to_be_had_ends_nothing() {
    let mut world = World::scripted(config(), Fake::default(), |number, sqe, _, _| {
        let refuse = number > 16 && sqe.opcode() == 6 && sqe.dword(10) == 2;
        refuse.then(|| Reply::status(Status::INTERNAL_ERROR))
    });
    world.run();
    world.event(NAMESPACE_CHANGED);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.host.namespaces().len(), 2);
    assert_eq!(world.outstanding(0x0c), 1);
    assert!(!world.said.iter().any(|action| matches!(action, HostAction::Failed { .. })));
}

#[test]
fn a_persistent_discovery_connection_follows_the_log() {
    let config =
        HostConfig { keep_alive_ms: 30_000, subsystem: Nqn::discovery(), ..discovery_config() };
    let mut world = World::scripted(config, Fake::discovery(1), |number, _, data, fake| {
        // The scripted controller expects no keep alive of a discovery host.
        (number == 0).then(|| {
            let weft_proto::nvme::host::AdminData::Out(_) = data else { panic!() };
            Reply::result(fake.identify.cntlid.0.into())
        })
    });
    world.run();
    assert!(matches!(world.said.pop_front(), Some(HostAction::Discovered(_))));
    world.fake.discovery.push(entry(9));
    world.fake.generation = 2;
    world.event(LOG_CHANGED);
    assert!(is_event(world.said.pop_front()));
    let Some(HostAction::Discovered(result)) = world.said.pop_front() else { panic!() };
    assert_eq!((result.generation, result.entries.len()), (2, 2));
    assert_eq!(world.outstanding(0x0c), 1);
    let before = world.fake.seen.len();
    world.pass(Duration::from_secs(60));
    assert_eq!(world.fake.seen[before..], ["Keep Alive", "Keep Alive", "Keep Alive", "Keep Alive"]);
}

/// A controller of which Identify with this CNS for namespace 1 is refused `times` times after the
/// setup.
fn refusing(cns: u32, mut times: u32) -> World {
    let mut asked = 0;
    World::scripted(config(), Fake::default(), move |_, sqe, _, _| {
        let concerned = sqe.opcode() == 6 && sqe.dword(10) == cns && sqe.nsid() == Nsid(1);
        asked += u32::from(concerned);
        // The first look, during setup, succeeds.
        let refuse = concerned && asked > 1 && times > 0;
        times -= u32::from(refuse);
        refuse.then(|| Reply::status(Status::INTERNAL_ERROR))
    })
}

#[test]
fn a_namespace_whose_identify_fails_during_a_look_stays_and_is_looked_at_again() {
    let mut world = refusing(0, 2);
    world.run();
    world.fake.namespaces.get_mut(&1).unwrap().0.nsze = 5000;
    world.event(NAMESPACE_CHANGED);
    assert_eq!(
        world.host.namespaces().iter().map(|known| known.blocks).collect::<Vec<_>>(),
        [1000, 2000]
    );
    world.pass(Duration::from_secs(5));
    assert_eq!(world.host.namespaces()[0].blocks, 5000, "nobody had to send another event");
    assert_eq!(world.outstanding(0x0c), 1);
}

#[test]
fn a_namespace_whose_identify_fails_for_ever_stays_and_events_are_asked_for() {
    let mut world = refusing(0, u32::MAX);
    world.run();
    world.event(NAMESPACE_CHANGED);
    world.pass(Duration::from_secs(60));
    assert_eq!((world.host.namespaces().len(), world.outstanding(0x0c)), (2, 1));
}

#[test]
fn a_list_of_names_that_fails_during_a_look_takes_no_name_away() {
    let mut world = refusing(3, 1);
    world.run();
    let before = world.host.namespaces()[0].clone();
    world.event(NAMESPACE_CHANGED);
    assert_eq!(world.host.namespaces()[0].difference(&before), None);
    world.fake.namespaces.get_mut(&1).unwrap().1 = NamespaceDescriptors::default();
    world.pass(Duration::from_secs(5));
    assert!(
        world.host.namespaces()[0].difference(&before).is_some(),
        "looked at again, it has no name any more"
    );
}
