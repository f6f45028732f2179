//! Logging in to `weft serve` with libiscsi's programs: with the right secret, a wrong one, and
//! none.
#![cfg(unix)]

use crate::support::{Scratch, Server, run, weft};
use std::process::Stdio;
use weft_testing::programs;

const PROGRAM: &str = "iscsi-inq";

/// Whether libiscsi gets an answer to INQUIRY at this URL.
fn answers(url: &str) -> bool {
    let output = programs::command(PROGRAM).arg(url).stdin(Stdio::null()).output().unwrap();
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("Vendor:weft")
}

#[test]
fn only_those_who_know_the_secret_come_in() {
    if !programs::have(&[PROGRAM]) {
        return;
    }
    let dir = Scratch::new("iscsi-login");
    dir.private("alice.secret", "alice's-secret\n");
    let args = [
        "ram:16MiB",
        "--listen",
        "iscsi://127.0.0.1:0",
        "--login-user",
        "alice",
        "--login-secret-file",
        "alice.secret",
    ];
    let server = Server::start(dir.path(), &args);
    let with = |who: &str| server.url().replace("iscsi://", &format!("iscsi://{who}@"));
    assert!(answers(&with("alice%alice's-secret")));
    assert!(!answers(&with("alice%another-secret")));
    assert!(!answers(&with("bob%alice's-secret")));
    assert!(!answers(server.url()));
    assert!(server.terminate().success());
}

/// The serial numbers and the like that `iscsi-inq` shows differ by logical unit; here it is enough
/// that there is one.
fn sees(url: &str, initiator: &str) -> bool {
    let output = programs::command(PROGRAM)
        .args(["-i", initiator, url])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("Vendor:weft")
}

#[test]
fn initiators_see_the_luns_that_are_theirs() {
    if !programs::have(&[PROGRAM]) {
        return;
    }
    let dir = Scratch::new("iscsi-masks");
    let (one, both) = ("iqn.2026-01.example.weft:one", "iqn.2026-01.example.weft:both");
    let args = [
        "ram:16MiB",
        "ram:16MiB",
        "--listen",
        "iscsi://127.0.0.1:0",
        "--iqn",
        "iqn.2026-01.example.weft:t",
    ];
    let masks = ["--allow-initiator", &format!("{one}=1"), "--allow-initiator", both];
    let server = Server::start(dir.path(), &[&args[..], &masks].concat());
    assert!(server.url().ends_with("/0"));
    let second = format!("{}/1", server.url().trim_end_matches("/0"));
    assert!(sees(server.url(), both) && sees(&second, both));
    assert!(!sees(server.url(), one) && sees(&second, one));
    assert!(!sees(&second, "iqn.2026-01.example.weft:nobody"));
    assert!(server.terminate().success());
}

/// Who was refused, and as whom, is in the log.
#[test]
fn refused_logins_are_in_the_log() {
    if !programs::have(&[PROGRAM]) {
        return;
    }
    let dir = Scratch::new("iscsi-log");
    dir.private("alice.secret", "alice's-secret\n");
    dir.private("bob.secret", "bob's-own-secret\n");
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let mut command = weft(dir.path(), &["serve", "ram:16MiB", "--listen", "iscsi://127.0.0.1:0"]);
    let (alices, bobs) = ("iqn.2026-01.example.weft:alices", "iqn.2026-01.example.weft:bobs");
    command.args([
        "--login-user",
        "alice",
        "--login-secret-file",
        "alice.secret",
        "--login-initiator",
        alices,
    ]);
    command
        .args([
            "--login-user",
            "bob",
            "--login-secret-file",
            "bob.secret",
            "--login-initiator",
            bobs,
        ])
        .stderr(log);
    let server = Server::spawn(command);
    let with = |who: &str| server.url().replace("iscsi://", &format!("iscsi://{who}@"));
    assert!(sees(&with("alice%alice's-secret"), alices));
    assert!(sees(&with("bob%bob's-own-secret"), bobs));
    assert!(!sees(&with("bob%bob's-own-secret"), alices));
    assert!(!sees(&with("mallory%a-secret-of-his"), "iqn.2026-01.example.weft:m"));
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let refused =
        |who: &str| log.lines().any(|line| line.contains("127.0.0.1:") && line.contains(who));
    assert!(refused(&format!("login of {alices} as user bob refused")), "{log}");
    assert!(refused("login of iqn.2026-01.example.weft:m as user mallory refused"), "{log}");
}

/// LIO, tgt and open-iscsi take any name.
#[test]
fn iscsi_names_of_any_form_are_served_with_one_warning() {
    let dir = Scratch::new("iscsi-names");
    for (name, in_url, shown) in [
        ("My_Disk", "my_disk", "my_disk"),
        (
            "iqn.2026-1.a/b@c,d?e%f g\u{202e}",
            "iqn.2026-1.a%2Fb%40c%2Cd%3Fe%25f%20g%E2%80%AE",
            "iqn.2026-1.a/b@c,d?e%f g\\u{202e}",
        ),
    ] {
        let log = dir.path().join("log");
        let mut command = weft(
            dir.path(),
            &["serve", "ram:16MiB", "--iqn", name, "--listen", "iscsi://127.0.0.1:0"],
        );
        command.stderr(std::fs::File::create(&log).unwrap());
        let server = Server::spawn(command);
        assert!(server.url().ends_with(&format!("/{in_url}/0")), "{}", server.url());
        for host in ["my_host", "Hello?"] {
            let args = [
                "bench",
                server.url(),
                "--rw=read",
                "--bs=4k",
                "--size=4k",
                "--initiator-name",
                host,
            ];
            let ran = run(weft(dir.path(), &args));
            assert_eq!(
                (ran.code(), ran.err.matches("does not have the form").count()),
                (Some(0), 1),
                "{ran:?}"
            );
        }
        let portal = server.url().split(&format!("/{in_url}")).next().unwrap();
        let discovered = run(weft(dir.path(), &["discover", portal]));
        assert!(discovered.out.ends_with(&format!(" {shown}\n")), "{}", discovered.out);
        assert!(server.terminate().success());
        let log = std::fs::read_to_string(&log).unwrap();
        assert_eq!(log.matches("the target's name").count(), 1, "{log}");
        assert_eq!(
            log.matches("the name of an initiator").count(),
            1,
            "the first of two is told of: {log}"
        );
        assert!(log.contains(shown), "{log}");
    }
}
