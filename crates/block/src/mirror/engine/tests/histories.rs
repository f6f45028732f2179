//! Long histories from seeds: writes, losses, returns, crashes and starts in any order, with
//! whatever legs happen to be here.

use super::world::{BLOCKS, Fate, World};
use crate::op::{OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use weft_io::sim::Rng;

/// A sector goes bad in one of this many steps.
const SECTOR_ONE_IN: u32 = 60;

/// Bad blocks are among this many at the beginning, which are few enough to be recorded.
const BAD_BLOCKS: u64 = 16;

fn submit(world: &mut World, rng: &mut Rng) {
    let blocks = rng.within(1, 40) as u32;
    let lba = rng.within(0, BLOCKS - u64::from(blocks));
    match rng.within(0, 9) {
        0 => world.submit(OpKind::Flush, 0, 0),
        1..=4 => world.submit(OpKind::Read, lba, blocks),
        n => world.submit(OpKind::Write { fua: n == 5 }, lba, blocks),
    }
}

fn crash(world: &mut World, rng: &mut Rng) {
    let fates: Vec<Fate> =
        (0..1000).map(|_| *rng.pick(&[Fate::Lands, Fate::Never, Fate::Torn])).collect();
    let lost = if rng.one_in(2) { 0 } else { rng.within(0, 7) };
    world.crash(|at| fates[at % 1000], |leg| lost >> leg & 1 != 0);
}

/// One thing that happens.
fn happen(world: &mut World, rng: &mut Rng, with_state: bool) {
    if world.engine.is_none() || world.halted.is_some() || world.is_closed {
        crash(world, rng);
        for leg in 0..world.legs {
            world.here[leg] = !rng.one_in(4);
        }
        // A start that is refused is tried again with other legs; that nothing is ever lost shows
        // in what is read.
        let _ = world.start(with_state && !rng.one_in(8), false);
        return;
    }
    match rng.within(0, 99) {
        0..=39 if world.users.len() < 12 => submit(world, rng),
        40..=41 => {
            let leg = rng.within(0, world.legs as u64 - 1) as usize;
            world.gone(leg);
        }
        42..=47 => {
            let leg = rng.within(0, world.legs as u64 - 1) as usize;
            world.settle(rng);
            // In its place, or one that failed without being lost.
            let _ = world.back(leg);
        }
        48..=49 => world.with(|engine| engine.tidy()),
        55..=59 if world.is_slow => world.unmark(),
        50..=51 => world.with(|engine| engine.allow_copies()),
        52 => crash(world, rng),
        53 if rng.one_in(3) && world.users.is_empty() => world.with(|engine| engine.close()),
        54 if !world.todo.is_empty() => {
            let kind = *rng.pick(&[
                StatusKind::Media,
                StatusKind::Busy,
                StatusKind::TimedOut,
                StatusKind::Gone,
            ]);
            let at = rng.within(0, world.todo.len() as u64 - 1) as usize;
            world.fail(at, Outcome::settled(Status::new(kind)));
        }
        _ if !world.todo.is_empty() => {
            let at = rng.within(0, world.todo.len() as u64 - 1) as usize;
            world.step(at);
        }
        _ => {}
    }
}

fn history(seed: u64) {
    let mut rng = Rng::new(seed);
    let legs = rng.within(2, 3) as usize;
    let min_legs = if rng.one_in(3) { rng.within(1, legs as u64) as u8 } else { legs as u8 - 1 };
    let with_state = rng.one_in(2);
    let mut world = World::new(legs, min_legs, with_state);
    let mut sectors = Rng::new(!seed);
    let mut marks = Rng::new(seed.rotate_left(32));
    (world.hot, world.is_slow) = (*marks.pick(&[1, 1, 2, 3]), marks.one_in(2));
    for _ in 0..1500 {
        happen(&mut world, &mut rng, with_state);
        if sectors.one_in(SECTOR_ONE_IN) {
            let (leg, block) =
                (sectors.within(0, legs as u64 - 1) as usize, sectors.within(0, BAD_BLOCKS - 1));
            world.bad.insert((leg, block));
        }
    }
    finish(&mut world, &mut rng, with_state, seed);
}

/// All legs come back and everything is read.
fn finish(world: &mut World, rng: &mut Rng, with_state: bool, seed: u64) {
    crash(world, rng);
    world.here = core::array::from_fn(|leg| leg < world.legs);
    if let Err(e) = world.start(with_state, false) {
        // Two runs whose labels did not get further than one leg each look alike from outside.
        let labels: Vec<_> = (0..world.legs).map(|leg| world.label(leg)).collect();
        assert!(e.contains("apart from each other"), "seed {seed}: {e}: {labels:#?}");
        return;
    }
    world.run();
    world.with(|engine| engine.allow_copies());
    assert!(world.halted.is_none() && world.is_open, "seed {seed}: it opens");
    for leg in 0..world.legs {
        world.run();
        if world.engine.as_ref().unwrap().durable().members >> leg & 1 == 0 {
            world.back(leg).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
    }
    world.run();
    (0..BLOCKS / 64).for_each(|n| world.submit(OpKind::Read, n * 64, 64));
    world.run();
    let members = world.engine.as_ref().unwrap().durable().members;
    assert_eq!(members, (1 << world.legs) - 1, "seed {seed}: all are in sync");
    let unreadable = world.engine.as_ref().unwrap().unreadable();
    let is_equal = |leg: usize, block: u64| {
        world.disks[leg].now[block as usize] == world.disks[0].now[block as usize]
    };
    for block in (0..BLOCKS).filter(|block| !unreadable.overlaps(*block, block + 1)) {
        assert!(
            (1..world.legs).all(|leg| is_equal(leg, block)),
            "seed {seed}: legs differ in block {block}"
        );
    }
}

#[test]
fn nothing_is_lost_in_long_histories() {
    let range = std::env::var("WEFT_MIRROR_SEEDS").ok();
    let (from, count) =
        range.as_deref().and_then(|text| text.split_once('+')).map_or((0, 300), |(from, count)| {
            (from.parse().expect("a number"), count.parse().expect("a number"))
        });
    for seed in from..from + count {
        if let Err(cause) = std::panic::catch_unwind(|| history(seed)) {
            eprintln!("seed {seed} failed: WEFT_MIRROR_SEEDS={seed}+1");
            std::panic::resume_unwind(cause);
        }
    }
}
