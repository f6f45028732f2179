//! Every local device keeps the contract, with both block sizes, from one loop and from two.

use crate::scratch::Scratch;
use std::time::Duration;
use weft_block::testing::{TestPlan, conformance};
use weft_block::time_limit::limited;
use weft_block::{Device, OpenOptions, open};
use weft_io::disk::DiskMode;

fn device(url: &str) -> Device {
    open(url, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn each_shape(mut check: impl FnMut(u32, usize)) {
    for block_bytes in [512, 4096] {
        for loops in [1, 2] {
            eprintln!("blocks of {block_bytes} bytes, {loops} loops");
            check(block_bytes, loops);
        }
    }
}

#[test]
fn ram() {
    each_shape(|block, loops| {
        conformance(
            &device(&format!("ram:16MiB,block={block}")),
            TestPlan { loops, rounds: 1000, ..TestPlan::default() },
        );
    });
}

#[test]
fn null() {
    each_shape(|block, loops| {
        let plan = TestPlan { loops, keeps_data: false, ..TestPlan::default() };
        conformance(&device(&format!("null:16MiB,block={block}")), plan);
    });
}

fn file(options: &str, disk: DiskMode) {
    each_shape(|block, loops| {
        let scratch = Scratch::new();
        let url = scratch.url(&format!("size=16MiB,block={block}{options}"));
        conformance(&device(&url), TestPlan { loops, disk, ..TestPlan::default() });
    });
}

#[test]
fn file_by_whatever_the_system_has() {
    file("", DiskMode::Auto);
}

#[test]
fn file_through_the_cache() {
    file(",direct=off", DiskMode::Auto);
}

#[test]
fn file_by_threads() {
    file("", DiskMode::Threads);
}

#[test]
fn file_by_threads_through_the_cache() {
    file(",direct=off", DiskMode::Threads);
}

#[test]
fn file_for_reading_only() {
    let scratch = Scratch::new();
    drop(device(&scratch.url("size=16MiB")));
    conformance(&device(&format!("readonly:{}", scratch.url("block=512"))), TestPlan::default());
}

#[test]
fn a_filter_without_writes() {
    each_shape(|block, loops| {
        conformance(
            &device(&format!("readonly:ram:16MiB,block={block}")),
            TestPlan { loops, ..TestPlan::default() },
        );
    });
}

#[test]
fn a_filter_that_takes_time() {
    each_shape(|block, loops| {
        for spread in ["", "spread=lognormal,tail=8,seed=5,"] {
            let url = format!("delay:read=20us,write=5us,depth=4,{spread}ram:16MiB,block={block}");
            conformance(&device(&url), TestPlan { loops, ..TestPlan::default() });
        }
    });
}

#[test]
fn a_filter_that_does_nothing() {
    each_shape(|block, loops| {
        let url = format!("error:rate=0,ram:16MiB,block={block}");
        conformance(&device(&url), TestPlan { loops, ..TestPlan::default() });
    });
}

#[test]
fn a_filter_with_limits() {
    each_shape(|block, loops| {
        for limits in ["iops=200k,bw=2GB", "write-iops=200k,read-bw=2GB,burst=100ms"] {
            let url = format!("limit:{limits},ram:16MiB,block={block}");
            conformance(&device(&url), TestPlan { loops, ..TestPlan::default() });
        }
    });
}

#[test]
fn a_time_limit() {
    each_shape(|block, loops| {
        let device = limited(
            device(&format!("delay:read=20us,write=5us,ram:16MiB,block={block}")),
            Duration::from_secs(60),
        );
        conformance(&device, TestPlan { loops, ..TestPlan::default() });
    });
}

#[test]
fn a_stripe() {
    each_shape(|block, loops| {
        // With the smaller chunks three blocks of 4096 bytes are never within one.
        for (chunk, compare_blocks) in
            [("4KiB", if block == 512 { 3 } else { 1 }), ("64KiB", 3), ("96KiB", 3)]
        {
            let url = format!(
                "stripe:{chunk},ram:2MiB,block={block},ram:3MiB,block={block},ram:2100KiB,block={block}"
            );
            conformance(&device(&url), TestPlan { loops, compare_blocks, ..TestPlan::default() });
        }
    });
}

#[test]
fn a_stripe_of_files_and_filters() {
    let (one, two) = (Scratch::new(), Scratch::new());
    let url = format!(
        "stripe:64KiB,{},error:rate=0,{},ram:8MiB",
        one.url("size=8MiB"),
        two.url("size=8MiB")
    );
    conformance(&device(&url), TestPlan { loops: 2, ..TestPlan::default() });
    conformance(&device(&format!("readonly:{url}")), TestPlan::default());
    conformance(
        &device("stripe:null:4MiB,null:4MiB"),
        TestPlan { keeps_data: false, ..TestPlan::default() },
    );
}

#[test]
fn a_filter_that_counts() {
    each_shape(|block, loops| {
        conformance(
            &device(&format!("stats:every=1ms,ram:16MiB,block={block}")),
            TestPlan { loops, ..TestPlan::default() },
        );
    });
}
