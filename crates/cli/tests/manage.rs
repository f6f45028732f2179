//! A server is managed while hosts are connected.
#![cfg(unix)]

use crate::support::{Ran, Scratch, Server, run, weft};
use serde_json::Value;
use std::process::{Child, Stdio};
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:managed";
const HOST: &str = "nqn.2026-01.example.host:managed";

/// A configuration with one file, and more.
fn config(more: &str) -> String {
    let namespace = "[[subsystem.namespace]]\nnsid = 1\nsource = \"file:./one.img,size=16MiB\"\nname = \"one\"\n";
    format!(
        "name = \"m\"\nlisten = [\"nvme+tcp://127.0.0.1:0\"]\n[[subsystem]]\nnqn = \"{NQN}\"\n{namespace}{more}"
    )
}

struct Managed {
    dir: Scratch,
    server: Server,
}

impl Managed {
    fn start(name: &str, text: &str) -> Self {
        let dir = Scratch::new(name);
        std::fs::write(dir.path().join("weft.toml"), text).unwrap();
        let server = Server::spawn(weft(
            dir.path(),
            &["serve", "--config", "weft.toml", "--log-level", "warn"],
        ));
        Self { dir, server }
    }

    fn run(&self, args: &[&str]) -> Ran {
        run(weft(self.dir.path(), args))
    }

