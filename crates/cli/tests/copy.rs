//! `weft copy`, as a user starts it: what arrives is compared by reading files, or by qemu-img.
#![cfg(unix)]

use crate::nbd::Foreign;
use crate::support::{Ran, Scratch, Server, run, weft};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use weft_testing::programs::{self, have};

const MIB: usize = 1 << 20;

fn copy(dir: &Path, args: &[&str]) -> Ran {
    run(weft(dir, &[&["copy"], args].concat()))
}

fn done(dir: &Path, args: &[&str]) -> String {
    let ran = copy(dir, args);
    assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
    ran.out
}

fn refused(dir: &Path, args: &[&str], status: i32, word: &str) {
    let ran = copy(dir, args);
    assert!(ran.code() == Some(status) && ran.message().contains(word), "{args:?}: {ran:?}");
}

/// Blocks that occur once each, with zeroes between.
fn image(dir: &Path, name: &str, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    for (n, block) in data.chunks_mut(512).enumerate() {
        if (n / 700) % 3 != 1 {
            block.fill((n % 251) as u8 | 1);
            block[..4].copy_from_slice(&(n as u32).to_le_bytes());
        }
    }
    fs::write(dir.join(name), &data).unwrap();
    data
}

#[test]
fn a_file_arrives_over_each_protocol_and_comes_back() {
    let dir = Scratch::new("copy-protocols");
    let data = image(dir.path(), "from.img", 9 * MIB + 512);
    for listen in ["nvme+tcp://127.0.0.1:0", "iscsi://127.0.0.1:0", "nbd://127.0.0.1:0"] {
        let server = Server::start(dir.path(), &["ram:10MiB", "--listen", listen]);
        let told = done(dir.path(), &["./from.img", server.url(), "--verify"]);
        assert!(told.contains("both devices have the same data"), "{told}");
        let json = done(dir.path(), &[server.url(), "./back.img", "--sha256", "-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["bytes"], 10 * MIB);
        let back = fs::read(dir.path().join("back.img")).unwrap();
        assert!(back[..data.len()] == data && back[data.len()..].iter().all(|byte| *byte == 0));
        let sum = Command::new("sha256sum").arg(dir.path().join("back.img")).output().unwrap();
        let sum = String::from_utf8(sum.stdout).unwrap();
        assert!(sum.starts_with(json["sha256"].as_str().unwrap()), "{sum} {json}");
        fs::remove_file(dir.path().join("back.img")).unwrap();
    }
}

#[test]
fn holes_and_zeroes_are_found_and_old_data_does_not_show_through() {
    let dir = Scratch::new("copy-holes");
    let path = |name: &str| dir.path().join(name);
    let mut data = vec![0; 16 * MIB];
    data[5 * MIB..6 * MIB].fill(7);
    fs::write(path("zeroes.img"), &data).unwrap();
    let sparse = fs::File::create(path("sparse.img")).unwrap();
    sparse.set_len(16 << 20).unwrap();
    sparse.write_all_at(&[7; MIB], 5 << 20).unwrap();
    for from in ["./zeroes.img", "./sparse.img"] {
        fs::write(path("old.img"), vec![9; 16 * MIB]).unwrap();
        for to in ["./old.img", "./new.img"] {
            let json = done(dir.path(), &[from, to, "--verify", "-o", "json"]);
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(json["written_bytes"], MIB, "{from} to {to}: {json}");
            assert!(fs::read(path(to)).unwrap() == data, "{from} to {to}");
        }
        fs::remove_file(path("new.img")).unwrap();
    }
}

#[test]
fn a_copy_that_was_interrupted_goes_on_where_it_was_flushed() {
    let dir = Scratch::new("copy-resume");
    let data = image(dir.path(), "from.img", 16 * MIB);
    let args = ["./from.img", "./to.img", "--journal", "./journal"];
    // Slow enough to be met: it ends by a signal.
    let mut slow = weft(dir.path(), &[&["copy"], &args[..], &["--limit", "200kB"]].concat());
    let running = slow.stderr(Stdio::piped()).spawn().unwrap();
    let begun = || fs::read(dir.path().join("to.img")).is_ok_and(|it| it.iter().any(|b| *b != 0));
    weft_testing::wait::until("something is copied", begun);
    refused(dir.path(), &args, 5, "process");
    weft_testing::process::signal(running.id(), "INT");
    let ended = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(130) && said.contains("under way"), "{said}");
    let copied = |json: &[u8]| {
        let json: serde_json::Value = serde_json::from_slice(json).unwrap();
        json["copied"].as_u64().unwrap() as usize
    };
    let copied = copied(&fs::read(dir.path().join("journal")).unwrap());
    assert!(copied > 0 && copied < data.len(), "{copied}");
    assert!(fs::read(dir.path().join("to.img")).unwrap()[..copied] == data[..copied]);
    refused(dir.path(), &args, 5, "--resume");
    let go_on = |more: &[&str]| copy(dir.path(), &[&args[..], more].concat());
    // What the journal covers is not copied again.
    let (mut to, kept) = (fs::read(dir.path().join("to.img")).unwrap(), copied - 512);
    to[kept] ^= 1;
    fs::write(dir.path().join("to.img"), &to).unwrap();
    assert_eq!(go_on(&["--resume"]).code(), Some(0));
    let mut expected = data.clone();
    expected[kept] ^= 1;
    assert!(fs::read(dir.path().join("to.img")).unwrap() == expected);
    assert!(!dir.path().join("journal").exists() && !dir.path().join("journal.lock").exists());
    assert_eq!(go_on(&["--resume"]).code(), Some(3));
    assert_eq!(go_on(&["--restart", "--verify"]).code(), Some(0));
}

#[test]
fn a_kill_leaves_a_journal_that_is_refused_when_an_end_changed() {
    let dir = Scratch::new("copy-killed");
    let data = image(dir.path(), "from.img", 8 * MIB);
    let args = ["./from.img", "./to.img", "--journal", "./journal"];
    let kill = || {
        let _ = fs::remove_file(dir.path().join("journal"));
        let slow = ["--limit", "1MB", "--restart"];
        let mut running =
            weft(dir.path(), &[&["copy"], &args[..], &slow].concat()).spawn().unwrap();
        let begun = || dir.path().join("journal").exists() && dir.path().join("to.img").exists();
        weft_testing::wait::until("the copy begins", begun);
        running.kill().unwrap();
        running.wait().unwrap();
    };
    let resume = |status, word| {
        refused(dir.path(), &[&args[..], &["--resume"]].concat(), status, word);
    };
    kill();
    let file = fs::File::options().write(true).open(dir.path().join("to.img")).unwrap();
    file.set_len(9 << 20).unwrap();
    resume(2, "its size is");
    file.set_len(8 << 20).unwrap();
    image(dir.path(), "other.img", 8 * MIB);
    fs::rename(dir.path().join("other.img"), dir.path().join("from.img")).unwrap();
    resume(2, "another device");
    kill();
    fs::rename(dir.path().join("to.img"), dir.path().join("aside.img")).unwrap();
    resume(3, "is gone");
    assert!(!dir.path().join("to.img").exists(), "nothing was made in its place");
    fs::rename(dir.path().join("aside.img"), dir.path().join("to.img")).unwrap();
    let other = [&["./other.img", "./to.img"], &args[2..], &["--restart"]].concat();
    image(dir.path(), "other.img", 8 * MIB);
    refused(dir.path(), &other, 5, "another copy");
    done(dir.path(), &[&args[..], &["--resume", "--verify"]].concat());
    assert!(fs::read(dir.path().join("to.img")).unwrap() == data);
}

/// The same disks, in a stripe with other chunks: what was copied lies elsewhere.
#[test]
fn a_copy_goes_on_only_where_the_data_lies_as_before() {
    let dir = Scratch::new("copy-resume-stripe");
    let data = image(dir.path(), "from.img", 8 << 20);
    let sources = ["ram:4MiB", "ram:4MiB", "--listen", "nbd://127.0.0.1:0"];
    let server = Server::start(dir.path(), &sources);
    let stripe = |chunk: &str| format!("stripe:{chunk},{},{}", server.urls[0], server.urls[1]);
    let to = |to: &str, more: &[&str]| {
        let args = ["copy", "./from.img", to, "--journal", "./journal"];
        weft(dir.path(), &[&args[..], more].concat())
    };
    let mut slow = to(&stripe("64KiB"), &["--limit", "400kB"]);
    let mut running = slow.stderr(Stdio::null()).spawn().unwrap();
    let begun = || dir.path().join("journal").exists();
    weft_testing::wait::until("the copy begins", begun);
    running.kill().unwrap();
    running.wait().unwrap();
    let refused = run(to(&stripe("4KiB"), &["--resume"]));
    let is_told =
        refused.message().contains("stripe:65536") && refused.message().contains("--restart");
    assert!(refused.code() == Some(2) && is_told, "{refused:?}");
    let swapped = format!("stripe:64KiB,{},{}", server.urls[1], server.urls[0]);
    assert_ne!(run(to(&swapped, &["--resume"])).code(), Some(0));
    let resumed = run(to(&stripe("65536"), &["--resume", "--verify"]));
    assert_eq!(resumed.code(), Some(0), "{resumed:?}");
    let back = copy(dir.path(), &[&stripe("64KiB"), "./back.img", "--no-journal"]);
    assert_eq!(back.code(), Some(0), "{back:?}");
    assert!(fs::read(dir.path().join("back.img")).unwrap() == data);
}

#[test]
fn what_cannot_be_copied_is_refused_before_the_first_write() {
    let dir = Scratch::new("copy-refused");
    let path = dir.path();
    image(path, "from.img", MIB);
    fs::write(path.join("data.img"), [b"XFSB".as_slice(), &[0; 2 * MIB - 4]].concat()).unwrap();
    refused(path, &["./from.img", "./data.img"], 5, "an XFS file system");
    assert!(fs::read(path.join("data.img")).unwrap().starts_with(b"XFSB"));
    let told = copy(path, &["./from.img", "./data.img", "--destroy-data"]);
    assert!(told.code() == Some(0) && told.err.contains("stays as it is"), "{told:?}");
    refused(path, &["./data.img", "ram:1MiB"], 6, "as large");
    refused(path, &["./from.img", "from.img"], 2, "both");
    refused(path, &["./from.img", "readonly:./data.img"], 4, "read-only");
    refused(path, &["./none.img", "ram:1MiB"], 3, "no such file");
    refused(path, &["./from.img", "./none/new.img"], 3, "no such directory");
    refused(path, &["./from.img", "./new.img", "--bs", "100"], 2, "multiple of the block size");
    refused(path, &["./from.img", "./new.img", "--limit", "0"], 2, "above 0");
    refused(path, &["./from.img", "./new.img", "--threads", "99"], 2, "--threads");
    refused(path, &["./from.img", "./new.img", "--journal", "/dev/null/x"], 1, "--no-journal");
    assert!(!path.join("new.img").exists(), "nothing came of it");
}

#[test]
fn errors_of_either_end_and_wrong_data_are_told() {
    let dir = Scratch::new("copy-errors");
    image(dir.path(), "from.img", 4 * MIB);
    let journal = ["--journal", "./journal", "--restart"];
    let failing = |from: &str, to: &str, status, word| {
        refused(dir.path(), &[&[from, to], &journal[..]].concat(), status, word);
        assert!(dir.path().join("journal").exists(), "it can go on");
    };
    failing("error:rate=1,ops=read,./from.img", "./to.img", 1, "cannot read");
    failing("./from.img", "error:rate=1,ops=write,./to.img", 1, "at byte");
    failing("./from.img", "error:rate=1,ops=flush,./to.img", 1, "cannot flush");
    // What is written is stored otherwise.
    let ran = copy(
        dir.path(),
        &["./from.img", "error:rate=1,ops=write,corrupt=bitflip,./to.img", "--verify", "--restart"],
    );
    assert!(ran.code() == Some(12) && ran.message().contains("at byte"), "{ran:?}");
}

#[test]
fn a_copy_goes_on_behind_what_cannot_be_read() {
    const CHUNK: usize = 64 << 10;
    let dir = Scratch::new("copy-unreadable");
    let data = image(dir.path(), "one.img", 4 * CHUNK);
    image(dir.path(), "two.img", 4 * CHUNK);
    let mut expected = vec![0; 8 * CHUNK];
    for (into, from) in expected.chunks_mut(2 * CHUNK).zip(data.chunks(CHUNK)) {
        into[..CHUNK].copy_from_slice(from);
    }
    // Every other chunk cannot be read.
    let from = "stripe:64KiB,file:./one.img,error:rate=1,ops=read,file:./two.img";
    let journal = ["--journal", "./journal"];
    refused(dir.path(), &[&[from, "./to.img"], &journal[..]].concat(), 1, "--skip-unreadable");
    fs::write(dir.path().join("old.img"), vec![9; 8 * CHUNK]).unwrap();
    let goes_on = ["--journal", "./journal", "--resume"];
    for (to, how) in [("./to.img", &goes_on[..]), ("./old.img", &["--no-journal"][..])] {
        let all = [&[from, to, "--skip-unreadable", "--verify", "-o", "json"], how].concat();
        let ran = copy(dir.path(), &all);
        assert!(ran.code() == Some(1) && ran.message().contains("could not read"), "{ran:?}");
        assert!(fs::read(dir.path().join(to)).unwrap() == expected, "{to}");
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let place = |n: usize| serde_json::json!({ "at_byte": n * CHUNK, "bytes": CHUNK });
        assert_eq!(json["unreadable"], serde_json::json!([1, 3, 5, 7].map(place)));
        assert_eq!((&json["ended"], &json["verified"]), (&"done".into(), &true.into()));
    }
    assert!(!dir.path().join("journal").exists(), "the copy is complete");
    let told = copy(dir.path(), &[from, "ram:1MiB", "--skip-unreadable"]);
    assert!(told.out.contains("could not read 65536 bytes at byte 196608"), "{told:?}");
    refused(dir.path(), &[from, "ram:1MiB", "--skip-unreadable", "--sha256"], 2, "--sha256");
}

#[test]
fn qemu_img_finds_the_copy_identical() {
    let dir = Scratch::new("copy-qemu-img");
    if !have(&["qemu-img"]) {
        return;
    }
    image(dir.path(), "from.img", 5 * MIB);
    let server = Server::start(dir.path(), &["ram:5MiB", "--listen", "nbd://127.0.0.1:0"]);
    done(dir.path(), &["./from.img", server.url()]);
    let compare = programs::command("qemu-img")
        .args(["compare", "-f", "raw", "-F", "raw", "./from.img", server.url()])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compare.stdout).into_owned();
    assert!(compare.status.success() && said.contains("identical"), "{compare:?}");
}

