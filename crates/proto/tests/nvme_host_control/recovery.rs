//! Keep alive, aborts, resets and shutdown of an association that was ready.

use std::time::Duration;

use weft_proto::nvme::host::{AssociationStep, FaultSide, HostAction, HostConfig, HostError};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Qid};

use super::fake::{Fake, Reply};
use super::world::{World, config};

const SECOND: Duration = Duration::from_secs(1);

fn failed(world: &mut World, time: Duration) -> (HostError, bool) {
    match world.last_word(time) {
        Some(HostAction::Failed { error, confirmed }) => (error, confirmed),
        other => panic!("{other:?}"),
    }
}

/// From now on the controller does not answer commands like this.
fn silence(world: &mut World, matches: impl Fn(&weft_proto::nvme::sqe::Sqe) -> bool + 'static) {
    world.script = Box::new(move |_, sqe, _, _| matches(sqe).then_some(Reply::Silence));
}

#[test]
fn keep_alive_comes_at_half_time() {
    let mut world = World::ready();
    let before = world.fake.seen.len();
    world.pass(SECOND * 10);
    assert_eq!(world.fake.seen[before..], ["Keep Alive"; 4]);
    assert!(world.said.is_empty());
}

#[test]
fn without_keep_alive_an_idle_host_sleeps() {
    let mut world = World::scripted(
        HostConfig { keep_alive_ms: 0, ..config() },
        Fake::default(),
        |number, _, _, _| (number == 0).then(|| Reply::result(7)),
    );
    world.run();
    assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
    assert_eq!(world.host.deadline(), None);
}

#[test]
fn a_controller_that_knows_no_keep_alive_gets_none() {
    let mut world = World::ready();
    world.script = Box::new(|_, sqe, _, _| {
        (sqe.opcode() == 0x18).then(|| Reply::status(Status::INVALID_OPCODE))
    });
    world.pass(SECOND * 60);
    assert!(world.said.is_empty());
    assert_eq!(world.host.deadline(), None);
}

#[test]
fn a_keep_alive_without_answer_ends_the_association() {
    let mut world = World::ready();
    let start = world.now;
    silence(&mut world, |_| true);
    let (error, confirmed) = failed(&mut world, SECOND * 60);
    assert_eq!(error, HostError::TimedOut { step: AssociationStep::KeepAlive, after_ms: 5000 });
    assert!(!confirmed, "the controller did not answer");
    // Half of the keep alive timeout, the timeout, and the time limit of a command.
    assert_eq!(world.now - start, Duration::from_millis(2500 + 5000 + 10_000));
    assert_eq!(world.said.front(), Some(&HostAction::StopIo));
}

#[test]
fn a_refused_keep_alive_resets_the_controller() {
    let mut world = World::ready();
    world.script = Box::new(|_, sqe, _, _| {
        (sqe.opcode() == 0x18).then(|| Reply::status(Status::INTERNAL_ERROR))
    });
    let (error, confirmed) = failed(&mut world, SECOND * 60);
    assert_eq!(error.fault(), FaultSide::Refused);
    assert!(confirmed && world.fake.stopped());
}

#[test]
fn a_stuck_command_is_aborted_and_may_still_end() {
    let mut world = World::ready();
    world.host.io_timed_out(world.now, Qid(1), Cid(9));
    world.host.io_timed_out(world.now, Qid(1), Cid(9));
    world.run();
    assert_eq!(world.fake.seen.iter().filter(|name| *name == "Abort").count(), 1);
    world.host.io_completed(Qid(1), Cid(9));
    world.pass(SECOND * 60);
    assert!(world.said.is_empty());
}

