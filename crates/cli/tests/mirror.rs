//! A mirror over servers that are killed: with real processes.
#![cfg(target_os = "linux")]

use crate::support::{Ran, Scratch, Server, run, weft};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn kill(server: Server) {
    let killed = Command::new("kill").args(["-9", &server.pid().to_string()]).status().unwrap();
    assert!(killed.success());
    drop(server);
}

/// A target of one file, always at the same address.
fn target(dir: &Path, name: &str, port: u16) -> Server {
    let source = format!("file:./{name}.img,size=20MiB");
    let listen = format!("nvme+tcp://127.0.0.1:{port}");
    Server::start(
        dir,
        &[
            &source,
            "--listen",
            &listen,
            "--nqn",
            &format!("nqn.2026-01.example.weft:{name}"),
            "--threads",
            "1",
        ],
    )
}

fn bench(dir: &Path, url: &str, seconds: &str) -> Command {
    let mut command = weft(
        dir,
        &["bench", url, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=8m", "--verify=crc32c"],
    );
    command.args(["--time_based", &format!("--runtime={seconds}")]);
    command
}

/// What the labels of the legs say, when it is `wanted`.
fn await_status(dir: &Path, legs: &[String], wanted: &str) {
    let begun = Instant::now();
    loop {
        let args: Vec<&str> =
            ["mirror", "status"].into_iter().chain(legs.iter().map(String::as_str)).collect();
        let ran = run(weft(dir, &args));
        if ran.out.matches(wanted).count() == legs.len() {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(180),
            "the labels never said \"{wanted}\": {}{}",
            ran.out,
            ran.err
        );
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Serves the mirror; a target that was killed counts as dead soon.
fn serve(dir: &Path, url: &str) -> Server {
    let arguments = [
        "serve",
        url,
        "--listen",
        "nvme+tcp://127.0.0.1:0",
        "--keep-alive-tmo",
        "1",
        "--quiesce-time",
        "0s",
    ];
    let log = std::fs::File::create(dir.join("mirror.log")).unwrap();
    let mut command = weft(dir, &arguments);
    command.stderr(log);
    Server::spawn(command)
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("mirror.log")).unwrap()
}

/// How many bytes a leg was given until it was in sync, says the log.
fn copied(dir: &Path) -> u64 {
    let log = log(dir);
    let line = log
        .lines()
        .find(|line| line.contains("is in sync again; "))
        .unwrap_or_else(|| panic!("{log}"));
    line.split("is in sync again; ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .unwrap()
        .parse()
        .unwrap()
}

/// Serves the mirror once until its legs are equal, so that they are known to be.
fn make_equal(dir: &Path, url: &str) {
    let mirror = serve(dir, url);
    let begun = Instant::now();
    while !log(dir).contains("the legs are equal") {
        assert!(begun.elapsed() < Duration::from_secs(180), "{}", log(dir));
        std::thread::sleep(Duration::from_millis(100));
    }
    mirror.terminate();
}

#[test]
fn legs_and_the_mirror_itself_are_killed_under_load() {
    let scratch = Scratch::new("mirror-killed");
    let dir = scratch.path();
    let ports: Vec<u16> =
        (0..3).map(|_| weft_testing::port::free(std::net::Ipv4Addr::LOCALHOST)).collect();
    let mut targets: Vec<Option<Server>> = ports
        .iter()
        .zip(["a", "b", "c"])
        .map(|(port, name)| Some(target(dir, name, *port)))
        .collect();
    let legs: Vec<String> = ports
        .iter()
        .zip(["a", "b", "c"])
        .map(|(port, name)| format!("nvme+tcp://127.0.0.1:{port}/nqn.2026-01.example.weft:{name}"))
        .collect();
    let created =
        run(weft(dir, &["mirror", "create", "--state", "./m.state", &legs[0], &legs[1], &legs[2]]));
    assert_eq!(created.code(), Some(0), "{}", created.err);
    let url = format!("mirror:state=./m.state,{}", legs.join(","));
    make_equal(dir, &url);
    let mirror = serve(dir, &url);

    // A leg is killed under load, and comes back.
    let load = bench(dir, mirror.url(), "6s").spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    kill(targets[1].take().unwrap());
    let ended = load.wait_with_output().unwrap();
    assert!(ended.status.success(), "the load goes on: {}", String::from_utf8_lossy(&ended.stderr));
    await_status(dir, &[legs[0].clone(), legs[2].clone()], "legs in sync then: 0 2,");
    targets[1] = Some(target(dir, "b", ports[1]));
    await_status(dir, &legs, "legs in sync then: 0 1 2,");

    let bytes = copied(dir);
    assert!(
        bytes > 0 && bytes <= 9 << 20,
        "{bytes} bytes were copied, of which 8 MiB were written"
    );

    // The mirror is killed under load, and takes its mirror again.
    let mut load = bench(dir, mirror.url(), "30s").spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    kill(mirror);
    load.kill().unwrap();
    load.wait().unwrap();
    let alone = run(weft(
        dir,
        &["bench", &format!("mirror:{}", legs.join(",")), "--rw=read", "--runtime=1s"],
    ));
    assert!(alone.code() != Some(0) && alone.err.contains("state file"), "{}", alone.err);
    let mirror = serve(dir, &url);
    // What the killed one had sent might have been executed until the targets missed its keep
    // alive, and as long as they state (CQT).
    assert!(log(dir).contains("is shut out now; it is used in 32 s"), "{}", log(dir));
    let ended = run(bench(dir, mirror.url(), "3s"));
    assert_eq!(ended.code(), Some(0), "{}", ended.err);

    an_old_leg_waits_for_the_others(dir, &ports, &mut targets, &legs, (mirror, &url));
}

/// Two legs go on without the third, which is not started from later.
fn an_old_leg_waits_for_the_others(
    dir: &Path,
    ports: &[u16],
    targets: &mut [Option<Server>],
    legs: &[String],
    (mirror, url): (Server, &str),
) {
    kill(targets[2].take().unwrap());
    let ended = run(bench(dir, mirror.url(), "3s"));
    assert_eq!(ended.code(), Some(0), "{}", ended.err);
    mirror.terminate();
    for place in [0, 1] {
        kill(targets[place].take().unwrap());
    }
    targets[2] = Some(target(dir, "c", ports[2]));
    let old = run(weft(dir, &["bench", url, "--rw=read", "--runtime=1s"]));
    assert!(
        old.code() != Some(0) && old.err.contains("leg 2") && old.err.contains("is old"),
        "{}",
        old.err
    );

    // With all of them again, they are made equal.
    targets[0] = Some(target(dir, "a", ports[0]));
    targets[1] = Some(target(dir, "b", ports[1]));
    let mirror = serve(dir, url);
    await_status(dir, legs, "legs in sync then: 0 1 2,");
    mirror.terminate();
    let scrub = run(weft(dir, &["mirror", "scrub", &legs[0], &legs[1], &legs[2]]));
    assert_eq!(scrub.code(), Some(0), "{}{}", scrub.out, scrub.err);
    assert!(scrub.out.contains("19MiB of 3 legs are equal"), "{}", scrub.out);
}

/// An image without data, and one on which a file system is recognised.
fn images() -> [Vec<u8>; 2] {
    let empty = vec![0; 4 << 20];
    let mut xfs = empty.clone();
    xfs[..4].copy_from_slice(b"XFSB");
    [empty, xfs]
}

/// Makes a mirror of two files.
fn create(dir: &Path, more: &[&str]) -> Ran {
    let legs = ["file:./a.img,size=4MiB", "file:./b.img,size=4MiB"];
    let args = ["mirror", "create"].into_iter().chain(more.iter().copied()).chain(legs);
    run(weft(dir, &args.collect::<Vec<_>>()))
}

#[test]
fn a_mirror_is_not_made_over_data_and_nothing_is_written_before_that_is_known() {
    let scratch = Scratch::new("mirror-guard");
    let dir = scratch.path();
    let create = |more: &[&str]| create(dir, more);
    let [empty, xfs] = images();
    std::fs::write(dir.join("a.img"), &empty).unwrap();
    std::fs::write(dir.join("b.img"), &xfs).unwrap();
    let refused = create(&["--state", "./m.state"]);
    assert_eq!(refused.code(), Some(5), "{}", refused.err);
    assert!(
        refused.err.contains("b.img,size=4MiB holds an XFS file system; give --destroy-data"),
        "{}",
        refused.err
    );
    assert!(
        std::fs::read(dir.join("a.img")).unwrap().iter().all(|byte| *byte == 0),
        "the other leg was not written"
    );
    assert!(std::fs::read(dir.join("b.img")).unwrap() == xfs, "nor was this one");

    std::fs::rename(dir.join("a.img"), dir.join("c.img")).unwrap();
    std::fs::rename(dir.join("b.img"), dir.join("a.img")).unwrap();
    std::fs::rename(dir.join("c.img"), dir.join("b.img")).unwrap();
    let refused = create(&[]);
    assert!(
        refused.code() == Some(5) && refused.err.contains("only the last MiB is overwritten"),
        "{}",
        refused.err
    );
    let mut notes = b"to keep".to_vec();
    notes.resize(64 << 10, 0);
    std::fs::write(dir.join("notes"), notes).unwrap();
    std::fs::write(dir.join("a.img"), &empty).unwrap();
    let refused = create(&["--state", "./notes"]);
    assert!(
        refused.code() == Some(5) && refused.err.contains("is no new state file"),
        "{}",
        refused.err
    );
    assert!(std::fs::read(dir.join("notes")).unwrap().starts_with(b"to keep"));
    assert_eq!(create(&["--state", "./m.state"]).code(), Some(0));

    let again = create(&[]);
    assert!(again.code() == Some(5) && again.err.contains("is leg 0 of mirror"), "{}", again.err);
    std::fs::write(dir.join("new.img"), &xfs).unwrap();
    let replace = |more: &[&str]| {
        let args: Vec<&str> =
            ["mirror", "replace", "--leg", "1", "file:./a.img", "file:./new.img"].to_vec();
        run(weft(dir, &args.into_iter().chain(more.iter().copied()).collect::<Vec<_>>()))
    };
    let refused = replace(&[]);
    assert!(refused.code() == Some(5) && refused.err.contains("XFS"), "{}", refused.err);
    assert!(std::fs::read(dir.join("new.img")).unwrap() == xfs, "it was not written");
    assert_eq!(replace(&["--destroy-data"]).code(), Some(0));
    assert_eq!(create(&["--destroy-data"]).code(), Some(0));
}

/// One leg is a disk that does not answer any more: the mirror drops it at the disk time limit, its
/// hosts go on, and it ends when it is told to. Before, the limit was that of the mirror as a
/// whole, so that the namespace went away.
#[test]
fn a_leg_that_hangs_is_dropped_and_the_mirror_serves() {
    let scratch = Scratch::new("mirror-hangs");
    let dir = scratch.path();
    let legs = ["file:./a.img,size=20MiB", "file:./b.img,size=20MiB"];
    let created = run(weft(dir, &["mirror", "create", "--assume-clean", legs[0], legs[1]]));
    assert_eq!(created.code(), Some(0), "{}", created.err);
    let url = format!("mirror:{},error:rate=1,kind=hang,ops=write,after=30,{}", legs[0], legs[1]);
    let log_file = std::fs::File::create(dir.join("mirror.log")).unwrap();
    let mut command = weft(
        dir,
        &["serve", &url, "--listen", "nvme+tcp://127.0.0.1:0", "--disk-timeout", "500ms"],
    );
    command.stderr(log_file);
    let mirror = Server::spawn(command);
    let ended = run(bench(dir, mirror.url(), "3s"));
    assert_eq!(ended.code(), Some(0), "{}{}", ended.err, log(dir));
    assert!(
        log(dir).contains("failed (TimedOut) and is out of sync; the others serve alone"),
        "{}",
        log(dir)
    );
    assert!(mirror.terminate().success(), "{}", log(dir));
}

/// Both legs fail all reads after the first few, which are of their labels.
#[test]
fn a_mirror_whose_legs_both_fail_to_read_serves_writes_and_ends_when_it_is_told() {
    let scratch = Scratch::new("mirror-unreadable");
    let dir = scratch.path();
    let files = ["file:./a.img,size=8MiB", "file:./b.img,size=8MiB"];
    let created = run(weft(
        dir,
        &["mirror", "create", "--assume-clean", "--state", "./m.state", files[0], files[1]],
    ));
    assert_eq!(created.code(), Some(0), "{}", created.err);
    let legs = files.map(|file| format!("error:rate=1,kind=media,ops=read,after=2,{file}"));
    let server = serve(dir, &format!("mirror:state=./m.state,{}", legs.join(",")));
    let read = run(weft(
        dir,
        &["bench", server.url(), "--rw=read", "--bs=4k", "--size=64k", "--number_ios=16"],
    ));
    assert_ne!(read.code(), Some(0), "no leg can be read: {}", read.out);
    let write = run(weft(
        dir,
        &[
            "bench",
            server.url(),
            "--rw=write",
            "--bs=64k",
            "--offset=4m",
            "--size=1m",
            "--destroy-data",
        ],
    ));
    assert_eq!(write.code(), Some(0), "writes go on: {}", write.err);
    assert!(server.terminate().success(), "{}", log(dir));
}
