//! Messages that weft prints without being asked: who was refused, and what it cannot notice.

use crate::support::{Scratch, Server, run, weft};

const NQN: &str = "nqn.2026-01.example.weft:remarks";

/// A refused Connect is in the log with the peer's address, the host and the subsystem; control
/// characters of a name are escaped.
#[test]
fn refused_connects_are_in_the_log() {
    let dir = Scratch::new("refused-connects");
    let log = dir.path().join("log");
    let mut command = weft(
        dir.path(),
        &["serve", "ram:16MiB", "--nqn", NQN, "--allow-host", "nqn.2026-01.example.weft:one"],
    );
    command
        .args(["--listen", "nvme+tcp://127.0.0.1:0"])
        .stderr(std::fs::File::create(&log).unwrap());
    let server = Server::spawn(command);
    for stranger in ["nqn.2026-01.example.weft:stranger", "a\u{1b}[2Jb"] {
        let ran = run(weft(dir.path(), &["id-ctrl", server.url(), "--hostnqn", stranger]));
        assert_eq!(ran.code(), Some(4), "{ran:?}");
    }
    let log = || std::fs::read_to_string(&log).unwrap();
    for host in ["nqn.2026-01.example.weft:stranger", "a\\u{1b}[2Jb"] {
        let names = format!("(host \"{host}\", subsystem \"{NQN}\")");
        let lines = log();
        let told: Vec<&str> = lines.lines().filter(|line| line.contains(&names)).collect();
        assert!(
            matches!(told[..], [line] if line.contains("127.0.0.1:") && line.contains("Connect refused")),
            "{lines}"
        );
    }
    assert!(!log().contains('\u{1b}'));
}

/// An NBD export has no identity: that another one may have taken its place is said when a lost
/// connection is back, once, and not by every command.
#[test]
fn a_swapped_export_is_not_noticed_and_that_is_said() {
    let dir = Scratch::new("swapped-export");
    let mut nbd = Server::start(dir.path(), &["ram:16MiB", "--listen", "nbd://127.0.0.1:0"]);
    let ran = run(weft(dir.path(), &["bench", nbd.url(), "--rw=read", "--size=64k"]));
    assert!(ran.code() == Some(0) && !ran.err.contains("is not noticed"), "{ran:?}");
    let log = dir.path().join("log");
    let mut command = weft(dir.path(), &["serve", nbd.url(), "--nqn", NQN]);
    command.args(["--listen", "nvme+tcp://127.0.0.1:0", "--reconnect-delay", "1"]);
    command.stderr(std::fs::File::create(&log).unwrap());
    let gateway = Server::spawn(command);
    let said = |text: &str| std::fs::read_to_string(&log).unwrap().matches(text).count();
    let at = nbd.url()["nbd://".len()..].split('/').next().unwrap();
    let listen = format!("nbd://{at}");
    for times in 1..=2 {
        drop(nbd);
        nbd = Server::start(dir.path(), &["ram:16MiB", "--listen", &listen]);
        // Without operations nobody notices the loss.
        let ran = run(weft(dir.path(), &["bench", gateway.url(), "--rw=read", "--size=64k"]));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
        weft_testing::wait::until("the export is back", || said("connected again") >= times);
    }
    assert_eq!(said("is not noticed"), 1);
}

/// Names of any form are accepted; the log says so once for each.
#[test]
fn odd_names_of_hosts_are_remarked_on_once() {
    let dir = Scratch::new("odd-hosts");
    let log = dir.path().join("log");
    let mut command = weft(
        dir.path(),
        &["serve", "ram:16MiB", "--nqn", NQN, "--listen", "nvme+tcp://127.0.0.1:0"],
    );
    command.stderr(std::fs::File::create(&log).unwrap());
    let server = Server::spawn(command);
    for host in ["testhost", "otherhost", "testhost"] {
        assert_eq!(
            run(weft(dir.path(), &["id-ctrl", server.url(), "--hostnqn", host])).code(),
            Some(0)
        );
    }
    drop(server);
    let log = std::fs::read_to_string(&log).unwrap();
    for host in ["testhost", "otherhost"] {
        assert_eq!(log.matches(&format!("host {host} has a name")).count(), 1, "{log}");
    }
}
