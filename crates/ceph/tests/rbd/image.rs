//! An image keeps the contract of block devices.

use std::sync::Arc;
use std::time::Duration;
use weft_block::testing::{Rig, TestPlan, conformance};
use weft_block::{BlockDevice, Error, OpKind, StatusKind};
use weft_ceph::RbdUrl;
use weft_testing::ceph::CephCluster;

pub fn try_open(url: &str) -> Result<Arc<dyn BlockDevice>, Error> {
    weft_ceph::begin(&RbdUrl::parse(url).unwrap(), Duration::from_secs(60), ())?.wait()
}

pub fn open(url: &str) -> Arc<dyn BlockDevice> {
    try_open(url).unwrap_or_else(|e| panic!("{e}"))
}

/// Event loops with a queue of the image on each.
pub fn rig(url: &str, loops: usize) -> Rig {
    Rig::new(&open(url), TestPlan { loops, ..TestPlan::default() })
}

fn plan() -> TestPlan {
    TestPlan { loops: 2, rounds: 20, compare_blocks: 1, ..TestPlan::default() }
}

#[test]
fn it_does_what_a_block_device_does() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("conformance", "64M");
    let device = open(&cluster.url(&image));
    assert_eq!((device.geometry().bytes(), device.geometry().optimal_blocks), (64 << 20, 8192));
    assert!(!device.features().volatile_cache, "a write is stored when it is acknowledged");
    conformance(&device, plan());
}

/// The image's own configuration counts: then a flush and FUA go through.
#[test]
fn one_with_a_cache_of_the_library_tells_of_it() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("cached", "16M");
    cluster.run("rbd", &["config", "image", "set", &image, "rbd_cache", "true"]);
    let device = open(&cluster.url(&image));
    assert!(device.features().volatile_cache);
    conformance(&device, plan());
}

/// Each client has a handle of its own, as two gateways have.
#[test]
fn two_clients_without_a_lock_see_the_same_at_once() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("shared", "16M");
    cluster
        .run("rbd", &["feature", "disable", &image, "object-map", "fast-diff", "exclusive-lock"]);
    let (one, other) =
        (rig(&cluster.url(&image), 1), rig(&format!("{},id=user", cluster.url(&image)), 1));
    for round in 0..50u8 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        writer.write(0, 7, &[round; 4096]);
        assert_eq!(reader.read(0, 7, 8), [round; 4096]);
    }
    // Both take turns at a counter.
    one.write(0, 100, &[0; 512]);
    for count in 0..20u8 {
        let (first, second) = if count % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let pair = [[count; 512], [count + 1; 512]].concat();
        let swap =
            |rig: &Rig| rig.request(OpKind::CompareAndWrite { fua: false }, 100, pair.clone());
        first.one(0, swap(first));
        second.fails(0, swap(second), StatusKind::CompareFailed);
    }
    one.end();
    other.end();
}

/// With the lock one writes at a time, and it goes where it is needed.
#[test]
fn two_clients_pass_the_lock_on() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("locked", "16M");
    let (one, other) =
        (rig(&cluster.url(&image), 1), rig(&format!("{},id=user", cluster.url(&image)), 1));
    for round in 0..4u8 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        writer.write(0, 7, &[round; 4096]);
        assert_eq!(reader.read(0, 7, 8), [round; 4096]);
    }
    one.end();
    other.end();
}