    /// A command that succeeds; what it printed.
    fn done(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    /// A command that is refused, with one line; the line.
    fn refused(&self, status: i32, args: &[&str]) -> String {
        let before = self.shown();
        let ran = self.run(args);
        assert_eq!(ran.code(), Some(status), "{args:?}: {ran:?}");
        assert_eq!(ran.said().len(), 1, "{ran:?}");
        assert_eq!(self.shown(), before, "nothing has changed");
        ran.message().to_owned()
    }

    fn write(&self, text: &str) {
        std::fs::write(self.dir.path().join("weft.toml"), text).unwrap();
    }

    fn shown(&self) -> Value {
        serde_json::from_str(&self.done(&["control", "inventory.show"])).unwrap()
    }

    /// Identifiers and sizes of the namespaces of the first subsystem.
    fn namespaces(&self) -> Vec<(u64, u64)> {
        let shown = self.shown();
        let of = |namespace: &Value| {
            (namespace["nsid"].as_u64().unwrap(), namespace["bytes"].as_u64().unwrap() >> 20)
        };
        shown["subsystems"][0]["namespaces"].as_array().unwrap().iter().map(of).collect()
    }

    /// A host that reads and writes until it is told to end.
    fn host(&self) -> Host {
        let url = format!("{}/1", self.server.url());
        let args = [
            "bench",
            &url,
            "--hostnqn",
            HOST,
            "--rw=randrw",
            "--size=4MiB",
            "--time_based",
            "--runtime=10min",
            "--output=report",
        ];
        let child = weft(self.dir.path(), &args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the host is connected", || self.done(&["control", "host.list"]).contains(HOST));
        Host(child)
    }
}

struct Host(Child);

impl Host {
    /// Ends it; all its operations have succeeded.
    fn ends_well(mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "it stayed connected");
        weft_testing::process::signal(self.0.id(), "INT");
        assert_eq!(self.0.wait().unwrap().code(), Some(130));
    }
}

#[test]
fn namespaces_and_hosts_come_and_go_by_command() {
    let managed = Managed::start("manage", &config(""));
    let host = managed.host();
    assert!(
        managed
            .done(&["namespace", "add", "ram:8MiB", "--nsid", "7"])
            .starts_with("+ add namespace 7 to")
    );
    managed.done(&["namespace", "add", "ram:4MiB"]);
    assert_eq!(managed.namespaces(), [(1, 16), (2, 4), (7, 8)]);
    managed.done(&["namespace", "resize", "7", "6MiB", "--force"]);
    managed.done(&["namespace", "resize", "7", "all"]);
    assert_eq!(managed.namespaces(), [(1, 16), (2, 4), (7, 8)]);

    for (status, args, said) in [
        (
            5,
            &["namespace", "remove", "2"][..],
            "in use by nqn.2026-01.example.host:managed; --force does it anyway",
        ),
        (5, &["namespace", "resize", "1", "8MiB"], "in use by"),
        (2, &["namespace", "resize", "1", "1GiB", "--force"], "cannot have 1GiB"),
        (2, &["namespace", "resize", "1", "much"], "is not a size"),
        (2, &["namespace", "add", "ram:1MiB", "--nsid", "7"], "already has a namespace 7"),
        (2, &["namespace", "add", "tape:0"], "tape"),
        (3, &["namespace", "add", "file:/no/such/file"], "/no/such/file"),
        (3, &["namespace", "remove", "9"], "has no namespace 9"),
        (
            3,
            &["namespace", "remove", "2", "--subsystem", "nqn.2026-01.example:none"],
            "there is no subsystem",
        ),
        (2, &["host", "deny", HOST], "every host may connect"),
    ] {
        let message = managed.refused(status, args);
        assert!(message.contains(said), "{message}");
    }
    // What was created for nothing does not stay.
    let new = "file:./new.img,size=1MiB";
    for more in [&["--nsid", "7"][..], &["--nguid", "zz"], &["--size", "1GiB"]] {
        managed.refused(2, &[&["namespace", "add", new][..], more].concat());
        assert!(!managed.dir.path().join("new.img").exists(), "{more:?}");
    }
    managed.done(&["namespace", "add", new]);
    assert!(managed.dir.path().join("new.img").exists());
    managed.done(&["namespace", "remove", "3", "--force"]);
    managed.done(&["namespace", "remove", "2", "--force"]);
    managed.done(&["ana", "set", "2", "non-optimized"]);
    assert!(managed.done(&["ana", "set", "2", "non-optimized"]).contains("nothing differs"));
    assert_eq!(managed.namespaces(), [(1, 16), (7, 8)]);
    host.ends_well();
}

#[test]
fn a_namespace_has_all_that_its_source_has_when_it_is_asked() {
    let managed = Managed::start("grown", &config(""));
    let host = managed.host();
    let (files, set_len) = (["a.img", "b.img", "c.img"], |name: &str, bytes: u64| {
        let path = managed.dir.path().join(name);
        let file = std::fs::File::options().write(true).create(true).truncate(false).open(path);
        file.unwrap().set_len(bytes).unwrap();
    });
    files.iter().for_each(|&name| set_len(name, 1 << 20));
    managed.done(&["namespace", "add", "file:./a.img", "--nsid", "5"]);
    managed.done(&["namespace", "add", "stripe:64KiB,file:./b.img,file:./c.img", "--nsid", "6"]);
    files.iter().for_each(|&name| set_len(name, 2 << 20));
    let grown = managed.done(&["namespace", "resize", "5"]);
    assert!(grown.contains("~ serve 2MiB of namespace 5 of ") && grown.contains("1MiB"), "{grown}");
    managed.done(&["namespace", "resize", "6", "all"]);
    assert_eq!(managed.namespaces()[1..], [(5, 2), (6, 4)]);
    assert!(managed.done(&["namespace", "resize", "5"]).contains("nothing differs"));
    // A size that is not known yet is asked for, too.
    set_len("a.img", 3 << 20);
    managed.done(&["namespace", "resize", "5", "3MiB"]);
    assert_eq!(managed.namespaces()[1], (5, 3));
    // A part of a block cannot be written, and what is cut off stays lost.
    for (bytes, status, said) in [((3 << 20) + 1, 2, "whole"), (1 << 20, 10, "cut to 1048576")] {
        set_len("a.img", bytes);
        let message = managed.refused(status, &["namespace", "resize", "5"]);
        assert!(message.contains(said), "{message}");
    }
    assert_eq!(managed.namespaces()[1], (5, 3));
    host.ends_well();
}

/// The file of a namespace that was removed can be served again at once, though event loops have to
/// let it go first.
#[test]
fn a_file_goes_and_comes_back_at_once() {
    use std::io::{BufRead, BufReader, Write};
    let managed = Managed::start("again", &config(""));
    let host = managed.host();
    std::fs::write(managed.dir.path().join("two.img"), [0; 1 << 20]).unwrap();
    let socket =
        std::os::unix::net::UnixStream::connect(managed.dir.path().join("run/m.control")).unwrap();
    let mut socket = BufReader::new(socket);
    let mut ask = |method: &str, params: Value| {
        let request =
            serde_json::json!({"version": 1, "id": 1, "method": method, "params": params});
        writeln!(socket.get_mut(), "{request}").unwrap();
        let mut line = String::new();
        socket.read_line(&mut line).unwrap();
        assert!(line.contains("\"result\""), "{line}");
    };
    for _ in 0..200 {
        ask("namespace.add", serde_json::json!({"source": "file:./two.img", "nsid": 2}));
        ask("namespace.remove", serde_json::json!({"nsid": 2, "force": true}));
    }
    host.ends_well();
}

#[test]
fn a_host_is_let_in_and_kept_out_by_its_name() {
    const OTHER: &str = "nqn.2026-01.example.host:other";
    let managed = Managed::start(
        "admitted",
        &config("").replace(
            "[[subsystem.namespace]]",
            &format!("hosts = [\"{OTHER}\"]\n[[subsystem.namespace]]"),
        ),
    );
    let comes_in =
        |host: &str| managed.run(&["list-ns", managed.server.url(), "--hostnqn", host]).code();
    assert_eq!((comes_in(OTHER), comes_in(HOST)), (Some(0), Some(4)));
    managed.done(&["host", "allow", HOST]);
    assert_eq!((comes_in(OTHER), comes_in(HOST)), (Some(0), Some(0)));
    managed.done(&["host", "deny", OTHER]);
    assert_eq!((comes_in(OTHER), comes_in(HOST)), (Some(4), Some(0)));
    let mut host = managed.host();
    assert!(managed.refused(5, &["host", "deny", HOST]).contains(HOST), "it is connected");
    managed.done(&["host", "deny", HOST, "--force"]);
    assert_eq!(comes_in(HOST), Some(4));
    until("it has lost its connections", || {
        !managed.done(&["control", "host.list"]).contains(HOST)
    });
    host.0.kill().unwrap();
    host.0.wait().unwrap();
}

/// With a limit of one byte per second a read takes more than an hour.
#[test]
fn limits_of_hosts_change_while_they_are_connected() {
    let limit = |what: &str| config(&format!("[[host_limit]]\nhost = \"{HOST}\"\n{what}\n"));
    let managed = Managed::start("limits", &limit("iops = \"1M\""));
    let host = managed.host();
    let operations = || {
        let report: Value = serde_json::from_str(&managed.done(&["status", "--json"])).unwrap();
        report["hosts"][0]["counts"]["read"]["operations"]
            .as_u64()
            .unwrap_or_else(|| panic!("{report:#}"))
    };
    managed.write(&limit("bw = \"1\""));
    let shown = managed.done(&["apply", "weft.toml"]);
    assert!(shown.contains(&format!("~ limit host {HOST} to 1B per second")), "{shown}");
    let mut before = operations();
    until("nothing is read any more", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        before == std::mem::replace(&mut before, operations())
    });
    managed.write(&config(""));
    let shown = managed.done(&["apply", "weft.toml"]);
    assert!(shown.contains(&format!("~ take the limit of host {HOST}")), "{shown}");
    until("reads go on", || operations() > before);
    host.ends_well();
}

