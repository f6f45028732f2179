//! The hot set: what is marked, what leaves, and in which order that becomes durable.

use super::version1::{drive, label, open, open_limited};
use super::world::{REGION, World};
use crate::mirror::bitmap::Bitmap;
use crate::mirror::engine::{Io, IoTarget, LegRole, MirrorEngine, MirrorOutput};
use crate::mirror::labels::FoundLeg;
use crate::mirror::record::MirrorRecord;
use crate::mirror::start::{first_area, first_record};
use crate::op::{OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use uuid::Uuid;

const WRITE: OpKind = OpKind::Write { fua: false };

/// An open mirror without marks, in which `hot` regions may be marked.
fn opened(hot: usize) -> World {
    let mut world = World::new(2, 1, true);
    world.hot = hot;
    world.start(true, false).unwrap();
    world.with(|engine| engine.allow_copies());
    world.run();
    for _ in 0..2 {
        world.with(|engine| engine.tidy());
        world.run();
    }
    assert_eq!(marked(&world), []);
    world
}

fn marked(world: &World) -> Vec<usize> {
    world.engine.as_ref().unwrap().marked().regions().collect()
}

fn write(world: &mut World, region: u64) {
    world.submit(WRITE, region * REGION, 1);
}

fn names(world: &World) -> Vec<&'static str> {
    let name = |io: &Io| match io {
        Io::Page { .. } => "page",
        Io::Write { .. } => "write",
        Io::Flush => "flush",
        _ => "other",
    };
    world.todo.iter().map(|(_, _, io)| name(io)).collect()
}

#[test]
fn a_region_leaves_after_a_flush_and_its_bit_with_the_page_of_the_next_one() {
    let mut world = opened(2);
    world.is_slow = true;
    for region in [0, 1] {
        write(&mut world, region);
        world.run();
    }
    assert_eq!(marked(&world), [0, 1]);
    write(&mut world, 1);
    write(&mut world, 2);
    assert_eq!(names(&world), ["write", "write"], "region 2 waits for room");
    assert_eq!(marked(&world), [1], "region 0 leaves, and no write begins there");
    world.step(0);
    world.step(0);
    assert_eq!(names(&world), [] as [&str; 0], "a loop may still write to region 0");
    world.unmark();
    assert_eq!(names(&world), ["flush", "flush"]);
    world.step(0);
    assert_eq!(names(&world), ["flush"], "all legs are flushed first");
    assert!(world.engine.as_ref().unwrap().maps.written.has(0));
    world.step(0);
    assert_eq!((names(&world), marked(&world)), (vec!["page"], vec![1]));
    world.step(0);
    assert_eq!((names(&world), marked(&world)), (vec!["write", "write"], vec![1, 2]));
    world.run();
    assert_eq!((world.users.len(), world.failures), (0, 0));
}

#[test]
fn a_write_to_a_region_that_leaves_waits_and_keeps_it() {
    let mut world = opened(1);
    world.is_slow = true;
    write(&mut world, 0);
    world.run();
    write(&mut world, 1);
    write(&mut world, 0);
    assert_eq!(names(&world), [] as [&str; 0], "both wait");
    world.unmark();
    world.step(0);
    world.step(0);
    assert!(world.engine.as_ref().unwrap().maps.written.has(0), "it is about to be written to");
    world.run();
    assert_eq!((world.users.len(), world.failures), (0, 0));
}

#[test]
fn a_flush_that_fails_clears_nothing_and_holds_nobody_up() {
    let mut world = opened(1);
    write(&mut world, 0);
    world.run();
    write(&mut world, 1);
    assert_eq!(names(&world), ["flush", "flush"]);
    (0..2).for_each(|_| world.fail(0, Outcome::Done(Status::new(StatusKind::Unsupported))));
    let engine = world.engine.as_ref().unwrap();
    assert!(engine.maps.written.has(0) && engine.maps.written.has(1), "one more than usual");
    assert!(names(&world).contains(&"page"));
    world.run();
    assert_eq!((world.users.len(), world.failures), (0, 0));
    assert_eq!(marked(&world).len(), 1, "the next flush worked");
}

#[test]
fn a_region_that_a_lost_leg_has_missed_may_leave() {
    let mut world = opened(1);
    write(&mut world, 0);
    world.run();
    write(&mut world, 1);
    world.fail(0, Outcome::Done(Status::new(StatusKind::Media)));
    world.run();
    let engine = world.engine.as_ref().unwrap();
    assert_eq!((engine.durable().members, world.users.len()), (0b10, 0));
    assert!(!engine.maps.written.has(0) && engine.maps.missed.has(0));
}

