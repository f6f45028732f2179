//! `weft serve` and the commands that look at it.

use crate::support::{Scratch, Server, run, weft};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Barrier};
use std::thread;
#[cfg(unix)]
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:serve";

/// A source, or a load, that ends with its target.
const ONCE: &str = "--ctrl-loss-tmo=0";

#[test]
fn commands_show_what_is_served() {
    let dir = Scratch::new("show");
    let server = Server::start(dir.path(), &["ram:16MiB,block=4096", "null:1GiB", "--nqn", NQN]);
    let json = |args: &[&str]| -> serde_json::Value {
        let ran = run(weft(dir.path(), args));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    };
    let address = format!("nvme+tcp://{}", server.address());
    let log = json(&["discover", &address, "-o", "json"]);
    assert_eq!(log["records"][0]["subnqn"], NQN);
    assert_eq!(log["records"][0]["trtype"], "tcp");
    let (host, port) = server.address().split_once(':').unwrap();
    let controller =
        json(&["id-ctrl", "-t", "tcp", "-a", host, "-s", port, "-n", NQN, "-o", "json"]);
    assert_eq!(controller["subnqn"], NQN);
    assert_eq!(controller["sn"].as_str().unwrap().len(), 16);
    let list = json(&["list-ns", server.url(), "-o", "json"]);
    assert_eq!(list["nsid_list"].as_array().unwrap().len(), 2);
    let first = json(&["id-ns", server.url(), "-o", "json"]);
    assert_eq!((&first["nsze"], &first["lbafs"][0]["ds"]), (&4096.into(), &12.into()));
    let second = json(&["id-ns", &format!("{}/2", server.url()), "-o", "json"]);
    assert_eq!(second["nsze"], (1 << 30) / 512);
    assert_ne!(first["nguid"], second["nguid"]);
}

/// nvmet serves names of any form, so test suites and tutorials use them.
#[test]
fn names_of_any_form_are_served_with_one_warning() {
    let dir = Scratch::new("anyname");
    for (name, in_url, shown) in [
        ("testnqn", "testnqn", "testnqn"),
        ("a/b,c?d%e f\u{1b}[2J", "a%2Fb%2Cc%3Fd%25e%20f%1B%5B2J", "a/b,c?d%e f\\u{1b}[2J"),
    ] {
        let log = dir.path().join("log");
        let mut command = weft(
            dir.path(),
            &["serve", "ram:16MiB", "--nqn", name, "--listen", "nvme+tcp://127.0.0.1:0"],
        );
        command.stderr(std::fs::File::create(&log).unwrap());
        let server = Server::spawn(command);
        assert!(server.url().ends_with(&format!("/{in_url}")), "{}", server.url());
        for _ in 0..2 {
            let ran = run(weft(dir.path(), &["id-ctrl", server.url(), "-o", "json"]));
            assert_eq!(ran.code(), Some(0), "{ran:?}");
            let controller: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(controller["subnqn"], name);
            assert_eq!(ran.err.matches("does not have the form").count(), 1, "{}", ran.err);
        }
        for host in ["testhost", "otherhost", "testhost"] {
            assert_eq!(
                run(weft(dir.path(), &["id-ctrl", server.url(), "--hostnqn", host])).code(),
                Some(0)
            );
        }
        let discovered =
            run(weft(dir.path(), &["discover", &format!("nvme+tcp://{}", server.address())]));
        assert!(discovered.out.contains(&format!("subnqn:  {shown}\n")), "{}", discovered.out);
        drop(server);
        let log = std::fs::read_to_string(&log).unwrap();
        assert_eq!(log.matches("the subsystem's name").count(), 1, "{log}");
        for host in ["testhost", "otherhost"] {
            let line = format!("host {host} has a name that does not have the form");
            assert_eq!(log.matches(&line).count(), 1, "{host} is told of once: {log}");
        }
        assert!(!log.contains('\u{1b}') && log.contains(shown), "{log}");
    }
}