#[test]
fn aborts_of_unwanted_commands_keep_to_the_controllers_limit() {
    let mut world = World::ready();
    silence(&mut world, |sqe| sqe.opcode() == 8);
    for cid in 0..100 {
        world.host.io_cancelled(world.now, Qid(1), Cid(cid));
        world.host.io_cancelled(world.now, Qid(1), Cid(cid));
    }
    world.run();
    assert_eq!(world.outstanding(8), 2, "ACL is 1, counted from zero");
    world.complete(|sqe| sqe.opcode() == 8, Status::SUCCESS, 0);
    world.host.io_timed_out(world.now, Qid(1), Cid(99));
    world.complete(|sqe| sqe.opcode() == 8, Status::SUCCESS, 0);
    let aborted: Vec<u32> = world
        .unanswered
        .iter()
        .filter(|(_, sqe)| sqe.opcode() == 8)
        .map(|(_, sqe)| sqe.dword(10))
        .collect();
    assert!(
        aborted.len() == 2 && aborted.contains(&0x0063_0001),
        "what took too long comes first: {aborted:x?}"
    );
    (0..100).for_each(|cid| world.host.io_completed(Qid(1), Cid(cid)));
    world.complete(|sqe| sqe.opcode() == 8, Status::SUCCESS, 0);
    world.complete(|sqe| sqe.opcode() == 8, Status::SUCCESS, 0);
    world.pass(SECOND * 60);
    assert_eq!(world.outstanding(8), 0, "what has ended needs no Abort");
    assert!(world.said.is_empty());
}

#[test]
fn a_command_that_abort_does_not_end_resets_the_controller() {
    let mut world = World::ready();
    world.fake.slowness = 5;
    world.host.io_timed_out(world.now, Qid(2), Cid(9));
    let (error, confirmed) = failed(&mut world, SECOND * 60);
    assert_eq!(error, HostError::CommandStuck { qid: Qid(2), cid: Cid(9) });
    assert_eq!(error.to_string(), "command 9 on queue 2 did not end after Abort");
    assert!(confirmed && world.fake.stopped());
    assert_eq!(world.said[0], HostAction::StopIo);
}

#[test]
fn aborts_respect_the_limit_of_the_controller() {
    let mut world = World::ready();
    silence(&mut world, |sqe| sqe.opcode() == 8);
    for cid in 0..5 {
        world.host.io_timed_out(world.now, Qid(1), Cid(cid));
    }
    world.run();
    assert_eq!(world.outstanding(8), 2, "ACL is 1, counted from zero");
    world.complete(|sqe| sqe.opcode() == 8, Status::SUCCESS, 1);
    assert_eq!(world.outstanding(8), 2);
    world.complete(|sqe| sqe.opcode() == 8, Status::ABORT_COMMAND_LIMIT_EXCEEDED, 0);
    world.complete(|sqe| sqe.opcode() == 8, Status::SUCCESS, 0);
    assert_eq!(world.outstanding(8), 2);
    let aborted: Vec<u32> = world
        .unanswered
        .iter()
        .filter(|(_, sqe)| sqe.opcode() == 8)
        .map(|(_, sqe)| sqe.dword(10))
        .collect();
    assert_eq!(aborted, [0x0003_0001, 0x0004_0001]);
}

#[test]
fn an_abort_without_answer_resets_the_controller() {
    let mut world = World::ready();
    silence(&mut world, |sqe| sqe.opcode() == 8);
    world.host.io_timed_out(world.now, Qid(1), Cid(1));
    world.run();
    world.host.io_completed(Qid(1), Cid(1));
    let (error, confirmed) = failed(&mut world, SECOND * 60);
    assert_eq!(
        (error, confirmed),
        (HostError::TimedOut { step: AssociationStep::Abort, after_ms: 10_000 }, true)
    );
}

#[test]
fn aborts_leave_room_in_the_admin_queue() {
    let mut world = World::ready_with(|fake| fake.identify.acl = 255);
    silence(&mut world, |_| true);
    for cid in 0..100 {
        world.host.io_timed_out(world.now, Qid(1), Cid(cid));
    }
    world.pass(SECOND * 3);
    assert_eq!(
        (world.outstanding(8), world.outstanding(0x18), world.outstanding(0x0c)),
        (15, 1, 1)
    );
    let left = HostConfig::ADMIN_COMMANDS - HostConfig::ADMIN_COMMANDS_OF_OTHERS;
    assert!(world.unanswered.len() < usize::from(left));
}

#[test]
fn very_many_stuck_commands_reset_the_controller_at_once() {
    let mut world = World::ready();
    for cid in 0..=128 {
        world.host.io_timed_out(world.now, Qid(1), Cid(cid));
    }
    let (error, confirmed) = failed(&mut world, Duration::ZERO);
    assert_eq!((error, confirmed), (HostError::ManyStuck(129), true));
}

