//! A short history, ended by a crash after each of its steps in several ways, and started again
//! from every set of legs.

use super::world::{BLOCKS, Fate, REGION, World};
use crate::limits::MIRROR_HOT_REGIONS;
use crate::mirror::record::Format;
use crate::op::OpKind;

const WRITE: OpKind = OpKind::Write { fua: false };
const FUA: OpKind = OpKind::Write { fua: true };

/// A mirror.
#[derive(Clone, Copy, Debug)]
struct Kind {
    format: Format,
    /// The most regions that are marked.
    hot: usize,
    legs: usize,
    min_legs: u8,
    with_state: bool,
}

/// Actions of the user and the legs, one after the other; the mirror comes to rest before the next.
#[derive(Clone, Copy)]
enum Act {
    Write(OpKind, u64, u32),
    Flush,
    Read(u64, u32),
    Gone(usize),
    Back(usize),
    Tidy,
    Close,
}

use Act::{Back, Close, Flush, Gone, Read, Tidy, Write};

const HISTORY: [Act; 22] = [
    Read(0, 8),
    Write(WRITE, 3, 4),
    Write(FUA, REGION - 2, 5),
    Flush,
    Tidy,
    Tidy,
    Write(WRITE, 5, 4),
    Gone(1),
    Write(WRITE, 6, 2),
    Write(WRITE, 2 * REGION, 8),
    Flush,
    Write(FUA, 2 * REGION + 4, 8),
    Back(1),
    Write(WRITE, 3, 1),
    Flush,
    Tidy,
    Gone(0),
    Write(FUA, 4, 2),
    Back(0),
    Write(WRITE, 100, 60),
    Read(90, 100),
    Close,
];

/// Does as many steps as are given; returns whether there are more.
fn play(world: &mut World, with_state: bool, mut steps: usize, lifo: bool) -> bool {
    world.start(with_state, false).expect("a new mirror starts");
    let mut acts = HISTORY.iter();
    loop {
        while !world.todo.is_empty() {
            if steps == 0 {
                return true;
            }
            steps -= 1;
            let at = if lifo { world.todo.len() - 1 } else { 0 };
            world.step(at);
        }
        assert_eq!(world.halted, None);
        world.with(|engine| engine.allow_copies());
        if !world.todo.is_empty() {
            continue;
        }
        match acts.next() {
            None => return false,
            Some(Write(kind, lba, blocks)) => {
                world.submit(*kind, *lba, *blocks);
                // One that overlaps, so that some are under way together.
                world.submit(WRITE, lba + 1, 1);
                world.submit(OpKind::Read, *lba, *blocks);
            }
            Some(Flush) => world.submit(OpKind::Flush, 0, 0),
            Some(Read(lba, blocks)) => world.submit(OpKind::Read, *lba, *blocks),
            Some(Gone(leg)) => {
                world.submit(WRITE, 20, 3);
                world.gone(*leg);
            }
            Some(Back(leg)) => {
                world.stray.clear();
                world.back(*leg).expect("it is welcome");
            }
            Some(Tidy) => world.with(|engine| engine.tidy()),
            Some(Close) => world.with(|engine| engine.close()),
        }
    }
}

/// Everything is read and right, and then all legs come back and are equal.
fn check(world: &mut World, what: &str) {
    world.run();
    assert!(world.is_open && world.halted.is_none(), "{what}: it opens");
    for lba in [0, REGION - 3, 2 * REGION] {
        world.submit(OpKind::Read, lba, REGION as u32);
    }
    world.submit(WRITE, 7, 3);
    world.run();
    world.with(|engine| engine.allow_copies());
    world.run();
    for leg in 0..world.legs {
        assert_eq!(world.label(leg).format, world.format, "{what}");
        if !world.here[leg] || world.engine.as_ref().unwrap().durable().members >> leg & 1 == 0 {
            world.back(leg).unwrap_or_else(|e| panic!("{what}: {e}"));
            world.run();
        }
    }
    (0..BLOCKS / 64).for_each(|n| world.submit(OpKind::Read, n * 64, 64));
    world.run();
    let members = world.engine.as_ref().unwrap().durable().members;
    let in_sync: Vec<usize> = (0..world.legs).filter(|leg| members >> leg & 1 != 0).collect();
    assert_eq!(in_sync.len(), world.legs, "{what}: all are in sync again");
    assert!(
        in_sync.iter().all(|leg| world.disks[*leg].now == world.disks[in_sync[0]].now),
        "{what}: legs differ"
    );
    assert_eq!(world.failures, 0, "{what}: nothing failed");
}

