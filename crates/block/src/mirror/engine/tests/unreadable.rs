//! Blocks that no leg can be read from.

use super::world::{BLOCKS, Fate, REGION, World};
use crate::limits::MIRROR_UNREADABLE_RANGES;
use crate::mirror::engine::{LegRole, MirrorEngine};
use crate::op::OpKind;
use weft_io::sim::Rng;

const WRITE: OpKind = OpKind::Write { fua: false };

/// Two legs that are equal.
fn open() -> World {
    let mut world = World::new(2, 1, true);
    world.start(true, false).unwrap();
    world.with(|engine| engine.allow_copies());
    world.run();
    world
}

fn bad(world: &mut World, legs: &[usize], blocks: impl IntoIterator<Item = u64> + Clone) {
    legs.iter()
        .for_each(|leg| world.bad.extend(blocks.clone().into_iter().map(|block| (*leg, block))));
}

/// Does one operation to its end; whether it failed.
fn fails(world: &mut World, kind: OpKind, lba: u64, blocks: u32) -> bool {
    let before = world.failures;
    world.submit(kind, lba, blocks);
    world.run();
    assert!(world.users.is_empty(), "it ends");
    world.failures > before
}

fn unreadable(world: &World) -> Vec<(u64, u64)> {
    world
        .engine
        .as_ref()
        .map(MirrorEngine::unreadable)
        .into_iter()
        .flat_map(|all| all.ranges().collect::<Vec<_>>())
        .collect()
}

#[test]
fn what_no_leg_can_read_stops_nothing_else_until_it_is_written() {
    let mut world = open();
    bad(&mut world, &[0, 1], [13]);
    assert!(fails(&mut world, OpKind::Read, 13, 1));
    assert_eq!(unreadable(&world), [(8, 8)]);
    assert!(!fails(&mut world, OpKind::Read, 16, 8) && !fails(&mut world, WRITE, 2 * REGION, 1));
    assert!(
        fails(&mut world, OpKind::Compare, 12, 1),
        "nobody is shown what legs need not have in common"
    );
    world.with(MirrorEngine::close);
    world.run();
    assert!(world.is_closed, "it can be closed");
    world.start(true, false).unwrap();
    world.run();
    assert!(fails(&mut world, OpKind::Read, 13, 1), "it is remembered");
    assert!(
        !fails(&mut world, WRITE, 8, 4) && !fails(&mut world, OpKind::Read, 8, 4),
        "what was written can be read"
    );
    assert!(fails(&mut world, OpKind::Read, 11, 2));
    assert!(!fails(&mut world, WRITE, 12, 4) && !fails(&mut world, OpKind::Read, 8, 8));
    assert!(unreadable(&world).is_empty() && world.label(0).unreadable.is_empty());
}

#[test]
fn a_leg_is_in_sync_without_what_cannot_be_read_and_never_shows_what_it_holds_there() {
    let mut world = open();
    world.gone(1);
    world.run();
    assert!(!fails(&mut world, WRITE, 0, 16));
    bad(&mut world, &[0], [3]);
    world.settle(&mut Rng::new(1));
    world.back(1).unwrap();
    world.run();
    assert_eq!(world.engine.as_ref().unwrap().roles()[..2], [LegRole::Member; 2]);
    world.gone(0);
    world.run();
    assert!(fails(&mut world, OpKind::Read, 0, 8) && !fails(&mut world, OpKind::Read, 8, 8));
    world.crash(|_| Fate::Never, |_| false);
    world.start(true, false).unwrap();
    world.run();
    assert!(
        fails(&mut world, OpKind::Read, 3, 1),
        "it is remembered at the leg that has something else"
    );
}

#[test]
fn a_write_that_heals_is_acknowledged_when_a_crash_cannot_undo_that() {
    let mut world = open();
    bad(&mut world, &[0, 1], 0..8);
    assert!(fails(&mut world, OpKind::Read, 0, 1));
    world.submit(WRITE, 0, 8);
    let mut crashed = Vec::new();
    while !world.users.is_empty() {
        crashed.push(world.remains());
        world.step(0);
    }
    assert!(
        (0..2)
            .all(|leg| world.label(leg).unreadable.is_empty() && world.disks[leg].durable[0] != 0)
    );
    // Before that, either the write is there or a medium error.
    for mut world in crashed {
        world.crash(|_| Fate::Never, |_| true);
        world.start(true, false).unwrap();
        world.run();
        world.with(|engine| engine.allow_copies());
        world.run();
        fails(&mut world, OpKind::Read, 0, 8);
    }
}

#[test]
fn a_leg_stays_out_of_sync_where_there_is_more_than_can_be_remembered() {
    let mut world = open();
    world.gone(1);
    world.run();
    assert!(!fails(&mut world, WRITE, 0, BLOCKS as u32));
    let ranges = MIRROR_UNREADABLE_RANGES as u64 + 1;
    bad(&mut world, &[0], (0..ranges).map(|n| n * 16));
    world.settle(&mut Rng::new(1));
    world.back(1).unwrap();
    world.run();
    let engine = world.engine.as_ref().unwrap();
    assert_eq!(
        (engine.roles()[1], unreadable(&world).len()),
        (LegRole::Copying, MIRROR_UNREADABLE_RANGES)
    );
    assert_eq!(engine.backlog()[1], 1, "the regions behind it were copied");
    assert!(fails(&mut world, WRITE, 3, 1), "what could not be read back is not acknowledged");
    assert!(!fails(&mut world, WRITE, 0, 8));
    world.run();
    assert_eq!(world.engine.as_ref().unwrap().roles()[1], LegRole::Member, "there was room again");
}
