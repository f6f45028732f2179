//! `weft connect`, `list` and `disconnect`, as far as they go without a kernel that attaches
//! anything.
#![cfg(unix)]

use crate::support::{Ran, Scratch, Server, run, weft};
use std::path::Path;
use std::process::Stdio;
use weft_testing::programs;
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:connect";

/// A directory whose connections are ended with it.
pub struct Dir(Scratch);

impl Dir {
    pub fn new(name: &str) -> Self {
        Self(Scratch::new(name))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn weft(&self, args: &[&str]) -> Ran {
        run(weft(self.path(), args))
    }

    pub fn done(&self, args: &[&str]) -> String {
        let ran = self.weft(args);
        assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    /// The connections, as JSON.
    fn list(&self) -> Vec<serde_json::Value> {
        let list: serde_json::Value =
            serde_json::from_str(&self.done(&["list", "-o", "json"])).unwrap();
        list["Devices"].as_array().unwrap().clone()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = weft(self.path(), &["disconnect", "--all", "--force"]).output();
    }
}

fn text(value: &serde_json::Value, field: &str) -> String {
    value[field].as_str().unwrap().to_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn print_shows_the_commands_and_runs_none() {
    let dir = Dir::new("print");
    let url = format!("nvme+tcp://192.0.2.10:4420/{NQN}/1");
    let node = "iscsiadm -m node -T iqn.2026-01.local.weft:disk -p 127.0.0.1:3260";
    let place = dir.path().join("run").display().to_string();
    let weft = format!("env WEFT_RUNTIME_DIR={place} weft");
    let iscsi = dir.done(&["connect", &url, "--as", "iscsi", "--print", "--name", "disk"]);
    for line in [
        &format!("{weft} connect {url} --as iscsi --name disk --port 3260 --serve-only"),
        &format!("{node} -o new"),
        &format!("{node} --login"),
        &format!("# to detach: {node} --logout"),
        &format!("# to detach: {node} -o delete"),
        &format!("# to detach: {weft} disconnect disk"),
    ] {
        assert!(iscsi.lines().any(|it| it == line), "{line}: {iscsi}");
    }
    assert!(iscsi.contains(&format!("' sh {place}/disk.secret {place}/disk.target-secret ")));
    let connect = format!("{weft} connect {url} --as nbd --name disk --serve-only");
    let nbd = format!(
        "{connect}\nmodprobe nbd\n\
         nbd-client -unix {place}/disk.sock /dev/nbd0 -N 1\n\
         # for blocks of 4096 bytes: nbd-client -b 4096 …, as nbd-client does not learn their size\n\
         # to detach: nbd-client -d /dev/nbd0\n# to detach: {weft} disconnect disk\n"
    );
    let print = ["connect", &url, "--as", "nbd", "--print", "--name", "disk"];
    assert_eq!(dir.done(&print), nbd);
    let options = ["-q", NQN, "-g", "--nr-io-queues=3", "--io-timeout", "7s", "--shared"];
    let given = format!(
        "{connect} --shared --hostnqn={NQN} --hdr-digest --nr-io-queues=3 --io-timeout=7s\n"
    );
    let said = dir.done(&[&print[..], &options[..]].concat());
    assert!(said.starts_with(&given), "{said}");
    let said = dir.weft(&[&print[..], &["-S", "DHHC-1:00:secret"]].concat());
    assert!(said.code() == Some(2) && !said.out.contains("DHHC"), "{said:?}");
    let flags =
        ["connect", "-a", "192.0.2.10", "-n", NQN, "--as", "ublk", "--print", "--name", "disk"];
    let ublk = format!("{weft} connect nvme+tcp://192.0.2.10:4420/{NQN} --as ublk --name disk\n");
    assert!(dir.done(&flags).starts_with(&ublk));
    assert!(dir.list().is_empty());
}

#[test]
fn a_connection_is_served_listed_and_ended() {
    let dir = Dir::new("connect");
    let target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let connect = ["connect", target.url(), "--as", "nbd", "--serve-only", "--name", "disk"];
    let said = dir.done(&connect);
    assert!(said.contains("weft disconnect disk"), "{said}");
    let list = dir.list();
    assert_eq!(list.len(), 1);
    assert_eq!(
        (list[0]["PhysicalSize"].as_u64(), list[0]["NameSpace"].as_u64()),
        (Some(16 << 20), Some(1))
    );
    assert_eq!((text(&list[0], "Name"), text(&list[0], "Protocol")), ("disk".into(), "nbd".into()));
    let table = dir.done(&["list"]);
    assert!(
        table.starts_with("Node ") && table.lines().count() == 3 && table.contains(target.url()),
        "{table}"
    );
    // The same name again; and as a disk, through what it serves.
    let again = dir.weft(&connect);
    assert_eq!(again.code(), Some(5), "{again:?}");
    assert!(again.message().contains("weft disconnect disk"), "{again:?}");
    let served = text(&list[0], "Served");
    dir.done(&["bench", &served, "--rw=randwrite", "--size=1m", "--verify=crc32c"]);
    if programs::have(&["nbdinfo"]) {
        let info = programs::command("nbdinfo").args(["--size", &served]).output().unwrap();
        let bytes = String::from_utf8_lossy(&info.stdout);
        assert_eq!(bytes.trim(), (16 << 20).to_string(), "{info:?}");
    }
    dir.done(&["disconnect", "disk"]);
    assert!(dir.list().is_empty());
    let gone = dir.weft(&["disconnect", "disk"]);
    assert_eq!(gone.code(), Some(3), "{gone:?}");
}

#[test]
fn the_states_of_paths_are_those_that_they_have() {
    let dir = Dir::new("states");
    let target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    dir.done(&["connect", target.url(), "--as", "nbd", "--serve-only", "--name", "disk"]);
    assert!(dir.done(&["list-subsys"]).ends_with(" live\n"));
    assert_eq!(text(&dir.list()[0], "State"), "live");
    drop(target);
    until("the path is lost", || dir.done(&["list-subsys"]).ends_with(" connecting\n"));
    assert_eq!(text(&dir.list()[0], "State"), "connecting");
    assert!(dir.done(&["list", "--wide"]).contains(", connecting"));
    let json = dir.done(&["list-subsys", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["Subsystems"][0]["Paths"][0]["State"], "connecting");
}

#[test]
fn a_path_that_is_given_up_is_dead() {
    let dir = Dir::new("dead");
    let target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let connect = ["connect", target.url(), "--as", "nbd", "--serve-only", "--name", "disk"];
    dir.done(&[&connect[..], &["--ctrl-loss-tmo", "0"]].concat());
    drop(target);
    until("the path is given up", || dir.done(&["list-subsys"]).ends_with(" dead\n"));
    assert_eq!(text(&dir.list()[0], "State"), "dead");
}

#[test]
fn errors_of_the_device_are_in_the_log_of_the_connection() {
    let dir = Dir::new("errors");
    let source = "error:rate=1,kind=media,ops=read,ram:16MiB";
    let target = Server::start(dir.path(), &[source, "--nqn", NQN]);
    dir.done(&["connect", target.url(), "--as", "nbd", "--serve-only", "--name", "disk"]);
    let served = text(&dir.list()[0], "Served");
    let read = dir.weft(&["bench", &served, "--rw=randread", "--bs=4k", "--size=1m"]);
    assert_eq!(read.code(), Some(11), "{read:?}");
    let log = std::fs::read_to_string(dir.path().join("run/disk.log")).unwrap();
    let lines = log.lines().filter(|line| line.contains("NVMe status 0x281: Unrecovered Read"));
    assert_eq!(lines.count(), 1, "once, however many there were: {log}");
}

#[test]
fn a_disk_that_is_only_served_has_no_device_to_wait_for() {
    let dir = Dir::new("no-device");
    for other in ["--serve-only", "--print"] {
        for option in ["--wait", "--wait=1s", "--print-device"] {
            let refused = dir.weft(&["connect", "ram:1MiB", "--as", "nbd", other, option]);
            assert_eq!(refused.code(), Some(2), "{other} {option}: {refused:?}");
        }
    }
}

/// Runs a program as a user who owns nothing; as this user where that takes privileges that we do
/// not have.
#[cfg(target_os = "linux")]
fn as_nobody(words: &[&str]) -> std::process::Output {
    let root = rustix::process::geteuid().is_root();
    let drop: &[&str] =
        if root { &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] } else { &[] };
    let words = [drop, words].concat();
    programs::command(words[0]).args(&words[1..]).output().unwrap()
}

/// Who is not told the secret neither finds it nor lists, reads or writes the disk; the note of it
/// goes with the connection.
#[test]
#[cfg(target_os = "linux")]
fn others_cannot_use_a_disk_that_is_served_to_this_system() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new("others");
    // Otherwise nobody could not even reach the directory.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for (protocol, name) in [("iscsi", "disk"), ("nbd", "other")] {
        dir.done(&["connect", "ram:16MiB", "--as", protocol, "--serve-only", "--name", name]);
    }
    let run = dir.path().join("run");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&run), 0o700);
    let files: Vec<_> = std::fs::read_dir(&run).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(
        files.iter().all(|file| mode(file) == 0o600),
        "{:?}",
        files.iter().map(|file| (file, mode(file))).collect::<Vec<_>>()
    );

    let list = dir.list();
    let (served, file) = (text(&list[0], "Served"), text(&list[0], "ChapSecretFile"));
    let secret = std::fs::read_to_string(&file).unwrap();
    assert!(secret.len() == 16 && secret.bytes().all(|b| b.is_ascii_alphanumeric()), "{secret:?}");
    let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", list[0]["Pid"])).unwrap();
    assert!(!arguments.contains(&secret) && !dir.done(&["list", "-o", "json"]).contains(&secret));
    assert!(!rustix::process::geteuid().is_root() || !as_nobody(&["cat", &file]).status.success());

    let open = served.replace("weft@", "");
    if programs::have(&["iscsi-inq", "iscsi-ls", "iscsi-readcapacity16"]) {
        let portal = open.split("/iqn.").next().unwrap();
        for command in [
            &["iscsi-ls", "-s", portal][..],
            &["iscsi-inq", &open],
            &["iscsi-readcapacity16", &open],
            &["iscsi-inq", &served],
        ] {
            let ran = as_nobody(command);
            assert!(!ran.status.success(), "{command:?}: {ran:?}");
            assert!(!String::from_utf8_lossy(&ran.stdout).contains("iqn."), "{command:?}: {ran:?}");
        }
        let mut known = programs::command("iscsi-readcapacity16");
        known
            .arg(&open)
            .env("LIBISCSI_CHAP_USERNAME", "weft")
            .env("LIBISCSI_CHAP_PASSWORD", &secret);
        let known = known.output().unwrap();
        assert!(known.status.success(), "{known:?}");
    }
    let bench = ["--rw=randwrite", "--size=1m", "--verify=crc32c"];
    let refused = dir.weft(&[&["bench", &open][..], &bench].concat());
    assert!(matches!(refused.code(), Some(4 | 7)), "{refused:?}");
    dir.done(&[&["bench", &served, "--chap-secret-file", &file][..], &bench].concat());

    dir.done(&["disconnect", "disk"]);
    assert!(!Path::new(&file).exists());
}

