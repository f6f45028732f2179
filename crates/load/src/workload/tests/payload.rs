//! Payloads as a device receives them: fresh by default, and as each option asks.

use super::kept::{Kept, READ};
use super::*;
use std::collections::HashSet;

/// The payloads of all writes of these jobs, which run one after the other.
fn written(specs: &[JobSpec]) -> Vec<Vec<u8>> {
    let device = Arc::new(Kept::default());
    for spec in specs {
        assert!(go(device.clone(), spec.clone()).is_clean());
    }
    device.writes()
}

fn with(change: impl FnOnce(&mut Buffers)) -> JobSpec {
    let mut spec = JobSpec { rw: Rw::Write, iodepth: 4, size: Some(1 << 20), ..JobSpec::default() };
    change(&mut spec.buffers);
    spec
}

/// How many blocks of so many bytes differ.
fn distinct(writes: &[Vec<u8>], bytes: usize) -> usize {
    writes.iter().flat_map(|write| write.chunks(bytes)).collect::<HashSet<_>>().len()
}

/// The part that a compressor saves which remembers all that it has seen, and needs four bytes to
/// repeat eight or more.
fn saved(bytes: &[u8]) -> f64 {
    const SLOTS: u32 = 22;
    let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let slot = |at: usize| (word(at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS)) as usize;
    let mut seen = vec![usize::MAX; 1 << SLOTS];
    let (mut at, mut remembered, mut saved) = (0, 0, 0);
    while at + 8 <= bytes.len() {
        while remembered < at {
            seen[slot(remembered)] = remembered;
            remembered += 8;
        }
        let before = seen[slot(at)];
        let equal = match before < at {
            true => bytes[before..].iter().zip(&bytes[at..]).take_while(|(a, b)| a == b).count(),
            false => 0,
        };
        saved += if equal >= 8 { equal - 4 } else { 0 };
        at += if equal >= 8 { equal } else { 1 };
    }
    saved as f64 / bytes.len() as f64
}

/// Bits that a byte carries, by how often each value occurs.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let parts = counts.iter().map(|&count| f64::from(count) / bytes.len() as f64);
    parts.filter(|part| *part > 0.0).map(|part| -part * part.log2()).sum()
}

#[test]
fn the_measures_see_what_repeats() {
    let random = written(&[with(|_| ())]).concat();
    assert!(saved(&random) < 0.001 && entropy(&random) > 7.99);
    let twice = [&random[..], &random[3..], &random[..1000]].concat();
    assert!((0.45..0.55).contains(&saved(&twice)), "{}", saved(&twice));
    let (zeroes, few) =
        (vec![0; 10_000], (0..10_000u32).map(|n| (n % 16) as u8).collect::<Vec<_>>());
    assert!(saved(&zeroes) > 0.99 && entropy(&zeroes) == 0.0);
    assert!((entropy(&few) - 4.0).abs() < 0.01);
}

/// Four jobs in two runs, with sizes and depths of which some make payloads ahead.
#[test]
fn nothing_that_is_written_was_written_before() {
    for bs_bytes in [512, 4096, 65_536, 1 << 20] {
        for iodepth in [1, 32] {
            let spec = |rw| JobSpec {
                rw,
                bs_bytes,
                iodepth,
                numjobs: 4,
                threads: 2,
                size: Some(1 << 20),
                ..JobSpec::default()
            };
            let writes = written(&[spec(Rw::Write), spec(Rw::RandWrite)]);
            let all = writes.concat();
            let context = format!("blocks of {bs_bytes} at depth {iodepth}");
            assert_eq!((all.len(), distinct(&writes, 512)), (8 << 20, 8 << 11), "{context}");
            assert!(saved(&all) < 0.01, "{context}: {}", saved(&all));
            assert!(entropy(&all) > 7.999, "{context}: {}", entropy(&all));
        }
    }
}