/// Crashes after a number of steps in all ways, and starts again from every set of legs.
fn crash_after(kind: Kind, steps: usize, lifo: bool) -> (bool, usize, usize) {
    let Kind { format, hot, legs, min_legs, with_state } = kind;
    let (mut started, mut refused) = (0, 0);
    let mut played = World::of_format(format, legs, min_legs, with_state);
    played.hot = hot;
    let is_more = play(&mut played, with_state, steps, lifo);
    let fates: [fn(usize) -> Fate; 5] = [
        |_| Fate::Never,
        |_| Fate::Lands,
        |_| Fate::Torn,
        |at| if at % 2 == 0 { Fate::Lands } else { Fate::Never },
        |at| if at % 2 == 1 { Fate::Lands } else { Fate::Never },
    ];
    // Three legs have many more sets to start from: each step is tried with a part of the rest, in
    // turn.
    let (part, parts) = if legs == 3 { (steps % 3, 3) } else { (0, 1) };
    for (fate_number, fate) in fates.iter().enumerate() {
        for (lost_number, lost) in [0u8, 0b111, 0b001, 0b010].into_iter().enumerate() {
            if (fate_number + lost_number) % parts != part {
                continue;
            }
            for here in 1u8..1 << legs {
                for state_too in [true, false] {
                    if state_too && !with_state {
                        continue;
                    }
                    let mut world = played.remains();
                    world.crash(fate, |leg| lost >> leg & 1 != 0);
                    (0..legs).for_each(|leg| world.here[leg] = here >> leg & 1 != 0);
                    let what = format!(
                        "{kind:?}, crash after {steps} (lifo {lifo}), fate {fate_number}, caches {lost:03b}, legs {here:03b}, with state {state_too}"
                    );
                    let is_whole = here.count_ones() as usize == legs && state_too == with_state;
                    match world.start(state_too, false) {
                        Ok(()) => {
                            started += 1;
                            check(&mut world, &what);
                        }
                        Err(e) => {
                            refused += 1;
                            assert!(!is_whole, "{what}: {e}");
                            assert!(e.contains("force=on"), "{what}: it says what to do: {e}");
                        }
                    }
                }
            }
        }
    }
    (is_more, started, refused)
}

fn all(kind: Kind) {
    for lifo in [false, true] {
        let (mut steps, mut started, mut refused) = (0, 0, 0);
        loop {
            let (is_more, more_started, more_refused) = crash_after(kind, steps, lifo);
            (started, refused) = (started + more_started, refused + more_refused);
            if !is_more {
                break;
            }
            steps += 1;
        }
        eprintln!("{kind:?}: {steps} steps, {started} starts, {refused} refusals");
        assert!(steps > 60 && started > 2000 && refused > 2000);
    }
}

/// With all regions marked, if they are written to.
fn of(legs: usize, min_legs: u8, with_state: bool) -> Kind {
    Kind { format: Format::Three, hot: MIRROR_HOT_REGIONS, legs, min_legs, with_state }
}

#[test]
fn two_legs_with_a_state_file_survive_a_crash_at_each_step() {
    all(of(2, 1, true));
}

#[test]
fn two_legs_alone_survive_a_crash_at_each_step() {
    all(of(2, 1, false));
}

#[test]
fn three_legs_with_a_state_file_survive_a_crash_at_each_step() {
    all(of(3, 2, true));
}

#[test]
fn three_legs_alone_survive_a_crash_at_each_step() {
    all(of(3, 2, false));
}

#[test]
fn evictions_with_a_state_file_survive_a_crash_at_each_step() {
    all(Kind { hot: 1, ..of(2, 1, true) });
}

#[test]
fn evictions_without_one_survive_a_crash_at_each_step() {
    all(Kind { hot: 2, ..of(2, 1, false) });
}

#[test]
fn a_mirror_of_version_2_survives_a_crash_at_each_step_and_stays_one() {
    all(Kind { format: Format::Two, hot: 1, ..of(2, 1, true) });
    all(Kind { format: Format::Two, ..of(2, 1, false) });
}
