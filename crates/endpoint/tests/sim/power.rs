//! A power failure under each export: the simulated disk loses what was not flushed, and nothing
//! that was flushed or written with FUA.

use crate::sim::failing::Testbed;
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::scene::Setup;
use crate::sim::seeds;
use std::path::PathBuf;
use weft_block::time_limit::limited;
use weft_block::{OpKind, OpenOptions, open};
use weft_io::sim::Rng;

const BLOCKS: u64 = 2048;
/// Bytes of a command of the stage, and its blocks.
const BYTES: usize = 1024;
const STEP: u64 = 2;
const WRITES: u64 = 60;

/// What became of the writes that nothing made durable.
#[derive(Default)]
struct Lost {
    writes: usize,
}

/// A file of the test's own, removed at its end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes, some of them with FUA, and flushes; then the power fails.
fn power_fails(protocol: Protocol, seed: u64, lost: &mut Lost) {
    let name = format!("weft-power-{}-{protocol:?}-{seed}", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    let url = format!("file:{},size={}", scratch.0.display(), BLOCKS * 512);
    let device = limited(open(&url, &OpenOptions::default()).unwrap(), crate::sim::failing::LIMIT);
    let mut stage = Testbed::with(protocol, Setup::new(seed, device));
    let mut rng = Rng::new(seed);
    let (mut durable, mut volatile) = (vec![false; WRITES as usize], 0..0);
    for n in 0..WRITES {
        let fua = rng.one_in(4);
        stage.ask_at(OpKind::Write { fua }, n * STEP, n as u8 + 1);
        assert!(stage.answer().outcome.is_success());
        durable[n as usize] = fua;
        volatile.end = n as usize + 1;
        if rng.one_in(8) {
            stage.ask(OpKind::Flush);
            assert!(stage.answer().outcome.is_success());
            durable[volatile.clone()].fill(true);
            volatile.start = volatile.end;
        }
    }
    let host = stage.scene.target_host;
    stage.scene.world.crash(host);
    let stored = std::fs::read(&scratch.0).unwrap();
    for (n, durable) in durable.into_iter().enumerate() {
        let block = &stored[n * BYTES..][..BYTES];
        let whole = block.iter().all(|byte| *byte == n as u8 + 1);
        assert!(whole || !durable, "{protocol:?}, seed {seed}: write {n} was durable and is lost");
        lost.writes += usize::from(!whole);
    }
}

#[test]
fn what_was_flushed_or_written_with_fua_survives_a_power_failure_behind_each_export() {
    let mut lost = Lost::default();
    for seed in seeds(5) {
        PROTOCOLS.into_iter().for_each(|protocol| power_fails(protocol, seed, &mut lost));
    }
    if std::env::var_os("WEFT_SEED").is_none() {
        assert!(lost.writes > 20, "the disk loses what nobody flushed: {}", lost.writes);
    }
}
