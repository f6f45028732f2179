//! `--path discover`: the other addresses of a device, as its discovery service tells them.
#![cfg(unix)]

use crate::support::{Scratch, Server, run, weft};
use serde_json::Value;
use std::path::Path;
use weft_testing::wait::until;

/// The URLs of the paths that a gateway has, in alphabetical order, and whether all are connected.
fn paths(dir: &Path) -> (Vec<String>, bool) {
    let shown = run(weft(dir, &["control", "inventory.show"]));
    let inventory: Value =
        serde_json::from_str(&shown.out).unwrap_or_else(|e| panic!("{e}: {shown:?}"));
    let paths = inventory["subsystems"][0]["namespaces"][0]["paths"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut urls: Vec<_> =
        paths.iter().map(|path| path["url"].as_str().unwrap().to_owned()).collect();
    urls.sort();
    (urls, paths.iter().all(|path| path["why"].is_null()))
}

#[test]
fn a_gateway_finds_the_other_addresses_of_its_source() {
    for (n, listen) in ["nvme+tcp://127.0.0.1:0", "iscsi://127.0.0.1:0"].into_iter().enumerate() {
        let [there, here] =
            ["there", "here"].map(|name| Scratch::new(&format!("discovered-{name}-{n}")));
        let target =
            Server::start(there.path(), &["ram:16MiB", "--listen", listen, "--listen", listen]);
        let mut wanted = target.urls.clone();
        wanted.sort();
        let _gateway = Server::start(here.path(), &[target.url(), "--path", "discover"]);
        // The one that is open already shows its namespace as well.
        let found = paths(here.path()).0;
        let are_wanted =
            found.iter().zip(&wanted).all(|(found, wanted)| found.starts_with(wanted.as_str()));
        assert!(found.len() == 2 && are_wanted, "{found:?}, {wanted:?}");
        until("both paths are connected", || paths(here.path()).1);
    }
}

#[test]
fn a_bench_asks_a_discovery_service_elsewhere() {
    let [there, asked] = ["bench", "asked"].map(|name| Scratch::new(&format!("discovered-{name}")));
    let listen = "nvme+tcp://127.0.0.1:0";
    let target =
        Server::start(there.path(), &["ram:16MiB", "--listen", listen, "--listen", listen]);
    let elsewhere = format!("discover={}", target.address());
    let read = ["--rw=randread", "--bs=4k", "--size=4M", "--iopolicy=round-robin"];
    let mut bench = weft(there.path(), &["bench", &target.urls[1], "--path", &elsewhere]);
    bench.args(read);
    let ran = run(bench);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    // One that does not know the subsystem.
    let other =
        Server::start(asked.path(), &["ram:16MiB", "--nqn", "nqn.2026-01.example.weft:other"]);
    let elsewhere = format!("discover={}", other.address());
    let refused =
        run(weft(there.path(), &["bench", target.url(), "--path", &elsewhere, "--rw=read"]));
    assert_eq!(refused.code(), Some(3), "{refused:?}");
    assert!(refused.message().contains("no address of the subsystem"), "{refused:?}");
    let nbd = run(weft(
        there.path(),
        &["bench", "nbd://127.0.0.1:1/x", "--path", "discover", "--rw=read"],
    ));
    assert_eq!(nbd.code(), Some(2), "{nbd:?}");
    assert!(nbd.message().contains("only those of NVMe and iSCSI"), "{nbd:?}");
}
