//! Sizes that change, snapshots, and users who may only read.

use super::image::{open, rig};
use weft_block::{DeviceChange, OpKind, StatusKind};
use weft_testing::ceph::CephCluster;

const WRITE: OpKind = OpKind::Write { fua: false };

/// Runs `rbd` while blocks behind the first MiB are written.
fn under_load(cluster: &CephCluster, rig: &weft_block::testing::Rig, arguments: &[&str]) {
    let mut rbd = cluster.command("rbd", arguments).spawn().unwrap();
    loop {
        let writes = (0..64u64).map(|n| rig.request(WRITE, 2048 + n * 8, vec![n as u8; 4096]));
        assert!(rig.run(0, writes.collect()).iter().all(|answer| answer.outcome.is_success()));
        if let Some(status) = rbd.try_wait().unwrap() {
            assert!(status.success(), "rbd {arguments:?}");
            return;
        }
    }
}

#[test]
fn another_size_is_told_under_load() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("resized", "16M");
    let rig = rig(&cluster.url(&image), 2);
    rig.write(1, 3, &[9; 512]);
    for (size, bytes) in [("32M", 32u64 << 20), ("24M", 24 << 20)] {
        under_load(
            cluster,
            &rig,
            &["resize", "--allow-shrink", "--no-progress", "--size", size, &image],
        );
        for on_loop in 0..2 {
            assert_eq!(rig.change(on_loop), DeviceChange::Resized { blocks: bytes / 512 });
        }
        assert_eq!(rig.geometry().bytes(), bytes);
        rig.write(0, bytes / 512 - 1, &[8; 512]);
        rig.fails(0, rig.request(OpKind::Read, bytes / 512, vec![0; 512]), StatusKind::OutOfRange);
    }
    assert_eq!(rig.read(0, 3, 1), [9; 512]);
    rig.end();
}

/// An image that is served for writing may get any number of bytes.
#[test]
fn the_last_block_of_an_odd_size_can_only_be_read() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("odd", "1000000B");
    let rig = rig(&cluster.url(&image), 2);
    assert_eq!((rig.geometry().blocks, rig.geometry().data_bytes()), (1954, 1_000_000));
    rig.write(0, 1952, &[5; 512]);
    let mut read = vec![5; 512];
    read.resize(1024, 0);
    assert_eq!(rig.read(1, 1952, 2), read);
    for kind in [WRITE, OpKind::CompareAndWrite { fua: false }] {
        let data = vec![0; 1024 * kind.data_factor()];
        rig.fails(0, rig.request(kind, 1952, data), StatusKind::WriteProtected);
    }
    cluster.run("rbd", &["resize", "--no-progress", "--size", "1000960B", &image]);
    assert_eq!(rig.change(0), DeviceChange::Resized { blocks: 1955 });
    assert_eq!(rig.geometry().padding_bytes, 0);
    rig.write(0, 1954, &[6; 512]);
    assert_eq!(rig.read(1, 1953, 2), [[0; 512], [6; 512]].concat());
    rig.end();
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("snapped", "16M");
    let live = rig(&cluster.url(&image), 1);
    live.write(0, 5, &[1; 4096]);
    under_load(cluster, &live, &["snap", "create", "--no-progress", &format!("{image}@monday")]);
    live.write(0, 5, &[2; 4096]);
    let device = open(&cluster.url(&format!("{image}@monday")));
    assert!(!device.features().write);
    assert_ne!(
        device.identity().uuid,
        open(&cluster.url(&image)).identity().uuid,
        "it is another disk"
    );
    drop(device);
    let snapshot = rig(&cluster.url(&format!("{image}@monday")), 1);
    assert_eq!(snapshot.read(0, 5, 8), [1; 4096]);
    snapshot.fails(0, snapshot.request(WRITE, 5, vec![3; 512]), StatusKind::WriteProtected);
    assert_eq!(live.read(0, 5, 8), [2; 4096]);
    snapshot.end();
    live.end();
}

#[test]
fn whoever_may_only_read_reads() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("protected", "16M");
    let device = open(&format!("{},id=reader", cluster.url(&image)));
    assert!(!device.features().write);
    let rig = rig(&format!("{},id=reader", cluster.url(&image)), 1);
    assert_eq!(rig.read(0, 5, 1), [0; 512]);
    rig.fails(0, rig.request(WRITE, 5, vec![3; 512]), StatusKind::WriteProtected);
    rig.end();
}

/// Whatever it is called, and by whichever user: hosts that see it by two gateways know that it is
/// one.
#[test]
fn an_image_keeps_its_uuid() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("named", "16M");
    let uuid = |image: &str, options: &str| {
        open(&format!("{}{options}", cluster.url(image))).identity().uuid.unwrap()
    };
    let before = uuid(&image, "");
    cluster.run("rbd", &["rename", &image, "rbd/renamed"]);
    assert_eq!(uuid("rbd/renamed", ",id=user"), before);
    cluster.image("named", "16M");
    assert_ne!(uuid(&image, ""), before);
}