#[test]
fn a_target_copies_between_its_namespaces_itself() {
    let dir = Scratch::new("copy-offload");
    let data = image(dir.path(), "from.img", 20 * MIB);
    let listen = ["--listen", "nvme+tcp://127.0.0.1:0"];
    let sources = ["ram:20MiB", "ram:21MiB", "ram:20MiB,block=4096"];
    let server = Server::start(dir.path(), &[&sources[..], &listen].concat());
    let namespace = |nsid: u32| format!("{}/{nsid}", server.url());
    let (one, two, other_blocks) = (namespace(1), namespace(2), namespace(3));
    done(dir.path(), &["./from.img", &one]);
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&done(dir.path(), &[args, &["-o", "json"]].concat())).unwrap()
    };
    let told = json(&[&one, &two, "--verify"]);
    let figures = ["done_bytes", "offloaded_bytes", "read_bytes", "written_bytes"];
    let figures = |told: &serde_json::Value| figures.map(|name| told[name].as_u64().unwrap());
    let all = 20 << 20;
    assert_eq!((figures(&told), &told["verified"]), ([all, all, 0, 0], &true.into()));
    done(dir.path(), &[&two, "./back.img"]);
    let back = fs::read(dir.path().join("back.img")).unwrap();
    assert!(back[..data.len()] == data && back[data.len()..].iter().all(|byte| *byte == 0));
    // Where the data is wanted, or the namespaces differ, it passes through weft.
    for args in [&[&one[..], &two, "--sha256"][..], &[&one, &other_blocks]] {
        let told = json(args);
        assert_eq!(figures(&told)[..3], [all, 0, all], "{args:?}");
    }
    let text = done(dir.path(), &[&one, &two]);
    assert!(text.contains("21.0 MB were copied by the target itself"), "{text}");
}

