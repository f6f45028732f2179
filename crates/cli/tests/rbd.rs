//! A gateway to an image of Ceph: what it serves is what was written, and a cluster that stalls holds up I/O alone.
#![cfg(target_os = "linux")]

mod support;

use std::process::{Command, Stdio};
use support::{Scratch, Server, run, weft};
use weft_testing::ceph::Cluster;
use weft_testing::wait::until;

const LOAD: [&str; 4] = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--destroy-data"];

#[test]
fn a_gateway_goes_on_when_the_cluster_does_not() {
    let Some(cluster) = Cluster::start(1) else { return };
    let dir = Scratch::new("rbd");
    let source = cluster.url(&cluster.image("disk", "32M"));
    let server = Server::start(dir.path(), &[&source, "--threads", "2"]);
    for url in [server.url(), &source] {
        let verified = run(weft(dir.path(), &[&["bench", url, "--verify=crc32c", "--size=4m"], &LOAD[..]].concat()));
        assert_eq!(verified.code(), Some(0), "{verified:?}");
    }

    cluster.signal("osd.0", "STOP");
    let mut load = weft(dir.path(), &[&["bench", server.url(), "--runtime=1h"], &LOAD[..]].concat());
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = || run(weft(dir.path(), &["status"]));
    until("the host waits for its commands", || {
        let status = status();
        assert_eq!(status.code(), Some(0), "{status:?}");
        status.out.contains("queue 1")
    });
    let interrupted = Command::new("kill").args(["-INT", &load.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert_eq!(load.wait().unwrap().code(), Some(130), "the host disconnects");
    assert_eq!(status().code(), Some(0));
    assert!(server.terminate().success(), "the gateway ends");
    cluster.signal("osd.0", "CONT");
}
