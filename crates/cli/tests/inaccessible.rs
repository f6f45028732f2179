//! A target that refuses the only path (ANA inaccessible): whoever waits for it says so.
#![cfg(unix)]

use crate::support::{Scratch, Server, run, weft};
use std::fs::File;
use std::path::Path;
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:inaccessible";

const CONFIG: &str = "name = \"up\"\nlisten = [\"nvme+tcp://127.0.0.1:0\"]\n\
    [[ana]]\ngroup = 1\nstate = \"inaccessible\"\n\
    [[subsystem]]\nnqn = \"nqn.2026-01.example.weft:inaccessible\"\n\
    [[subsystem.namespace]]\nnsid = 1\nsource = \"ram:16MiB\"\n";

/// What a program has logged into this file.
fn log(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap()
}

#[test]
fn a_path_that_is_refused_is_logged_and_shown() {
    let dir = Scratch::new("inaccessible");
    let dir = dir.path();
    std::fs::write(dir.join("weft.toml"), CONFIG).unwrap();
    let target = Server::spawn(weft(dir, &["serve", "--config", "weft.toml"]));
    let upstream = format!("nvme+tcp://{}/{NQN}/1", target.address());
    let mut gateway = weft(dir, &["serve", &upstream, "--listen", "127.0.0.1:0"]);
    gateway.args(["--control", "gw"]).stderr(File::create(dir.join("gateway")).unwrap());
    let _gateway = Server::spawn(gateway);
    let mut bench = weft(dir, &["bench", &upstream, "--rw=randread", "--bs=4k", "--runtime=3600s"]);
    let bench = bench.stderr(File::create(dir.join("bench")).unwrap());
    let mut bench = bench.stdout(std::process::Stdio::null()).spawn().unwrap();

    for name in ["gateway", "bench"] {
        until("it is logged", || log(dir, name).contains("no path has been usable for"));
        let text = log(dir, name);
        let line = text.lines().find(|line| line.contains("no path has been usable")).unwrap();
        assert!(line.contains("operations wait") && line.contains("inaccessible"), "{line}");
        assert!(line.contains(&upstream), "{line}");
    }
    let status = || run(weft(dir, &["status", "--control", "gw"])).out;
    let line = "commands of namespace 1 wait, as no path can be used; inaccessible";
    assert!(status().contains(line), "{}", status());

    let changed = run(weft(dir, &["ana", "set", "1", "optimized", "--control", "up"]));
    assert_eq!(changed.code(), Some(0), "{changed:?}");
    for name in ["gateway", "bench"] {
        until("the end is logged", || log(dir, name).contains("a path can be used again after"));
    }
    assert!(!status().contains("wait, as no path"), "{}", status());
    bench.kill().unwrap();
    bench.wait().unwrap();
}
