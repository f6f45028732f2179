//! Targets and mirrors whose programs are replaced while hosts use them: by this one, and by the
//! earlier one again. No operation of a host fails.

use crate::support::loads::{Loads, until_many_writes};
use crate::support::{Scratch, Server, program, run, there_and_back, this_program, weft};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use weft_io::file_system;
use weft_testing::port;
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:upgrade";
const IQN: &str = "iqn.2026-01.example.weft:upgrade";

/// Programs in the order in which they serve.
type Programs = [PathBuf; 3];

/// One after the other of this program: as in an upgrade that changes nothing.
fn always_this() -> Programs {
    [(); 3].map(|()| this_program())
}

/// What both protocols with a sign of life are told, so that no host waits for long.
const SOON: [&str; 4] = ["--keep-alive-tmo", "1", "--quiesce-time", "0s"];

/// A load that reads again what it has written, to the `nth` of the parts of a disk that have this
/// many bytes.
fn load(
    by: &Path,
    dir: &Path,
    url: &str,
    (nth, mib): (usize, usize),
) -> impl Fn() -> Command + use<> {
    let (by, dir, url) = (by.to_owned(), dir.to_owned(), url.to_owned());
    let part = [format!("--size={mib}MiB"), format!("--offset={}MiB", nth * mib)];
    move || {
        let what = ["bench", &url, "--rw=randwrite", "--bs=4k", "--iodepth=4", "--verify=crc32c"];
        let mut command = program(&by, &dir, &[&what[..], &["--time_based=0"], &SOON].concat());
        command.args(&part);
        command
    }
}

/// Loads of hosts of the earlier program and of the later one, at each of the URLs.
fn loads(
    programs: &Programs,
    dir: &Path,
    urls: &[String],
    mib: usize,
) -> impl Iterator<Item = impl Fn() -> Command + use<>> {
    let hosts = urls.iter().flat_map(|url| programs[..2].iter().map(move |by| (url, by)));
    hosts.zip(0..).map(move |((url, by), nth)| load(by, dir, url, (nth, mib)))
}

/// A directory and a file in it that is served. Names of files are recorded on most machines;
/// elsewhere this version draws one at each start, and the file is given one.
fn place() -> (Scratch, &'static str) {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let lasts = file_system::passing(Path::new(env!("CARGO_TARGET_TMPDIR"))).is_none();
    match (machine.trim().len() == 32 && lasts).then(|| Scratch::lasting("upgrade")).flatten() {
        Some(dir) => (dir, "file:./disk.img,size=16MiB"),
        None => (
            Scratch::new("upgrade"),
            "file:./disk.img,size=16MiB,uuid=5a1e0000-0000-4000-8000-000000000001",
        ),
    }
}

