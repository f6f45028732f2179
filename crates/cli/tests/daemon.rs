//! `weft daemon`: connections that last, as far as they go without a kernel that attaches anything.
#![cfg(target_os = "linux")]

use crate::support::{Ran, Scratch, Server, run, weft};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weft_testing::programs;
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:daemon";

/// A user that owns nothing here.
const NOBODY: u32 = 65_534;

/// A directory whose daemons and connections end with it.
struct Dir(Scratch);

/// A running daemon.
struct Daemon(Child);

impl Dir {
    fn new(name: &str) -> Self {
        Self(Scratch::new(name))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn weft(&self, args: &[&str]) -> Ran {
        run(weft(self.path(), args))
    }

    fn done(&self, args: &[&str]) -> String {
        let ran = self.weft(args);
        assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    fn daemon(&self, args: &[&str]) -> Daemon {
        Self::begun(weft(self.path(), &[&["daemon"], args].concat()))
    }

    fn begun(mut command: Command) -> Daemon {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line:?}");
        Daemon(child)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.done(&["list", "-o", "json"])).unwrap()
    }

    /// What the daemon holds with this name.
    fn held(&self, name: &str) -> Value {
        let json = self.json();
        let all = json["Connections"].as_array().unwrap();
        all.iter().find(|it| it["Name"] == name).cloned().unwrap_or_default()
    }

    fn state(&self, name: &str) -> String {
        self.held(name)["State"].as_str().unwrap_or("none").to_owned()
    }

    /// The process of the connection with this name.
    fn pid(&self, name: &str) -> Option<u64> {
        let json = self.json();
        let all = json["Devices"].as_array().unwrap();
        all.iter().find(|it| it["Name"] == name)?["Pid"].as_u64()
    }

    /// Kills the process of a connection, and waits for the next one.
    fn kill(&self, name: &str) {
        let killed = self.pid(name).unwrap();
        kill("KILL", killed);
        until("there is another process", || {
            self.pid(name).is_some_and(|now| now != killed) && self.state(name) == "connected"
        });
    }

    fn record(&self) -> PathBuf {
        self.path().join("state/connections.record")
    }

    /// Records connections that were made by nobody.
    fn write_record(&self, connections: &[(&str, &str)]) {
        let connection = |(name, url): &(&str, &str)| {
            let words =
                ["connect", url, "--as", "nbd", "--serve-only", "--name", name, "--persist"];
            json!({"name": name, "url": url, "words": words, "directory": self.path()})
        };
        let all: Vec<Value> = connections.iter().map(connection).collect();
        let text = json!({"version": 1, "connections": all}).to_string();
        std::fs::create_dir_all(self.path().join("state")).unwrap();
        self.0.private("state/connections.record", &text);
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = weft(self.path(), &["disconnect", "--all", "--force"]).output();
    }
}

