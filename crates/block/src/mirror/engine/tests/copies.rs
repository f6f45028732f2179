//! Legs and state files that are put back from older copies, and legs that were used apart from
//! each other.

use super::world::{BLOCKS, Disk, Fate, REGION, World};
use crate::mirror::engine::{Io, IoTarget, LegRole};
use crate::op::OpKind;

const WRITE: OpKind = OpKind::Write { fua: false };

/// Opens, writes everywhere and closes.
fn run(world: &mut World, with_state: bool) {
    world.start(with_state, false).unwrap();
    world.run();
    world.with(|engine| engine.allow_copies());
    world.run();
    assert!(world.is_open);
    (0..BLOCKS / 64).for_each(|n| world.submit(WRITE, n * 64, 64));
    world.run();
    close(world);
}

fn close(world: &mut World) {
    world.with(|engine| engine.close());
    world.run();
    assert!(world.is_closed && world.failures == 0);
    world.engine = None;
}

/// Reads everything often enough that each leg in sync is asked.
fn read(world: &mut World) {
    for _ in 0..4 {
        (0..BLOCKS / 64).for_each(|n| world.submit(OpKind::Read, n * 64, 64));
        world.run();
    }
}

/// Starts as a whole, with the leg that is not in sync copied to.
fn check(world: &mut World, with_state: bool, old: usize) {
    world.start(with_state, false).unwrap();
    world.run();
    world.with(|engine| engine.allow_copies());
    assert_eq!(
        world.engine.as_ref().unwrap().roles()[old],
        LegRole::Away,
        "the older copy is not in sync"
    );
    read(world);
    world.fetched = 0;
    world.back(old).unwrap();
    world.run();
    assert_eq!(world.fetched, BLOCKS, "it is copied whole");
    assert!(world.disks[0].now == world.disks[1].now);
    read(world);
    close(world);
}

#[test]
fn a_leg_that_was_put_back_from_an_older_copy_is_copied_whole() {
    for with_state in [false, true] {
        for old in [0, 1] {
            let mut world = World::new(2, 1, with_state);
            run(&mut world, with_state);
            let copy = world.disks[old].clone();
            run(&mut world, with_state);
            world.disks[old] = copy;
            check(&mut world, with_state, old);
        }
    }
}

#[test]
fn a_copy_of_an_open_mirror_is_old_when_that_was_closed() {
    for with_state in [false, true] {
        let mut world = World::new(2, 1, with_state);
        world.start(with_state, false).unwrap();
        world.run();
        world.with(|engine| engine.allow_copies());
        world.run();
        let copy = world.disks[1].clone();
        world.submit(WRITE, 3, 8);
        world.run();
        close(&mut world);
        world.disks[1] = copy;
        check(&mut world, with_state, 1);
    }
}

#[test]
fn older_copies_of_most_legs_are_no_majority() {
    let mut world = World::new(3, 2, false);
    run(&mut world, false);
    let copies: Vec<Disk> = world.disks[..2].to_vec();
    run(&mut world, false);
    world.disks[..2].clone_from_slice(&copies);
    let e = world.decide(false, true, false).unwrap_err();
    assert!(
        e.contains("leg 0 (url-0) is an older copy: it is of run") && e.contains("force=on"),
        "{e}"
    );
}

#[test]
fn a_state_file_or_all_legs_of_an_older_copy_are_refused_by_name() {
    let mut world = World::new(2, 1, true);
    run(&mut world, true);
    let (state, disks) = (world.state.clone(), world.disks.clone());
    run(&mut world, true);
    let now = (world.state.clone(), world.disks.clone());
    world.state = state;
    let e = world.decide(true, true, false).unwrap_err();
    assert!(e.contains("the state file state is an older copy") && e.contains("force=on"), "{e}");
    (world.state, world.disks) = (now.0, disks);
    let e = world.decide(true, true, false).unwrap_err();
    assert!(e.contains("an older copy") && e.contains("force=on"), "{e}");
    world.here[0] = false;
    let e = world.decide(true, true, false).unwrap_err();
    assert!(e.contains("leg 1 (url-1) is an older copy"), "{e}");
    world.disks = now.1;
    world.start(true, false).unwrap();
    world.run();
    read(&mut world);
}

#[test]
fn an_older_copy_is_noticed_after_a_crash_at_each_step_of_the_next_run() {
    for with_state in [false, true] {
        for fate in [Fate::Lands, Fate::Never] {
            let mut steps = 0;
            while crash(with_state, fate, steps) {
                steps += 1;
            }
            assert!(steps > 12, "the run has labels of its opening and of its end");
        }
    }
}

