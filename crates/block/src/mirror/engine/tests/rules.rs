//! Rules that a single case shows.

use super::world::{BLOCKS, REGION, World};
use crate::mirror::engine::{Halt, Io, IoTarget, LegRole};
use crate::op::{OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use weft_io::sim::Rng;

const WRITE: OpKind = OpKind::Write { fua: false };

/// A mirror that is open, and whose legs are equal and known to be.
fn open(legs: usize, with_state: bool) -> World {
    let mut world = World::new(legs, legs as u8 - 1, with_state);
    world.start(with_state, false).unwrap();
    world.with(|engine| engine.allow_copies());
    world.run();
    tidy(&mut world);
    world
}

/// Clears what bits can be cleared.
fn tidy(world: &mut World) {
    for _ in 0..2 {
        world.with(|engine| engine.tidy());
        world.run();
    }
}

fn targets(world: &World) -> Vec<(IoTarget, &'static str)> {
    let name = |io: &Io| match io {
        Io::Page { .. } => "page",
        Io::Label { .. } => "label",
        Io::Write { .. } => "write",
        Io::Flush => "flush",
        _ => "other",
    };
    world.todo.iter().map(|(_, target, io)| (*target, name(io))).collect()
}

#[test]
fn the_bit_is_durable_before_any_leg_is_written() {
    let mut world = open(2, true);
    world.submit(WRITE, 0, 1);
    world.submit(WRITE, 2 * REGION, 1);
    assert_eq!(
        targets(&world),
        [(IoTarget::State, "page")],
        "what comes meanwhile waits for the next write of bits"
    );
    world.step(0);
    let first = [(IoTarget::Leg(0), "write"), (IoTarget::Leg(1), "write")];
    assert_eq!(
        targets(&world).iter().filter(|target| target.1 == "write").copied().collect::<Vec<_>>(),
        first
    );
    world.run();
    world.submit(WRITE, 1, 1);
    assert_eq!(targets(&world), first, "a bit that is set costs nothing");
    world.run();
    tidy(&mut world);
    world.submit(WRITE, 1, 1);
    assert_eq!(targets(&world), [(IoTarget::State, "page")], "it was cleared after a flush");
    let mut alone = open(2, false);
    alone.submit(WRITE, 0, 1);
    assert_eq!(targets(&alone), [(IoTarget::Leg(0), "page"), (IoTarget::Leg(1), "page")]);
}

#[test]
fn a_loss_is_durable_before_what_was_missed_is_acknowledged() {
    let mut world = open(2, true);
    world.submit(WRITE, 0, 1);
    world.step(0);
    world.fail(1, Outcome::Done(Status::new(StatusKind::Media)));
    world.step(0);
    assert_eq!(world.users.len(), 1);
    assert!(
        targets(&world).iter().all(|(target, io)| (*target, *io) == (IoTarget::State, "page")),
        "first what it missed"
    );
    while targets(&world)[0].1 == "page" {
        world.step(0);
    }
    assert_eq!(targets(&world), [(IoTarget::State, "label")]);
    world.step(0);
    assert_eq!((targets(&world), world.users.len()), (vec![(IoTarget::Leg(0), "label")], 1));
    world.step(0);
    assert_eq!((world.users.len(), world.failures), (0, 0));
    assert_eq!(
        (
            world.label(0).members,
            world.label(0).generation.number,
            world.label(1).generation.number
        ),
        (0b01, 2, 1)
    );
}

#[test]
fn the_last_leg_is_never_dropped_and_its_loss_stops_everything() {
    let mut world = open(2, true);
    world.gone(1);
    world.run();
    world.submit(WRITE, 0, 1);
    while targets(&world)[0].1 == "page" {
        world.step(0);
    }
    world.fail(0, Outcome::Done(Status::new(StatusKind::Media)));
    assert_eq!((world.failures, world.halted), (1, None));
    world.submit(WRITE, 0, 1);
    world.gone(0);
    assert_eq!((world.users.len(), world.halted), (1, Some(Halt::TooFewLegs)));
}

#[test]
fn requests_that_are_at_fault_themselves_drop_no_leg() {
    let mut world = open(2, true);
    for kind in [StatusKind::WriteProtected, StatusKind::Unsupported, StatusKind::OutOfRange] {
        world.submit(OpKind::WriteZeroes { deallocate: false, fua: false }, 0, 1);
        while targets(&world)[0].1 == "page" {
            world.step(0);
        }
        world.fail(0, Outcome::Done(Status::new(kind)));
        world.fail(0, Outcome::Done(Status::new(kind)));
    }
    assert_eq!((world.failures, world.label(0).members), (3, 0b11));
}

#[test]
fn a_leg_that_somebody_else_has_reserved_ends_the_mirror() {
    for what in [WRITE, OpKind::Flush] {
        let mut world = open(2, true);
        world.submit(WRITE, 0, 1);
        world.run();
        world.submit(what, 0, u32::from(what == WRITE));
        world.submit(WRITE, 5, 1);
        let at = world.todo.iter().position(|(_, target, _)| *target == IoTarget::Leg(1)).unwrap();
        world.fail(at, Outcome::Done(Status::new(StatusKind::ReservationConflict)));
        assert_eq!(
            (world.halted, world.users.len()),
            (Some(Halt::Fenced(1)), 2),
            "nothing ends any more"
        );
        world.run();
        assert_eq!((world.users.len(), world.label(0).members), (2, 0b11));
    }
}

#[test]
fn a_block_that_one_leg_cannot_read_is_read_from_another_and_written_again() {
    let mut world = open(2, true);
    world.submit(WRITE, 9, 1);
    world.run();
    world.submit(OpKind::Read, 9, 1);
    world.fail(0, Outcome::Done(Status::new(StatusKind::Media)));
    let stores = |world: &World| {
        world
            .todo
            .iter()
            .filter(|(_, _, io)| matches!(io, Io::Store { .. } | Io::Equalise { .. }))
            .count()
    };
    let mut stored = 0;
    while !world.todo.is_empty() {
        stored += stores(&world).min(1);
        world.step(0);
    }
    assert!(stored > 0 && world.failures == 0 && world.users.is_empty());
    assert_eq!(world.label(0).members, 0b11);
}

#[test]
fn a_leg_that_comes_back_gets_only_what_it_missed() {
    let mut world = open(2, true);
    world.submit(WRITE, 5, 1);
    world.run();
    tidy(&mut world);
    world.gone(1);
    world.run();
    world.submit(WRITE, 2 * REGION, 3);
    world.run();
    world.stray.clear();
    world.back(1).unwrap();
    assert_eq!(world.joined, [], "it may lack something");
    world.run();
    assert_eq!(world.joined, [1]);
    assert_eq!(world.disks[1].now[2 * REGION as usize], world.disks[0].now[2 * REGION as usize]);
    let engine = world.engine.as_ref().unwrap();
    assert_eq!(
        (engine.roles()[1], engine.durable().members, engine.durable().generation.number),
        (LegRole::Member, 0b11, 3)
    );
    assert_eq!(
        world.fetched,
        u64::from(crate::mirror::layout::REGION_BYTES_MIN as u32) / 512 + BLOCKS
    );
}

#[test]
fn nobody_else_starts_while_it_is_open_unless_forced() {
    let mut world = open(2, true);
    world.submit(WRITE, 0, 1);
    world.run();
    let without = world.decide(false, false, false).unwrap_err();
    assert!(without.contains("was last open with a state file"), "{without}");
    assert!(
        world.decide(true, false, false).is_ok(),
        "the state file says that the opener was its own process"
    );
    let alone = open(3, false);
    let said = alone.decide(false, false, false).unwrap_err();
    assert!(said.contains("open at here since 5"), "{said}");
    assert!(alone.decide(false, false, true).is_ok());
}

#[test]
fn an_old_leg_is_refused_by_name_and_starts_only_by_force() {
    let mut world = open(2, true);
    world.gone(1);
    world.run();
    world.submit(WRITE, 0, 1);
    world.run();
    world.with(|engine| engine.close());
    world.run();
    assert!(world.is_closed);
    world.here = [false, true, false];
    let said = world.decide(true, false, false).unwrap_err();
    assert!(
        said.contains("leg 1 (url-1) is old: it has generation 1, and the mirror was last at 2"),
        "{said}"
    );
    assert!(said.contains("force=on"), "{said}");
    let forced = world.decide(true, false, true).unwrap();
    assert!(forced.is_new && forced.warning.unwrap().contains("leg 0"));
}

#[test]
fn a_read_that_waited_for_a_write_that_failed_sees_what_all_legs_have() {
    let mut world = World::new(2, 2, true);
    world.start(true, false).unwrap();
    world.with(|engine| engine.allow_copies());
    world.run();
    world.submit(WRITE, 3, 4);
    world.submit(OpKind::Read, 3, 4);
    world.submit(OpKind::Read, 2, 4);
    // One leg has it, the other one does not, and none can be dropped.
    let timed_out = Outcome::settled(Status::new(StatusKind::TimedOut));
    let of_leg = |world: &World| {
        world.todo.iter().position(|(_, target, io)| {
            *target == IoTarget::Leg(1) && matches!(io, Io::Write { .. })
        })
    };
    while of_leg(&world).is_none() {
        world.step(0);
    }
    let at = of_leg(&world).unwrap();
    world.fail(at, timed_out);
    world.run();
    assert_eq!((world.failures, world.users.len()), (1, 0), "the write alone failed");
    assert!(world.disks[0].now == world.disks[1].now, "what was read is on all legs");
}

#[test]
fn a_write_in_doubt_is_copied_again_to_a_leg_that_had_its_region_already() {
    let mut world = World::new(3, 2, true);
    world.start(true, false).unwrap();
    world.with(|engine| engine.allow_copies());
    world.run();
    world.gone(2);
    world.submit(WRITE, 3, 4);
    world.submit(WRITE, 2 * REGION, 4);
    world.run();
    world.settle(&mut Rng::new(1));
    world.back(2).unwrap();
    let copied = world.disks[0].now[3];
    while world.disks[2].now[3] != copied || world.engine.as_ref().unwrap().backlog()[2] != 1 {
        world.step(0);
    }
    assert_eq!(world.engine.as_ref().unwrap().roles()[2], LegRole::Copying);
    // The leg from which copies are read does not execute it, the others do.
    world.submit(WRITE, 3, 4);
    let first = |world: &World| {
        let is_first = |(_, target, io): &(u64, IoTarget, Io)| {
            *target == IoTarget::Leg(0) && matches!(io, Io::Write { .. })
        };
        world.todo.iter().position(is_first)
    };
    while first(&world).is_none() {
        let at = world.todo.iter().position(|(_, target, _)| *target == IoTarget::State).unwrap();
        world.step(at);
    }
    let at = first(&world).unwrap();
    world.fail(at, Outcome::settled(Status::new(StatusKind::TimedOut)));
    world.run();
    assert_eq!((world.failures, world.engine.as_ref().unwrap().roles()[2]), (1, LegRole::Member));
    assert!((1..3).all(|leg| world.disks[leg].now == world.disks[0].now), "all legs have the same");
}

#[test]
fn a_flush_ends_also_when_a_leg_has_joined_meanwhile() {
    let mut world = World::new(3, 2, true);
    world.start(true, false).unwrap();
    world.with(|engine| engine.allow_copies());
    world.run();
    world.gone(2);
    world.submit(WRITE, 3, 4);
    world.run();
    world.settle(&mut Rng::new(1));
    world.submit(OpKind::Flush, 0, 0);
    world.back(2).unwrap();
    // One leg takes longer for it than the other one for coming back.
    let is_slow =
        |(_, target, io): &(u64, IoTarget, Io)| *target == IoTarget::Leg(1) && *io == Io::Flush;
    while let Some(at) = world.todo.iter().position(|one| !is_slow(one)) {
        world.step(at);
    }
    assert_eq!(
        (world.engine.as_ref().unwrap().roles()[2], world.users.len()),
        (LegRole::Member, 1)
    );
    world.run();
    assert_eq!((world.failures, world.users.len()), (0, 0));
}
