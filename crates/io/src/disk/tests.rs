//! One suite for every backend, and what is particular to one.

use super::*;
use crate::event_loop::DriverId;
use crate::event_loop::{Activity, Driver, Loop, LoopConfig};
use crate::limits::DISK_OPS_PER_FILE;
use crate::segment::Segments;
use core::time::Duration;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file that is removed in the end.
struct Scratch {
    path: PathBuf,
    file: Arc<File>,
}

impl Scratch {
    fn new(len: u64) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("weft-disk-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        make_sparse(&file).unwrap();
        file.set_len(len).unwrap();
        Self { path, file: Arc::new(file) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

struct Owner;

impl Driver for Owner {
    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// A loop that sleeps at once, so that every completion has to wake it, and a file on it.
struct Rig {
    event_loop: Loop,
    disk: Option<DiskFile>,
    owner: DriverId,
}

impl Rig {
    fn new(mode: DiskMode, file: &Arc<File>) -> Self {
        let config = LoopConfig { disk: mode, spin: Duration::ZERO, ..LoopConfig::default() };
        let event_loop = Loop::new(config).unwrap();
        let owner = event_loop.handle().spawn(|_| Owner);
        let on = event_loop.handle().clone();
        let disk = on.disk().open(&on, Arc::clone(file), owner).unwrap();
        Self { event_loop, disk: Some(disk), owner }
    }

    fn op(&self, kind: DiskKind, offset: u64, pieces: &[&[u8]]) -> DiskOp {
        let pool = self.event_loop.handle().pool();
        let segment = |piece: &&[u8]| {
            let mut buf = pool.take(piece.len()).unwrap();
            buf.copy_from_slice(piece);
            buf.into()
        };
        let data: Segments = pieces.iter().map(segment).collect();
        let len = crate::segment::total_len(&data) as u64;
        DiskOp { kind, offset, len, data, user: 0 }
    }

    fn submit(&mut self, op: DiskOp) {
        self.disk.as_mut().unwrap().submit(op).unwrap();
    }

    /// Runs the loop, sleeps included, until nothing is in flight.
    fn finish(&mut self) -> Vec<DiskDone> {
        let mut done = Vec::new();
        let give_up = self.event_loop.handle().clock() + Duration::from_secs(60);
        self.event_loop.handle().wake_at(self.owner, give_up);
        while self.disk.as_ref().unwrap().in_flight() > 0 {
            let _ = self.event_loop.turn(true).unwrap();
            self.disk.as_mut().unwrap().reap(&mut done);
            assert!(self.event_loop.handle().now() < give_up, "nothing woke the loop");
        }
        done
    }

    fn one(&mut self, op: DiskOp) -> (DiskOp, io::Result<()>) {
        self.submit(op);
        let DiskDone { op, result } = self.finish().pop().unwrap();
        (op, result)
    }

    fn bare(&mut self, kind: DiskKind, offset: u64, len: u64) -> io::Result<()> {
        self.one(DiskOp { kind, offset, len, data: Segments::new(), user: 0 }).1
    }

    fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        let (op, result) = self.one(self.op(DiskKind::Read, offset, &[&vec![0xee; len]]));
        result.unwrap();
        op.data[0].to_vec()
    }
}

const WRITE: DiskKind = DiskKind::Write { dsync: false };

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251 + seed) as u8).collect()
}

fn reads_and_writes(mode: DiskMode) {
    let scratch = Scratch::new(1 << 20);
    let mut rig = Rig::new(mode, &scratch.file);
    let text = bytes(300_000, 1);
    let (op, result) = rig.one(rig.op(
        WRITE,
        1000,
        &[&text[..100_000], &text[100_000..100_001], &text[100_001..]],
    ));
    result.unwrap();
    assert_eq!((op.data.len(), &op.data[2][..]), (3, &text[100_001..]));
    assert_eq!(rig.read(1000, 300_000), text);
    rig.one(rig.op(DiskKind::Write { dsync: true }, 0, &[&[7; 512]])).1.unwrap();
    rig.bare(DiskKind::Sync, 0, 0).unwrap();
    assert_eq!(rig.read(0, 512), [7; 512]);
    assert_eq!(std::fs::read(&scratch.path).unwrap()[1000..301_000], text);
    let (op, result) = rig.one(rig.op(DiskKind::Read, 1000, &[&[0; 5000], &[0; 200_000]]));
    result.unwrap();
    assert!(op.data[0][..] == text[..5000] && op.data[1][..] == text[5000..205_000]);
}

fn discards_and_zeroes(mode: DiskMode) {
    let scratch = Scratch::new(1 << 20);
    let mut rig = Rig::new(mode, &scratch.file);
    let full = vec![9; 1 << 20];
    rig.one(rig.op(WRITE, 0, &[&full])).1.unwrap();
    rig.bare(DiskKind::WriteZeroes { free: false, dsync: true }, 4096, 300_000).unwrap();
    rig.bare(DiskKind::WriteZeroes { free: true, dsync: false }, 400_000, 512).unwrap();
    let discarded = match rig.bare(DiskKind::Discard, 512 << 10, 256 << 10) {
        Err(e) if e.kind() == io::ErrorKind::Unsupported => 0,
        other => other.map(|()| 256 << 10).unwrap(),
    };
    let zero = |at: usize| {
        (4096..304_096).contains(&at)
            || (400_000..400_512).contains(&at)
            || (512 << 10..(512 << 10) + discarded).contains(&at)
    };
    let now = rig.read(0, 1 << 20);
    assert!(now.iter().enumerate().all(|(at, &byte)| byte == if zero(at) { 0 } else { 9 }));
}

