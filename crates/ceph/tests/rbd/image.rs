//! An image keeps the contract of block devices.

use std::sync::Arc;
use std::time::Duration;
use weft_block::testing::{Plan, conformance};
use weft_block::{BlockDevice, Error};
use weft_ceph::RbdUrl;
use weft_testing::ceph::Cluster;

pub fn try_open(url: &str) -> Result<Arc<dyn BlockDevice>, Error> {
    weft_ceph::begin(&RbdUrl::parse(url).unwrap(), Duration::from_secs(60), ())?.wait()
}

pub fn open(url: &str) -> Arc<dyn BlockDevice> {
    try_open(url).unwrap_or_else(|e| panic!("{e}"))
}

const PLAN: Plan = Plan { loops: 2, rounds: 20, compare_blocks: 1, keeps_data: true, disk: weft_io::disk::DiskMode::Auto };

#[test]
fn it_does_what_a_block_device_does() {
    let Some(cluster) = Cluster::shared() else { return };
    let image = cluster.image("conformance", "64M");
    let device = open(&cluster.url(&image));
    assert_eq!((device.geometry().bytes(), device.geometry().optimal_blocks), (64 << 20, 8192));
    assert!(!device.features().volatile_cache, "a write is stored when it is acknowledged");
    conformance(&device, PLAN);
}
