//! A gateway to an image of Ceph: what it serves is what was written, and a cluster that stalls
//! holds up I/O alone.
#![cfg(target_os = "linux")]

use crate::support::{Scratch, Server, run, weft};
use std::process::Stdio;
use weft_testing::ceph::CephCluster;
use weft_testing::programs;
use weft_testing::wait::until;

const LOAD: [&str; 4] = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--destroy-data"];

/// What an initiator that is not ours is told of COMPARE AND WRITE is what it can do: one block,
/// which is what the library does wherever it lies.
#[test]
fn compare_and_write_of_an_image_is_as_long_as_announced() {
    let foreign = |program: &str, args: &[&str]| {
        let mut command = programs::command(program);
        command.args(args);
        run(command)
    };
    if !programs::have(&["iscsi-inq", "iscsi-test-cu"]) {
        return;
    }
    let Some(cluster) = CephCluster::shared() else { return };
    let dir = Scratch::new("rbd-compare");
    let source = cluster.url(&cluster.image("compared", "32M"));
    let server = Server::start(dir.path(), &[&source, "--listen", "iscsi://127.0.0.1:0"]);
    let limits = foreign("iscsi-inq", &["-e", "1", "-c", "176", server.url()]);
    assert!(limits.out.contains("maximum compare and write length:1\n"), "{limits:?}");
    // It compares and writes as much as it was told of, at the beginning and at the end of the
    // disk.
    let tested =
        foreign("iscsi-test-cu", &["--dataloss", "-t", "SCSI.CompareAndWrite", server.url()]);
    assert!(tested.status.success() && tested.out.contains("Miscompare ...passed"), "{tested:?}");
    assert!(!tested.out.contains("FAILED"), "{tested:?}");
    assert!(server.terminate().success());
}

#[test]
fn a_gateway_goes_on_when_the_cluster_does_not() {
    let Some(cluster) = CephCluster::start(1) else { return };
    let dir = Scratch::new("rbd");
    let source = cluster.url(&cluster.image("disk", "32M"));
    let server = Server::start(dir.path(), &[&source, "--threads", "2"]);
    for url in [server.url(), &source] {
        let verified = run(weft(
            dir.path(),
            &[&["bench", url, "--verify=crc32c", "--size=4m"], &LOAD[..]].concat(),
        ));
        assert_eq!(verified.code(), Some(0), "{verified:?}");
    }

    cluster.signal("osd.0", "STOP");
    let mut load =
        weft(dir.path(), &[&["bench", server.url(), "--runtime=1h"], &LOAD[..]].concat());
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = || run(weft(dir.path(), &["status"]));
    until("the host waits for its commands", || {
        let status = status();
        assert_eq!(status.code(), Some(0), "{status:?}");
        status.out.contains("queue 1")
    });
    weft_testing::process::signal(load.id(), "INT");
    assert_eq!(load.wait().unwrap().code(), Some(130), "the host disconnects");
    assert_eq!(status().code(), Some(0));
    assert!(server.terminate().success(), "the gateway ends");
    cluster.signal("osd.0", "CONT");
}
