//! Aborts of commands that nobody needs: one for each, and never more and more of them.

use weft_proto::limits::STUCK_COMMANDS_MAX;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Qid};

use super::fake::Reply;
use super::world::World;

/// A controller that answers an Abort when the test does.
fn silent() -> World {
    let mut world = World::ready();
    world.script = Box::new(|_, sqe, _, _| (sqe.opcode() == 8).then_some(Reply::Silence));
    world
}

/// Has each Abort answered; gives the commands that they were for, in order.
fn aborted(world: &mut World) -> Vec<u32> {
    let mut commands = Vec::new();
    world.run();
    while let Some((_, sqe)) = world.unanswered.iter().find(|(_, sqe)| sqe.opcode() == 8) {
        commands.push(sqe.dword(10) >> 16);
        world.complete(|sqe| sqe.opcode() == 8, Status::SUCCESS, 0);
    }
    commands
}

#[test]
fn a_command_that_is_cancelled_twice_is_aborted_once() {
    let mut world = silent();
    for cid in [7, 8, 9, 7, 8, 9, 9] {
        world.host.io_cancelled(world.now, Qid(1), Cid(cid));
    }
    // Two Aborts are under way, as the controller's limit says; the third command waits.
    let commands = aborted(&mut world);
    assert_eq!(commands.iter().filter(|cid| **cid == 9).count(), 1, "{commands:?}");
}

#[test]
fn commands_that_wait_for_an_abort_are_bounded() {
    let mut world = silent();
    let cancelled = STUCK_COMMANDS_MAX as u16 * 4;
    (0..cancelled).for_each(|cid| world.host.io_cancelled(world.now, Qid(1), Cid(cid)));
    let commands = aborted(&mut world);
    assert!(
        commands.len() >= STUCK_COMMANDS_MAX && commands.len() < STUCK_COMMANDS_MAX + 8,
        "{}",
        commands.len()
    );
    assert!(world.said.is_empty());
}
