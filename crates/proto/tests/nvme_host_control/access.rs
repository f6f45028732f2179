//! Asymmetric namespace access: the log page, the events that report a change, and changes that
//! take too long.

use std::time::Duration;

use weft_proto::nvme::host::{AdminData, HostAction};
use weft_proto::nvme::identify::IdentifyController;
use weft_proto::nvme::log_page::{AnaGroupDescriptor, AnaHeader, AnaState};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Nsid;

use super::fake::{Fake, Reply};
use super::world::{World, config};

/// Notice, Asymmetric Namespace Access Change, log page 0Ch.
const ACCESS_CHANGED: u32 = 0x000c_0302;

/// A log page with a group of each of the states, numbered from 1; the namespace with the same
/// number is in it, and named where `named`.
fn page(states: &[AnaState], named: bool) -> Vec<u8> {
    let mut page = AnaHeader { chgcnt: 0, ngrps: states.len() as u16 }.encode();
    for (grpid, state) in (1..).zip(states) {
        page.extend(
            AnaGroupDescriptor { grpid, nnsids: named.into(), chgcnt: 0, state: *state }.encode(),
        );
        if named {
            page.extend(grpid.to_le_bytes());
        }
    }
    page
}

fn ana() -> Fake {
    let mut fake = Fake::default();
    fake.identify.cmic = IdentifyController::CMIC_ANA | IdentifyController::CMIC_CONTROLLERS;
    fake.identify.oaes |= 1 << 11;
    fake.identify.anatt = 10;
    fake.identify.nanagrpid = 2;
    for (nsid, (id, _)) in &mut fake.namespaces {
        id.anagrpid = *nsid;
    }
    fake
}

/// An association with a controller whose log page the test may change.
fn world(first: Vec<u8>) -> (World, std::rc::Rc<std::cell::RefCell<Option<Vec<u8>>>>) {
    let shown = std::rc::Rc::new(std::cell::RefCell::new(Some(first)));
    let log = shown.clone();
    let mut world = World::scripted(config(), ana(), move |_, sqe, _, _| {
        match (sqe.opcode(), sqe.dword(10) & 0xff) {
            (2, 0x0c) => Some(
                log.borrow()
                    .clone()
                    .map_or_else(|| Reply::status(Status::INTERNAL_ERROR), Reply::data),
            ),
            (9, 0x0b) => {
                assert_eq!(
                    sqe.dword(11),
                    0x900,
                    "namespace and access notices, and none that the controller does not have"
                );
                None
            }
            _ => None,
        }
    });
    world.run();
    assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
    world.said.clear();
    (world, shown)
}

fn access(world: &World) -> [Option<AnaState>; 2] {
    [1, 2].map(|nsid| world.host.access(Nsid(nsid)))
}

#[test]
fn states_are_known_before_the_queues_are_open() {
    for named in [false, true] {
        let (world, _) = world(page(&[AnaState::NON_OPTIMIZED, AnaState::INACCESSIBLE], named));
        assert_eq!(access(&world), [Some(AnaState::NON_OPTIMIZED), Some(AnaState::INACCESSIBLE)]);
        let at = |name: &str| world.fake.seen.iter().position(|seen| seen == name);
        assert!(at("connect 1").is_some());
    }
}

#[test]
fn a_controller_without_access_states_tells_none() {
    let world = World::ready();
    assert_eq!(access(&world), [None, None]);
}

#[test]
fn a_namespace_is_in_the_group_that_the_log_page_names() {
    let mut log = AnaHeader { chgcnt: 0, ngrps: 1 }.encode();
    log.extend(
        AnaGroupDescriptor { grpid: 9, nnsids: 1, chgcnt: 0, state: AnaState::OPTIMIZED }.encode(),
    );
    log.extend(2u32.to_le_bytes());
    let (world, _) = world(log);
    assert_eq!(
        access(&world),
        [Some(AnaState::INACCESSIBLE), Some(AnaState::OPTIMIZED)],
        "of group 1 nothing is said"
    );
}

#[test]
fn an_event_has_the_log_page_read_again() {
    let (mut world, log) = world(page(&[AnaState::OPTIMIZED; 2], true));
    *log.borrow_mut() = Some(page(&[AnaState::OPTIMIZED, AnaState::PERSISTENT_LOSS], true));
    world.event(ACCESS_CHANGED);
    assert!(matches!(world.said.pop_front(), Some(HostAction::Event(_))));
    assert_eq!(world.said.pop_front(), Some(HostAction::AccessChanged));
    assert_eq!(access(&world)[1], Some(AnaState::PERSISTENT_LOSS));
    assert_eq!(world.outstanding(0x0c), 1, "the next event is asked for");
    world.event(ACCESS_CHANGED);
    world.said.pop_front();
    assert_eq!(world.said.pop_front(), None, "nothing is new");
}

