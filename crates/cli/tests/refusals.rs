//! Answers to bad input: one sentence that says what is wrong and what to do, an exit status of its
//! own, in a stated time.

use crate::support::{Ran, Scratch, Server, run, weft};
use std::io::{Read, Write};
use std::net::TcpListener;

const NQN: &str = "nqn.2026-01.example.weft:refusals";

fn refused(dir: &Scratch, args: &[&str], status: i32, words: &[&str]) -> Ran {
    let ran = run(weft(dir.path(), args));
    assert_eq!(ran.code(), Some(status), "{args:?}: {ran:?}");
    for word in words {
        assert!(ran.err.contains(word), "{args:?}: {:?} is not in {}", word, ran.err);
    }
    ran
}

/// A server that a test scripts; it serves one connection after the other until the process ends.
fn scripted(script: impl Fn(std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(script));
    format!("nvme+tcp://{address}/{NQN}")
}

#[test]
fn urls_and_options() {
    let dir = Scratch::new("urls");
    for (args, words) in [
        (&["bench", "tape:0", "--runtime=1"][..], &["tape"][..]),
        (&["serve", "tape:0"], &["tape"]),
        (&["serve", "ram:12X"], &["12X"]),
        (&["serve", "ram:1000"], &["block"]),
        (&["serve", "ram:1MiB", "--listen", "nvme+tcp://127.0.0.1:99999"], &["port"]),
        (
            &["serve", "ram:1MiB", "--listen", "nvme+tcp://127.0.0.1:0/nqn.2014-08.org.example:x"],
            &["--nqn"],
        ),
        (&["serve", "ram:1MiB", "--nqn", ""], &["nqn.2014-08.org.example:disk1"]),
        (&["serve", "ram:1MiB", "--allow-host", ""], &["nqn.2014-08.org.example:disk1"]),
        (&["serve"], &["SOURCE"]),
        (
            &["serve", "--config", "weft.toml", "--tls-ca-file", "ca.pem"],
            &["--config", "--tls-ca-file"],
        ),
        (&["serve", "--config", "weft.toml", "--hdr-digest"], &["--config", "--hdr-digest"]),
        (&["serve", "--config", "weft.toml", "--chap-user", "me"], &["--config", "--chap-user"]),
        (&["serve", "--config", "weft.toml", "--failover", "fast"], &["--config", "--failover"]),
        (&["serve", "ram:1MiB", "--control", ".."], &["\"..\" is neither a name nor a path"]),
        (&["discover", "nvme+tcp://127.0.0.1/nqn.2014-08.org.example:x"], &["only an address"]),
        (&["id-ctrl", "nvme+tcp://127.0.0.1"], &["discover"]),
        (&["id-ctrl", "iscsi://127.0.0.1/x"], &["nvme+tcp"]),
        (
            &["serve", "iscsi://me%hidden@127.0.0.1/iqn.2026-01.example:x/0"],
            &["--chap-secret-file"],
        ),
        (
            &["bench", "iscsi://me%hidden@127.0.0.1/iqn.2026-01.example:x/0"],
            &["--chap-secret-file"],
        ),
        (
            &["bench", "iscsi://me@127.0.0.1/iqn.2026-01.example:x/0"],
            &["--chap-secret-file", "LIBISCSI_CHAP_PASSWORD"],
        ),
        (
            &["bench", "iscsi://127.0.0.1/iqn.2026-01.example:x/0", "--chap-secret=hidden"],
            &["--chap-secret-file"],
        ),
        (&["bench", "iscsi://127.0.0.1/iqn.2026-01.example:x"], &["no logical unit", "/0"]),
        (&["bench", "iscsi://127.0.0.1"], &["weft discover"]),
        (&["discover", "iscsi://127.0.0.1/iqn.2026-01.example:x"], &["only an address"]),
        (&["discover", "iscsi://127.0.0.1", "--initiator-name", "a\tb"], &["name"]),
        (&["bench", "ram:1MiB", "--rw=sideways"], &["randread"]),
        (&["bench", "ram:1MiB", "--rw=randwrite", "--bs=1000"], &["bs"]),
        (&["bench", "ram:1MiB", "--iodepth=0"], &["iodepth"]),
        (&["bench", "ram:1MiB", "--size=2m"], &["size"]),
        (&["bench", "ram:1MiB", "--frobnicate"], &["--frobnicate"]),
    ] {
        let ran = refused(&dir, args, 2, words);
        assert!(!ran.err.contains("hidden"), "{ran:?}");
    }
}

#[test]
fn nobody_listens() {
    let dir = Scratch::new("nobody");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    refused(
        &dir,
        &["id-ctrl", &format!("nvme+tcp://{free}/{NQN}")],
        7,
        &["refuse", "target listens"],
    );
    refused(&dir, &["discover", &format!("nvme+tcp://{free}")], 7, &["target listens"]);
}

