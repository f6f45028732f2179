//! Sizes that are not a whole number of blocks, and files that are cut: nothing is left out, and
//! nothing comes back as zeroes.
#![cfg(unix)]

use crate::nbd::Foreign;
use crate::support::{Ran, Scratch, Server, run, weft};
use std::fs;
use std::path::Path;
use std::process::Command;
use weft_testing::programs::have;

const ODD: usize = 1_000_001;
const WHOLE: usize = 1_000_448;

fn ran(dir: &Path, args: &[&str]) -> Ran {
    run(weft(dir, args))
}

/// A file without zeroes.
fn image(dir: &Path, name: &str, bytes: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8 + 1).collect();
    fs::write(dir.join(name), &data).unwrap();
    data
}

fn sha256(dir: &Path, name: &str) -> String {
    let sum = Command::new("sha256sum").arg(dir.join(name)).output().unwrap();
    String::from_utf8(sum.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

/// Copies to a new file and to one that holds other data: both have all of `from`, then zeroes to
/// the end of the block, and what they had behind that.
fn arrives(dir: &Path, from: &str, data: &[u8], sum: &str) {
    for (to, kept) in [("new.img", 0), ("old.img", 4096)] {
        if kept > 0 {
            fs::write(dir.join(to), vec![0xee; WHOLE + kept]).unwrap();
        }
        let to_file = format!("./{to}");
        let args = ["copy", from, &to_file, "--verify", "--sha256", "-o", "json", "--no-journal"];
        let ran = ran(dir, &args);
        assert_eq!(ran.code(), Some(0), "{from}: {ran:?}");
        assert!(ran.err.contains("447 zeroes"), "{from}: {ran:?}");
        let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let figures = [&told["bytes"], &told["done_bytes"]].map(|it| it.as_u64().unwrap());
        assert_eq!((figures, &told["sha256"]), ([data.len() as u64; 2], &sum.into()), "{from}");
        let copied = fs::read(dir.join(to)).unwrap();
        assert!(copied[..data.len()] == *data, "{from} to {to}");
        assert!(copied[data.len()..WHOLE].iter().all(|byte| *byte == 0), "{from} to {to}");
        assert!(copied[WHOLE..] == vec![0xee; kept], "{from} to {to}");
        fs::remove_file(dir.join(to)).unwrap();
    }
}

/// What cannot be written is refused for writing, with the way to read it.
fn is_refused_for_writing(dir: &Path, source: &str) {
    for args in [
        &["serve", source, "--listen", "nvme+tcp://127.0.0.1:0"][..],
        &["copy", "./from.img", source, "--no-journal"],
    ] {
        let ran = ran(dir, args);
        let is_told = ran.message().contains("readonly:") && ran.message().contains("1000001");
        assert!(ran.code() == Some(2) && is_told, "{args:?}: {ran:?}");
    }
}

#[test]
fn a_file_of_any_size_is_copied_and_served_to_its_last_byte() {
    let dir = Scratch::new("copy-odd-file");
    let data = image(dir.path(), "odd.img", ODD);
    image(dir.path(), "from.img", 512);
    let sum = sha256(dir.path(), "odd.img");
    arrives(dir.path(), "./odd.img", &data, &sum);
    is_refused_for_writing(dir.path(), "./odd.img");
    assert!(fs::read(dir.path().join("odd.img")).unwrap() == data);
    let source = ["readonly:./odd.img", "--listen", "nbd://127.0.0.1:0"];
    let server =
        Server::start(dir.path(), &[&source[..], &["--listen", "iscsi://127.0.0.1:0"]].concat());
    let nbd = server.urls.iter().find(|url| url.starts_with("nbd:")).unwrap();
    arrives(dir.path(), nbd, &data, &sum);
    let iscsi = server.urls.iter().find(|url| url.starts_with("iscsi:")).unwrap();
    let args = ["copy", iscsi, "./back.img", "--verify", "--no-journal"];
    assert_eq!(ran(dir.path(), &args).code(), Some(0));
    let back = fs::read(dir.path().join("back.img")).unwrap();
    assert!(back[..ODD] == data && back[ODD..] == [0; WHOLE - ODD], "{}", back.len());
}

#[test]
fn an_nbd_export_is_copied_to_its_last_byte_or_refused() {
    if !have(&["nbdkit"]) {
        return;
    }
    let dir = Scratch::new("copy-odd-nbd");
    let data = image(dir.path(), "odd.img", ODD);
    image(dir.path(), "from.img", 512);
    let sum = sha256(dir.path(), "odd.img");
    for options in [&[][..], &["--no-sr"], &["--oldstyle"], &["--filter=noextents"]] {
        let args = [&["-f", "-U", "{}"], options, &["file", "odd.img"]].concat();
        let server = Foreign::start(dir.path(), "nbdkit", &args);
        let url = server.url("nbd", "");
        arrives(dir.path(), &url, &data, &sum);
        is_refused_for_writing(dir.path(), &url);
        let source = format!("readonly:{url}");
        let gateway = Server::start(dir.path(), &[&source, "--listen", "nbd://127.0.0.1:0"]);
        arrives(dir.path(), gateway.url(), &data, &sum);
    }
    assert!(fs::read(dir.path().join("odd.img")).unwrap() == data);
    // Its end is shorter than anything that the server transfers.
    image(dir.path(), "tail.img", (1 << 20) + 512);
    let policy = ["--filter=blocksize-policy", "file", "tail.img", "blocksize-minimum=4096"];
    let sizes =
        ["blocksize-preferred=4096", "blocksize-maximum=1M", "blocksize-error-policy=error"];
    let args = [&["-f", "-U", "{}"][..], &policy, &sizes].concat();
    let server = Foreign::start(dir.path(), "nbdkit", &args);
    let url = server.url("nbd", "");
    let refused = ran(dir.path(), &["copy", &url, "./none.img", "--no-journal"]);
    assert!(refused.code() == Some(10) && refused.message().contains("4096"), "{refused:?}");
    assert!(!dir.path().join("none.img").exists());
}

#[test]
fn the_state_of_a_server_says_that_a_file_was_cut() {
    let dir = Scratch::new("cut");
    image(dir.path(), "disk.img", 4 << 20);
    let server = Server::start(dir.path(), &["./disk.img", "--listen", "nbd://127.0.0.1:0"]);
    let status = || ran(dir.path(), &["status"]).out;
    assert!(!status().contains("was cut"), "{}", status());
    let disk = fs::File::options().write(true).open(dir.path().join("disk.img")).unwrap();
    disk.set_len(1 << 20).unwrap();
    let copy = ["copy", server.url(), "./copy.img", "--no-journal"];
    assert_eq!(ran(dir.path(), &copy).code(), Some(1));
    // Whoever makes it long again does not bring it back.
    disk.set_len(4 << 20).unwrap();
    assert_eq!(ran(dir.path(), &copy).code(), Some(1));
    let told = status();
    assert!(told.contains("namespace 1: the file was cut to 1048576 bytes"), "{told}");
    let json: serde_json::Value =
        serde_json::from_str(&ran(dir.path(), &["status", "--json"]).out).unwrap();
    let trouble = json["subsystems"][0]["namespaces"][0]["trouble"].as_str();
    assert!(trouble.is_some_and(|why| why.contains("opened again")), "{json}");
}
