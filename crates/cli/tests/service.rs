//! A server as a part of its system: it drains, speaks to the service manager, gets its sockets
//! from it, and is replaced by another process.
#![cfg(target_os = "linux")]

use crate::support::loads::{Loads, until_many_writes};
use crate::support::{Scratch, Server, run, weft};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weft_endpoint::{ConnectOptions, Disk, PathOptions};
use weft_testing::process::stands_still;
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:service";

fn send(server: &Server, signal: &str) {
    weft_testing::process::signal(server.pid(), signal);
}

fn signal(server: &Server) {
    send(server, "TERM");
}

/// Waits until the namespace of the server with this control has an operation in flight. (A host
/// has one in flight while it is connecting, too.)
fn wait_for_operation(dir: &Scratch, control: &str) {
    until("an operation is in flight", || {
        let ran = run(weft(dir.path(), &["status", "--json", "--control", control]));
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_default();
        report["subsystems"][0]["namespaces"][0]["counts"]["in_flight"].as_u64().unwrap_or(0) > 0
    });
}

/// A write is in flight as long as the target of the server stands still.
#[test]
fn what_is_in_flight_is_finished_before_the_end() {
    let dir = Scratch::new("drain");
    let target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN, "--control", "target"]);
    let patient = ["--keep-alive-tmo=0", "--failover=fast", "--io-timeout=1h"];
    let server = [target.url(), "--nqn", "nqn.2026-01.example.weft:drain", "--control", "server"];
    let mut server = Server::start(dir.path(), &[&server[..], &patient].concat());
    let options =
        ConnectOptions { keep_alive_ms: 0, paths: PathOptions::once(), ..Default::default() };
    let disk = Disk::open(server.url(), &options).unwrap();
    send(&target, "STOP");
    until("the target stands still", || stands_still(target.pid()));
    let written = std::thread::spawn(move || disk.write(0, &[7; 4096]));
    wait_for_operation(&dir, "server");
    signal(&server);
    until("it drains", || TcpStream::connect(server.address()).is_err());
    send(&target, "CONT");
    written.join().unwrap().unwrap();
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let dir = Scratch::new("twice");
    let args = ["delay:write=1h,read=0us,ram:16MiB", "--nqn", NQN, "--control", "server"];
    let mut server = Server::start(dir.path(), &args);
    let bench = weft(
        dir.path(),
        &["bench", server.url(), "--rw=write", "--bs=4k", "--number_ios=1", "--time_based=0"],
    );
    let bench = std::thread::spawn(move || run(bench));
    wait_for_operation(&dir, "server");
    signal(&server);
    until("it drains", || TcpStream::connect(server.address()).is_err());
    signal(&server);
    assert_eq!(server.wait().0.code(), Some(130), "draining would have ended with 0");
    // A load whose target has gone.
    drop(bench);
}