#[test]
fn names_outlive_the_process() {
    let Some(dir) = Scratch::lasting("names") else { return };
    let identify = |dir: &Scratch| {
        let server = Server::start(dir.path(), &["file:./disk.img,size=1MiB"]);
        let ran = run(weft(dir.path(), &["id-ns", server.url(), "-o", "json"]));
        let namespace: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        (server.url().rsplit('/').next().unwrap().to_owned(), namespace["nguid"].clone())
    };
    assert_eq!(identify(&dir), identify(&dir));
}

#[cfg(unix)]
#[test]
fn sigterm_drains_and_ends_with_success() {
    let dir = Scratch::new("sigterm");
    let server = Server::start(dir.path(), &["file:./disk.img,size=64MiB", "--nqn", NQN]);
    let url = server.url().to_owned();
    let path = dir.path().to_owned();
    let load = std::thread::spawn(move || {
        run(weft(&path, &["bench", &url, "--rw=randwrite", "--iodepth=16", "--runtime=1h", ONCE]))
    });
    let image = dir.path().join("disk.img");
    until("something is written", || {
        std::fs::metadata(&image)
            .is_ok_and(|image| std::os::unix::fs::MetadataExt::blocks(&image) > 0)
    });
    assert!(server.terminate().success());
    let ran = load.join().unwrap();
    assert_eq!(ran.code(), Some(11), "the load has lost its target: {ran:?}");
}

#[test]
fn logs_are_json_on_request() {
    let dir = Scratch::new("logs");
    let ran =
        run(weft(dir.path(), &["--log-format=json", "--log-level=info", "limits", "-o", "json"]));
    assert_eq!(ran.code(), Some(0));
    assert!(
        serde_json::from_str::<serde_json::Value>(&ran.out).unwrap().get("weft_proto").is_some()
    );
}

/// A relay to the NVMe/TCP target `to`. What its first connection says is passed on once a first
/// connection has come to each relay of the meeting.
fn relay(to: &str, meeting: &Arc<Barrier>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nvme+tcp://{}/{NQN}", listener.local_addr().unwrap());
    let (to, meeting) = (to.to_owned(), Arc::clone(meeting));
    thread::spawn(move || {
        for (n, near) in listener.incoming().flatten().enumerate() {
            if n == 0 {
                meeting.wait();
            }
            let far = TcpStream::connect(&to).unwrap();
            for (mut from, mut into) in
                [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
            {
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut into);
                    let _ = into.shutdown(Shutdown::Both);
                });
            }
        }
    });
    url
}

#[test]
fn sources_open_side_by_side() {
    let dir = Scratch::new("sources");
    let meeting = Arc::new(Barrier::new(3));
    let targets: Vec<_> =
        (0..3).map(|_| Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN])).collect();
    let urls: Vec<_> = targets.iter().map(|target| relay(target.address(), &meeting)).collect();
    // Opened one after another, the first would wait for the others until its time is up.
    let gateway = Server::start(
        dir.path(),
        &[&urls[0], &urls[1], &urls[2], "--threads=1", "--connect-timeout=2min"],
    );
    let ran = run(weft(dir.path(), &["list-ns", gateway.url(), "-o", "json"]));
    let list: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(list["nsid_list"].as_array().unwrap().len(), 3);
}