/// Or it would be in sync with a write in its cache that nobody remembers.
#[test]
fn a_leg_that_is_copied_to_is_flushed_as_well() {
    let mut world = World::new(3, 2, true);
    world.hot = 1;
    world.start(true, false).unwrap();
    world.with(|engine| engine.allow_copies());
    world.run();
    world.gone(2);
    world.run();
    write(&mut world, 0);
    world.run();
    world.stray.clear();
    world.back(2).unwrap();
    let role = |world: &World| world.engine.as_ref().unwrap().roles()[2];
    while role(&world) != LegRole::Copying {
        world.step(0);
    }
    write(&mut world, 1);
    let is_flush = |(_, target, io): &(u64, IoTarget, Io)| {
        matches!(io, Io::Flush) && matches!(target, IoTarget::Leg(_))
    };
    while world.todo.iter().filter(|one| is_flush(one)).count() < 3 {
        assert_eq!(role(&world), LegRole::Copying, "no leg is left out");
        let at = world.todo.iter().position(|one| !is_flush(one)).expect("something is to be done");
        world.step(at);
    }
    world.run();
    assert_eq!((role(&world), world.users.len()), (LegRole::Member, 0));
}

#[test]
fn none_has_to_leave_where_all_may_be_hot() {
    for hot in [3, 4096] {
        let mut world = opened(hot);
        for region in [0, 1, 2, 1, 0, 2] {
            write(&mut world, region);
            while !world.todo.is_empty() {
                assert!(!names(&world).contains(&"flush"));
                world.step(0);
            }
        }
        assert_eq!(marked(&world), [0, 1, 2]);
    }
}

#[test]
fn what_waits_meanwhile_shares_a_page_and_more_than_fit_never_wait_for_each_other() {
    let mut world = opened(4096);
    write(&mut world, 0);
    write(&mut world, 1);
    write(&mut world, 2);
    assert_eq!(names(&world), ["page"]);
    world.step(0);
    let pages = names(&world).iter().filter(|name| **name == "page").count();
    assert_eq!((pages, world.todo.len()), (1, 3), "one page for both others");
    world.run();
    let mut world = opened(1);
    world.submit(WRITE, 0, 3 * REGION as u32);
    world.submit(WRITE, 0, 1);
    world.run();
    assert_eq!((world.users.len(), world.failures), (0, 0), "it has three regions at a time");
}

#[test]
fn writes_that_wait_for_room_end_before_the_mirror_is_closed() {
    for is_slow in [false, true] {
        let mut world = opened(1);
        world.is_slow = is_slow;
        (0..3).for_each(|region| write(&mut world, region));
        world.with(|engine| engine.close());
        world.run();
        assert_eq!((world.users.len(), world.failures, world.is_closed), (0, 0, true));
        assert!(world.label(0).is_clean);
    }
}

#[test]
fn the_one_that_was_written_to_last_stays() {
    let mut world = opened(2);
    world.is_slow = true;
    write(&mut world, 0);
    world.run();
    write(&mut world, 1);
    world.run();
    for _ in 0..3 {
        write(&mut world, 1);
        world.run();
        write(&mut world, 0);
        world.run();
        write(&mut world, 2);
        world.run();
        assert!(marked(&world).len() <= 2, "{:?}", marked(&world));
        assert!(marked(&world).contains(&2));
    }
}

/// A mirror of 1,024 regions, closed and equal.
fn long() -> [Option<FoundLeg>; 3] {
    let first = first_record(Uuid::from_u128(1), 2, 1, 512, 64 << 20, 99);
    core::array::from_fn(|leg| {
        let record = MirrorRecord { leg: leg as u8, is_clean: true, ..first.clone() };
        (leg < 2).then(|| FoundLeg {
            url: format!("url-{leg}"),
            area: first_area(&record),
            block_bytes: 512,
        })
    })
}

/// An open mirror of 1,024 regions, none of which is marked. `hot` regions may be marked.
fn empty(hot: usize) -> (MirrorEngine, [Option<FoundLeg>; 3]) {
    let mut files = long();
    let mut engine = open_limited(&mut files, hot);
    for _ in 0..2 {
        engine.tidy();
        engine.unmarked();
        drive(&mut engine, &mut files);
    }
    (engine, files)
}