#[test]
fn the_service_manager_is_told() {
    let dir = Scratch::new("notify");
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let told = || {
        let mut text = [0; 1024];
        let length = manager.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let mut command = weft(dir.path(), &["serve", "null:1MiB", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000").env_remove("WATCHDOG_PID");
    let server = Server::spawn(command);
    assert_eq!(told().trim(), "READY=1");
    assert_eq!((told().trim(), told().trim()), ("WATCHDOG=1", "WATCHDOG=1"));
    assert_eq!(server.terminate().code(), Some(0));
    until("it tells of its end", || told().trim() == "STOPPING=1");
}

/// The part of systemd: sockets are descriptors from 3 on, and the variables name the process.
fn activated(dir: &Scratch, socket: TcpListener, names: &str, args: &str) -> Command {
    let program = env!("CARGO_BIN_EXE_weft");
    let script = format!(
        "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES={names} exec {program} serve null:1MiB {args} 3<&0 0</dev/null"
    );
    let model = weft(dir.path(), &[]);
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(dir.path()).stdin(Stdio::from(OwnedFd::from(socket)));
    model.get_envs().for_each(|(name, value)| _ = value.map(|value| command.env(name, value)));
    command
}

#[test]
fn sockets_of_the_service_manager_are_used() {
    let dir = Scratch::new("activated");
    for (name, scheme) in [("weft.socket", "nvme+tcp://"), ("iscsi", "iscsi://"), ("nbd", "nbd://")]
    {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        // Whoever comes before the service runs waits.
        let _early = TcpStream::connect(at).unwrap();
        let server = Server::spawn(activated(&dir, socket, name, ""));
        assert!(server.url().starts_with(&format!("{scheme}{at}")), "{}", server.url());
        let ran = run(weft(
            dir.path(),
            &["bench", server.url(), "--rw=read", "--bs=4k", "--number_ios=8", "--time_based=0"],
        ));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
        assert_eq!(server.terminate().code(), Some(0));
    }
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let ran = run(activated(&dir, socket, "x", "--listen 127.0.0.1:0"));
    assert!(
        ran.code() == Some(2) && ran.message().contains("no --listen has the address"),
        "{ran:?}"
    );
}

/// Connects again and again, until it is told to stop; how often, and every failure.
fn connect_always(to: &str, stop: &AtomicBool, count: &AtomicU64) -> Vec<std::io::Error> {
    let mut failures = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match TcpStream::connect(to) {
            Ok(stream) => drop(stream),
            Err(e) => failures.push(e),
        }
        count.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
    failures
}

#[test]
fn another_process_takes_over_and_nobody_is_refused() {
    let dir = Scratch::new("takeover");
    let args = ["file:./disk.img,size=16MiB", "--nqn", NQN, "--control"];
    let mut old = Server::start(dir.path(), &[&args[..], &["first"]].concat());
    let bench = |url: &str, rw: &str| {
        let rw = format!("--rw={rw}");
        let ran = run(weft(
            dir.path(),
            &["bench", url, &rw, "--bs=4k", "--size=1MiB", "--verify=crc32c", "--time_based=0"],
        ));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
    };
    bench(old.url(), "write");
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let (address, url) = (old.address().to_owned(), old.url().to_owned());
    let failures = std::thread::scope(|scope| {
        let connecting = scope.spawn(|| connect_always(&address, &stop, &count));
        until("connections come", || count.load(Ordering::Relaxed) > 10);
        let new =
            Server::start(dir.path(), &[&args[..], &["second", "--takeover", "first"]].concat());
        assert_eq!((new.url(), old.wait().0.code()), (url.as_str(), Some(0)));
        let so_far = count.load(Ordering::Relaxed);
        until("more connections come", || count.load(Ordering::Relaxed) > so_far + 10);
        bench(&url, "read");
        stop.store(true, Ordering::Relaxed);
        let failures = connecting.join().unwrap();
        assert_eq!(new.terminate().code(), Some(0));
        failures
    });
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn a_server_lives_on_where_the_next_one_cannot_take_over() {
    let dir = Scratch::new("mismatch");
    let args = ["file:./disk.img,size=16MiB", "--nqn", NQN, "--control"];
    let mut old = Server::start(dir.path(), &[&args[..], &["first"]].concat());
    let listen = ["--listen", "127.0.0.1:0"];
    for (more, said) in [
        (&["--host-limit", "h=fast"][..], "--host-limit"),
        (&["--listen", "nbds://127.0.0.1:0"], "TLS needs a certificate"),
        (&["--metrics", "192.0.2.1:0", "--metrics-token-file", "none"], "192.0.2.1"),
        (&["--listen", "192.0.2.1:0"], "goes on"),
    ] {
        let ran = run(weft(
            dir.path(),
            &[&["serve"], &args[..], &["second", "--takeover", "first"], &listen, more].concat(),
        ));
        assert!(ran.code() != Some(0) && ran.message().contains(said), "{more:?}: {ran:?}");
    }
    let take = ["second", "--takeover", "first", "--listen", "127.0.0.2:0"];
    let ran = run(weft(dir.path(), &[&["serve"], &args[..], &take].concat()));
    assert!(
        ran.code() == Some(2)
            && ran.message().contains("add it with --listen; that server goes on"),
        "{ran:?}"
    );
    let other = Server::start(dir.path(), &["ram:1MiB", "--control", "other"]);
    let (port, busy) = (closed_port(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let busy = busy.local_addr().unwrap().to_string();
    for (more, said) in [
        (["--metrics", &busy], "goes on"),
        (["--control", "other"], "another weft serve"),
        (["--discovery-nqn", NQN], "discovery"),
    ] {
        let take = ["serve", args[0], "--nqn", NQN, "--takeover", "first"];
        let ran = run(weft(dir.path(), &[&take[..], &listen, &more].concat()));
        assert!(ran.code() != Some(0) && ran.message().contains(said), "{more:?}: {ran:?}");
    }
    drop(other);
    let away = format!("nbd://127.0.0.1:{port}/disk");
    let stripe = "stripe:3,ram:1MiB,ram:1MiB";
    for source in ["tape:0", "file:./missing.img", stripe, "limit:iops=much,ram:1MiB", &away] {
        let ran = run(weft(
            dir.path(),
            &[&["serve", source, "--takeover", "first"], &listen[..]].concat(),
        ));
        assert!(ran.code() != Some(0) && ran.message().contains(source), "{ran:?}");
    }
    TcpStream::connect(old.address()).unwrap();
    let new = Server::start(dir.path(), &[&args[..], &["second", "--takeover", "first"]].concat());
    // One that was killed has left its socket.
    let left = ["run/other.control", "run/other.control.lock"].map(|name| dir.path().join(name));
    assert!(!left.iter().any(|path| path.exists()));
    assert_eq!(old.wait().0.code(), Some(0));
    assert_eq!(new.terminate().code(), Some(0));
}

/// Whether the first server answers, which it does a moment after it serves again, and has what was
/// added to it.
fn has_change(dir: &Path) -> bool {
    let ran = run(weft(dir, &["status", "--json", "--control", "first"]));
    ran.status.success() && ran.out.contains("ram:1MiB")
}

#[test]
fn a_server_goes_on_where_the_next_one_fails_after_it_has_released_everything() {
    let dir = Scratch::new("fails");
    let args = ["file:./disk.img,size=16MiB", "--nqn", NQN, "--control"];
    let mut old = Server::start(dir.path(), &[&args[..], &["first"]].concat());
    let other = Server::start(dir.path(), &["file:./other.img,size=1MiB", "--control", "other"]);
    let written = run(weft(dir.path(), &["namespace", "add", "ram:1MiB", "--control", "first"]));
    assert_eq!(written.code(), Some(0), "{written:?}");
    // The file of the next one is in use, which it finds when it opens it.
    let take = ["second", "--takeover", "first", "--listen", "127.0.0.1:0"];
    for _ in 0..2 {
        let fails = [&["serve", "file:./other.img"], &args[1..], &take].concat();
        let ran = run(weft(dir.path(), &fails));
        assert!(ran.code() != Some(0) && ran.message().contains("other.img"), "{ran:?}");
        // Whoever connects before the old one listens again waits.
        let disk = weft_endpoint::Disk::open(old.url(), &Default::default()).unwrap();
        disk.read(0, &mut [0; 512]).unwrap();
        // What was changed while it ran is there again.
        until("it has the change", || has_change(dir.path()));
    }
    // It serves, and cannot say so.
    let fails = [&["serve"], &args[..], &take].concat();
    let mut cannot_print = weft(dir.path(), &fails);
    cannot_print.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
    assert!(!cannot_print.stderr(Stdio::null()).status().unwrap().success());
    let disk = weft_endpoint::Disk::open(old.url(), &Default::default()).unwrap();
    disk.read(0, &mut [0; 512]).unwrap();
    until("it has the change", || has_change(dir.path()));
    drop((disk, other));
    let new = Server::start(dir.path(), &[&args[..], &["second", "--takeover", "first"]].concat());
    assert_eq!(old.wait().0.code(), Some(0));
    assert_eq!(new.terminate().code(), Some(0));
}

/// A port at which nobody listens.
fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_takeover_does_not_drop_a_proof_in_silence() {
    let dir = Scratch::new("proof");
    assert_eq!(run(weft(dir.path(), &["gen-dhchap-key", "--keyfile", "secret"])).code(), Some(0));
    let args = ["ram:1MiB", "--nqn", NQN, "--control"];
    let mut old = Server::start(
        dir.path(),
        &[&args[..], &["first", "--dhchap-secret-file", "secret"]].concat(),
    );
    let take = ["second", "--takeover", "first", "--listen", "127.0.0.1:0"];
    let ran = run(weft(dir.path(), &[&["serve"], &args[..], &take].concat()));
    assert!(
        ran.code() == Some(2)
            && ran.message().contains("demands DH-HMAC-CHAP of its hosts")
            && ran.message().contains("--insecure"),
        "{ran:?}"
    );
    TcpStream::connect(old.address()).unwrap();
    let new = Server::start(
        dir.path(),
        &[&args[..], &["second", "--takeover", "first", "--insecure"]].concat(),
    );
    assert_eq!(old.wait().0.code(), Some(0));
    assert_eq!(new.terminate().code(), Some(0));
}

/// A load that verifies goes on once its initiator has connected to the new process.
#[test]
fn a_load_goes_on_after_a_takeover() {
    let dir = Scratch::new("goeson");
    let args = ["file:./disk.img,size=16MiB", "--nqn", NQN, "--control"];
    let mut old = Server::start(dir.path(), &[&args[..], &["first"]].concat());
    let (path, url) = (dir.path().to_owned(), old.url().to_owned());
    let loads = Loads::start(move || {
        let load = ["bench", &url, "--rw=write", "--bs=4k", "--size=8MiB", "--iodepth=4"];
        let more = ["--verify=crc32c", "--time_based=0", "--keep-alive-tmo=1"];
        weft(&path, &[&load[..], &more, &["--quiesce-time=100ms"]].concat())
    });
    until_many_writes(dir.path(), "first");
    let new = Server::start(dir.path(), &[&args[..], &["second", "--takeover", "first"]].concat());
    assert_eq!(old.wait().0.code(), Some(0));
    until_many_writes(dir.path(), "second");
    loads.end();
    assert_eq!(new.terminate().code(), Some(0));
}
