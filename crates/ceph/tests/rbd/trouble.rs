//! A cluster in trouble: daemons that are killed, that stop, that shut a client out, and pools
//! without room.

use super::image::{open, rig};
use std::time::Duration;
use weft_block::testing::Rig;
use weft_block::{DeviceChange, ErrorKind, OpKind, Outcome, Presence, StatusKind};
use weft_ceph::RbdUrl;
use weft_testing::ceph::CephCluster;

const WRITE: OpKind = OpKind::Write { fua: false };

fn writes(rig: &Rig, count: u64, byte: u8) -> Vec<u64> {
    rig.start(0, (0..count).map(|n| rig.request(WRITE, n * 8, vec![byte; 4096])).collect())
}

/// Daemons of a cluster of its own, as the others are not to wait for them.
#[test]
fn operations_wait_for_daemons_that_are_killed_or_stop() {
    let Some(cluster) = CephCluster::start(1) else { return };
    let image = cluster.image("killed", "16M");
    let device = open(&cluster.url(&image));
    let rig = rig(&cluster.url(&image), 1);
    rig.write(0, 0, &[1; 4096]);

    cluster.signal("osd.0", "KILL");
    let names = writes(&rig, 100, 2);
    cluster.launch("osd.0");
    assert!(
        rig.wait(0, &names).iter().all(|answer| answer.outcome.is_success()),
        "they are done when it is back"
    );
    assert_eq!(rig.read(0, 99 * 8, 8), [2; 4096]);

    cluster.signal("osd.0", "STOP");
    let names = writes(&rig, 100, 3);
    // Nothing of this waits: it is all answered from here, and the loop goes on.
    assert_eq!((device.geometry().bytes(), device.presence()), (16 << 20, Presence::Here));
    rig.cancel(0, names[0]);
    rig.fails(0, rig.request(OpKind::Read, 1 << 30, vec![0; 512]), StatusKind::OutOfRange);
    drop(device);
    let late =
        weft_ceph::begin(&RbdUrl::parse(&cluster.url(&image)).unwrap(), Duration::from_secs(1), ())
            .unwrap();
    let late = late.wait().err().expect("it cannot be opened");
    assert_eq!(late.kind(), ErrorKind::TimedOut, "{late}");
    assert!(late.to_string().contains("ceph status"), "{late}");
    cluster.signal("osd.0", "CONT");
    assert!(rig.wait(0, &names).iter().all(|answer| answer.outcome.is_success()));

    // Operations of a queue that is dropped keep their memory until they end.
    cluster.signal("osd.0", "STOP");
    writes(&rig, 100, 4);
    std::thread::scope(|scope| {
        scope.spawn(|| cluster.signal("osd.0", "CONT"));
        rig.reopen(0);
    });
    rig.write(0, 0, &[5; 4096]);
    assert_eq!(rig.read(0, 0, 8), [5; 4096]);
    rig.end();
}

#[test]
fn a_client_that_is_shut_out_says_so() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("fenced", "16M");
    // A client that no other test has.
    let url = format!(
        "{},id=user,keyring={}",
        cluster.url(&image),
        cluster.dir().join("keyring").display()
    );
    let rig = rig(&url, 1);
    rig.write(0, 0, &[1; 4096]);
    let watchers = cluster.run("rbd", &["status", &image]);
    let address = watchers
        .split("watcher=")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .expect("it is watched");
    cluster.run("ceph", &["osd", "blocklist", "add", address]);
    let answer = rig.run(0, vec![rig.request(WRITE, 0, vec![2; 4096])]).remove(0);
    let Outcome::MayHaveExecuted { status, settled: true } = answer.outcome else {
        panic!("{:?}", answer.outcome)
    };
    assert_eq!(
        status.kind,
        StatusKind::Path,
        "it was sent, and nobody says that it was not executed"
    );
    assert_eq!(rig.change(0), DeviceChange::Gone);
    let answer = rig.run(0, vec![rig.request(OpKind::Read, 0, vec![0; 4096])]).remove(0);
    assert!(
        matches!(answer.outcome, Outcome::NotSent(status) if status.kind == StatusKind::Path),
        "{:?}",
        answer.outcome
    );
    rig.end();
    let other = self::rig(&cluster.url(&image), 1);
    assert_eq!(other.read(0, 0, 8), [1; 4096]);
    other.end();
}

/// Everything in this cluster is full. What needs no further space is written all the same.
#[test]
fn full_is_an_error_and_not_a_wait() {
    let Some(cluster) = CephCluster::start(1) else { return };
    let image = cluster.image("full", "1G");
    let rig = rig(&cluster.url(&image), 1);
    let mut next = 0;
    // A place that was not written before.
    let mut write = || {
        next += 8;
        let answer = rig.run(0, vec![rig.request(WRITE, next, vec![1; 4096])]).remove(0);
        assert!(
            matches!(answer.outcome.status().kind, StatusKind::Success | StatusKind::NoSpace),
            "{:?}",
            answer.outcome
        );
        answer.outcome.is_success()
    };
    assert!(write());
    let full_at = |ratios: [(&str, &str); 3]| {
        for (which, ratio) in ratios {
            cluster.run("ceph", &["osd", which, ratio]);
        }
    };
    full_at([
        ("set-nearfull-ratio", "0.0001"),
        ("set-backfillfull-ratio", "0.0002"),
        ("set-full-ratio", "0.0003"),
    ]);
    // The daemon looks from time to time.
    weft_testing::wait::until("the cluster is full", || !write());
    assert_eq!(rig.read(0, 8, 8), [1; 4096]);
    rig.write(0, 8, &[2; 4096]);
    full_at([
        ("set-full-ratio", "0.95"),
        ("set-backfillfull-ratio", "0.9"),
        ("set-nearfull-ratio", "0.85"),
    ]);
    weft_testing::wait::until("the cluster has room", write);
    rig.end();
}

/// Opening waits for an answer of a monitor, and not for ever.
#[test]
fn a_cluster_without_monitors_is_told() {
    let Some(cluster) = CephCluster::start(0) else { return };
    cluster.signal("mon.a", "STOP");
    let url = RbdUrl::parse(&cluster.url("rbd/disk")).unwrap();
    let error = weft_ceph::begin(&url, Duration::from_secs(1), ())
        .unwrap()
        .wait()
        .err()
        .expect("nobody answers");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    cluster.signal("mon.a", "CONT");
}
