//! Sizes of files: those that are not a multiple of the block size, and those that change
//! underneath.

use crate::scratch::Scratch;
use std::fs::File;
use weft_block::testing::{Rig, TestOp, TestPlan, holds_every_byte};
use weft_block::{Device, OpKind, OpenOptions, Refusal, StatusKind, check_all, open};
use weft_io::disk::DiskMode;
use weft_testing::wait::until;

const MODES: [DiskMode; 2] = [DiskMode::Auto, DiskMode::Threads];

fn device(url: &str) -> Device {
    open(url, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(url: &str) -> Refusal {
    let error = open(url, &OpenOptions::default()).err().unwrap_or_else(|| panic!("{url} opened"));
    error.refusal().cloned().unwrap_or_else(|| panic!("{url}: {error}"))
}

/// Bytes of which none is zero.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8 + 1).collect()
}

#[test]
fn a_file_of_any_size_is_read_to_its_last_byte_and_not_written() {
    for bytes in [1, 511, 512, 513, 4096, 5000, 5120, 100_001] {
        let scratch = Scratch::new();
        let content = content(bytes);
        std::fs::write(&scratch.0, &content).unwrap();
        for (block, block_bytes) in [("block=512", 512), ("block=4096", 4096)] {
            for disk in MODES {
                for options in ["direct=auto", "direct=off"] {
                    let device = device(&scratch.read_only(&format!("{block},{options}")));
                    holds_every_byte(&device, &content, TestPlan { disk, ..TestPlan::default() });
                }
            }
            if bytes % block_bytes != 0 {
                let (bytes, block_bytes) = (bytes as u64, block_bytes as u32);
                let url = scratch.url(block);
                assert_eq!(refused(&url), Refusal::OddFile { bytes, block_bytes });
                assert!(matches!(
                    refused(&format!("delay:read=1us,{url}")),
                    Refusal::OddFile { .. }
                ));
                let direct = scratch.read_only(&format!("{block},direct=on"));
                assert_eq!(refused(&direct), Refusal::NotDirect { block_bytes });
            }
        }
    }
}

/// A check opens nothing, and tells the same.
#[test]
fn odd_sizes_are_found_by_a_check() {
    let scratch = Scratch::new();
    std::fs::write(&scratch.0, content(1000)).unwrap();
    let checked = |url: &str| check_all(url, &|source| weft_block::check(source));
    for front in ["", "readonly:", "limit:iops=5,readonly:"] {
        let checked = checked(&format!("{front}{}", scratch.url("block=512")));
        assert_eq!(checked.is_ok(), front.contains("readonly"), "{front:?}: {checked:?}");
    }
}

/// The chunks of a stripe follow each other, so it ends before a block that is not whole, as it
/// ends before a chunk that is not.
#[test]
fn a_stripe_uses_whole_blocks_of_its_members() {
    let (odd, whole) = (Scratch::new(), Scratch::new());
    std::fs::write(&odd.0, content(100_000)).unwrap();
    std::fs::write(&whole.0, content(1 << 17)).unwrap();
    let stripe =
        format!("readonly:stripe:4KiB,{},{}", whole.url("block=512"), odd.url("block=512"));
    let geometry = device(&stripe).geometry();
    assert_eq!((geometry.bytes(), geometry.padding_bytes), (2 * (96 << 10), 0));
}

/// A file with data everywhere, and a device of it.
struct Served {
    scratch: Scratch,
    device: Device,
    rig: Rig,
}

const BLOCKS: u64 = 2048;

impl Served {
    fn new(options: &str, disk: DiskMode) -> Self {
        let scratch = Scratch::new();
        std::fs::write(&scratch.0, content(BLOCKS as usize * 512)).unwrap();
        let device = device(&scratch.url(options));
        let rig = Rig::new(&device, TestPlan { loops: 2, disk, ..TestPlan::default() });
        Self { scratch, device, rig }
    }

    fn resize(&self, bytes: u64) {
        File::options().write(true).open(&self.scratch.0).unwrap().set_len(bytes).unwrap();
    }

    fn fails(&self, kind: OpKind, lba: u64, blocks: u32) {
        let bytes = blocks as usize * 512 * kind.data_factor();
        let request = TestOp { kind, lba, blocks, data: vec![7; bytes], cuts: vec![] };
        self.rig.fails(0, request, StatusKind::Media);
    }

    /// Nothing that was cut off is there, nothing that must be durable succeeds, and the device
    /// reports the reason.
    fn is_cut(&self, blocks: u64) {
        const WRITE: OpKind = OpKind::Write { fua: false };
        let zeroes = OpKind::WriteZeroes { deallocate: false, fua: false };
        let kinds = [OpKind::Read, WRITE, OpKind::Compare, OpKind::CompareAndWrite { fua: false }];
        for kind in kinds.into_iter().chain([zeroes, OpKind::Discard]) {
            for (lba, count) in [(blocks, 1), (blocks + 100, 8), (BLOCKS - 1, 1), (blocks - 1, 2)] {
                self.fails(kind, lba, count);
            }
        }
        for on_loop in 0..2 {
            let flush = self.rig.request(OpKind::Flush, 0, vec![]);
            self.rig.fails(on_loop, flush, StatusKind::Media);
        }
        self.rig.write(1, blocks - 1, &[9; 512]);
        assert_eq!(self.rig.read(0, blocks - 1, 1), [9; 512], "what is left is served");
        let trouble = self.device.trouble().unwrap();
        assert!(trouble.contains("cut to"), "{trouble}");
        let file = std::fs::metadata(&self.scratch.0).unwrap().len();
        assert!(file < BLOCKS * 512 - 512, "nothing made it long again: {file}");
    }
}

/// Files served with and without the page cache, by the ring and by threads.
fn all() -> impl Iterator<Item = Served> {
    let with = |disk| ["direct=auto", "direct=off"].map(|options| Served::new(options, disk));
    MODES.into_iter().flat_map(with)
}

fn each(test: impl Fn(&Served)) {
    for served in all() {
        test(&served);
        served.rig.end();
    }
}

#[test]
fn a_read_finds_that_a_file_was_cut() {
    each(|served| {
        served.resize(10_000);
        // 19 blocks are whole.
        served.fails(OpKind::Read, 2047, 1);
        served.is_cut(19);
    });
}

#[test]
fn a_write_behind_the_end_does_not_make_a_file_long_again() {
    each(|served| {
        served.resize(16_384);
        served.fails(OpKind::Write { fua: false }, 1000, 1);
        assert_eq!(std::fs::metadata(&served.scratch.0).unwrap().len(), 16_384);
        served.is_cut(32);
    });
}

#[test]
fn a_flush_finds_that_a_file_was_cut_and_fails() {
    each(|served| {
        served.rig.write(0, 1000, &[1; 512]);
        served.resize(16_384);
        let flush = served.rig.request(OpKind::Flush, 0, vec![]);
        served.rig.fails(1, flush, StatusKind::Media);
        served.is_cut(32);
    });
}

#[test]
fn a_cut_is_noticed_without_any_operation() {
    each(|served| {
        assert_eq!(served.device.trouble(), None);
        served.resize(16_384);
        until("the cut is noticed", || served.device.trouble().is_some());
        served.is_cut(32);
    });
}

/// Whoever made it long again: what it had is gone.
#[test]
fn what_was_cut_off_stays_lost_until_the_file_is_opened_again() {
    for served in all() {
        served.resize(16_384);
        served.fails(OpKind::Read, 1000, 1);
        served.resize(BLOCKS * 512);
        for kind in [OpKind::Read, OpKind::Write { fua: false }, OpKind::Discard] {
            served.fails(kind, 1000, 1);
        }
        let Served { scratch, device, rig } = served;
        rig.end();
        drop(device);
        let again = self::device(&scratch.url("block=512"));
        assert_eq!(again.trouble(), None);
        let rig = Rig::new(&again, TestPlan::default());
        assert_eq!(rig.read(0, 1000, 1), [0; 512]);
        rig.write(0, 1000, &[3; 512]);
        rig.one(0, rig.request(OpKind::Flush, 0, vec![]));
        rig.end();
    }
}

/// A file that grows has lost nothing.
#[test]
fn a_file_that_grew_is_served_as_before() {
    each(|served| {
        served.resize(BLOCKS * 512 + 5000);
        served.rig.write(0, BLOCKS - 1, &[4; 512]);
        let flush = served.rig.request(OpKind::Flush, 0, vec![]);
        served.rig.one(0, flush);
        assert_eq!(served.device.trouble(), None);
    });
}
