//! Disks that are slow, fail, and lose what was not flushed.

use crate::sim::{all_seeds, seeds};
use core::time::Duration;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_io::disk::{DiskDone, DiskFile, DiskKind, DiskOp};
use weft_io::sim::{HostId, Rng, World};
use weft_io::{Activity, Driver, DriverId, Handle, LoopConfig};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 16;
const LIMIT: Duration = Duration::from_secs(100_000);

/// A file that is removed in the end.
struct Scratch {
    path: PathBuf,
    file: Arc<File>,
}

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("weft-sim-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(BLOCKS * BLOCK as u64).unwrap();
        Self { path, file: Arc::new(file) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Jobs of a [`User`], and their outcomes.
#[derive(Default)]
struct Jobs {
    waiting: VecDeque<DiskOp>,
    done: Vec<DiskDone>,
    driver: Option<DriverId>,
}

struct User {
    disk: DiskFile,
    jobs: Rc<RefCell<Jobs>>,
}

impl Driver for User {
    fn work(&mut self, _: &Handle) -> Activity {
        let jobs = &mut *self.jobs.borrow_mut();
        self.disk.reap(&mut jobs.done);
        while let Some(op) = jobs.waiting.pop_front() {
            if let Err(op) = self.disk.submit(op) {
                jobs.waiting.push_front(op);
                break;
            }
        }
        Activity::Idle
    }
}

struct Rig {
    world: World,
    host: HostId,
    scratch: Scratch,
    on: Handle,
    jobs: Rc<RefCell<Jobs>>,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        let host = world.host("10.0.0.1");
        let scratch = Scratch::new();
        let (on, jobs) = start(&mut world, host, &scratch);
        Self { world, host, scratch, on, jobs }
    }

    fn restart(&mut self) {
        (self.on, self.jobs) = start(&mut self.world, self.host, &self.scratch);
    }

    fn op(&self, kind: DiskKind, block: u64, fill: u8) -> DiskOp {
        let mut op = DiskOp {
            kind,
            offset: block * BLOCK as u64,
            len: BLOCK as u64,
            data: Default::default(),
            user: block,
        };
        if matches!(kind, DiskKind::Read | DiskKind::Write { .. }) {
            let mut buf = self.on.pool().take(BLOCK).unwrap();
            buf.fill(fill);
            op.data.push(buf.into());
        }
        op
    }

    fn submit(&self, ops: impl IntoIterator<Item = DiskOp>) {
        let mut jobs = self.jobs.borrow_mut();
        jobs.waiting.extend(ops);
        self.on.wake(jobs.driver.unwrap());
    }

    fn run(&mut self, ops: Vec<DiskOp>) -> Vec<DiskDone> {
        let count = ops.len();
        self.submit(ops);
        let jobs = Rc::clone(&self.jobs);
        assert!(self.world.run_until(|_| jobs.borrow().done.len() == count, LIMIT));
        core::mem::take(&mut self.jobs.borrow_mut().done)
    }

    fn write_all(&mut self, fill: u8, dsync: bool) -> Vec<DiskDone> {
        let ops = (0..BLOCKS).map(|b| self.op(DiskKind::Write { dsync }, b, fill)).collect();
        self.run(ops)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let sync = self.op(DiskKind::Sync, 0, 0);
        self.run(vec![sync]).remove(0).result
    }

    /// The content, in sectors.
    fn sectors(&mut self) -> Vec<u8> {
        let ops = (0..BLOCKS).map(|b| self.op(DiskKind::Read, b, 0xee)).collect();
        let mut done = self.run(ops);
        done.sort_by_key(|d| d.op.offset);
        let sectors = done.iter().flat_map(|d| d.op.data[0].chunks(512));
        sectors
            .map(|sector| {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is torn");
                sector[0]
            })
            .collect()
    }
}

fn start(world: &mut World, host: HostId, scratch: &Scratch) -> (Handle, Rc<RefCell<Jobs>>) {
    let id = world.add_loop(host, &LoopConfig::default());
    let on = world.handle(id);
    let jobs = Rc::new(RefCell::new(Jobs::default()));
    let theirs = Rc::clone(&jobs);
    let driver = on.spawn(|id| {
        let disk = on.disk().open(&on, Arc::clone(&scratch.file), id).unwrap();
        User { disk, jobs: theirs }
    });
    jobs.borrow_mut().driver = Some(driver);
    assert_eq!(on.disk().backend_name(), Some("simulated"));
    (on, jobs)
}

#[test]
fn what_is_written_is_read_and_survives_once_flushed() {
    for seed in seeds(50) {
        let mut rig = Rig::new(seed);
        assert!(rig.write_all(1, false).iter().all(|d| d.result.is_ok()));
        assert!(rig.sectors().iter().all(|s| *s == 1));
        rig.flush().unwrap();
        rig.write_all(2, true);
        let zero = rig.op(DiskKind::WriteZeroes { free: true, dsync: true }, 3, 0);
        rig.run(vec![zero]);
        rig.world.crash(rig.host);
        rig.world.power_on(rig.host);
        rig.restart();
        let found = rig.sectors();
        assert!(
            found.iter().enumerate().all(|(i, s)| *s == if i / 8 == 3 { 0 } else { 2 }),
            "{found:?}"
        );
    }
}

#[test]
fn what_was_not_flushed_is_lost_or_not() {
    let (mut kept, mut lost) = (0, 0);
    for seed in seeds(50) {
        let mut rig = Rig::new(seed);
        rig.write_all(1, false);
        rig.flush().unwrap();
        rig.write_all(2, false);
        let discard = rig.op(DiskKind::Discard, 0, 0);
        rig.run(vec![discard]);
        rig.world.crash(rig.host);
        rig.world.power_on(rig.host);
        rig.restart();
        let found = rig.sectors();
        assert!(found[..8].iter().all(|s| [0, 1, 2].contains(s)), "{found:?}");
        assert!(found[8..].iter().all(|s| [1, 2].contains(s)), "{found:?}");
        kept += found.iter().filter(|s| **s == 2).count();
        lost += found.iter().filter(|s| **s == 1).count();
    }
    assert!(!all_seeds() || kept > 0 && lost > 0, "{kept} kept, {lost} lost");
}

#[test]
fn a_flush_does_not_cover_what_is_in_flight_with_it() {
    let mut lost = 0;
    for seed in seeds(50) {
        let mut rig = Rig::new(seed);
        rig.world.set_disk(rig.host, |disk| disk.depth = 100);
        rig.write_all(1, true);
        let mut ops: Vec<_> =
            (0..BLOCKS).map(|b| rig.op(DiskKind::Write { dsync: false }, b, 2)).collect();
        ops.push(rig.op(DiskKind::Sync, 0, 0));
        rig.run(ops);
        rig.world.crash(rig.host);
        rig.world.power_on(rig.host);
        rig.restart();
        lost += rig.sectors().iter().filter(|s| **s == 1).count();
    }
    assert!(!all_seeds() || lost > 0);
}

#[test]
fn a_killed_process_loses_nothing_that_was_done() {
    for seed in seeds(50) {
        let mut rig = Rig::new(seed);
        rig.write_all(1, false);
        rig.submit(
            (0..BLOCKS).map(|b| rig.op(DiskKind::Write { dsync: true }, b, 2)).collect::<Vec<_>>(),
        );
        rig.world.run_for(Duration::from_micros(200));
        let done = rig.jobs.borrow().done.iter().map(|d| d.op.user).collect::<Vec<_>>();
        rig.world.kill(rig.host);
        rig.restart();
        let found = rig.sectors();
        for (i, sector) in found.iter().enumerate() {
            let was_done = done.contains(&(i as u64 / 8));
            assert!(*sector == 2 || *sector == 1 && !was_done, "{i}: {sector}");
        }
    }
}

#[test]
fn errors_are_told_and_delays_pass_in_virtual_time() {
    let mut failed = 0;
    for seed in seeds(50) {
        let mut rig = Rig::new(seed);
        rig.world.set_disk(rig.host, |disk| {
            disk.error_one_in = 4;
            disk.delay = (Duration::from_secs(60), Duration::from_secs(120));
            disk.depth = 5;
        });
        let begun = rig.world.now();
        let done = rig.write_all(1, false);
        let errors: Vec<_> = done.iter().filter_map(|d| d.result.as_ref().err()).collect();
        failed += errors.len();
        assert!(
            done.iter().all(|d| d.op.kind == DiskKind::Write { dsync: false }),
            "operations come back as they were"
        );
        // Sixteen operations, five at a time: four rounds, though the rounds overlap.
        let took = rig.world.now() - begun;
        assert!(
            took >= Duration::from_secs(4 * 60) && took < Duration::from_secs(16 * 120),
            "{took:?}"
        );
    }
    assert!(!all_seeds() || (100..300).contains(&failed), "{failed} of 800");
}

#[test]
fn a_read_behind_the_end_fails() {
    let mut rig = Rig::new(1);
    let read = rig.op(DiskKind::Read, BLOCKS, 0);
    let result = rig.run(vec![read]).remove(0).result;
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn one_seed_is_one_history() {
    let run = |seed| {
        let mut rig = Rig::new(seed);
        let mut rng = Rng::new(seed);
        let kinds =
            [DiskKind::Read, DiskKind::Write { dsync: false }, DiskKind::Sync, DiskKind::Discard];
        let ops = (0..100).map(|_| rig.op(*rng.pick(&kinds), rng.below(BLOCKS + 1), 7)).collect();
        let done = rig.run(ops);
        let order: Vec<_> = done
            .iter()
            .map(|d| (d.op.user, d.result.as_ref().map_err(|e| e.kind()).copied()))
            .collect();
        (order, rig.world.trace_hash(), rig.world.now())
    };
    for seed in seeds(20) {
        assert_eq!(run(seed), run(seed));
    }
}