#[test]
fn a_configuration_is_applied_while_hosts_stay() {
    let managed = Managed::start("apply", &config(""));
    let host = managed.host();
    let more = format!(
        "hosts = [\"{HOST}\"]\n[[subsystem.namespace]]\nnsid = 2\nsource = \"ram:8MiB\"\n[[subsystem]]\nnqn = \"{NQN}.2\"\n"
    );
    managed.write(&config(&more));
    let shown = managed.done(&["apply", "weft.toml", "--dry-run"]);
    assert!(
        shown.contains("+ add namespace 2 to")
            && shown.ends_with("nothing was changed (--dry-run)\n"),
        "{shown}"
    );
    assert_eq!(managed.namespaces(), [(1, 16)]);
    assert!(managed.done(&["apply", "weft.toml"]).contains(&format!("+ add subsystem {NQN}.2")));
    assert_eq!(managed.namespaces(), [(1, 16), (2, 8)]);
    assert_eq!(managed.done(&["apply", "weft.toml"]), "nothing differs\n");

    managed.write(&config(&format!("size = \"8MiB\"\n{more}")));
    let shown = managed.done(&["apply", "weft.toml", "--dry-run"]);
    assert!(shown.contains(&format!("needs --force: in use by {HOST}")), "{shown}");
    assert!(managed.refused(5, &["apply", "weft.toml"]).contains(HOST));
    managed.write(&config(&more).replace("file:./one.img,size=16MiB", "ram:16MiB"));
    let message = managed.refused(5, &["apply", "weft.toml"]);
    assert!(message.contains("replace namespace 1") && message.contains(HOST), "{message}");
    managed.write(&config("colour = \"red\"\n"));
    assert!(
        managed
            .refused(2, &["apply", "weft.toml"])
            .starts_with("weft: weft.toml:9:1: there is no key \"colour\"")
    );

    // A port in use: nothing has changed, not even what could have been.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = format!("nvme+tcp://127.0.0.1:0\", \"nvme+tcp://{}", taken.local_addr().unwrap());
    managed.write(
        &config(&more).replace("nvme+tcp://127.0.0.1:0", &busy).replace("ram:8MiB", "ram:9MiB"),
    );
    assert!(managed.refused(5, &["apply", "weft.toml", "--force"]).contains("in use"));
    drop(taken);
    host.ends_well();
}