#[test]
fn holes_of_nbd_servers_are_not_read_where_they_tell_of_them() {
    if !have(&["nbdkit", "qemu-nbd"]) {
        return;
    }
    let dir = Scratch::new("copy-nbd-holes");
    let path = |name: &str| dir.path().join(name);
    let sparse = fs::File::create(path("sparse.img")).unwrap();
    sparse.set_len(16 << 20).unwrap();
    for mib in [5, 6, 15] {
        sparse.write_all_at(&[7; MIB], mib << 20).unwrap();
    }
    let (data, all, told) = (fs::read(path("sparse.img")).unwrap(), 16 * MIB, 3 * MIB);
    let file =
        |options: &[&'static str]| [&["-f", "-U", "{}"], options, &["file", "sparse.img"]].concat();
    let fails = ["-f", "-U", "{}", "--filter=error", "file", "sparse.img", "error-extents=EIO"];
    let servers = [
        ("nbdkit", file(&["-r"]), told),
        ("nbdkit", file(&["--filter=noextents"]), all),
        ("nbdkit", file(&["--no-sr"]), all),
        ("nbdkit", file(&["--oldstyle"]), all),
        ("nbdkit", [&fails[..], &["error-extents-rate=100%"]].concat(), all),
        ("qemu-nbd", vec!["-t", "-k", "{}", "-r", "-f", "raw", "sparse.img"], told),
    ];
    for (program, args, read) in servers {
        let server = Foreign::start(dir.path(), program, &args);
        fs::write(path("old.img"), vec![9; all]).unwrap();
        let from = server.url("nbd", "");
        let json = done(dir.path(), &[&from, "./old.img", "--verify", "--restart", "-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (&json["read_bytes"], &json["written_bytes"]),
            (&read.into(), &told.into()),
            "{args:?}"
        );
        assert!(fs::read(path("old.img")).unwrap() == data, "{args:?}");
    }
    // What TO has is overwritten by zeroes, and what is zero there takes no space.
    fs::write(path("to.img"), []).unwrap();
    let server = Foreign::start(dir.path(), "nbdkit", &["-f", "-U", "{}", "file", "to.img"]);
    for old in [9, 0] {
        fs::write(path("to.img"), []).unwrap();
        fs::File::create(path("to.img")).unwrap().set_len(16 << 20).unwrap();
        if old != 0 {
            fs::write(path("to.img"), vec![old; all]).unwrap();
        }
        done(dir.path(), &["./sparse.img", &server.url("nbd", ""), "--verify", "--restart"]);
        assert!(fs::read(path("to.img")).unwrap() == data, "{old}");
        assert!(fs::metadata(path("to.img")).unwrap().blocks() * 512 < 5 << 20, "{old}");
    }
}

#[test]
fn an_empty_file_is_copied_as_one() {
    let dir = Scratch::new("copy-empty");
    fs::write(dir.path().join("empty.img"), []).unwrap();
    let ran = copy(dir.path(), &["./empty.img", "./new.img", "--sha256"]);
    assert!(ran.code() == Some(0) && ran.err.contains("nothing to copy"), "{ran:?}");
    assert!(ran.out.contains("SHA-256 e3b0c44298fc1c149afbf4c8996fb924"), "{}", ran.out);
    assert_eq!(fs::metadata(dir.path().join("new.img")).unwrap().len(), 0);
    image(dir.path(), "old.img", MIB);
    let told = done(dir.path(), &["./empty.img", "./old.img", "-o", "json"]);
    assert!(told.contains("\"bytes\": 0"), "{told}");
    assert_eq!(fs::metadata(dir.path().join("old.img")).unwrap().len(), MIB as u64);
}
