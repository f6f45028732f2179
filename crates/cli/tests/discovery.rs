//! Discovery beyond one address: referrals, and announcements in the local network.

use crate::support::{Scratch, Server, run, weft};
use weft_testing::skip;

const NQN: &str = "nqn.2026-01.example.weft:discovery";

fn json(dir: &Scratch, args: &[&str]) -> serde_json::Value {
    let ran = run(weft(dir.path(), args));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn the_discovery_log_refers_to_other_controllers() {
    let dir = Scratch::new("referral");
    let to = ["--referral", "192.0.2.7", "--referral", "nvme+tcp://[2001:db8::1]:4420"];
    let server = Server::start(dir.path(), &[&["null:1MiB", "--nqn", NQN], &to[..]].concat());
    let log = json(&dir, &["discover", &format!("nvme+tcp://{}", server.address()), "-o", "json"]);
    let records = log["records"].as_array().unwrap();
    assert_eq!((records.len(), &records[0]["subnqn"]), (4, &NQN.into()));
    // Its name: one that was given to it, or that of all.
    let own = |records: &[serde_json::Value]| {
        let of_own =
            |record: &&serde_json::Value| record["subtype"] == "current discovery subsystem";
        records.iter().find(of_own).unwrap()["subnqn"].clone()
    };
    assert_eq!(own(records), "nqn.2014-08.org.nvmexpress.discovery");
    let name = "nqn.2026-01.example.weft:finder";
    let other = Server::start(dir.path(), &["null:1MiB", "--nqn", NQN, "--discovery-nqn", name]);
    let again = json(&dir, &["discover", &format!("nvme+tcp://{}", other.address()), "-o", "json"]);
    assert_eq!(own(again["records"].as_array().unwrap()), name);
    let ran = run(weft(
        dir.path(),
        &["serve", "null:1MiB", "--listen", "127.0.0.1:0", "--nqn", NQN, "--discovery-nqn", NQN],
    ));
    assert!(ran.code() == Some(2) && ran.err.contains("give discovery another one"), "{ran:?}");
    for (record, (adrfam, traddr, trsvcid)) in
        records[1..].iter().zip([("ipv4", "192.0.2.7", "8009"), ("ipv6", "2001:db8::1", "4420")])
    {
        assert_eq!(record["subtype"], "discovery subsystem referral");
        assert_eq!(record["subnqn"], "nqn.2014-08.org.nvmexpress.discovery");
        let told = [&record["adrfam"], &record["traddr"], &record["trsvcid"]]
            .map(|it| it.as_str().unwrap());
        assert_eq!(told, [adrfam, traddr, trsvcid]);
    }
    let ran = run(weft(dir.path(), &["serve", "null:1MiB", "--referral", "array.example"]));
    assert!(ran.code() == Some(2) && ran.err.contains("not an IP address"), "{ran:?}");
}

/// Without a port, the port of discovery is asked, and then that of subsystems, where `weft serve`
/// is; an address needs no scheme.
#[cfg(target_os = "linux")]
#[test]
fn discovery_asks_at_both_ports_and_says_which_answered() {
    let dir = Scratch::new("both-ports");
    // All of 127/8 is this machine, so no other test or program has this address.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let host = format!("127.201.{high}.{}", low.max(1));
    let at = format!("{host}:4420");
    let nothing = run(weft(dir.path(), &["discover", &host]));
    assert_eq!(nothing.code(), Some(7), "{nothing:?}");
    assert!(nothing.err.contains(&format!("nothing answers at {at}")), "{nothing:?}");
    let _server = Server::start(dir.path(), &["null:1MiB", "--nqn", NQN, "--listen", &at]);
    let found = run(weft(dir.path(), &["discover", &host]));
    assert!(found.code() == Some(0) && found.out.contains(NQN), "{found:?}");
    let said = format!("nothing answers at {host}:8009; this is the answer of {at}");
    assert!(found.err.contains(&said), "{found:?}");
    // Given as it is, nothing is to be said of it.
    for address in [at.clone(), format!("nvme+tcp://{at}")] {
        let found = run(weft(dir.path(), &["discover", &address]));
        assert!(found.code() == Some(0) && found.out.contains(NQN), "{found:?}");
        assert!(found.said().is_empty(), "{found:?}");
    }
    let inspected = run(weft(dir.path(), &["id-ctrl", &format!("{at}/{NQN}")]));
    assert_eq!(inspected.code(), Some(0), "{inspected:?}");
}

#[test]
fn what_is_no_address_is_told_from_what_was_meant() {
    let dir = Scratch::new("meant");
    for (args, said) in [
        (["discover", "nvme://h"], "did you mean nvme+tcp://h?"),
        (["discover", "nvme+tcp:/h"], "did you mean nvme+tcp://h?"),
        (["bench", "nvme-tcp://h/nqn.x"], "did you mean nvme+tcp://h/nqn.x?"),
        (["id-ctrl", "/dev/nvme0"], "weft inspects targets over the network"),
    ] {
        let ran = run(weft(dir.path(), &args));
        assert!(ran.code() == Some(2) && ran.err.contains(said), "{ran:?}");
        assert_eq!(ran.err.trim_end().lines().count(), 1, "{ran:?}");
    }
}

/// Whether this machine lets programs use multicast: it may have no network at all.
fn has_multicast() -> bool {
    let works = || {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        socket
            .join_multicast_v4(&"224.0.0.251".parse().unwrap(), &std::net::Ipv4Addr::LOCALHOST)?;
        socket.send_to(&[0], "224.0.0.251:9")
    };
    works().map_err(|e| skip(format!("multicast does not work here: {e}"))).is_ok()
}

#[test]
fn what_is_announced_is_found_without_an_address() {
    if !has_multicast() {
        return;
    }
    let dir = Scratch::new("mdns");
    let server = Server::start(dir.path(), &["null:1MiB", "--nqn", NQN, "--mdns"]);
    let url = format!("nvme+tcp://{}", server.address());
    let ours = |found: &serde_json::Value| {
        let each = found["controllers"].as_array().unwrap().iter();
        each.filter(|it| it["url"] == url.as_str()).cloned().collect::<Vec<_>>()
    };
    let found = ours(&json(&dir, &["discover", "--search-time", "3s", "-o", "json"]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["nqn"], "nqn.2014-08.org.nvmexpress.discovery");
    assert_eq!(found[0]["log"]["records"][0]["subnqn"], NQN);
    let text = run(weft(dir.path(), &["discover", "--search-time", "3s"]));
    assert!(text.out.contains(&url) && text.out.contains(NQN), "{text:?}");
    let ran =
        run(weft(dir.path(), &["serve", "null:1MiB", "--listen", "nbd://127.0.0.1:0", "--mdns"]));
    assert!(ran.code() == Some(2) && ran.message().contains("NVMe/TCP only"), "{ran:?}");
}
