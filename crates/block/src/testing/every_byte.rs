//! A device has every byte of its source, and no other ones.

use super::plan::TestPlan;
use super::rig::Rig;
use super::worker::TestOp;
use crate::device::Device;
use crate::op::OpKind;
use crate::outcome::status::StatusKind;

/// Checks that a device has all of `data`, followed only by the zeroes that fill its last block,
/// and that nobody can write to a block of which it has only the beginning.
///
/// # Panics
/// If a byte is missing, or another one is there.
pub fn holds_every_byte(device: &Device, data: &[u8], plan: TestPlan) {
    let rig = Rig::new(device, plan);
    let (geometry, size) = (rig.geometry(), rig.block_bytes());
    let url = device.url();
    assert_eq!(geometry.data_bytes(), data.len() as u64, "{url}: {geometry:?}");
    assert!((geometry.padding_bytes as usize) < size, "{url}: {geometry:?}");
    let mut expected = data.to_vec();
    expected.resize(data.len() + geometry.padding_bytes as usize, 0);
    assert_eq!(geometry.bytes(), expected.len() as u64, "{url}: {geometry:?}");
    let most = geometry.max_transfer_bytes as usize / size;
    for length in [1, 2, 3, 8, most.min(100), most] {
        for (n, part) in expected.chunks(length * size).enumerate() {
            let read = rig.read(0, (n * length) as u64, (part.len() / size) as u32);
            assert!(read == part, "{url}: {length} blocks from block {}", n * length);
        }
    }
    at_the_end(&rig, &expected);
    rig.fails(0, rig.request(OpKind::Read, geometry.blocks, vec![0; size]), StatusKind::OutOfRange);
    rig.end();
}

/// Reads the last blocks into memory in pieces, compares them, and tries to write them.
fn at_the_end(rig: &Rig, expected: &[u8]) {
    let (geometry, size) = (rig.geometry(), rig.block_bytes());
    let blocks = geometry.blocks.min(3) as usize;
    let (first, end) =
        (geometry.blocks - blocks as u64, &expected[expected.len() - blocks * size..]);
    for cuts in [vec![1], vec![size - 1], vec![size / 2, blocks * size - 2]] {
        let request = rig.request(OpKind::Read, first, vec![0xee; blocks * size]);
        let read = rig.one(0, TestOp { cuts: cuts.clone(), ..request });
        assert!(read == end, "in memory that is cut at {cuts:?}");
    }
    let last = (geometry.blocks - 1, &end[end.len() - size..]);
    // A path may not take comparisons where writes are refused.
    if geometry.padding_bytes > 0 && rig.features().compare {
        rig.one(0, rig.request(OpKind::Compare, last.0, last.1.to_vec()));
        let mut other = last.1.to_vec();
        other[size - 1] ^= 1;
        rig.fails(0, rig.request(OpKind::Compare, last.0, other), StatusKind::CompareFailed);
    }
    if geometry.padding_bytes > 0 {
        let write = OpKind::Write { fua: false };
        rig.fails(0, rig.request(write, first, end.to_vec()), StatusKind::WriteProtected);
        let discard = rig.request(OpKind::Discard, last.0, Vec::new());
        rig.fails(0, TestOp { blocks: 1, ..discard }, StatusKind::WriteProtected);
    }
}