#[test]
fn several_sizes_are_fresh_too() {
    let spec = |bssplit: &str| JobSpec {
        rw: Rw::RandWrite,
        bssplit: Some(bssplit.parse().unwrap()),
        iodepth: 8,
        size: Some(4 << 20),
        ..JobSpec::default()
    };
    let writes = written(&[spec("512/20:4k/40:64k/40"), spec("1m/50:3m/50")]);
    let bytes: usize = writes.iter().map(Vec::len).sum();
    assert_eq!(distinct(&writes, 512), bytes / 512);
}

/// What a read has left in the memory is not written back, nor is what the first read of each job
/// left there.
#[test]
fn a_job_that_reads_writes_nothing_of_it() {
    for bs_bytes in [4096, 65_536] {
        let mixed = JobSpec { rw: Rw::RandRw, bs_bytes, size: Some(8 << 20), ..with(|_| ()) };
        let kept = |change: fn(&mut Buffers)| {
            let JobSpec { buffers, .. } = with(change);
            written(&[JobSpec { buffers, ..mixed.clone() }])
        };
        let fresh = kept(|_| ());
        assert!(fresh.len() > 10 && distinct(&fresh, 512) == fresh.len() * bs_bytes as usize / 512);
        for writes in [kept(|b| b.scramble = Some(false)), kept(|b| b.refill = Some(false))] {
            let read = |write: &Vec<u8>| write.windows(64).any(|bytes| *bytes == [READ; 64]);
            assert!(writes.len() > 10 && !writes.iter().any(read));
        }
    }
}

#[test]
fn zeroes_and_patterns_are_all_there_is() {
    let writes = written(&[with(|b| b.zero = true)]);
    assert_eq!((writes.len(), &writes.concat()[..]), (256, &vec![0; 1 << 20][..]));
    let pattern = |b: &mut Buffers| b.pattern = "0xdeadbeef\"x\"".parse().ok();
    let cycle: Vec<u8> = [0xde, 0xad, 0xbe, 0xef, b'x'].into_iter().cycle().take(3 << 20).collect();
    let spec = JobSpec { bs_bytes: 3 << 20, size: Some(6 << 20), ..with(pattern) };
    for write in written(&[spec]) {
        assert!(write == cycle, "it begins again with each write, and only there");
    }
    let both = with(|b| (b.zero, b.compress_percent, b.pattern) = (true, 100, "7".parse().ok()));
    assert_eq!(written(&[both]).concat(), vec![7; 1 << 20]);
}

#[test]
fn parts_of_chunks_compress() {
    let chunks = |chunk: u32, percent: u8| {
        let mut spec = with(|b| (b.compress_percent, b.compress_chunk) = (percent, chunk));
        spec.bs_bytes = 65_536;
        written(&[spec])
    };
    for (chunk, percent, len) in
        [(512, 50, 512), (0, 25, 65_536), (4096, 90, 4096), (1 << 20, 50, 65_536)]
    {
        let writes = chunks(chunk, percent);
        let random = len * (100 - usize::from(percent)) / 100;
        for chunk in writes.iter().flat_map(|write| write.chunks(len)) {
            let (random, fixed) = chunk.split_at(random);
            assert!(fixed.iter().all(|&byte| byte == 0));
            assert!(random.iter().filter(|&&byte| byte == 0).count() * 20 < random.len().max(400));
        }
        let (part, all) = (f64::from(percent) / 100.0, writes.concat());
        assert!((saved(&all) - part).abs() < 0.05, "{chunk} {percent}: {}", saved(&all));
        assert_eq!(distinct(&writes, len), all.len() / len, "the random parts are fresh");
    }
    let pattern = with(|b| (b.compress_percent, b.pattern) = (60, "0xab".parse().ok()));
    let bytes = written(&[pattern]).concat();
    assert!(bytes.chunks(512).all(|chunk| chunk[204..].iter().all(|&byte| byte == 0xab)));
}

