//! A server that is suspended: commands say what they wait for, and end when they are told to.
#![cfg(target_os = "linux")]

use crate::support::{Scratch, Server, weft};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use weft_testing::process::{signal, stands_still};
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:suspended";

const CONFIG: &str = "listen = [\"nvme+tcp://127.0.0.1:0\"]\n\
    [[subsystem]]\nnqn = \"nqn.2026-01.example.weft:suspended\"\n\
    [[subsystem.namespace]]\nnsid = 1\nsource = \"ram:16MiB\"\n";

/// SIGINT and SIGTERM in `SigCgt` of proc(5).
const BOTH: u64 = (1 << 1) | (1 << 14);

/// A command that runs.
struct Running {
    args: String,
    child: Child,
    err: PathBuf,
}

impl Running {
    fn start(dir: &Path, args: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let err = dir.join(format!("err-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let mut command = weft(dir, args);
        command.stdout(Stdio::null()).stderr(File::create(&err).unwrap());
        Self { args: args.join(" "), child: command.spawn().unwrap(), err }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }

    /// Waits until it says that it waits for this.
    fn until_it_waits_for(&self, what: &str) {
        let says = |line: &str| line.starts_with("weft: waiting for ") && line.contains(what);
        until(&format!("{} waits for {what}", self.args), || self.said().lines().any(says));
    }

    /// Waits until it catches SIGTERM: it has opened its devices.
    fn until_ready(&self) {
        let catches = || {
            let path = format!("/proc/{}/status", self.child.id());
            let status = std::fs::read_to_string(path).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            caught.is_some_and(|mask| mask & BOTH == BOTH)
        };
        until(&format!("{} is ready", self.args), catches);
    }

    fn end(&mut self) -> ExitStatus {
        signal(self.child.id(), "TERM");
        let mut status = None;
        let args = self.args.clone();
        until(&format!("the end of {args}"), || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server with the control socket `s`.
fn server(dir: &Path) -> Server {
    Server::start(dir, &["ram:16MiB", "--nqn", NQN, "--control", "s"])
}

fn suspend(server: &Server) {
    signal(server.pid(), "STOP");
    until("it stands still", || stands_still(server.pid()));
}

#[test]
fn commands_to_a_suspended_server_say_so_and_can_be_ended() {
    let dir = Scratch::new("suspended");
    let dir = dir.path();
    std::fs::write(dir.join("weft.toml"), CONFIG).unwrap();
    let server = server(dir);
    let at = server.address();
    let url = format!("nvme+tcp://{at}/{NQN}/1");
    suspend(&server);

    let asking: [&[&str]; 10] = [
        &["status", "--control", "s"],
        &["top", "--control", "s"],
        &["control", "server.info", "--control", "s"],
        &["namespace", "add", "ram:1MiB", "--control", "s"],
        &["host", "allow", "nqn.2026-01.example.host:a", "--control", "s"],
        &["ana", "set", "1", "optimized", "--control", "s"],
        &["gateway", "list", "--control", "s"],
        &["apply", "weft.toml", "--control", "s"],
        &["capture", "127.0.0.1", "--pcap", "new.pcapng", "--control", "s"],
        &["serve", "ram:1MiB", "--takeover", "s", "--listen", at, "--control", "t"],
    ];
    let asking = asking.map(|args| (Running::start(dir, args), "the server at "));
    let connecting: [&[&str]; 6] = [
        &["discover", at],
        &["id-ctrl", &url],
        &["bench", &url, "--rw=randread"],
        &["copy", &url, "./copy.img"],
        &["serve", &url, "--listen", "127.0.0.1:0", "--control", "u"],
        &["connect", &url, "--as", "nbd", "--serve-only", "--foreground"],
    ];
    let connecting = connecting
        .map(|args| (Running::start(dir, &[args, &["--connect-timeout", "1h"]].concat()), at));

    let mut commands: Vec<_> = asking.into_iter().chain(connecting).collect();
    commands.iter().for_each(|(command, what)| command.until_it_waits_for(what));
    // The server is suspended all the time: nobody is answered.
    for (command, _) in &mut commands {
        let status = command.end();
        let is_ended = status.code() == Some(130) || status.signal() == Some(15);
        assert!(is_ended, "{}: {status}, {}", command.args, command.said());
    }
}

#[test]
fn what_was_under_way_when_the_server_was_suspended_can_be_ended() {
    let dir = Scratch::new("suspended-later");
    let dir = dir.path();
    let server = server(dir);
    let url = format!("nvme+tcp://{}/{NQN}/1", server.address());
    std::fs::write(dir.join("from.img"), vec![7; 16 << 20]).unwrap();
    let commands: [&[&str]; 3] = [
        &["capture", "127.0.0.1", "--for", "1h", "--pcap", "here.pcapng", "--control", "s"],
        &["bench", &url, "--rw=randread", "--bs=4k", "--runtime=3600"],
        &["copy", "./from.img", &url, "--limit", "200kB", "--journal", "./journal"],
    ];
    let mut commands: Vec<Running> =
        commands.iter().map(|args| Running::start(dir, args)).collect();
    commands.iter().for_each(Running::until_ready);
    until("it captures", || dir.join("here.pcapng").exists());
    suspend(&server);
    for command in &mut commands {
        let status = command.end();
        let said = command.said();
        assert_eq!(status.code(), Some(130), "{}: {said}", command.args);
        assert!(said.contains("weft: interrupted"), "{}: {said}", command.args);
    }
    assert!(dir.join("journal").exists(), "the copy can go on");
}