#[test]
fn a_refused_command_has_the_log_page_read_again() {
    let (mut world, log) = world(page(&[AnaState::OPTIMIZED; 2], false));
    *log.borrow_mut() = Some(page(&[AnaState::INACCESSIBLE, AnaState::OPTIMIZED], false));
    world.host.access_doubted(world.now);
    assert!(world.host.is_reading_access() && !world.host.is_looking());
    world.run();
    assert_eq!(world.said.pop_front(), Some(HostAction::AccessChanged));
    assert_eq!(access(&world)[0], Some(AnaState::INACCESSIBLE));
    assert!(!world.host.is_reading_access());
}

#[test]
fn a_change_that_takes_too_long_is_inaccessible_until_the_controller_says_otherwise() {
    let (mut world, log) = world(page(&[AnaState::CHANGE, AnaState::OPTIMIZED], true));
    assert_eq!(access(&world)[0], Some(AnaState::CHANGE));
    world.pass(Duration::from_secs(9));
    assert_eq!(access(&world)[0], Some(AnaState::CHANGE));
    world.pass(Duration::from_secs(2));
    assert_eq!(access(&world), [Some(AnaState::INACCESSIBLE), Some(AnaState::OPTIMIZED)]);
    *log.borrow_mut() = Some(page(&[AnaState::OPTIMIZED; 2], true));
    world.pass(Duration::from_secs(10));
    assert_eq!(access(&world)[0], Some(AnaState::OPTIMIZED), "without an event");
}

#[test]
fn a_log_page_that_cannot_be_read_ends_nothing() {
    let (mut world, log) = world(page(&[AnaState::OPTIMIZED; 2], true));
    *log.borrow_mut() = None;
    world.event(ACCESS_CHANGED);
    assert_eq!(access(&world)[0], Some(AnaState::OPTIMIZED), "as far as is known");
    *log.borrow_mut() = Some(page(&[AnaState::INACCESSIBLE; 2], true));
    world.pass(Duration::from_secs(2));
    assert_eq!(access(&world)[0], Some(AnaState::INACCESSIBLE));
    // One that was never to be had does not keep a device from being opened.
    let mut world = World::new(config(), ana());
    world.run();
    assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
    assert_eq!(access(&world), [None, None]);
}

#[test]
fn a_long_log_page_is_read_as_a_whole() {
    for refuses in [false, true] {
        let mut fake = ana();
        (fake.identify.nanagrpid, fake.identify.nn) = (300, 1024);
        let states = [AnaState::OPTIMIZED; 300];
        let mut world = World::scripted(config(), fake, move |_, sqe, data, _| {
            let AdminData::In { len } = *data else { return None };
            (sqe.opcode() == 2 && sqe.dword(10) as u8 == 0x0c).then(|| match len {
                4096 if refuses => Reply::status(Status::INVALID_SGL_COUNT),
                _ => Reply::data(page(&states, true)[..(len as usize).min(16 + 300 * 36)].to_vec()),
            })
        });
        world.run();
        assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
        assert_eq!(access(&world), [Some(AnaState::OPTIMIZED); 2]);
    }
}

#[test]
fn a_look_at_the_namespaces_that_is_due_waits_for_the_log_page() {
    let (mut world, _) = world(page(&[AnaState::OPTIMIZED; 2], true));
    world.script = Box::new(|_, sqe, _, _| match (sqe.opcode(), sqe.dword(10) & 0xff) {
        (6, 2) => Some(Reply::status(Status::INTERNAL_ERROR)),
        (2, 0x0c) => Some(Reply::Silence),
        _ => None,
    });
    world.host.look_again(world.now);
    world.run();
    world.host.access_doubted(world.now);
    // The list of namespaces could not be had, and is asked for again after a second.
    world.pass(Duration::from_secs(2));
    let seen = world.commands();
    world.script = Box::new(|_, _, _, _| None);
    world.complete(|sqe| sqe.opcode() == 2, Status::SUCCESS, 0);
    assert!(world.commands() > seen && !world.host.is_looking() && !world.host.is_unsure(Nsid(1)));
}
