//! The limits that a target keeps: of login, silence and a logout that it asked for.

use crate::iscsi_target::world::*;
use core::time::Duration;
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::iscsi::target::{IscsiTargetConfig, TargetEvent, TargetResponse, Violation};
use weft_proto::stream::StreamEngine;

const S: fn(u64) -> Duration = Duration::from_secs;

fn limits() -> IscsiTargetConfig {
    IscsiTargetConfig { login_limit: S(10), ping_after: S(15), ping_timeout: S(5), ..config() }
}

/// One that is logged in since 100 s and was shown everything.
fn world() -> World {
    let mut world = World::new(limits());
    world.end.engine.tick(S(100));
    world.log_in("");
    world.go_on();
    world.end.engine.tick(S(100));
    world
}

#[test]
fn login_has_a_limit_from_the_first_tick_on() {
    let mut world = World::new(limits());
    assert_eq!(world.end.engine.deadline(), Some(S(0)));
    world.end.engine.tick(S(100));
    assert_eq!(world.end.engine.deadline(), Some(S(110)));
    world.end.engine.tick(S(109));
    assert!(!world.end.engine.is_closed());
    world.end.engine.tick(S(110));
    assert!(world.end.engine.is_closed() && !world.end.engine.wants_transmit());
    assert_eq!(world.end.engine.violation(), Some(Violation::LoginLate(S(10))));
    assert_eq!(world.end.engine.deadline(), None);
}

#[test]
fn a_silent_initiator_is_pinged_and_then_given_up() {
    let mut world = world();
    assert_eq!(world.end.engine.deadline(), Some(S(115)));
    world.end.engine.tick(S(115));
    let ping = NopIn::decode(&world.pdu().bhs);
    world.end.engine.tick(S(119));
    // Its answer, or anything else, is a sign of life.
    world.send(
        NopOut { immediate: true, transfer: ping.transfer, ..NopOut::default() }.encode(0),
        &[],
    );
    world.go_on();
    world.end.engine.tick(S(119));
    assert_eq!((world.end.engine.deadline(), world.try_pdu()), (Some(S(134)), None));
    world.end.engine.tick(S(134));
    assert!(world.try_pdu().is_some());
    world.end.engine.tick(S(139));
    assert_eq!(world.end.engine.violation(), Some(Violation::Silent));
}

#[test]
fn an_initiator_that_is_not_listened_to_is_not_silent() {
    let mut world = world();
    // The command stops the feeding: the layer above has no memory.
    world.send(command(), &[]);
    for now in (100..300).step_by(5) {
        world.end.engine.tick(S(now));
    }
    assert!(!world.end.engine.is_closed() && world.try_pdu().is_none());
    world.go_on();
    world.end.engine.tick(S(300));
    assert_eq!(
        world.end.engine.deadline(),
        Some(S(310)),
        "from when it was last known not to be listened to"
    );
}

fn command() -> [u8; 48] {
    ScsiCommand { task: TaskTag(9), cmd_sn: Serial(1), ..ScsiCommand::default() }.encode(0)
}

#[test]
fn a_logout_that_was_asked_for_waits_for_commands_and_not_for_ever() {
    let mut world = world();
    world.send(command(), &[]);
    let Some(TargetEvent::Command { tag, .. }) = world.events.pop() else {
        panic!("{:?}", world.events)
    };
    world.end.engine.request_logout(1);
    world.end.engine.tick(S(101));
    assert_eq!(world.end.engine.deadline(), Some(S(102)));
    world.pdu();
    world.end.engine.tick(S(103));
    assert!(!world.end.engine.is_closed());
    world.end.engine.complete(tag, &TargetResponse::GOOD);
    world.end.engine.tick(S(104));
    assert!(!world.end.engine.is_closed(), "the answer is still to be sent");
    world.pdu();
    world.end.engine.tick(S(105));
    assert_eq!(AsyncMessage::decode(&world.pdu().bhs).event, AsyncEvent::SESSION_DROP);
    assert!(world.end.engine.is_closed());
}