/// The keys of the hosts that are registered.
fn keys(dir: &Path, url: &str) -> Vec<u64> {
    let ran = run(weft(dir, &["resv-report", url, "--eds", "-o", "json"]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let registered = report["regctlext"].as_array().unwrap();
    registered.iter().map(|of| of["rkey"].as_u64().unwrap()).collect()
}

/// A target with hosts by all protocols: each program takes over from the one before.
fn a_target_is_replaced(programs: &Programs) {
    let (scratch, file) = place();
    let dir = scratch.path();
    let ports = [(); 3].map(|()| port::free(Ipv4Addr::LOCALHOST));
    let listen = ["nvme+tcp", "iscsi", "nbd"];
    let serve = |nth: usize| {
        let mut command = program(&programs[nth], dir, &["serve", file, "--nqn", NQN]);
        command.args(["--iqn", IQN, "--control", &format!("s{nth}")]);
        for (scheme, port) in listen.iter().zip(ports) {
            command.args(["--listen", &format!("{scheme}://127.0.0.1:{port}")]);
        }
        if nth > 0 {
            command.args(["--takeover", &format!("s{}", nth - 1)]);
        }
        Server::spawn(command)
    };
    let mut server = serve(0);
    let nvme = format!("nvme+tcp://127.0.0.1:{}/{NQN}/1", ports[0]);
    let register = ["resv-register", &nvme, "--nrkey", "47", "--cptpl", "3"];
    let registered = run(program(&programs[0], dir, &register));
    assert_eq!(registered.code(), Some(0), "{registered:?}");
    let loads = loads(programs, dir, &server.urls, 2);
    let loads = loads.map(Loads::start_while_replaced).collect::<Vec<_>>();
    for nth in 1..programs.len() {
        until_many_writes(dir, &format!("s{}", nth - 1));
        let next = serve(nth);
        assert_eq!(server.wait().0.code(), Some(0));
        server = next;
        until_many_writes(dir, &format!("s{nth}"));
        assert_eq!(keys(dir, &nvme), [47]);
    }
    loads.into_iter().for_each(Loads::end);
    assert_eq!(server.terminate().code(), Some(0));
}

/// A mirror of three targets, and the targets.
struct Mirror<'a> {
    dir: &'a Path,
    ports: [u16; 4],
    legs: [String; 3],
}

impl<'a> Mirror<'a> {
    fn new(dir: &'a Path) -> Self {
        let ports = [(); 4].map(|()| port::free(Ipv4Addr::LOCALHOST));
        let leg = |place: usize| format!("iscsi://127.0.0.1:{}/{IQN}.{place}/0", ports[place]);
        Self { dir, ports, legs: [0, 1, 2].map(leg) }
    }

    fn target(&self, by: &Path, place: usize) -> Server {
        let uuid = format!("5a1e0000-0000-4000-8000-00000000001{place}");
        let file = format!("file:./leg{place}.img,size=20MiB,uuid={uuid}");
        let listen = format!("iscsi://127.0.0.1:{}", self.ports[place]);
        let iqn = format!("{IQN}.{place}");
        let args = ["serve", &file, "--listen", &listen, "--iqn", &iqn, "--threads", "1"];
        Server::spawn(program(by, self.dir, &args))
    }

    fn serve(&self, by: &Path) -> Server {
        let url = format!("mirror:state=./m.state,{}", self.legs.join(","));
        let listen = format!("nvme+tcp://127.0.0.1:{}", self.ports[3]);
        let args = ["serve", &url, "--listen", &listen, "--nqn", NQN, "--control", "mirror"];
        let mut command = program(by, self.dir, &[&args[..], &SOON].concat());
        command.stderr(std::fs::File::create(self.dir.join("mirror.log")).unwrap());
        Server::spawn(command)
    }

    /// A command of `weft mirror` with some of the legs.
    fn command(&self, by: &Path, words: &[&str], legs: &[&String]) -> Command {
        let legs: Vec<&str> = legs.iter().map(|leg| leg.as_str()).collect();
        program(by, self.dir, &[&["mirror"][..], words, &legs[..]].concat())
    }

    /// Waits until the labels of these legs name those that are in sync.
    fn await_labels(&self, legs: &[&String], in_sync: &str) {
        let wanted = format!("legs in sync then: {in_sync},");
        until(&format!("the labels of {legs:?} say \"{wanted}\""), || {
            let status = run(self.command(&this_program(), &["status"], legs));
            status.out.matches(&wanted).count() == legs.len()
        });
    }

    fn await_equal(&self) {
        until("the legs are equal", || {
            let log = std::fs::read_to_string(self.dir.join("mirror.log")).unwrap();
            log.contains("the legs are equal")
        });
    }
}

/// A mirror under load: its targets are replaced one by one, and it itself.
fn a_mirror_and_its_targets_are_replaced(programs: &Programs) {
    let scratch = Scratch::new("upgrade-mirror");
    let mirror = Mirror::new(scratch.path());
    let all: Vec<&String> = mirror.legs.iter().collect();
    let mut targets = [0, 1, 2].map(|place| Some(mirror.target(&programs[0], place)));
    let create = mirror.command(&programs[0], &["create", "--state", "./m.state"], &all);
    let created = run(create);
    assert_eq!(created.code(), Some(0), "{created:?}");
    let mut server = mirror.serve(&programs[0]);
    mirror.await_equal();
    let loads = loads(programs, mirror.dir, &server.urls, 8);
    let loads = loads.map(Loads::start_when_served).collect::<Vec<_>>();
    for by in &programs[1..] {
        for (place, target) in targets.iter_mut().enumerate() {
            until_many_writes(mirror.dir, "mirror");
            assert_eq!(target.take().unwrap().terminate().code(), Some(0));
            let others: Vec<&String> =
                all.iter().copied().filter(|leg| **leg != mirror.legs[place]).collect();
            let in_sync = ["1 2", "0 2", "0 1"][place];
            mirror.await_labels(&others, in_sync);
            *target = Some(mirror.target(by, place));
            mirror.await_labels(&all, "0 1 2");
        }
        assert_eq!(server.terminate().code(), Some(0));
        server = mirror.serve(by);
        until_many_writes(mirror.dir, "mirror");
        mirror.await_labels(&all, "0 1 2");
    }
    loads.into_iter().for_each(Loads::end);
    assert_eq!(server.terminate().code(), Some(0));
    let scrub = run(mirror.command(&this_program(), &["scrub"], &all));
    assert!(scrub.code() == Some(0) && scrub.out.contains("of 3 legs are equal"), "{scrub:?}");
}

#[test]
fn hosts_do_not_notice_that_a_target_is_replaced() {
    a_target_is_replaced(&always_this());
}

#[test]
fn hosts_do_not_notice_that_a_mirror_and_its_targets_are_replaced() {
    a_mirror_and_its_targets_are_replaced(&always_this());
}

#[test]
#[ignore = "long: cargo xtask long upgrade-target"]
fn a_target_is_upgraded_and_goes_back() {
    let Some(programs) = there_and_back() else { return };
    a_target_is_replaced(&programs);
}

#[test]
#[ignore = "long: cargo xtask long upgrade-mirror"]
fn a_mirror_is_upgraded_and_goes_back() {
    let Some(programs) = there_and_back() else { return };
    a_mirror_and_its_targets_are_replaced(&programs);
}