impl Daemon {
    fn end(&mut self, signal: &str) -> Option<i32> {
        kill(signal, u64::from(self.0.id()));
        self.0.wait().unwrap().code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kill(signal: &str, pid: u64) {
    weft_testing::process::signal(u32::try_from(pid).unwrap(), signal);
}

fn connect<'a>(url: &'a str, name: &'a str) -> [&'a str; 8] {
    ["connect", url, "--as", "nbd", "--serve-only", "--name", name, "--persist"]
}

#[test]
fn a_connection_lasts_until_it_is_forgotten() {
    let dir = Dir::new("lasts");
    let target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let mut daemon = dir.daemon(&[]);
    let said = dir.done(&connect(target.url(), "disk"));
    assert!(said.contains("weft disconnect disk"), "{said}");
    assert_eq!(dir.state("disk"), "connected");
    assert_eq!(dir.record().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = dir.weft(&connect(target.url(), "disk"));
    assert_eq!(again.code(), Some(5), "{again:?}");

    // The disk stays when its daemon is killed, and is found by the next one.
    let pid = dir.pid("disk").unwrap();
    daemon.end("KILL");
    assert_eq!((dir.pid("disk"), dir.state("disk")), (Some(pid), "none".into()));
    let mut daemon = dir.daemon(&[]);
    assert_eq!((dir.pid("disk"), dir.state("disk")), (Some(pid), "connected".into()));

    // Its server is started again when it is killed.
    dir.kill("disk");

    // An order holds until the next start, and to forget holds for ever.
    let said = dir.done(&["disconnect", target.url()]);
    assert!(said.contains("comes back"), "{said}");
    assert_eq!((dir.pid("disk"), dir.state("disk")), (None, "ended".into()));
    assert_eq!(daemon.end("TERM"), Some(0));
    let mut daemon = dir.daemon(&[]);
    until("it is there again", || dir.state("disk") == "connected");
    dir.done(&["disconnect", "disk", "--forget"]);
    assert_eq!((dir.pid("disk"), dir.state("disk")), (None, "none".into()));
    assert_eq!(daemon.end("TERM"), Some(0));
    let _daemon = dir.daemon(&[]);
    assert_eq!(dir.state("disk"), "none");
}

#[test]
fn one_that_fails_delays_no_other_and_is_tried_as_long_as_it_takes() {
    let dir = Dir::new("fails");
    let port = weft_testing::port::free(std::net::Ipv4Addr::LOCALHOST);
    let at = format!("127.0.0.1:{port}");
    let (bad, lost) = (format!("nvme+tcp://{at}/{NQN}"), "file:missing.img");
    dir.write_record(&[("bad", &bad), ("lost", lost), ("good", "ram:16MiB")]);
    let _daemon = dir.daemon(&[]);
    until("the good one is there", || dir.state("good") == "connected");
    until("the others wait", || {
        ["bad", "lost"].iter().all(|name| dir.held(name)["NextAttemptSeconds"].is_number())
    });
    let held = dir.held("bad");
    assert!(held["LastError"].as_str().unwrap().contains("target listens there"), "{held}");
    let table = dir.done(&["list"]);
    let table: Vec<&str> = table.lines().skip_while(|line| !line.starts_with("Conn")).collect();
    assert!(table.len() >= 6, "{table:?}");
    assert!(table.iter().all(|line| line.chars().count() <= 80), "{table:?}");

    let listen = format!("nvme+tcp://{at}");
    let _target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN, "--listen", &listen]);
    until("its target is there", || dir.state("bad") == "connected");
    // One that is not connected is forgotten by its name, too.
    dir.done(&["disconnect", "lost", "--forget"]);
    assert!(!std::fs::read_to_string(dir.record()).unwrap().contains("missing.img"));
}

#[test]
fn what_cannot_be_made_is_not_recorded() {
    let dir = Dir::new("unmade");
    for args in [
        &["connect", "ram:1MiB", "--serve-only", "--persist"][..],
        &["disconnect", "--all", "--forget"],
    ] {
        let ran = dir.weft(args);
        assert_eq!(ran.code(), Some(3), "{ran:?}");
        assert!(ran.message().contains("`weft daemon`"), "{ran:?}");
    }
    let _daemon = dir.daemon(&[]);
    let second = dir.weft(&["daemon"]);
    assert_eq!(second.code(), Some(5), "{second:?}");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = dir.weft(&connect(&format!("nvme+tcp://{free}/{NQN}"), "disk"));
    assert_eq!(refused.code(), Some(7), "{refused:?}");
    assert!(refused.message().contains("check that a target listens there"), "{refused:?}");
    assert_eq!((dir.state("disk"), dir.record().exists()), ("none".into(), false));
    let mut secret = weft(dir.path(), &connect("ram:1MiB", "disk"));
    secret.env("WEFT_DHCHAP_SECRET", "x");
    let refused = run(secret);
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    assert!(refused.message().contains("WEFT_DHCHAP_SECRET"), "{refused:?}");
    // Without --persist it is held, and not recorded.
    dir.done(&connect("ram:1MiB", "disk")[..7]);
    assert_eq!(dir.held("disk")["Recorded"], false);
    dir.done(&["disconnect", "disk"]);
    assert_eq!(dir.state("disk"), "none");
}

#[test]
fn a_damaged_record_is_refused_and_kept() {
    let dir = Dir::new("damaged");
    dir.write_record(&[("disk", "ram:1MiB")]);
    let whole = std::fs::read_to_string(dir.record()).unwrap();
    for (text, word) in [
        (&whole[..whole.len() / 2], "damaged"),
        (&whole.replace("\"version\":1", "\"version\":9"), "version 9"),
    ] {
        std::fs::write(dir.record(), text).unwrap();
        let ran = dir.weft(&["daemon"]);
        assert_eq!(ran.code(), Some(2), "{ran:?}");
        assert!(ran.message().contains(word) && ran.message().contains("connections.record"));
        assert_eq!(std::fs::read_to_string(dir.record()).unwrap(), text);
    }
    std::fs::write(dir.record(), &whole).unwrap();
    std::fs::set_permissions(dir.record(), PermissionsExt::from_mode(0o644)).unwrap();
    let ran = dir.weft(&["daemon"]);
    assert_eq!(ran.code(), Some(4), "{ran:?}");
    assert!(ran.message().contains("other users can read it"), "{ran:?}");
}