#[test]
fn a_connection_is_ended_by_what_it_was_made_with() {
    let dir = Dir::new("spelling");
    let target = Server::start(dir.path(), &["ram:16MiB", "ram:16MiB", "--nqn", NQN]);
    let connect = |url: &str, name: &str| {
        dir.done(&["connect", url, "--as", "nbd", "--serve-only", "--name", name])
    };
    let whole = target.url().to_owned();
    let escaped = whole.replace("nqn.2026-01.example.weft:", "nqn.2026-01.example.weft%3A");
    assert_ne!(escaped, whole);
    for given in [&whole, &escaped, &format!("{whole}/1")] {
        connect(&whole, "disk");
        dir.done(&["disconnect", given]);
        assert!(dir.list().is_empty(), "{given}");
    }
    connect(&format!("{whole}/1"), "one");
    connect(&format!("{whole}/2"), "two");
    let both = dir.weft(&["disconnect", &whole]);
    assert_eq!(both.code(), Some(2), "{both:?}");
    assert!(both.message().contains("one, two"), "{both:?}");
    dir.done(&["disconnect", &format!("{whole}/2")]);
    assert_eq!(dir.list().len(), 1);
    assert_eq!(dir.weft(&["disconnect", &format!("{whole}/3")]).code(), Some(3));
    dir.done(&["disconnect", &whole]);
    assert!(dir.list().is_empty());
}

