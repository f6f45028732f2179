//! Logging in to `weft serve` with libiscsi's programs: with the right secret, a wrong one, and none.
#![cfg(unix)]

mod support;

use std::process::{Command, Stdio};
use support::{Scratch, Server};

const PROGRAM: &str = "iscsi-inq";

/// Whether libiscsi gets an answer to INQUIRY at this URL.
fn answers(url: &str) -> bool {
    let output = Command::new(PROGRAM).arg(url).stdin(Stdio::null()).output().unwrap();
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("Vendor:weft")
}

#[test]
fn only_those_who_know_the_secret_come_in() {
    if Command::new(PROGRAM).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        assert!(std::env::var_os("CI").is_none(), "{PROGRAM} is missing");
        println!("skipped: {PROGRAM} is missing; `cargo xtask setup` installs it");
        return;
    }
    let dir = Scratch::new("iscsi-login");
    std::fs::write(dir.path().join("alice.secret"), "alice's-secret\n").unwrap();
    let args = ["ram:16MiB", "--listen", "iscsi://127.0.0.1:0", "--login-user", "alice", "--login-secret-file", "alice.secret"];
    let server = Server::start(dir.path(), &args);
    let with = |who: &str| server.url().replace("iscsi://", &format!("iscsi://{who}@"));
    assert!(answers(&with("alice%alice's-secret")));
    assert!(!answers(&with("alice%another-secret")));
    assert!(!answers(&with("bob%alice's-secret")));
    assert!(!answers(server.url()));
    assert!(server.terminate().success());
}
