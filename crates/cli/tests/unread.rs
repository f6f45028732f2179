//! Programs whose output nobody reads: the process that started them has gone.
#![cfg(unix)]

use crate::support::{Scratch, Server, run, weft};
use std::io::{Read, Write, pipe};
use std::net::TcpStream;
use weft_testing::wait::PATIENCE;

/// Strangers cause lines in the log.
#[test]
fn a_server_goes_on_whose_log_nobody_reads() {
    let dir = Scratch::new("unread");
    let (reader, writer) = pipe().unwrap();
    let mut command = weft(dir.path(), &["serve", "ram:8MiB", "--threads", "1"]);
    command
        .args(["--listen", "nvme+tcp://127.0.0.1:0", "--listen", "nbd://127.0.0.1:0"])
        .stderr(writer);
    let server = Server::spawn(command);
    drop(reader);
    for url in &server.urls {
        let address = url.split("://").nth(1).unwrap().split('/').next().unwrap();
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        stranger.write_all(&[0xff; 200]).unwrap();
        // Whether it is closed or reset is no matter here.
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    for url in &server.urls {
        let ran = run(weft(
            dir.path(),
            &["bench", url, "--rw=read", "--bs=4k", "--number_ios=8", "--time_based=0"],
        ));
        assert_eq!(ran.code(), Some(0), "{url}: {ran:?}");
    }
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn a_server_starts_where_nobody_reads_what_it_says() {
    let dir = Scratch::new("unheard");
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut command = weft(
        dir.path(),
        &["serve", "ram:8MiB", "--listen", "nvme+tcp://127.0.0.1:0", "--control", "unheard"],
    );
    let mut child = command.stdout(writer).spawn().unwrap();
    drop(command);
    weft_testing::wait::until("it serves", || {
        run(weft(dir.path(), &["control", "server.info", "--control", "unheard"])).code() == Some(0)
    });
    let ended = run(weft(dir.path(), &["control", "server.end", "--control", "unheard"]));
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_exit_status_does_not_depend_on_who_reads_the_error() {
    let dir = Scratch::new("unseen");
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let status = weft(dir.path(), &["bench", "tape:0"]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// As in `weft limits | head`.
#[test]
fn whoever_reads_a_part_causes_no_error() {
    let dir = Scratch::new("part");
    for args in [&["limits"][..], &["config", "example"], &["list"], &["completions", "bash"]] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let output = weft(dir.path(), args).stdout(writer).output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

/// As in `weft copy … | head -1`.
#[test]
fn what_a_command_has_found_does_not_depend_on_who_reads_it() {
    let dir = Scratch::new("found");
    std::fs::write(dir.path().join("from.img"), [7; 1 << 20]).unwrap();
    let verified = ["bench", "null:8MiB", "--rw=write", "--bs=4k", "--size=1m", "--verify=crc32c"];
    let cases: [(&[&str], i32); 4] = [
        (&verified, 12),
        (&["copy", "./from.img", "null:1MiB", "--verify"], 12),
        (&["copy", "./from.img", "./to.img"], 0),
        // The journal of the one before is gone.
        (&["copy", "./from.img", "./to.img"], 0),
    ];
    for (args, status) in cases {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let output = weft(dir.path(), args).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
    }
}