#[test]
fn a_lost_queue_ends_the_association_and_its_commands_for_certain() {
    let mut world = World::ready();
    world.host.connection_lost(world.now, Qid(2));
    let (error, confirmed) = failed(&mut world, SECOND);
    assert_eq!((error, confirmed), (HostError::ConnectionLost(Qid(2)), true));
    assert!(world.fake.stopped());
}

#[test]
fn the_loss_of_the_admin_queue_confirms_nothing() {
    let mut world = World::ready();
    world.host.connection_lost(world.now, Qid(0));
    assert_eq!(failed(&mut world, SECOND), (HostError::ConnectionLost(Qid(0)), false));
    world.host.connection_lost(world.now, Qid(1));
    world.host.io_timed_out(world.now, Qid(1), Cid(1));
    world.host.shutdown(world.now);
    world.run();
    assert_eq!(world.host.deadline(), None);
}

#[test]
fn the_first_reason_is_the_one_that_is_told() {
    let mut world = World::ready();
    silence(&mut world, |sqe| sqe.opcode() == 0x7f);
    world.host.connection_lost(world.now, Qid(1));
    world.run();
    world.host.connection_lost(world.now, Qid(0));
    assert_eq!(failed(&mut world, SECOND), (HostError::ConnectionLost(Qid(1)), false));
}

#[test]
fn a_controller_that_does_not_stop_is_given_up() {
    let mut world = World::ready();
    world.fake.slowness = u32::MAX;
    world.host.connection_lost(world.now, Qid(1));
    let start = world.now;
    let (_, confirmed) = failed(&mut world, SECOND * 60);
    assert!(!confirmed);
    assert_eq!(world.now - start, SECOND * 10, "the larger of CAP.TO and the command timeout");
}

#[test]
fn late_answers_are_ignored() {
    let mut world = World::ready();
    silence(&mut world, |sqe| sqe.opcode() == 0x18);
    world.pass(SECOND * 3);
    world.host.connection_lost(world.now, Qid(1));
    world.run();
    let words = world.said.len();
    world.complete(|sqe| sqe.opcode() == 0x18, Status::INTERNAL_ERROR, 0);
    world.event(0x0004_0002);
    assert_eq!(world.said.len(), words);
}

#[test]
fn shutdown_waits_for_the_controller() {
    let mut world = World::ready();
    world.fake.slowness = 20;
    world.host.shutdown(world.now);
    world.run();
    assert_eq!(world.said.pop_back(), Some(HostAction::StopIo));
    assert_eq!(world.last_word(SECOND * 5), Some(HostAction::Closed { confirmed: true }));
    assert!(world.fake.seen.contains(&"set CC 0x464001".to_owned()));
    assert_eq!(world.host.deadline(), None);
}

#[test]
fn shutdown_ends_in_time_whatever_the_controller_does() {
    for deaf in [false, true] {
        let mut world = World::ready();
        world.fake.slowness = u32::MAX;
        silence(&mut world, move |_| deaf);
        let start = world.now;
        world.host.shutdown(world.now);
        assert_eq!(world.last_word(SECOND * 60), Some(HostAction::Closed { confirmed: false }));
        assert_eq!(world.now - start, SECOND * 5);
    }
    let mut world = World::ready();
    silence(&mut world, |_| true);
    world.host.shutdown(world.now);
    world.run();
    world.host.connection_lost(world.now, Qid(0));
    assert_eq!(world.last_word(SECOND), Some(HostAction::Closed { confirmed: false }));
}

#[test]
fn shutdown_before_anything_was_enabled_is_immediate() {
    let mut world = World::new(config(), Fake::default());
    world.host.shutdown(world.now);
    assert_eq!(world.last_word(SECOND), Some(HostAction::Closed { confirmed: true }));
    let mut world = World::scripted(config(), Fake::default(), |_, _, _, _| Some(Reply::Silence));
    world.run();
    world.host.shutdown(world.now);
    assert_eq!(world.last_word(SECOND), Some(HostAction::Closed { confirmed: true }));
}

#[test]
fn shutdown_in_the_middle_of_setup_still_shuts_down() {
    let mut world = World::scripted(config(), Fake::default(), |_, sqe, _, _| {
        (sqe.opcode() == 6).then_some(Reply::Silence)
    });
    world.run();
    world.host.shutdown(world.now);
    assert_eq!(world.last_word(SECOND), Some(HostAction::Closed { confirmed: true }));
}