fn many_in_flight(mode: DiskMode) {
    let scratch = Scratch::new(16 << 20);
    let mut rig = Rig::new(mode, &scratch.file);
    let mut refused = 0;
    let mut done = Vec::new();
    for n in 0..2000u64 {
        let block = n.to_le_bytes().repeat(512);
        let mut op = DiskOp { user: n, ..rig.op(WRITE, n * 4096, &[&block]) };
        while let Err(back) = rig.disk.as_mut().unwrap().submit(op) {
            op = back;
            refused += 1;
            assert_eq!(rig.disk.as_ref().unwrap().in_flight(), DISK_OPS_PER_FILE);
            let _ = rig.event_loop.turn(true).unwrap();
            rig.disk.as_mut().unwrap().reap(&mut done);
        }
    }
    done.extend(rig.finish());
    assert!(refused > 0 && done.iter().all(|d| d.result.is_ok()));
    let mut names: Vec<_> = done.iter().map(|d| d.op.user).collect();
    names.sort_unstable();
    assert!(names == (0..2000).collect::<Vec<_>>());
    for n in (0..2000u64).step_by(97) {
        assert_eq!(rig.read(n * 4096, 4096), n.to_le_bytes().repeat(512));
    }
}

fn memory_survives_a_dropped_file(mode: DiskMode) {
    let scratch = Scratch::new(8 << 20);
    let mut rig = Rig::new(mode, &scratch.file);
    for n in 0..100 {
        let op = rig.op(WRITE, n * 65_536, &[&[n as u8; 65_536]]);
        rig.submit(op);
    }
    drop(rig.disk.take());
    let on = rig.event_loop.handle().clone();
    let give_up = on.clock() + Duration::from_secs(60);
    while on.pool().taken_bytes() > 0 {
        assert!(on.clock() < give_up, "memory was not given back");
        on.wake_at(rig.owner, on.now() + Duration::from_millis(1));
        let _ = rig.event_loop.turn(true).unwrap();
    }
    rig.disk = Some(on.disk().open(&on, Arc::clone(&scratch.file), rig.owner).unwrap());
    assert_eq!(rig.read(99 * 65_536, 65_536), [99; 65_536]);
    let last = rig.op(WRITE, 0, &[&[1; 65_536]]);
    rig.submit(last);
    let _ = rig.event_loop.turn(false).unwrap();
    drop(rig);
}

