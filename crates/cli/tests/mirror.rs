//! A mirror over servers that are killed: with real processes.
#![cfg(target_os = "linux")]

use crate::support::loads::{Loads, until_many_writes};
use crate::support::{Ran, Scratch, Server, run, weft};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use weft_testing::port;
use weft_testing::wait::until;

/// The targets of a mirror's legs.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The name of the mirror's control.
pub const CONTROL: &str = "mirror";

/// The default address of the mirror: any free port.
const ANYWHERE: &str = "nvme+tcp://127.0.0.1:0";

pub fn kill(server: Server) {
    weft_testing::process::signal(server.pid(), "KILL");
    drop(server);
}

/// A target of one file, always at the same address.
fn target(dir: &Path, (scheme, size): (&str, &str), name: &str, port: u16) -> Server {
    let source = format!("file:./{name}.img,size={size}");
    let listen = format!("{scheme}://127.0.0.1:{port}");
    let [nqn, iqn] = ["nqn", "iqn"].map(|kind| format!("{kind}.2026-01.example.weft:{name}"));
    let names = ["--nqn", &nqn, "--iqn", &iqn];
    Server::start(dir, &[&[&source, "--listen", &listen, "--threads", "1"], &names[..]].concat())
}

/// Writes to 8 MiB, and reads them again at its end.
fn bench(dir: &Path, url: &str, end: &[&str]) -> Command {
    let what = ["--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=8m", "--verify=crc32c"];
    weft(dir, &[&["bench", url], &what[..], end].concat())
}

/// A load that ends by itself, and one that does not.
const ONCE: [&str; 1] = ["--time_based=0"];
const ENDLESS: [&str; 2] = ["--time_based", "--runtime=1h"];

/// Waits until the labels of all these legs say this.
pub fn await_status(dir: &Path, legs: &[String], wanted: &str) {
    let args: Vec<&str> =
        ["mirror", "status"].into_iter().chain(legs.iter().map(String::as_str)).collect();
    until(&format!("the labels of {legs:?} say \"{wanted}\""), || {
        run(weft(dir, &args)).out.matches(wanted).count() == legs.len()
    });
}

/// Serves the mirror; a target that was killed counts as dead soon.
fn serve(dir: &Path, url: &str, at: &str) -> Server {
    let listen = ["serve", url, "--listen", at, "--control", CONTROL];
    let times = ["--keep-alive-tmo", "1", "--quiesce-time", "0s"];
    let log = std::fs::File::create(dir.join("mirror.log")).unwrap();
    let mut command = weft(dir, &[&listen[..], &times].concat());
    command.stderr(log);
    Server::spawn(command)
}

pub fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("mirror.log")).unwrap()
}

/// Bytes that a leg was given until it was in sync, as the log says.
fn copied(dir: &Path, leg: &str) -> u64 {
    logged(dir, leg, "is in sync again; ")
}

/// The number behind `text` in the first line of the log that has it and names `what`.
pub fn logged(dir: &Path, what: &str, text: &str) -> u64 {
    let log = log(dir);
    let behind = |line: &str| line.split_once(text).map(|(_, behind)| behind.to_owned());
    let line = log.lines().filter(|line| line.contains(what)).find_map(behind);
    let number = line.as_deref().and_then(|line| line.split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("{log}"))
}

/// A mirror of three targets that are processes of their own.
pub struct Stage {
    scratch: Scratch,
    /// Scheme of the URLs of the legs, and size of a leg.
    kind: (&'static str, &'static str),
    ports: [u16; 3],
    targets: [Option<Server>; 3],
    pub legs: [String; 3],
    url: String,
    /// Address of the mirror.
    at: String,
}

impl Stage {
    /// Starts the targets, and makes the mirror.
    pub fn new(scheme: &'static str, size: &'static str) -> Self {
        let scratch = Scratch::new("mirror-killed");
        let kind = (scheme, size);
        let ports = [(); 3].map(|()| port::free(Ipv4Addr::LOCALHOST));
        let start = |place| target(scratch.path(), kind, NAMES[place], ports[place]);
        let targets = [0, 1, 2].map(start);
        let legs = targets.each_ref().map(|target| target.url().to_owned());
        let url = format!("mirror:state=./m.state,{}", legs.join(","));
        let create = ["mirror", "create", "--state", "./m.state", &legs[0], &legs[1], &legs[2]];
        let created = run(weft(scratch.path(), &create));
        assert_eq!(created.code(), Some(0), "{}", created.err);
        let at = ANYWHERE.into();
        Self { scratch, kind, ports, targets: targets.map(Some), legs, url, at }
    }

    /// From now on the mirror listens at the same port each time, so that its hosts find it again.
    pub fn keep_port(&mut self) {
        self.at = format!("nvme+tcp://127.0.0.1:{}", port::free(Ipv4Addr::LOCALHOST));
    }

    pub fn dir(&self) -> &Path {
        self.scratch.path()
    }

    pub fn kill(&mut self, place: usize) {
        kill(self.targets[place].take().unwrap());
    }

    pub fn launch(&mut self, place: usize) {
        let (name, port) = (NAMES[place], self.ports[place]);
        self.targets[place] = Some(target(self.dir(), self.kind, name, port));
    }

    pub fn serve(&self) -> Server {
        serve(self.dir(), &self.url, &self.at)
    }

    /// Serves the mirror once until its legs are equal, so that they are known to be.
    pub fn make_equal(&self) {
        let mirror = self.serve();
        until("the legs are equal", || log(self.dir()).contains("the legs are equal"));
        mirror.terminate();
    }