#[test]
fn a_host_that_never_answers_is_given_up_in_time() {
    let dir = Scratch::new("silent");
    // The peer never ends the connection: what ends the command is its own limit.
    let silent = scripted(|_stream| {
        loop {
            std::thread::park();
        }
    });
    // On a loaded machine the time may be up before the host waits for the answer: then it gets more.
    let says_so = |seconds: &&str| {
        let limit = format!("--connect-timeout={seconds}s");
        let ran = refused(&dir, &["bench", &silent, "--runtime=1", &limit], 8, &[]);
        ["does not answer", "NVMe/TCP"].iter().all(|word| ran.err.contains(word))
    };
    assert!(["0.5", "2", "8", "32"].iter().any(says_so));
}

#[test]
fn a_host_that_talks_something_else() {
    let dir = Scratch::new("http");
    let http = scripted(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    });
    refused(&dir, &["id-ctrl", &http], 9, &["does not speak NVMe/TCP", "port"]);
    let closing = scripted(drop);
    refused(&dir, &["id-ctrl", &closing], 7, &["closed"]);
}

#[test]
fn names_that_are_not_there() {
    let dir = Scratch::new("names");
    let server = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let wrong = server.url().replace(":refusals", ":elsewhere");
    refused(&dir, &["id-ctrl", &wrong], 3, &["no subsystem", "discover"]);
    refused(
        &dir,
        &["bench", &format!("{}/9", server.url()), "--runtime=1"],
        3,
        &["no namespace 9", "list-ns"],
    );
    refused(&dir, &["id-ns", server.url(), "--namespace-id", "9"], 3, &["namespace 9"]);
    refused(
        &dir,
        &["id-ctrl", "nvme+tcp://host.invalid/nqn.2014-08.org.example:x"],
        3,
        &["host.invalid"],
    );
    refused(&dir, &["serve", "file:./not-there.img"], 3, &["not-there.img", "size="]);
}

#[test]
fn a_host_that_is_not_allowed() {
    let dir = Scratch::new("hosts");
    let friend = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
    let server = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN, "--allow-host", friend]);
    refused(&dir, &["id-ctrl", server.url()], 4, &["does not allow host", "--hostnqn"]);
    let ran = run(weft(dir.path(), &["id-ctrl", server.url(), "--hostnqn", friend]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
}

#[test]
fn what_somebody_else_holds() {
    let dir = Scratch::new("taken");
    let server = Server::start(dir.path(), &["file:./disk.img,size=1MiB", "--nqn", NQN]);
    let taken = format!("nvme+tcp://{}", server.address());
    refused(&dir, &["serve", "ram:1MiB", "--listen", &taken], 5, &["cannot listen", "another"]);
    refused(
        &dir,
        &["serve", "file:./disk.img", "--listen", "nvme+tcp://127.0.0.1:0"],
        5,
        &["disk.img"],
    );
    drop(server);
    refused(
        &dir,
        &["serve", "file:./disk.img,size=2MiB", "--listen", "nvme+tcp://127.0.0.1:0"],
        2,
        &["disk.img", "1MiB"],
    );
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_not_permitted() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Scratch::new("permission");
    let file = dir.path().join("disk.img");
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    let args = ["serve", "file:./disk.img", "--listen", "nvme+tcp://127.0.0.1:0"];
    // Root may do everything: become nobody, with a copy of the program that nobody can reach.
    let program = dir.path().join("weft");
    std::fs::copy(env!("CARGO_BIN_EXE_weft"), &program).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let is_root = std::process::Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut command = if is_root {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups"]).arg(&program);
        command
    } else {
        std::process::Command::new(&program)
    };
    command.args(args).current_dir(dir.path());
    let ran = run(command);
    assert_eq!(ran.code(), Some(4), "{ran:?}");
    assert!(ran.message().contains("disk.img"), "{ran:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_and_a_file_that_shrank() {
    let dir = Scratch::new("full");
    // The limit of a file's size stands in for a full disk: the same error, without a file system
    // to fill.
    let weft_program = env!("CARGO_BIN_EXE_weft");
    let script = format!(
        "trap '' XFSZ; ulimit -f 64; exec {weft_program} bench file:./limited.img --rw=write --bs=64k --size=1m"
    );
    std::fs::File::create(dir.path().join("limited.img")).unwrap().set_len(1 << 20).unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(dir.path());
    let ran = run(command);
    assert_eq!(ran.code(), Some(11), "{ran:?}");
    assert!(format!("{}{}", ran.out, ran.err).to_lowercase().contains("space"), "{ran:?}");

    let server = Server::start(dir.path(), &["file:./shrinks.img,size=8MiB", "--nqn", NQN]);
    std::fs::OpenOptions::new()
        .write(true)
        .open(dir.path().join("shrinks.img"))
        .unwrap()
        .set_len(4096)
        .unwrap();
    let ran = run(weft(dir.path(), &["bench", server.url(), "--rw=read", "--bs=64k"]));
    assert_eq!(ran.code(), Some(11), "{ran:?}");
    // The target is unharmed: what is left of the file can be read.
    let ran = run(weft(dir.path(), &["bench", server.url(), "--rw=read", "--bs=4k", "--size=4k"]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
}
