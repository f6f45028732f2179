//! Checks of a device with one user at a time.

use super::rig::Rig;
use super::worker::TestOp;
use crate::op::{OpKind, Outcome};
use crate::outcome::status::StatusKind;

const WRITE: OpKind = OpKind::Write { fua: false };

/// Bytes that differ from place to place and from seed to seed.
pub(super) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..len.div_ceil(8)).flat_map(|_| next()).take(len).collect()
}

fn bare(kind: OpKind, lba: u64, blocks: u32) -> TestOp {
    TestOp { kind, lba, blocks, data: Vec::new(), cuts: Vec::new() }
}

pub(super) fn geometry(rig: &Rig) {
    let geometry = rig.geometry();
    assert!(geometry.block_bytes >= 512 && geometry.block_bytes.is_power_of_two());
    assert!(geometry.bytes() >= 4 << 20, "the device is too small for this test");
    assert!(
        geometry.max_transfer_bytes.is_multiple_of(geometry.block_bytes)
            && geometry.max_transfer_bytes > 0
    );
    assert!(
        geometry.optimal_blocks > 0
            && geometry.atomic.power_fail_blocks > 0
            && geometry.atomic.write_blocks > 0
    );
}

pub(super) fn reads(rig: &Rig) {
    let geometry = rig.geometry();
    let most = geometry.max_transfer_bytes / geometry.block_bytes;
    for (lba, blocks) in [
        (0, 1),
        (1, 2),
        (0, most),
        (geometry.blocks - 1, 1),
        (geometry.blocks - u64::from(most), most),
    ] {
        rig.read(0, lba, blocks);
    }
    assert_eq!(rig.one(0, bare(OpKind::Flush, 0, 0)), []);
}

pub(super) fn refusals(rig: &Rig) {
    let (blocks, size) = (rig.geometry().blocks, rig.block_bytes());
    for (lba, count) in
        [(blocks, 1), (blocks - 1, 2), (u64::MAX, 1), (u64::MAX - 1, 2), (blocks * 2, 8)]
    {
        rig.fails(0, rig.request(OpKind::Read, lba, vec![0; count * size]), StatusKind::OutOfRange);
    }
    if rig.features().write {
        rig.fails(0, rig.request(WRITE, blocks, vec![0; size]), StatusKind::OutOfRange);
        rig.fails(0, bare(OpKind::Discard, blocks - 1, 2), StatusKind::OutOfRange);
    } else {
        rig.fails(0, rig.request(WRITE, 0, vec![0; size]), StatusKind::WriteProtected);
        rig.fails(0, bare(OpKind::Discard, 0, 1), StatusKind::WriteProtected);
    }
}

pub(super) fn sizes_and_places(rig: &Rig) {
    let (geometry, size) = (rig.geometry(), rig.block_bytes());
    let most = (geometry.max_transfer_bytes as usize) / size;
    let end = geometry.blocks;
    let lengths = [1, 2, 3, 7, 8, 9, geometry.optimal_blocks as usize, most - 1, most]
        .into_iter()
        .filter(|&n| n > 0 && n <= most);
    for (round, length) in lengths.enumerate() {
        for lba in [0, 1, 5, end - length as u64] {
            let around =
                (lba.saturating_sub(1), (length as u64 + 2).min(end - lba.saturating_sub(1)));
            let data = pattern(length * size, lba + round as u64);
            let before = pattern(around.1 as usize * size, 99 + round as u64);
            write_long(rig, around.0, &before);
            rig.write(0, lba, &data);
            let mut expected = before;
            let at = (lba - around.0) as usize * size;
            expected[at..at + data.len()].copy_from_slice(&data);
            assert!(
                read_long(rig, around.0, expected.len()) == rig.kept(&expected),
                "{length} blocks at {lba}"
            );
        }
    }
}

/// Writes any number of blocks, in several operations where one is not enough.
fn write_long(rig: &Rig, lba: u64, data: &[u8]) {
    let most = rig.geometry().max_transfer_bytes as usize;
    let parts = data.chunks(most).enumerate();
    parts.for_each(|(n, part)| rig.write(0, lba + (n * most / rig.block_bytes()) as u64, part));
}

fn read_long(rig: &Rig, lba: u64, len: usize) -> Vec<u8> {
    let (most, size) = (rig.geometry().max_transfer_bytes as usize, rig.block_bytes());
    let starts = (0..len).step_by(most);
    starts
        .flat_map(|at| rig.read(0, lba + (at / size) as u64, ((len - at).min(most) / size) as u32))
        .collect()
}

pub(super) fn memory_in_pieces(rig: &Rig) {
    let size = rig.block_bytes();
    let data = pattern(8 * size, 4);
    for cuts in [
        vec![size],
        vec![size, 2 * size, 7 * size],
        vec![1, size - 1, 5 * size + 17],
        vec![8 * size - 1],
    ] {
        rig.write(0, 40, &pattern(8 * size, 5));
        rig.one(0, TestOp { cuts: cuts.clone(), ..rig.request(WRITE, 40, data.clone()) });
        let back = rig.one(
            0,
            TestOp { cuts: cuts.clone(), ..rig.request(OpKind::Read, 40, vec![0xee; 8 * size]) },
        );
        assert!(back == rig.kept(&data), "cut at {cuts:?}");
    }
}

