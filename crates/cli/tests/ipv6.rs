//! IPv6 from end to end on this machine, by each protocol. The simulator has it on every machine
//! (`endpoint/tests/sim/paths/named.rs`).

use crate::support::{Scratch, Server, run, weft};
use std::net::TcpListener;

const NQN: &str = "nqn.2026-01.example.weft:six";
const IQN: &str = "iqn.2026-01.example.weft:six";

/// Whether this machine has the address at all: containers often do not.
fn has_loopback() -> bool {
    TcpListener::bind("[::1]:0").is_ok()
}

#[test]
fn every_protocol_serves_and_connects_at_an_address_of_ipv6() {
    if !has_loopback() {
        return println!("this machine has no [::1]; the simulator tests IPv6");
    }
    let dir = Scratch::new("ipv6");
    for (listen, name) in
        [("nvme+tcp://[::1]:0", "--nqn"), ("iscsi://[::1]:0", "--iqn"), ("nbd://[::1]:0", "")]
    {
        let named = match name {
            "--nqn" => vec![name, NQN],
            "--iqn" => vec![name, IQN],
            _ => Vec::new(),
        };
        let server =
            Server::start(dir.path(), &[&["ram:4MiB", "--listen", listen][..], &named].concat());
        assert!(server.url().contains("://[::1]:"), "{}", server.url());
        let verified = ["--rw=randwrite", "--bs=4k", "--size=1m", "--verify=crc32c", "--iodepth=8"];
        let ran = run(weft(dir.path(), &[&["bench", server.url()][..], &verified].concat()));
        assert_eq!(ran.code(), Some(0), "{listen}: {ran:?}");
        if listen.starts_with("nvme") {
            let (address, _) = server.url().rsplit_once('/').unwrap();
            let found = run(weft(dir.path(), &["discover", address]));
            assert!(
                found.code() == Some(0) && found.out.contains(NQN) && found.out.contains("::1"),
                "{found:?}"
            );
        }
    }
}