#[test]
fn a_source_that_cannot_be_opened_is_named_at_once() {
    let dir = Scratch::new("which");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let [silent, refused] =
        [silent.local_addr().unwrap(), free].map(|address| format!("nvme+tcp://{address}/{NQN}"));
    // The first one would take ten minutes, for which this test would not wait.
    let ran = run(weft(
        dir.path(),
        &[
            "serve",
            &silent,
            &refused,
            "--connect-timeout=10min",
            "--listen",
            "nvme+tcp://127.0.0.1:0",
        ],
    ));
    assert_eq!(ran.code(), Some(7), "{ran:?}");
    // At its end it waits for the silent one a little, and tells of that.
    assert!(ran.err.contains(&refused) && !ran.err.contains(&silent), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_while_sources_are_opened() {
    use std::os::unix::process::ExitStatusExt;
    let dir = Scratch::new("opening");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nvme+tcp://{}/{NQN}", silent.local_addr().unwrap());
    let mut child = weft(dir.path(), &["serve", &url, "--connect-timeout=10min"]).spawn().unwrap();
    // It has begun when its connection is there.
    let _connection = silent.accept().unwrap();
    weft_testing::process::signal(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[cfg(unix)]
#[test]
fn a_source_that_is_lost_leaves_the_others_alone() {
    let dir = Scratch::new("lost");
    let nbd = Server::start(dir.path(), &["ram:16MiB", "--listen", "nbd://127.0.0.1:0"]);
    let [nvme, kept] = [(), ()].map(|()| Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]));
    // One loop: its connections share a queue of each device.
    let gateway =
        Server::start(dir.path(), &[nbd.url(), nvme.url(), kept.url(), "--threads=1", ONCE]);
    let url = format!("{}/3", gateway.url());
    let mut command = weft(
        dir.path(),
        &["bench", &url, "--rw=randrw", "--iodepth=4", "--runtime=10min", "--output=report"],
    );
    let mut load = command.spawn().unwrap();
    let namespaces = || -> Vec<u64> {
        let ran = run(weft(dir.path(), &["list-ns", gateway.url(), "-o", "json"]));
        let list: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let number = |entry: &serde_json::Value| entry["nsid"].as_u64().unwrap();
        list["nsid_list"].as_array().unwrap().iter().map(number).collect()
    };
    // What is lost fails: hosts are to look for another path to it.
    let is_lost = |nsid: u32| {
        let url = format!("{}/{nsid}", gateway.url());
        run(weft(
            dir.path(),
            &["bench", &url, "--rw=randread", "--number_ios=1", "--output=report", ONCE],
        ))
        .code()
            == Some(11)
    };
    assert!(!is_lost(1) && !is_lost(2));
    drop(nbd);
    until("the first is gone", || is_lost(1));
    drop(nvme);
    until("the second is gone", || is_lost(2));
    assert_eq!(namespaces(), [1, 2, 3], "they are still the names of that data");
    weft_testing::process::signal(load.id(), "INT");
    assert_eq!(
        load.wait().unwrap().code(),
        Some(130),
        "interrupted, and no operation of another device has failed"
    );
}

#[test]
fn a_gateway_ends_with_its_target_where_that_is_wanted() {
    let dir = Scratch::new("exit");
    // With a cache, which cannot be flushed when the gateway stops.
    let upstream = Server::start(dir.path(), &["file:./disk.img,size=16MiB", "--nqn", NQN]);
    let args =
        ["serve", upstream.url(), "--listen", "nvme+tcp://127.0.0.1:0", "--exit-on-loss", ONCE];
    let mut command = weft(dir.path(), &args);
    command.stderr(Stdio::piped());
    let mut gateway = Server::spawn(command);
    // A host that is connected is told before.
    let load = weft(
        dir.path(),
        &["bench", gateway.url(), "--rw=randread", "--runtime=10min", "--output=report", ONCE],
    )
    .spawn();
    drop(upstream);
    let (status, said) = gateway.wait();
    assert_eq!(status.code(), Some(13), "{said}");
    assert!(said.contains("the device is lost") && said.contains("--exit-on-loss"), "{said}");
    assert_eq!(load.unwrap().wait().unwrap().code(), Some(11), "operations failed");
}

#[test]
fn hosts_see_the_namespaces_that_are_theirs() {
    let dir = Scratch::new("masks");
    let (one, both) = ("nqn.2026-01.example.weft:one", "nqn.2026-01.example.weft:both");
    let masks = ["--allow-host", &format!("{one}=2"), "--allow-host", both];
    let server = Server::start(
        dir.path(),
        &[&["ram:16MiB", "ram:16MiB", "--nqn", NQN], &masks[..]].concat(),
    );
    let seen_by = |host: &str| {
        let ran =
            run(weft(dir.path(), &["list-ns", server.url(), "-o", "json", "--hostnqn", host]));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
        let list: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        list["nsid_list"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["nsid"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!((seen_by(one), seen_by(both)), (vec![2], vec![1, 2]));
    let refused =
        run(weft(dir.path(), &["serve", "ram:16MiB", "--allow-host", &format!("{one}=2")]));
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    assert!(refused.message().contains("there is no 2"), "{refused:?}");
}