#[test]
fn a_killed_server_leaves_nothing_that_matters() {
    let dir = Dir::new("killed");
    let connect = ["connect", "ram:16MiB", "--as", "iscsi", "--serve-only"];
    dir.done(&connect);
    let list = dir.list();
    assert!(text(&list[0], "Served").starts_with("iscsi://weft@127.0.0.1:"));
    let pid = list[0]["Pid"].as_u64().unwrap();
    weft_testing::process::signal(u32::try_from(pid).unwrap(), "KILL");
    // It is gone when its lock is free.
    until("its lock is free", || dir.list().is_empty());
    assert!(!Path::new(&text(&list[0], "ChapSecretFile")).exists());
    dir.done(&connect);
    assert_eq!(dir.list().len(), 1);
    dir.done(&["disconnect", "--all"]);
    assert!(dir.list().is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn one_that_stays_keeps_no_other_from_ending() {
    let dir = Dir::new("stays");
    for name in ["first", "second"] {
        dir.done(&["connect", "ram:16MiB", "--as", "nbd", "--serve-only", "--name", name]);
    }
    // Its record is made to name what is mounted everywhere.
    let record = dir.path().join("run/first.json");
    let text = std::fs::read_to_string(&record).unwrap();
    let mounted = text.replace("\"device\": \"\"", "\"device\": \"proc\"");
    assert_ne!(mounted, text);
    std::fs::write(&record, mounted).unwrap();
    let ran = dir.weft(&["disconnect", "--all"]);
    assert_eq!(ran.code(), Some(5), "{ran:?}");
    assert!(ran.message().contains("proc is mounted at /proc"), "{ran:?}");
    let left = dir.list();
    assert_eq!(left.iter().map(|it| it["Name"].clone()).collect::<Vec<_>>(), ["first"]);
}

#[test]
fn what_cannot_be_opened_is_said_as_by_any_other_command() {
    let dir = Dir::new("unopened");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("nvme+tcp://{free}/{NQN}");
    let refused = dir.weft(&["connect", &url, "--as", "nbd", "--serve-only"]);
    assert_eq!(refused.code(), Some(7), "{refused:?}");
    assert!(refused.message().contains("check that a target listens there"), "{refused:?}");
    for (args, word) in [
        (&["connect"][..], "address is missing"),
        (&["connect", "ram:1MiB", "--as", "scsi"], "iscsi"),
        (&["connect", "ram:1MiB", "--as", "nbd", "--name", "A b"], "lower-case"),
        (&["disconnect"], "WHAT"),
    ] {
        let ran = dir.weft(args);
        assert_eq!(ran.code(), Some(2), "{args:?}: {ran:?}");
        assert!(ran.err.contains(word), "{args:?}: {ran:?}");
    }
    assert!(dir.list().is_empty());
}

/// Each would take itself for the only writer, and write again after a restart of the target what
/// was not flushed.
#[test]
fn one_disk_is_connected_once_however_it_is_written() {
    let dir = Dir::new("twice");
    let target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let whole = target.url().to_owned();
    let one = format!("{whole}/1");
    let connect = |url: &str, more: &[&str]| {
        dir.weft(&[&["connect", url, "--as", "nbd", "--serve-only"], more].concat())
    };
    assert_eq!(connect(&whole, &["--name", "first"]).code(), Some(0));
    for (url, more) in [(&one, &[][..]), (&whole, &["--name", "other"]), (&one, &["--shared"])] {
        let refused = connect(url, more);
        assert_eq!(refused.code(), Some(5), "{url}: {refused:?}");
        assert!(refused.message().contains("connected, as \"first\""), "{refused:?}");
    }
    assert_eq!(connect(&format!("readonly:{whole}"), &[]).code(), Some(0), "it writes nothing");
    dir.done(&["disconnect", "first"]);
    for name in ["second", "third"] {
        let both = connect(&whole, &["--name", name, "--shared"]);
        assert_eq!(both.code(), Some(0), "{both:?}");
    }
    assert_eq!(dir.list().len(), 3);
}

/// A source that is not reconnected.
const ONCE: &str = "--ctrl-loss-tmo=0";

#[test]
fn a_source_that_is_lost_is_shown_and_may_end_the_server() {
    let dir = Dir::new("lost");
    let upstream = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let connect = ["connect", upstream.url(), "--as", "nbd", "--serve-only", "--shared", ONCE];
    dir.done(&[&connect[..], &["--name", "kept"]].concat());
    let ends = [&connect[..], &["--name", "ends", "--foreground", "--exit-on-loss"]].concat();
    let mut server =
        weft(dir.path(), &ends).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let is_lost = |name: &str| {
        dir.list()
            .iter()
            .find(|entry| text(entry, "Name") == name)
            .map(|entry| entry["Lost"] == true)
    };
    until("both are connected", || {
        (is_lost("kept"), is_lost("ends")) == (Some(false), Some(false))
    });
    drop(upstream);
    assert_eq!(server.wait().unwrap().code(), Some(13));
    until("the other one shows it", || is_lost("kept") == Some(true));
    assert_eq!(is_lost("ends"), None);
    assert!(dir.done(&["list"]).contains(", lost"));
}
