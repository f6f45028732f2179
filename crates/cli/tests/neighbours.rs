//! Other users of the machine: what they can read, write or replace is refused, and nothing of it
//! is changed.
#![cfg(unix)]

use crate::support::{Scratch, Server, run, weft};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use weft_testing::programs;

const LISTEN: [&str; 3] = ["serve", "--listen", "nvme+tcp://127.0.0.1:0"];

fn has_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

/// A directory that was there is used as it is, or not at all.
#[test]
fn the_runtime_directory_keeps_its_mode() {
    let dir = Scratch::new("own-directory");
    let place = dir.path().join("place");
    std::fs::create_dir(&place).unwrap();
    for (given, is_used) in
        [(0o755, true), (0o750, true), (0o777, false), (0o1777, false), (0o775, false)]
    {
        has_mode(&place, given);
        let mut command = weft(dir.path(), &[&LISTEN[..], &["ram:16MiB"]].concat());
        command.env("WEFT_RUNTIME_DIR", &place).stderr(Stdio::piped());
        let mut server = Server::spawn(command);
        weft_testing::process::signal(server.pid(), "TERM");
        let (_, said) = server.wait();
        assert_eq!(mode(&place), given, "{said}");
        assert_eq!(said.contains("chmod go-w"), !is_used, "{given:o}: {said}");
    }
}

/// A lock next to the control socket leads nowhere, and lies where nobody else can replace it.
#[test]
fn the_lock_of_a_control_socket_is_not_followed() {
    let dir = Scratch::new("links");
    let serve = |control: &str| {
        run(weft(dir.path(), &[&LISTEN[..], &["ram:16MiB", "--control", control]].concat()))
    };
    symlink(dir.path().join("precious"), dir.path().join("a.control.lock")).unwrap();
    let refused = serve("./a.control");
    assert!(
        refused.code() == Some(4) && refused.message().contains("symbolic link"),
        "{refused:?}"
    );
    assert!(!dir.path().join("precious").exists());
    std::fs::create_dir(dir.path().join("open")).unwrap();
    has_mode(&dir.path().join("open"), 0o777);
    let refused = serve("open/a.control");
    assert!(refused.code() == Some(4) && refused.message().contains("chmod go-w"), "{refused:?}");
}

/// All kinds of secrets are checked alike.
#[test]
fn secrets_that_others_can_read_are_refused() {
    let dir = Scratch::new("public-secrets");
    dir.private("secret", "0123456789abcdef0123456789abcdef\n");
    dir.private(
        "agent.toml",
        "listen = \"127.0.0.1:0\"\nkey_file = \"secret\"\n[[device]]\nurl = \"ram:1MiB\"\n",
    );
    has_mode(&dir.path().join("secret"), 0o640);
    let iscsi = ["serve", "ram:1MiB", "--listen", "iscsi://127.0.0.1:0"];
    for args in [
        &[&iscsi[..], &["--login-user", "a", "--login-secret-file", "secret"]].concat()[..],
        &["bench", "iscsi://a@127.0.0.1:1/iqn.2026-01.example:x/0", "--chap-secret-file", "secret"],
        &["serve", "ram:1MiB", "--dhchap-secret-file", "secret"],
        &["serve", "ram:1MiB", "--tls", "--tls-key-file", "secret"],
        &["agent", "--config", "agent.toml"],
    ] {
        let refused = run(weft(dir.path(), args));
        assert!(
            refused.code() == Some(4) && refused.message().contains("other users can read it"),
            "{args:?}: {refused:?}"
        );
    }
}

/// So are private keys of certificates.
#[test]
fn private_keys_that_others_can_read_are_refused() {
    let dir = Scratch::new("public-keys");
    let options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=a";
    if !programs::have(&["openssl"]) {
        return;
    }
    let made = programs::command("openssl")
        .args(options.split(' '))
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let certificate = ["--tls-cert-file", "cert.pem", "--tls-cert-key-file", "key.pem"];
    has_mode(&dir.path().join("key.pem"), 0o644);
    let serve =
        [&["serve", "ram:1MiB", "--listen", "nbds://127.0.0.1:0"][..], &certificate].concat();
    let bench = [&["bench", "nbds://127.0.0.1:1/1", "--tls-ca-file", "cert.pem"][..], &certificate]
        .concat();
    for args in [serve, bench] {
        let refused = run(weft(dir.path(), &args));
        assert!(
            refused.code() != Some(0) && refused.message().contains("other users can read it"),
            "{args:?}: {refused:?}"
        );
    }
}