fn the_end_of_a_file_is_an_error(mode: DiskMode) {
    let scratch = Scratch::new(10_000);
    let mut rig = Rig::new(mode, &scratch.file);
    for (offset, len) in [(9_999, 2), (10_000, 1), (4096, 8192), (1 << 40, 512)] {
        let (_, result) = rig.one(rig.op(DiskKind::Read, offset, &[&vec![0; len]]));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{len} at {offset}");
    }
    assert_eq!(rig.read(9_999, 1), [0]);
    let nonsense = rig.op(DiskKind::Read, u64::MAX - 1, &[&[0; 8]]);
    assert_eq!(rig.one(nonsense).1.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    let nothing = rig.op(DiskKind::Read, 20_000, &[]);
    rig.one(nothing).1.unwrap();
}

fn errors_are_told(mode: DiskMode) {
    let scratch = Scratch::new(8192);
    let read_only = Arc::new(File::open(&scratch.path).unwrap());
    let mut rig = Rig::new(mode, &read_only);
    assert!(rig.one(rig.op(WRITE, 0, &[&[0; 4096]])).1.is_err());
    assert_eq!(rig.read(0, 100), [0; 100]);
}

#[cfg(target_os = "linux")]
fn a_full_disk_is_told(mode: DiskMode) {
    let full = Arc::new(File::options().write(true).open("/dev/full").unwrap());
    let mut rig = Rig::new(mode, &full);
    let (_, result) = rig.one(rig.op(WRITE, 0, &[&[0; 4096]]));
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[cfg(target_os = "linux")]
fn direct_files(mode: DiskMode) {
    use std::os::unix::fs::OpenOptionsExt;
    let scratch = Scratch::new(64 << 10);
    let opened =
        File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(&scratch.path);
    let Ok(file) = opened else {
        let directory = scratch.path.display();
        return weft_testing::skip(format!("no O_DIRECT in {directory}"));
    };
    let mut rig = Rig::new(mode, &Arc::new(file));
    let text = bytes(8192, 3);
    rig.one(rig.op(DiskKind::Write { dsync: true }, 4096, &[&text[..4096], &text[4096..]]))
        .1
        .unwrap();
    assert_eq!(rig.read(4096, 8192), text);
    scratch.file.set_len(6_000).unwrap();
    let (_, result) = rig.one(rig.op(DiskKind::Read, 4096, &[&[0; 8192]]));
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    rig.bare(DiskKind::WriteZeroes { free: false, dsync: true }, 0, 4096).unwrap();
}

fn two_files_share_a_loop(mode: DiskMode) {
    let (one, two) = (Scratch::new(8192), Scratch::new(8192));
    let mut rig = Rig::new(mode, &one.file);
    let on = rig.event_loop.handle().clone();
    let live = on.live_drivers();
    let mut other = on.disk().open(&on, Arc::clone(&two.file), rig.owner).unwrap();
    assert_eq!(on.live_drivers(), live);
    other.submit(rig.op(WRITE, 0, &[&[2; 4096]])).unwrap();
    rig.one(rig.op(WRITE, 0, &[&[1; 4096]])).1.unwrap();
    let mut done = Vec::new();
    while other.in_flight() > 0 {
        let _ = rig.event_loop.turn(true).unwrap();
        other.reap(&mut done);
    }
    assert_eq!(std::fs::read(&one.path).unwrap()[0], 1);
    assert_eq!(std::fs::read(&two.path).unwrap()[0], 2);
    assert_eq!(on.counters().snapshot().disk_completions, 2);
}

macro_rules! suite {
    ($module:ident, $mode:expr, $($(#[$attribute:meta])* $test:ident,)*) => {
        mod $module {
            use super::*;
            $(#[test] $(#[$attribute])* fn $test() { super::$test($mode) })*
        }
    };
}

macro_rules! suites {
    ($($module:ident, $mode:expr;)*) => {
        $(suite! {
            $module, $mode,
            reads_and_writes, discards_and_zeroes, many_in_flight, memory_survives_a_dropped_file, the_end_of_a_file_is_an_error,
            errors_are_told, two_files_share_a_loop,
            #[cfg(target_os = "linux")] a_full_disk_is_told,
            #[cfg(target_os = "linux")] direct_files,
        })*
    };
}

suites! { auto, DiskMode::Auto; threads, DiskMode::Threads; }

#[test]
fn threads_stand_in_for_a_ring_that_is_not_allowed() {
    let event_loop = Loop::new(LoopConfig::default()).unwrap();
    let refused = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
    let threads = || -> Rc<dyn DiskBackend> { super::threads::Threads::start(event_loop.handle()) };
    assert_eq!(choose(DiskMode::Auto, refused(), threads).unwrap().name(), "threads");
    let error = choose(DiskMode::Uring, refused(), threads).err().unwrap();
    assert!(
        error.kind() == io::ErrorKind::PermissionDenied
            && error.to_string().contains("--disk-io threads"),
        "{error}"
    );
}

#[cfg(target_os = "linux")]
mod uring_only {
    use super::*;

    fn allowed() -> bool {
        let event_loop =
            Loop::new(LoopConfig { disk: DiskMode::Uring, ..LoopConfig::default() }).unwrap();
        let on = event_loop.handle();
        let owner = on.spawn(|_| Owner);
        match on.disk().open(on, Arc::new(File::open("/dev/null").unwrap()), owner) {
            Ok(_) => true,
            Err(e) => {
                assert!(e.to_string().contains("--disk-io"), "{e}");
                weft_testing::skip(e);
                false
            }
        }
    }

    #[test]
    fn eight_operations_are_one_system_call() {
        if !allowed() {
            return;
        }
        let scratch = Scratch::new(1 << 20);
        let mut rig = Rig::new(DiskMode::Uring, &scratch.file);
        for n in 0..64 {
            let op = rig.op(WRITE, n * 4096, &[&[1; 4096]]);
            rig.submit(op);
        }
        let _ = rig.event_loop.turn(false).unwrap();
        assert_eq!(rig.event_loop.handle().counters().snapshot().disk_enters, 64 / 8);
        assert_eq!(rig.finish().len(), 64);
        assert_eq!(rig.event_loop.handle().disk().backend_name(), Some("io_uring"));
    }
}

#[cfg(not(target_os = "linux"))]
#[test]
fn uring_is_refused_with_a_way_out() {
    let event_loop =
        Loop::new(LoopConfig { disk: DiskMode::Uring, ..LoopConfig::default() }).unwrap();
    let on = event_loop.handle();
    let owner = on.spawn(|_| Owner);
    let scratch = Scratch::new(512);
    let error = on.disk().open(on, Arc::clone(&scratch.file), owner).err().unwrap();
    assert!(error.to_string().contains("--disk-io"), "{error}");
}

#[test]
fn looking_for_holes_does_not_modify_a_file() {
    let scratch = Scratch::new(8192);
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    scratch.file.set_modified(long_ago).unwrap();
    let _ = can_discard(&scratch.file, 8192);
    assert_eq!(scratch.file.metadata().unwrap().modified().unwrap(), long_ago);
    assert_eq!(scratch.file.metadata().unwrap().len(), 8192);
}