#[test]
fn a_percentage_of_the_writes_repeats() {
    // What repeats is drawn anew in each run: of fewer writes one run in a hundred lies outside.
    let size = Some(32 << 20);
    let part = |change: fn(&mut Buffers)| {
        let writes = written(&[JobSpec { size, ..with(change) }]);
        distinct(&writes, 4096) as f64 / writes.len() as f64
    };
    let around = |part: f64, expected: f64| (part - expected).abs() < 0.05;
    assert!(around(part(|b| b.dedupe_percent = 30), 0.7));
    assert!(around(part(|b| (b.dedupe_percent, b.compress_percent) = (80, 50)), 0.2));
    assert!(part(|b| b.dedupe_percent = 100) <= 1.0 / 8192.0);
    // The set is the first 163 of the writes that are new.
    let set = part(|b| (b.dedupe_percent, b.working_set_percent) = (80, Some(2)));
    assert!((0.18..0.27).contains(&set), "{set}");
    // What repeats does so whole, and the rest is fresh.
    let writes = written(&[JobSpec { size, bs_bytes: 65_536, ..with(|b| b.dedupe_percent = 50) }]);
    assert_eq!(distinct(&writes, 512), distinct(&writes, 65_536) * 128);
}

#[test]
fn buffers_that_keep_their_content_are_as_many_as_the_depth() {
    let same = written(&[with(|b| b.scramble = Some(false))]);
    assert_eq!((same.len(), distinct(&same, 4096)), (256, 4));
    let compressed = written(&[with(|b| (b.compress_percent, b.refill) = (50, Some(false)))]);
    assert_eq!(distinct(&compressed, 4096), 4);
}

#[test]
fn scrambled_blocks_differ_in_a_few_bytes() {
    for scrambled in [
        written(&[with(|b| b.scramble = Some(true))]),
        written(&[with(|b| b.refill = Some(false))]),
        written(&[with(|b| (b.zero, b.scramble) = (true, Some(true)))]),
    ] {
        assert_eq!(distinct(&scrambled, 512), 2048);
        assert!(saved(&scrambled.concat()) > 0.8, "{}", saved(&scrambled.concat()));
    }
    let zeroes = written(&[with(|b| (b.zero, b.scramble) = (true, Some(true)))]).concat();
    for (n, block) in (0u64..).zip(zeroes.chunks(512)) {
        let other = |at: usize| block[at..][..8] == (n * 512).to_le_bytes();
        assert!((0..8).any(|line| other(line * 64)), "block {n} has its offset");
        assert!(block.iter().filter(|&&byte| byte != 0).count() <= 24);
    }
}

/// Whatever writes carry, their blocks are checked, and differ by their headers at least.
#[test]
fn every_payload_verifies() {
    let changes: [fn(&mut Buffers); 7] = [
        |_| (),
        |b| b.zero = true,
        |b| b.pattern = "0xab".parse().ok(),
        |b| b.compress_percent = 50,
        |b| b.dedupe_percent = 50,
        |b| b.scramble = Some(false),
        |b| (b.refill, b.scramble) = (Some(false), Some(true)),
    ];
    for change in changes {
        for (rw, bs_bytes) in [(Rw::Write, 65_536), (Rw::RandRw, 4096)] {
            let verified = JobSpec { rw, bs_bytes, verify: Verify::Crc32c, ..with(change) };
            let context = format!("{:?}", verified.buffers);
            let report = go(Arc::new(Tricky::new(32 << 10, Trick::None)), verified.clone());
            let verify = report.verify().unwrap();
            let blocks = report.total(Direction::Write).bytes / 512;
            assert!(report.is_clean() && verify.blocks >= blocks, "{context}: {verify:?}");
            let writes = written(&[JobSpec { do_verify: false, rw: Rw::Write, ..verified }]);
            assert_eq!(distinct(&writes, 512), 2048, "{context}");
        }
    }
    let fresh = JobSpec { verify: Verify::Crc32c, do_verify: false, ..with(|_| ()) };
    let bodies: Vec<u8> =
        written(&[fresh]).concat().chunks(512).flat_map(|block| block[40..].to_vec()).collect();
    assert!(saved(&bodies) < 0.01, "{}", saved(&bodies));
}