/// Crashes the second run after some steps, and puts a leg of the first run back. Returns whether
/// there was more to do.
fn crash(with_state: bool, fate: Fate, mut steps: usize) -> bool {
    let mut world = World::new(2, 1, with_state);
    run(&mut world, with_state);
    let copy = world.disks[1].clone();
    world.start(with_state, false).unwrap();
    let mut acts = 0;
    let is_more = loop {
        if !world.todo.is_empty() {
            if steps == 0 {
                break true;
            }
            steps -= 1;
            world.step(0);
            continue;
        }
        acts += 1;
        match acts {
            1 => world.submit(WRITE, 5, 100),
            2 => world.submit(WRITE, 2 * REGION, 9),
            3 => world.with(|engine| engine.close()),
            _ => break false,
        }
    };
    world.crash(|_| fate, |_| false);
    world.disks[1] = copy;
    world.start(with_state, false).unwrap();
    world.run();
    read(&mut world);
    world.with(|engine| engine.allow_copies());
    world.run();
    if world.engine.as_ref().unwrap().roles()[1] == LegRole::Away {
        world.back(1).unwrap();
        world.run();
    }
    assert!(world.disks[0].now == world.disks[1].now);
    read(&mut world);
    is_more
}

/// Starts with one leg by force, writes and ends; the claim stays.
fn force(world: &mut World, leg: usize) {
    (0..world.legs).for_each(|other| world.here[other] = other == leg);
    world.start(false, true).unwrap();
    world.run();
    assert!(world.is_open);
    world.submit(WRITE, 3, 4);
    world.run();
    close(world);
    world.here = [true, true, false];
}

#[test]
fn legs_that_were_used_apart_are_refused_by_name_whichever_generation_is_higher() {
    for times in 1..4 {
        let mut world = World::new(2, 1, false);
        run(&mut world, false);
        force(&mut world, 0);
        (0..times).for_each(|_| force(&mut world, 1));
        let e = world.decide(false, true, false).unwrap_err();
        assert!(
            e.contains("used apart from each other")
                && e.contains("(url-0)")
                && e.contains("(url-1)"),
            "{e}"
        );
        assert!(e.contains("weft mirror replace"), "{e}");
    }
}

#[test]
fn a_leg_that_was_used_apart_does_not_come_back() {
    let mut world = World::new(2, 1, false);
    run(&mut world, false);
    force(&mut world, 0);
    (0..2).for_each(|_| force(&mut world, 1));
    world.here[0] = false;
    world.start(false, true).unwrap();
    world.run();
    world.with(|engine| engine.allow_copies());
    let e = world.back(0).unwrap_err();
    assert!(
        e.contains("leg 0 (url-0)") && e.contains("leg 1") && e.contains("weft mirror replace"),
        "{e}"
    );
}

#[test]
fn a_close_takes_its_name_from_a_leg_that_is_being_copied_to() {
    let mut world = World::new(3, 2, true);
    world.start(true, false).unwrap();
    world.run();
    world.with(|engine| engine.allow_copies());
    world.run();
    world.gone(2);
    (0..BLOCKS / 64).for_each(|n| world.submit(WRITE, n * 64, 64));
    world.run();
    world.settle(&mut weft_io::sim::Rng::new(1));
    world.back(2).unwrap();
    let is_copy = |(_, _, io): &(u64, IoTarget, Io)| {
        matches!(io, Io::Fetch { .. } | Io::Store { .. } | Io::Equalise { .. })
    };
    while let Some(at) = world.todo.iter().position(|one| !is_copy(one)) {
        world.step(at);
    }
    assert_eq!(world.engine.as_ref().unwrap().roles()[2], LegRole::Copying);
    world.with(|engine| engine.close());
    world.run();
    assert!(world.is_closed);
    assert!((0..3).all(|leg| world.label(leg).claim.is_none()), "{:?}", world.label(2).claim);
    assert!(!world.decide(true, true, false).unwrap().was_open);
}

#[test]
fn the_longest_bound_that_targets_state_is_in_the_labels_before_a_leg_is_written_to() {
    let mut world = World::new(2, 1, true);
    world.start(true, false).unwrap();
    world.with(|engine| engine.bound(40_000));
    world.run();
    assert_eq!((world.label(0).bound_ms, world.label(1).bound_ms), (40_000, 40_000));
    world.gone(1);
    world.run();
    world.settle(&mut weft_io::sim::Rng::new(1));
    world.with(|engine| engine.bound(50_000));
    world.with(|engine| engine.allow_copies());
    world.back(1).unwrap();
    let is_to_leg = |(_, target, _): &(u64, IoTarget, Io)| *target == IoTarget::Leg(1);
    while !world.todo.iter().any(is_to_leg) {
        world.step(0);
    }
    assert_eq!(world.label(0).bound_ms, 50_000);
    world.crash(|_| Fate::Never, |_| false);
    let start = world.decide(true, true, false).unwrap();
    assert!(start.was_open);
    assert_eq!(start.bound.as_secs(), 50);
}
