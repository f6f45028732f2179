//! Too few legs were left, and when they came back in the same process the targets of some had lost
//! what was not flushed.

use super::world::World;
use crate::mirror::engine::{Io, IoTarget};
use crate::op::{OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};

const WRITE: OpKind = OpKind::Write { fua: false };

/// A mirror of two legs that needs both: a write is acknowledged and not flushed, both legs are
/// lost, the target of leg 0 starts again without it, and a flush waits for an engine that has
/// begun again.
fn restarted() -> World {
    let mut world = World::new(2, 2, false);
    world.start(false, false).unwrap();
    world.with(|engine| engine.allow_copies());
    world.run();
    world.submit(WRITE, 3, 8);
    world.run();
    world.gone(0);
    assert!(world.halted.is_some());
    world.here = [true, true, false];
    world.engine = None;
    world.todo.clear();
    world.disks[0].lose_cache();
    world.start(false, false).unwrap();
    world.with(|engine| engine.trust(0b10));
    world.submit(OpKind::Flush, 0, 0);
    world
}

fn is_flushed(world: &World) -> bool {
    world.todo.iter().any(|(_, _, io)| *io == Io::Flush)
}

#[test]
fn a_leg_that_has_lost_nothing_is_copied_from_and_a_flush_waits_for_that() {
    let mut world = restarted();
    while !world.todo.is_empty() {
        assert!(!is_flushed(&world), "what only leg 1 has would count as durable");
        world.step(0);
    }
    world.with(|engine| engine.allow_copies());
    world.run();
    assert!(
        world.users.is_empty() && world.failures == 0 && world.forgotten == 0,
        "the flush succeeds"
    );
    assert!(
        world.disks[0].durable == world.disks[1].durable && world.disks[0].durable[3] != 0,
        "both legs have it"
    );
    for _ in 0..4 {
        world.submit(OpKind::Read, 3, 8);
        world.run();
    }
}

#[test]
fn what_a_user_reads_is_copied_from_it_as_well() {
    let mut world = restarted();
    world.submit(OpKind::Read, 3, 8);
    world.run();
    assert_eq!(world.disks[0].now[3..11], world.disks[1].now[3..11]);
    assert!(world.disks[0].now[3] != 0);
}

#[test]
fn a_mirror_that_is_closed_meanwhile_is_made_equal_first() {
    let mut world = restarted();
    world.with(|engine| engine.close());
    world.with(|engine| engine.allow_copies());
    world.run();
    assert!(world.is_closed && world.failures == 0);
    assert!(world.disks[0].durable == world.disks[1].durable && world.disks[0].durable[3] != 0);
}

#[test]
fn the_loss_of_the_last_such_leg_is_told_and_nobody_waits() {
    let mut world = World::new(2, 1, false);
    world.start(false, false).unwrap();
    world.with(|engine| engine.allow_copies());
    world.run();
    world.submit(WRITE, 3, 8);
    world.run();
    world.engine = None;
    world.todo.clear();
    world.start(false, false).unwrap();
    world.with(|engine| engine.trust(0b10));
    world.run();
    assert_eq!(world.forgotten, 0);
    world.gone(1);
    assert_eq!(world.forgotten, 1);
    world.submit(OpKind::Flush, 0, 0);
    world.run();
    assert!(world.users.is_empty() && world.halted.is_none());
}

#[test]
fn blocks_that_such_a_leg_cannot_be_read_from_are_a_loss_that_is_told() {
    let mut world = restarted();
    world.bad.insert((1, 5));
    world.with(|engine| engine.allow_copies());
    world.run();
    assert!(world.forgotten == 1 && world.users.is_empty());
    assert!(!world.todo.iter().any(|(_, target, _)| *target == IoTarget::Leg(1)));
}

/// Another attempt may fail as well, so that a flush would wait for ever.
#[test]
fn blocks_that_cannot_be_written_to_the_other_leg_are_a_loss_that_is_told() {
    let mut world = restarted();
    while !world.todo.is_empty() {
        world.step(0);
    }
    world.with(|engine| engine.allow_copies());
    let is_copy = |(_, target, io): &(u64, IoTarget, Io)| {
        *target == IoTarget::Leg(0) && matches!(io, Io::Equalise { .. })
    };
    let at = loop {
        match world.todo.iter().position(is_copy) {
            Some(at) => break at,
            None => world.step(0),
        }
    };
    world.fail(at, Outcome::Done(Status::new(StatusKind::Media)));
    while !world.todo.is_empty() {
        world.step(0);
    }
    assert_eq!((world.forgotten, world.users.len(), world.halted), (1, 0, None));
}
