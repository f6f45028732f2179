//! A host that uses each namespace by all gateways, and knows what it has written.

use super::rig::{NAMESPACE_MIB, NAMESPACES, Rig};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_endpoint::{ConnectOptions, Disk, PathOptions};
use weft_testing::wait::until;

/// Blocks of one write.
const BLOCKS: u64 = 8;
const BLOCK_BYTES: u64 = 512;

/// Blocks from one place to the next.
const STRIDE: u64 = 512;

/// Rounds that each disk does before a host counts as working.
const ENOUGH: u64 = 20;

/// What a disk has done.
#[derive(Default)]
struct Done {
    rounds: AtomicU64,
    /// The longest round since somebody asked, in milliseconds.
    longest_ms: AtomicU64,
}

pub struct Host {
    disks: Vec<(Arc<Done>, JoinHandle<()>)>,
    ends: Arc<AtomicBool>,
}

impl Host {
    /// A host of all namespaces.
    pub fn start(rig: &Rig) -> Self {
        let ends = Arc::<AtomicBool>::default();
        let start = |nsid| {
            let mut urls = rig.urls(nsid);
            let options = ConnectOptions {
                // No command is given up for its time alone: gateways that are lost close their
                // connections, or answer no keep-alive.
                io_timeout: Duration::from_secs(3600),
                paths: PathOptions { further: urls.split_off(1), ..PathOptions::default() },
                ..ConnectOptions::default()
            };
            let disk = Disk::open(&urls[0], &options).unwrap();
            let (done, ends) = (Arc::<Done>::default(), Arc::clone(&ends));
            let counted = Arc::clone(&done);
            (done, std::thread::spawn(move || write_and_read(&disk, &counted, &ends)))
        };
        Self { disks: (1..=NAMESPACES).map(start).collect(), ends }
    }

    /// Waits until all disks have done some more; prints how long they waited at most since the
    /// last time.
    pub fn works(&mut self, when: &str) {
        let before: Vec<u64> =
            self.disks.iter().map(|(done, _)| done.rounds.load(SeqCst)).collect();
        until("all disks are written and read", || {
            self.disks
                .iter()
                .for_each(|(_, thread)| assert!(!thread.is_finished(), "a disk has failed"));
            self.disks
                .iter()
                .zip(&before)
                .all(|((done, _), before)| done.rounds.load(SeqCst) >= before + ENOUGH)
        });
        let longest = self
            .disks
            .iter()
            .map(|(done, _)| done.longest_ms.swap(0, SeqCst))
            .max()
            .unwrap_or_default();
        println!("{when}: the longest write and read took {:.1} s", longest as f64 / 1000.0);
    }

    /// Ends it; nothing has failed.
    pub fn end(self) {
        self.ends.store(true, SeqCst);
        self.disks.into_iter().for_each(|(_, thread)| thread.join().unwrap());
    }
}

/// Data of a write that occurs nowhere else.
fn data(nth: u64) -> Vec<u8> {
    (nth + 1).to_le_bytes().repeat((BLOCKS * BLOCK_BYTES / 8) as usize)
}

/// Writes one place after the other, round and round, and reads what was written there before.
fn write_and_read(disk: &Disk, done: &Done, ends: &AtomicBool) {
    let places = (NAMESPACE_MIB << 20) / BLOCK_BYTES / STRIDE;
    let mut read = vec![0; (BLOCKS * BLOCK_BYTES) as usize];
    let mut check = |nth: u64| {
        disk.read(nth % places * STRIDE, &mut read).unwrap();
        let found = u64::from_le_bytes(read[..8].try_into().unwrap());
        assert!(read == data(nth), "write {nth} is lost; there is write {}", found.wrapping_sub(1));
    };
    let mut nth = 0;
    while !ends.load(SeqCst) {
        let begun = Instant::now();
        disk.write(nth % places * STRIDE, &data(nth)).unwrap();
        check(nth.saturating_sub(nth % 7));
        nth += 1;
        done.longest_ms.fetch_max(begun.elapsed().as_millis() as u64, SeqCst);
        done.rounds.store(nth, SeqCst);
    }
    (nth.saturating_sub(places)..nth).for_each(check);
}