/// As a package manager does it, or one that removes the old version first.
#[test]
fn a_daemon_goes_on_after_its_program_was_replaced() {
    let dir = Dir::new("replaced");
    let program = dir.path().join("weft");
    // Not by this process: a child of another test could have the file open for writing.
    let copied = programs::command("cp").arg(env!("CARGO_BIN_EXE_weft")).arg(&program).status();
    assert!(copied.unwrap().success());
    let like = weft(dir.path(), &["daemon"]);
    let mut command = Command::new(&program);
    command.args(like.get_args()).current_dir(dir.path()).stdin(Stdio::null());
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let _daemon = Dir::begun(command);
    dir.done(&connect("ram:1MiB", "first"));
    for (name, is_replaced) in [("second", true), ("third", false)] {
        if is_replaced {
            let new = dir.path().join("new");
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weft"), &new).unwrap();
            std::fs::rename(new, &program).unwrap();
        } else {
            std::fs::remove_file(&program).unwrap();
        }
        dir.kill("first");
        dir.done(&connect("ram:1MiB", name));
        dir.done(&["disconnect", name]);
    }
}

#[test]
fn a_connection_without_relative_paths_needs_no_directory() {
    let dir = Dir::new("homeless");
    let home = dir.path().join("home");
    let settle = || {
        std::fs::create_dir(&home).unwrap();
        std::fs::File::create(home.join("data.img")).unwrap().set_len(1 << 20).unwrap();
    };
    settle();
    let _daemon = dir.daemon(&[]);
    for (url, name) in [("ram:1MiB", "disk"), ("file:data.img", "relative")] {
        let mut command = weft(dir.path(), &connect(url, name));
        command.current_dir(&home);
        let ran = run(command);
        assert_eq!(ran.code(), Some(0), "{ran:?}");
    }
    std::fs::remove_dir_all(&home).unwrap();
    dir.kill("disk");
    kill("KILL", dir.pid("relative").unwrap());
    // The first reason is that its server ended.
    until("it is tried again", || {
        let held = dir.held("relative");
        let why = held["LastError"].as_str().unwrap_or_default();
        let parts = ["data.img", "tried without the directory", home.to_str().unwrap()];
        parts.iter().all(|part| why.contains(part))
    });
    settle();
    until("its file is there", || dir.state("relative") == "connected");
}

/// `weft list` of a user who owns nothing, from the daemon at a socket.
fn listed_by_nobody(dir: &Dir, socket: &Path) -> std::process::Output {
    let [own, program] = ["nobody", "weft"].map(|name| dir.path().join(name));
    // A copy of the program that nobody can reach.
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_weft"), &program).unwrap();
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program)
        .args(["list", "--daemon"])
        .arg(socket)
        .env("WEFT_RUNTIME_DIR", own);
    command.output().unwrap()
}

#[test]
fn others_command_a_daemon_only_where_it_permits_them() {
    if !rustix::process::geteuid().is_root() {
        return weft_testing::skip("only root can start a process of another user");
    }
    let dir = Dir::new("permitted");
    let (own, socket) = (dir.path().join("nobody"), dir.path().join("daemon.sock"));
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(NOBODY), None).unwrap();
    let given = socket.to_str().unwrap();
    let daemon = dir.daemon(&["--socket", given]);
    dir.done(&["connect", "ram:1MiB", "--as", "nbd", "--serve-only", "--daemon", given]);
    let refused = listed_by_nobody(&dir, &socket);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    if said.contains("setpriv") {
        return weft_testing::skip(format!("another user cannot run this program here: {said}"));
    }
    assert_eq!(refused.status.code(), Some(4), "{said}");
    drop(daemon);

    // Whoever is permitted is answered; another one is not, although the socket lets all in.
    let daemon = dir.daemon(&["--socket", given, "--allow-user", "65533"]);
    assert!(!listed_by_nobody(&dir, &socket).status.success());
    drop(daemon);
    let _daemon = dir.daemon(&["--socket", given, "--allow-user", &NOBODY.to_string()]);
    let listed = listed_by_nobody(&dir, &socket);
    assert!(listed.status.success(), "{listed:?}");
    let unknown = dir.weft(&["daemon", "--allow-user", "no such user"]);
    assert_eq!(unknown.code(), Some(3), "{unknown:?}");
}
