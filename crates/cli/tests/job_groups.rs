//! Groups of jobs: none starts where one cannot run, and what was measured is printed whatever
//! happens later.

use crate::support::{Ran, Scratch, Server, run, weft};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

const DATA: u8 = 7;

fn scratch(name: &str) -> Scratch {
    let dir = Scratch::new(name);
    std::fs::write(dir.path().join("disk.img"), vec![DATA; 4 << 20]).unwrap();
    dir
}

fn bench(dir: &Path, option: &str, text: &str) -> Ran {
    std::fs::write(dir.join("jobs"), text).unwrap();
    run(weft(dir, &["bench", "--output-format=json", option, "jobs"]))
}

fn is_untouched(dir: &Path) -> bool {
    std::fs::read(dir.join("disk.img")).unwrap().iter().all(|byte| *byte == DATA)
}

#[test]
fn a_group_that_cannot_run_is_refused_before_the_first_one_writes() {
    let dir = scratch("groups-refused");
    let first = "[first]\nfilename=disk.img\nrw=write\nsize=1m\n";
    for (last, code, text) in [
        ("filename=disk.img\nrw=write\nbs=1000\nverify=crc32c", 2, "job last: bs"),
        ("filename=disk.img\nrw=read\noffset=4m", 2, "job last: offset"),
        ("filename=disk.img\nrw=read\nsize=5m", 2, "job last: size"),
        ("filename=none.img\nrw=read", 3, "none.img"),
        ("filename=no/such/directory/a.img\nrw=write\nsize=1m", 3, "no/such"),
        ("filename=nbd://127.0.0.1:1/a\nrw=read", 7, "127.0.0.1:1"),
        ("filename=readonly:./disk.img\nrw=write", 2, "job last: rw"),
    ] {
        let ran = bench(dir.path(), "--fio", &format!("{first}[last]\nstonewall\n{last}\n"));
        assert_eq!((ran.code(), ran.out.as_str()), (Some(code), ""), "{last}: {ran:?}");
        assert!(ran.message().contains(text), "{last}: {ran:?}");
        assert!(is_untouched(dir.path()), "{last}: the first group has written");
    }
    let runs = "sd=sd1,lun=./disk.img\nwd=w,sd=sd*,rdpct=0\n\
        rd=r,wd=w,iorate=max,elapsed=1,forxfersize=(4k,8m)\n";
    let ran = bench(dir.path(), "--vdbench", runs);
    assert!(ran.code() == Some(2) && ran.out.is_empty(), "{ran:?}");
    assert!(is_untouched(dir.path()), "the first run has written");
}

#[test]
fn files_that_were_created_for_nothing_are_removed() {
    let dir = scratch("groups-created");
    let jobs =
        "[first]\nfilename=new.img\nrw=write\nsize=1m\n[last]\nstonewall\nfilename=none.img\n";
    assert_eq!(bench(dir.path(), "--fio", jobs).code(), Some(3));
    assert!(!dir.path().join("new.img").exists());
    // A group may use what an earlier one creates.
    let jobs =
        "[first]\nfilename=new.img\nrw=write\nsize=1m\n[last]\nstonewall\nfilename=new.img\n";
    let ran = bench(dir.path(), "--fio", jobs);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert_eq!(std::fs::metadata(dir.path().join("new.img")).unwrap().len(), 1 << 20);
}

/// The address of a server that passes one connection on, and refuses all others.
fn passing_one(to: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (own, to) = (listener.local_addr().unwrap().to_string(), to.to_owned());
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        drop(listener);
        let server = TcpStream::connect(to).unwrap();
        let (mut from, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut into);
            let _ = into.shutdown(std::net::Shutdown::Both);
        });
        let (mut from, mut into) = (server, client);
        let _ = std::io::copy(&mut from, &mut into);
    });
    own
}

/// The URL of a server whose disk can be connected to once.
fn once(server: &Server) -> String {
    let to = server.url().trim_start_matches("nbd://").split('/').next().unwrap();
    server.url().replace(to, &passing_one(to))
}

#[test]
fn the_first_group_runs_on_the_connection_of_the_check() {
    let dir = scratch("groups-once");
    let server = Server::start(dir.path(), &["ram:1MiB", "--listen", "nbd://127.0.0.1:0"]);
    for last in ["", "[last]\nstonewall\nfilename=ram:1MiB\nrw=read\n"] {
        let jobs = format!("[first]\nfilename={}\nrw=write\n{last}", once(&server));
        let ran = bench(dir.path(), "--fio", &jobs);
        assert_eq!(ran.code(), Some(0), "{last}: {ran:?}");
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(report["jobs"][0]["write"]["io_bytes"], 1 << 20, "{last}: {report}");
    }
}

#[test]
fn what_was_measured_is_printed_if_a_later_group_fails() {
    let dir = scratch("groups-failing");
    let server = Server::start(dir.path(), &["ram:1MiB", "--listen", "nbd://127.0.0.1:0"]);
    // The check uses up the connection.
    let lost = once(&server);
    let jobs = format!(
        "[first]\nfilename=disk.img\nrw=write\nsize=1m\n[second]\nfilename=ram:1MiB\nrw=read\n\
         [lost]\nstonewall\nfilename={lost}\nrw=read\n[never]\nstonewall\nfilename=ram:1MiB\n"
    );
    let ran = bench(dir.path(), "--fio", &jobs);
    assert_eq!(ran.code(), Some(7), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let jobs: Vec<_> = report["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (job["jobname"].as_str().unwrap(), job["groupid"].as_u64().unwrap()))
        .collect();
    assert_eq!(jobs, [("first", 0), ("second", 0)]);
    let failed = &report["weft"]["failed"];
    assert_eq!(failed["groupid"], 1);
    assert!(ran.message().contains(failed["error"].as_str().unwrap()), "{ran:?}");
    assert!(!is_untouched(dir.path()));
}

#[test]
fn a_report_whose_file_cannot_be_written_is_printed() {
    let dir = scratch("groups-output");
    let args = ["bench", "ram:1MiB", "--output-format=json", "--output", "no/such/file"];
    let ran = run(weft(dir.path(), &args));
    assert_eq!(ran.code(), Some(3), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["jobs"].as_array().unwrap().len(), 1);
    assert!(ran.message().contains("on standard output instead"), "{ran:?}");
}