/// The second source never answers, so the change is still being prepared.
#[test]
fn a_server_that_is_killed_in_a_change_starts_again_as_before() {
    let mut managed = Managed::start("killed", &config(""));
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let more = format!(
        "[[subsystem.namespace]]\nnsid = 2\nsource = \"file:./two.img,size=1MiB\"\n[[subsystem.namespace]]\nnsid = 3\nsource = \"nvme+tcp://{}/{NQN}.silent/1\"\n",
        silent.local_addr().unwrap()
    );
    managed.write(&config(&more));
    let mut applying = weft(managed.dir.path(), &["apply", "weft.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("a file was created for it", || managed.dir.path().join("two.img").exists());
    assert_eq!(managed.namespaces(), [(1, 16)]);
    weft_testing::process::signal(managed.server.pid(), "KILL");
    managed.server.wait();
    assert!(!applying.wait().unwrap().success());
    managed.write(&config(""));
    managed.server = Server::spawn(weft(managed.dir.path(), &["serve", "--config", "weft.toml"]));
    assert_eq!(managed.namespaces(), [(1, 16)]);
    let host = managed.host();
    managed.done(&["namespace", "add", "file:./two.img", "--nsid", "2"]);
    assert_eq!(managed.namespaces(), [(1, 16), (2, 1)]);
    host.ends_well();
}

#[test]
fn listeners_of_other_protocols_can_be_added() {
    let managed = Managed::start("listeners", &config(""));
    let host = managed.host();
    let more = "nvme+tcp://127.0.0.1:0\", \"iscsi://127.0.0.1:0\", \"nbd://127.0.0.1:0";
    managed.write(&config("").replace("nvme+tcp://127.0.0.1:0", more));
    managed.done(&["apply", "weft.toml"]);
    let shown = managed.shown();
    let urls: Vec<&str> =
        shown["urls"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(urls.len(), 3, "{urls:?}");
    for url in &urls[1..] {
        managed.done(&["bench", url, "--rw=randread", "--number_ios=10", "--output=report"]);
    }
    managed.write(&config(""));
    let done = managed.done(&["apply", "weft.toml"]);
    assert_eq!(done.matches("- stop listening").count(), 2, "{done}");
    host.ends_well();
}

#[test]
fn sighup_applies_the_file_again() {
    let managed = Managed::start("sighup", &config(""));
    let host = managed.host();
    let hang_up = || weft_testing::process::signal(managed.server.pid(), "HUP");
    managed.write(&config("[[subsystem.namespace]]\nnsid = 4\nsource = \"ram:8MiB\"\n"));
    hang_up();
    until("the namespace is there", || managed.namespaces() == [(1, 16), (4, 8)]);
    managed.write("name = 5");
    hang_up();
    managed.write(&config(""));
    let message = managed.refused(5, &["apply", "weft.toml"]);
    assert!(
        message.contains("remove namespace 4"),
        "a wrong file, and what is refused, change nothing: {message}"
    );
    host.ends_well();
}

#[test]
fn a_wrong_configuration_starts_nothing() {
    let dir = Scratch::new("wrong");
    let text = config("reed_only = true\n").replace("127.0.0.1:0", "127.0.0.1:x");
    std::fs::write(dir.path().join("weft.toml"), text).unwrap();
    for args in [&["serve", "--config", "weft.toml"][..], &["config", "check", "weft.toml"]] {
        let ran = run(weft(dir.path(), args));
        assert_eq!(ran.code(), Some(2), "{ran:?}");
        assert!(
            ran.err.contains(
                "weft.toml:9:1: there is no key \"reed_only\": did you mean \"read_only\"?"
            ),
            "{ran:?}"
        );
    }
    assert!(!dir.path().join("one.img").exists(), "no source was opened");
}

#[test]
fn the_example_is_served() {
    let dir = Scratch::new("example");
    let example =
        run(weft(dir.path(), &["config", "example"])).out.replace("127.0.0.1:4420", "127.0.0.1:0");
    std::fs::write(dir.path().join("weft.toml"), example).unwrap();
    assert!(run(weft(dir.path(), &["config", "check", "weft.toml"])).out.contains("no mistakes"));
    let server = Server::spawn(weft(dir.path(), &["serve", "--config", "weft.toml"]));
    let info = run(weft(dir.path(), &["control", "server.info", "--control", "disks"]));
    assert_eq!(info.code(), Some(0), "{info:?}");
    drop(server);
    let schema: Value =
        serde_json::from_str(&run(weft(dir.path(), &["config", "schema"])).out).unwrap();
    assert_eq!(schema["title"], "weft.toml");
}