    /// Writes and reads by the mirror.
    fn works(&self, mirror: &Server) {
        let ended = run(bench(self.dir(), mirror.url(), &ONCE));
        assert_eq!(ended.code(), Some(0), "{}", ended.err);
    }

    /// A leg is killed under load, and its target starts again.
    fn a_leg_is_killed(&mut self, mirror: &Server) {
        let (dir, url) = (self.dir().to_owned(), mirror.url().to_owned());
        let loads = Loads::start(move || bench(&dir, &url, &ONCE));
        until_many_writes(self.dir(), CONTROL);
        self.kill(1);
        until_many_writes(self.dir(), CONTROL);
        loads.end();
        let others = [self.legs[0].clone(), self.legs[2].clone()];
        await_status(self.dir(), &others, "legs in sync then: 0 2,");
        self.launch(1);
    }

    /// The killed leg receives only the regions that it missed.
    fn the_leg_comes_back(&self) {
        await_status(self.dir(), &self.legs, "legs in sync then: 0 1 2,");
        let bytes = copied(self.dir(), &self.legs[1]);
        assert!(
            bytes > 0 && bytes <= 9 << 20,
            "{bytes} bytes were copied, of which 8 MiB were written"
        );
    }

    /// The mirror is killed under load, and takes its mirror again. What the killed one had sent
    /// might be executed for this long.
    fn the_mirror_is_killed(&self, mirror: Server, wait: &str) -> Server {
        let mut endless = bench(self.dir(), mirror.url(), &ENDLESS).spawn().unwrap();
        until_many_writes(self.dir(), CONTROL);
        kill(mirror);
        endless.kill().unwrap();
        endless.wait().unwrap();
        let alone = format!("mirror:{}", self.legs.join(","));
        let alone = run(weft(self.dir(), &["bench", &alone, "--rw=read", "--runtime=1s"]));
        assert!(alone.code() != Some(0) && alone.err.contains("state file"), "{}", alone.err);
        let mirror = self.serve();
        let said = format!("is shut out now; it is used in {wait}");
        until("the log says how long the mirror waits", || log(self.dir()).contains(&said));
        mirror
    }

    /// Two legs go on without the third, which is not started from later.
    fn an_old_leg_waits_for_the_others(mut self, mirror: Server) {
        self.kill(2);
        self.works(&mirror);
        mirror.terminate();
        self.kill(0);
        self.kill(1);
        self.launch(2);
        let old = run(weft(self.dir(), &["bench", &self.url, "--rw=read", "--runtime=1s"]));
        assert!(
            old.code() != Some(0) && old.err.contains("leg 2") && old.err.contains("is old"),
            "{}",
            old.err
        );

        // With all of them again, they are made equal.
        self.launch(0);
        self.launch(1);
        let mirror = self.serve();
        await_status(self.dir(), &self.legs, "legs in sync then: 0 1 2,");
        mirror.terminate();
        self.are_equal("19MiB");
    }

    /// Compares the legs; `bytes` is the size that `weft mirror scrub` reports.
    pub fn are_equal(&self, bytes: &str) {
        let [a, b, c] = &self.legs;
        let scrub = run(weft(self.dir(), &["mirror", "scrub", a, b, c]));
        assert_eq!(scrub.code(), Some(0), "{}{}", scrub.out, scrub.err);
        let equal = format!("{bytes} of 3 legs are equal");
        assert!(scrub.out.contains(&equal), "{}", scrub.out);
    }
}

/// All that happens to the mirror, whose targets may go on for this long.
fn all_are_killed(scheme: &'static str, wait: &str) {
    let mut stage = Stage::new(scheme, "20MiB");
    stage.make_equal();
    let mirror = stage.serve();
    stage.a_leg_is_killed(&mirror);
    stage.the_leg_comes_back();
    let mirror = stage.the_mirror_is_killed(mirror, wait);
    stage.works(&mirror);
    stage.an_old_leg_waits_for_the_others(mirror);
}

/// An iSCSI target ends what a lost session had in two seconds.
#[test]
fn legs_and_the_mirror_itself_are_killed_under_load() {
    all_are_killed("iscsi", "3 s");
}

/// An NVMe target may go on for two keep alive timeouts and the time that it states (CQT), half a
/// minute. The test does not wait for that: a leg that was killed is still away.
#[test]
fn a_killed_mirror_waits_as_long_as_its_nvme_targets_may_go_on() {
    let mut stage = Stage::new("nvme+tcp", "20MiB");
    stage.make_equal();
    let mirror = stage.serve();
    stage.a_leg_is_killed(&mirror);
    kill(stage.the_mirror_is_killed(mirror, "32 s"));
}

#[test]
#[ignore = "waits for half a minute: cargo xtask long mirror-killed"]
fn legs_and_the_mirror_itself_are_killed_under_load_by_nvme() {
    all_are_killed("nvme+tcp", "32 s");
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
        refused.code() == Some(5) && refused.err.contains("is not a new state file"),
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
    let mut command =
        weft(dir, &["serve", &url, "--listen", "nvme+tcp://127.0.0.1:0", "--disk-timeout", "5s"]);
    command.stderr(log_file);
    let mirror = Server::spawn(command);
    let ended = run(bench(dir, mirror.url(), &ONCE));
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
    let url = format!("mirror:state=./m.state,{}", legs.join(","));
    let server = serve(dir, &url, ANYWHERE);
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