pub(super) fn durability(rig: &Rig) {
    let size = rig.block_bytes();
    let data = pattern(2 * size, 6);
    rig.one(0, rig.request(OpKind::Write { fua: true }, 9, data.clone()));
    rig.one(0, bare(OpKind::Flush, 0, 0));
    assert!(rig.read(0, 9, 2) == rig.kept(&data));
    let many = (0..20).map(|n| {
        if n % 4 == 0 { bare(OpKind::Flush, 0, 0) } else { rig.request(WRITE, n, vec![3; size]) }
    });
    assert!(rig.run(0, many.collect()).iter().all(|answer| answer.outcome.is_success()));
}

pub(super) fn zeroing(rig: &Rig) {
    let (features, size) = (rig.features(), rig.block_bytes());
    let (first, blocks) = (3, 40 * 4096 / size);
    let full = pattern((blocks + 6) * size, 7);
    let mut zeroed = full.clone();
    zeroed[first * size..(first + blocks) * size].fill(0);
    for (deallocate, fua) in [(false, false), (true, false), (false, true), (true, true)] {
        write_long(rig, 0, &full);
        let request = bare(OpKind::WriteZeroes { deallocate, fua }, first as u64, blocks as u32);
        if !features.write_zeroes {
            rig.fails(0, request, StatusKind::Unsupported);
            continue;
        }
        rig.one(0, request);
        assert!(
            read_long(rig, 0, full.len()) == rig.kept(&zeroed),
            "write zeroes, deallocate {deallocate}"
        );
    }
    write_long(rig, 0, &full);
    rig.one(0, bare(OpKind::Discard, first as u64, blocks as u32));
    let now = read_long(rig, 0, full.len());
    assert!(
        now == rig.kept(&zeroed)
            || (!features.discard_zeroes && outside(&now, &full, first * size, blocks * size))
    );
}

/// Returns whether two byte strings are equal outside of a range.
fn outside(one: &[u8], other: &[u8], at: usize, len: usize) -> bool {
    one.len() == other.len() && one[..at] == other[..at] && one[at + len..] == other[at + len..]
}

pub(super) fn comparing(rig: &Rig) {
    let (features, size) = (rig.features(), rig.block_bytes());
    let count = rig.plan().compare_blocks;
    let bytes = count * size;
    let (old, new) = (rig.kept(&pattern(bytes, 8)), pattern(bytes, 9));
    rig.write(0, 21, &old);
    if !features.compare {
        return rig.fails(0, rig.request(OpKind::Compare, 21, old), StatusKind::Unsupported);
    }
    assert!(
        rig.one(0, rig.request(OpKind::Compare, 21, old.clone())) == old,
        "a comparison changes nothing"
    );
    for place in [0, size / 2, bytes - 1] {
        let mut other = old.clone();
        other[place] ^= 0x10;
        rig.fails(0, rig.request(OpKind::Compare, 21, other.clone()), StatusKind::CompareFailed);
        let pair = [other, new.clone()].concat();
        rig.fails(
            0,
            rig.request(OpKind::CompareAndWrite { fua: false }, 21, pair),
            StatusKind::CompareFailed,
        );
        assert!(rig.read(0, 21, count as u32) == old, "a failed comparison stores nothing");
    }
    let pair = [old, new.clone()].concat();
    for cuts in [vec![], vec![bytes], vec![100, bytes + size / 2 + 5]] {
        rig.write(0, 21, &pair[..bytes]);
        let request =
            TestOp { cuts, ..rig.request(OpKind::CompareAndWrite { fua: true }, 21, pair.clone()) };
        assert!(rig.one(0, request) == pair);
        assert!(
            rig.read(0, 21, count as u32) == rig.kept(&new),
            "a comparison that holds stores the new data"
        );
    }
}

pub(super) fn cancelling(rig: &Rig) {
    rig.cancel(0, 4_000_000_000);
    let size = rig.block_bytes();
    let names = rig.start(
        0,
        (0..100).map(|n| rig.request(OpKind::Read, n % 50, vec![0xee; 8 * size])).collect(),
    );
    names.iter().rev().step_by(3).for_each(|&name| rig.cancel(0, name));
    for answer in rig.wait(0, &names) {
        let (kind, done) = (answer.outcome.status().kind, answer.outcome.is_success());
        assert!(done || kind == StatusKind::Aborted, "{:?}", answer.outcome);
    }
    rig.read(0, 0, 1);
}

pub(super) fn backpressure(rig: &Rig) {
    let size = rig.block_bytes();
    let places = rig.geometry().blocks.min(3000);
    let write = |n: u64| rig.request(WRITE, n % places, pattern(size, n));
    let answers = rig.run(0, (0..3000).map(write).collect());
    assert!(answers.iter().all(|answer| answer.outcome == Outcome::SUCCESS));
    for n in (3000 - places.min(500)..3000).step_by(7) {
        assert!(rig.read(0, n % places, 1) == rig.kept(&pattern(size, n)), "block {}", n % places);
    }
}

pub(super) fn dropping(rig: &Rig) {
    let size = rig.block_bytes();
    for round in 0..5 {
        let write = |n: u64| rig.request(WRITE, n * 8, pattern(8 * size, round));
        rig.start(0, (0..60).map(write).chain([bare(OpKind::Flush, 0, 0)]).collect());
        rig.reopen(0);
        let data = pattern(480 * size, round + 10);
        write_long(rig, 0, &data);
        assert!(
            read_long(rig, 0, data.len()) == rig.kept(&data),
            "no write of a dropped queue comes late"
        );
    }
}