#[test]
fn no_region_leaves_a_working_set_that_just_fits() {
    let (mut engine, mut files) = empty(64);
    for region in 0..65 {
        engine.submit(WRITE, region * 3 * (64 << 10) / 512, 8);
        drive(&mut engine, &mut files);
        assert_eq!(engine.is_crowded(), region == 64, "after region {region}");
    }
    assert_eq!(engine.marked().count(), 64);
}

/// The writes of pages until the engine wants nothing.
fn pages(engine: &mut MirrorEngine) -> usize {
    let mut pages = 0;
    loop {
        let outputs = engine.outputs();
        if outputs.is_empty() {
            return pages;
        }
        for output in outputs {
            let MirrorOutput::Io { name, target, io } = output else { continue };
            pages += usize::from(matches!(io, Io::Page { .. }) && target == IoTarget::Leg(0));
            engine.done(name, Outcome::SUCCESS);
        }
    }
}

/// Everything succeeds but writes of pages, which are kept; the writes of users among it.
fn all_but_pages(engine: &mut MirrorEngine, pages: &mut Vec<u64>) -> usize {
    let mut writes = 0;
    loop {
        let outputs = engine.outputs();
        if outputs.is_empty() {
            return writes;
        }
        for output in outputs {
            let MirrorOutput::Io { name, io, .. } = output else { continue };
            match io {
                Io::Page { .. } => pages.push(name),
                io => {
                    writes += usize::from(matches!(io, Io::Write { .. }));
                    engine.done(name, Outcome::SUCCESS);
                }
            }
        }
    }
}

/// Its bit is still stored, and the next change clears it.
#[test]
fn a_region_that_was_evicted_during_a_change_is_not_marked() {
    let mut engine = empty(3).0;
    let mut pages = Vec::new();
    let want = |engine: &mut MirrorEngine, pages: &mut Vec<u64>, region: usize| {
        let mut regions = Bitmap::new(1024);
        regions.set(region);
        engine.want_all(&regions);
        if engine.is_crowded() && engine.evict() {
            engine.unmarked();
        }
        all_but_pages(engine, pages)
    };
    for region in [0, 10, 40] {
        want(&mut engine, &mut pages, region);
        for page in core::mem::take(&mut pages) {
            engine.done(page, Outcome::SUCCESS);
        }
    }
    assert_eq!(engine.marked().regions().collect::<Vec<_>>(), [0, 10, 40]);
    for region in [20, 30] {
        want(&mut engine, &mut pages, region);
    }
    let marked: Vec<usize> = engine.marked().regions().collect();
    assert_eq!((marked.len(), pages.is_empty()), (1, false), "a change is under way: {marked:?}");
    for gone in [0, 10, 40].into_iter().filter(|region| !marked.contains(region)) {
        engine.submit(WRITE, gone as u64 * (64 << 10) / 512, 8);
        assert_eq!(all_but_pages(&mut engine, &mut pages), 0, "region {gone} is not marked");
    }
    let mut writes = 0;
    while !pages.is_empty() {
        for page in core::mem::take(&mut pages) {
            engine.done(page, Outcome::SUCCESS);
        }
        writes += all_but_pages(&mut engine, &mut pages);
        if engine.is_crowded() && engine.evict() {
            engine.unmarked();
        }
        writes += all_but_pages(&mut engine, &mut pages);
    }
    assert_eq!(writes, 4, "both writes have reached both legs");
}

#[test]
fn regions_are_marked_ahead_of_a_sequential_writer() {
    let mut files = long();
    assert_eq!(label(files[0].as_ref().unwrap()).regions(), 1024);
    let mut engine = open(&mut files);
    let of_region = |region: u64| region * (64 << 10) / 512;
    let mut written = 0;
    for region in 0..200 {
        engine.submit(WRITE, of_region(region), 8);
        written += pages(&mut engine);
    }
    assert!(written < 20, "{written} pages for 200 regions");
    let marked = engine.marked().count();
    assert!((200..=216).contains(&marked), "{marked} are marked");
    let mut scattered = 0;
    for nth in 0..50 {
        engine.submit(WRITE, of_region(300 + nth * 13 % 700), 8);
        scattered += pages(&mut engine);
    }
    assert_eq!(scattered, 50, "nothing is marked ahead of anybody else");
    engine.close();
    drive(&mut engine, &mut files);
}
