//! Checks of a device with several loops at the same blocks.

use super::checks::pattern;
use super::rig::Rig;
use crate::op::{OpKind, Outcome};
use crate::outcome::status::StatusKind;

const WRITE: OpKind = OpKind::Write { fua: false };

/// One loop's writes are visible to another.
pub(super) fn visibility(rig: &Rig) {
    let size = rig.block_bytes();
    for round in 0..20 {
        let (writer, reader) = (round % rig.loops(), (round + 1) % rig.loops());
        let data = pattern(4 * size, round as u64);
        rig.write(writer, 64, &data);
        assert!(rig.read(reader, 64, 4) == rig.kept(&data));
    }
}

/// Loops write the same few blocks, each block full of one value, while all read them: no block is
/// a mixture, ever.
pub(super) fn tearing(rig: &Rig) {
    let size = rig.block_bytes();
    const BLOCKS: usize = 4;
    rig.write(0, 100, &vec![0; BLOCKS * size]);
    for round in 0..rig.plan().rounds {
        let started: Vec<_> = (0..rig.loops())
            .map(|on_loop| {
                let value = (round * rig.loops() + on_loop) as u8;
                let write = |n: usize| {
                    let (lba, blocks) = if n.is_multiple_of(2) {
                        (100, BLOCKS)
                    } else {
                        (100 + n as u64 % BLOCKS as u64, 1)
                    };
                    rig.request(WRITE, lba, vec![value; blocks * size])
                };
                let read = || rig.request(OpKind::Read, 100, vec![0xee; BLOCKS * size]);
                rig.start(on_loop, (0..6).flat_map(|n| [write(n), read()]).collect())
            })
            .collect();
        for (on_loop, names) in started.iter().enumerate() {
            for answer in rig.wait(on_loop, names) {
                assert_eq!(answer.outcome, Outcome::SUCCESS);
                let torn = answer
                    .data
                    .chunks(size)
                    .position(|block| block.iter().any(|&byte| byte != block[0]));
                assert_eq!(torn, None, "a torn block in round {round}");
            }
        }
    }
}

/// Loops count in one number by compare-and-write: no step is lost.
pub(super) fn counting(rig: &Rig) {
    if !rig.features().compare || !rig.plan().keeps_data {
        return;
    }
    let size = rig.block_bytes();
    let rounds = rig.plan().rounds / 4;
    let blocks = rig.plan().compare_blocks.min(2);
    let block = |count: u64| count.to_le_bytes().repeat(blocks * size / 8);
    rig.write(0, 200, &block(0));
    let mut steps = 0;
    for _ in 0..rounds {
        let now = u64::from_le_bytes(rig.read(0, 200, 1)[..8].try_into().expect("8 bytes"));
        let request = || {
            rig.request(
                OpKind::CompareAndWrite { fua: false },
                200,
                [block(now), block(now + 1)].concat(),
            )
        };
        let started: Vec<_> = (0..rig.loops())
            .map(|on_loop| rig.start(on_loop, vec![request(), request()]))
            .collect();
        let answers =
            started.iter().enumerate().flat_map(|(on_loop, names)| rig.wait(on_loop, names));
        let outcomes: Vec<_> = answers.map(|answer| answer.outcome.status().kind).collect();
        let won = outcomes.iter().filter(|kind| **kind == StatusKind::Success).count();
        assert!(
            outcomes
                .iter()
                .all(|kind| matches!(kind, StatusKind::Success | StatusKind::CompareFailed)),
            "{outcomes:?}"
        );
        assert_eq!(won, 1, "exactly one of those that expect the same value stores the next");
        steps += 1;
    }
    assert!(rig.read(0, 200, blocks as u32) == block(steps));
}
