//! Sizes of files that are no whole number of blocks.

use crate::scratch::Scratch;
use weft_block::testing::{Plan, holds_every_byte};
use weft_block::{Device, OpenOptions, Refusal, check_all, open};
use weft_io::disk::DiskMode;

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
                    holds_every_byte(&device, &content, Plan { disk, ..Plan::default() });
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

/// The chunks of a stripe follow each other: there is no place for the end of a block.
#[test]
fn a_stripe_takes_members_of_whole_blocks_only() {
    let (odd, whole) = (Scratch::new(), Scratch::new());
    std::fs::write(&odd.0, content(100_000)).unwrap();
    std::fs::write(&whole.0, content(1 << 17)).unwrap();
    let stripe =
        format!("readonly:stripe:4KiB,{},{}", whole.url("block=512"), odd.url("block=512"));
    assert!(
        matches!(refused(&stripe), Refusal::Member { why, .. } if why.contains("100000 bytes"))
    );
}
