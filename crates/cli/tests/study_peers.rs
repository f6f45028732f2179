//! Targets and load generators of other projects in a study.
#![cfg(target_os = "linux")]

use crate::study::{in_one_block, names};
use crate::support::{Scratch, run, weft};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use weft_testing::{process, programs, wait};

/// Reads and writes, in two blocks.
const SUITE: &str = r#"
name = "targets"
title = "Targets compared"
source = "ram:16MiB"
fill = true
draw = []
lanes = [{ name = "local", through = "local" }]
workloads = [
    { block = "4k", rw = "randrw", depth = 4 },
]
[quick]
each = "200ms"
rounds = 4
[usual]
budget = "60s"
[full]
budget = "60s"
"#;

/// A directory with the suite, one for the files of the targets, and one for programs.
struct Place {
    scratch: Scratch,
    targets: PathBuf,
    programs: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let [targets, programs] = ["targets", "programs"].map(|name| scratch.path().join(name));
        std::fs::create_dir(&targets).unwrap();
        std::fs::create_dir(&programs).unwrap();
        let place = Self { scratch, targets, programs };
        place.write(SUITE);
        place
    }

    /// Writes the suite.
    fn write(&self, suite: &str) {
        std::fs::write(self.scratch.path().join("targets.toml"), suite).unwrap();
    }

    fn study(&self, args: &[&str]) -> Command {
        let mut command =
            weft(self.scratch.path(), &["study", "--quick", "--suite", "./targets.toml"]);
        command.args(args).env("TMPDIR", &self.targets);
        command
    }

    /// Finds this program before all others.
    fn fake(&self, name: &str, text: &str) {
        let path = self.programs.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    fn with_fakes(&self, mut study: Command) -> Command {
        let own = std::iter::once(self.programs.clone());
        let path = programs::path();
        let all = own.chain(std::env::split_paths(&path));
        study.env("PATH", std::env::join_paths(all).unwrap());
        study
    }

    fn results(&self) -> Value {
        let path = self.scratch.path().join("results.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// The processes whose current directory is one of a target's.
    fn processes(&self) -> Vec<u32> {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_of_it = |pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/cwd"))
                .is_ok_and(|path| path.starts_with(&self.targets))
        };
        pids.filter(is_of_it).collect()
    }

    fn is_clean(&self) -> bool {
        self.processes().is_empty() && std::fs::read_dir(&self.targets).unwrap().next().is_none()
    }
}

fn of<'a>(data: &'a Value, list: &str, lane: &str) -> Vec<&'a Value> {
    data[list].as_array().unwrap().iter().filter(|one| one["lane"] == lane).collect()
}

/// What a target is measured with beside weft's: its protocol, and another load generator.
struct Beside {
    peer: &'static str,
    program: &'static str,
    through: &'static str,
    load: &'static str,
}

/// Measures targets of one protocol beside weft's, with weft's initiator and with another load
/// generator.
fn measured(peers: &[Beside]) {
    let place = Place::new(&format!("study-{}", peers[0].through));
    if peers.iter().any(|one| one.load == "iscsi-perf") {
        // It only reads.
        place.write(&SUITE.replace("randrw", "randread"));
    }
    let wanted: Vec<&str> = peers.iter().map(|one| one.peer).collect();
    let ran = run(place.study(&["--peers", &wanted.join(",")]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let data = place.results();
    let page = std::fs::read_to_string(place.scratch.path().join("report.html")).unwrap();
    assert!(page.contains("Commands and configuration of the targets"));
    let lanes = names(&data["lanes"], "name");
    assert_eq!(lanes.len(), 3 + 2 * peers.len(), "{lanes:?}: {}", data["notes"]);
    for Beside { peer, program, through, load } in peers {
        let both = [format!("{through}-{load}"), format!("{peer}-{load}")];
        for lane in [*peer, &both[0], &both[1]] {
            let rows = of(&data, "rows", lane);
            assert_eq!(rows.len(), 1, "{lane}: {}", data["notes"]);
            assert!(rows.iter().all(|row| row["iops"].as_f64() > Some(0.0) && row["failed"] == 0));
            let knows = rows.iter().all(|row| row["target"].is_object());
            assert_eq!(knows, *peer != "nbd-server" || lane == both[0], "{rows:?}");
        }
        for (lane, rival) in [(*peer, *through), (&both[1], &both[0])] {
            let relations = of(&data, "relations", lane);
            let is_rate = |it: &&&Value| it["to"] == rival && it["quantity"] == "rate";
            assert!(relations.iter().any(|it| is_rate(&it)), "{relations:?}");
        }
        let foreign = data["lanes"].as_array().unwrap().iter().find(|lane| lane["name"] == *peer);
        let setup = foreign.unwrap()["setup"].to_string();
        assert!(setup.contains(program), "{setup}");
        let own = place.targets.display().to_string();
        assert!(!setup.contains(&own), "no path of this machine");
    }
    assert!(place.is_clean(), "{:?}", place.processes());
}

#[test]
fn tgt_is_measured_beside_weft() {
    if programs::have(&["tgtd", "tgtadm", "iscsi-perf"]) {
        let (through, load) = ("iscsi", "iscsi-perf");
        measured(&[Beside { peer: "tgt", program: "tgtd", through, load }]);
    }
}

#[test]
fn servers_of_nbd_are_measured_beside_weft() {
    let all = ["nbdkit", "qemu-nbd", "nbd-server"];
    if programs::have(&all) && programs::have(&["fio"]) {
        let (through, load) = ("nbd", "fio");
        measured(&all.map(|name| Beside { peer: name, program: name, through, load }));
    }
}

#[test]
fn load_generators_drive_lanes_at_a_distance() {
    if !programs::have(&["fio"]) {
        return;
    }
    let place = Place::new("study-far");
    let far = r#"{ name = "far", through = "nbd", round_trip_us = 1000 }"#;
    let suite = SUITE.replace(r#"{ name = "local", through = "local" }"#, far);
    place.write(&suite.replace("rounds = 4", "rounds = 2"));
    let ran = run(place.study(&["--peers", "fio"]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let data = place.results();
    for lane in ["far", "far-fio"] {
        let rows = of(&data, "rows", lane);
        assert_eq!(rows.len(), 1, "{lane}: {}", data["notes"]);
        // Four at a time, and each takes a millisecond.
        assert!(rows.iter().all(|row| row["iops"].as_f64() < Some(4100.0)), "{rows:?}");
    }
    assert!(place.is_clean(), "{:?}", place.processes());
}

#[test]
fn gateways_are_measured_beside_weft_in_their_place() {
    if !programs::have(&["qemu-nbd", "qemu-img"]) {
        return;
    }
    let place = Place::new("study-gateways");
    let pairs = [
        ["hypervisor-qemu-iscsi", "hypervisor-iscsi", "driver=iscsi"],
        ["hypervisor-qemu-nbd", "hypervisor-nbd", "driver=nbd"],
    ];
    let ran = run(place.study(&["--peers", &pairs.map(|[name, ..]| name).join(",")]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let data = place.results();
    let lanes = data["lanes"].as_array().unwrap();
    for [name, own, driver] in pairs {
        for lane in [name, own] {
            let rows = of(&data, "rows", lane);
            assert_eq!(rows.len(), 1, "{lane}: {}", data["notes"]);
            assert!(rows.iter().all(|row| row["iops"].as_f64() > Some(0.0) && row["failed"] == 0));
            assert!(rows.iter().all(|row| row["target"].is_object()), "{rows:?}");
        }
        let setup = lanes.iter().find(|lane| lane["name"] == name).unwrap()["setup"].to_string();
        assert!(setup.contains("weft serve") && setup.contains(driver), "{setup}");
        let is_rate = |it: &&&Value| it["to"] == own && it["quantity"] == "rate";
        assert!(of(&data, "relations", name).iter().any(|it| is_rate(&it)));
    }
    assert!(place.is_clean(), "{:?}", place.processes());
}

/// SPDK is in no distribution, so the test takes its place from a variable, and skips nowhere.
#[test]
#[ignore = "needs SPDK_DIR: cargo xtask long study-spdk"]
fn spdk_is_measured_beside_weft() {
    std::env::var_os("SPDK_DIR").expect("set SPDK_DIR to the directory in which SPDK was built");
    let (through, load) = ("nvme+tcp", "spdk-perf");
    measured(&[Beside { peer: "spdk", program: "nvmf_tgt", through, load }]);
    println!("nvmf_tgt was measured beside weft, by weft and by spdk_nvme_perf");
}

#[test]
fn a_file_and_a_null_device_are_served_by_others_too() {
    if !programs::have(&["qemu-nbd", "nbdkit"]) {
        return;
    }
    let place = Place::new("study-peers-file");
    place.write(&SUITE.replace("rounds = 4", "rounds = 2"));
    let file = place.scratch.path().join("disk.img");
    std::fs::write(&file, vec![0; 16 << 20]).unwrap();
    let source = format!("file:{},direct=off", file.display());
    for source in [&source, "null:1GiB"] {
        let ran = run(place.study(&["--peers", "nbdkit,qemu-nbd", "--source", source]));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
        let data = place.results();
        for lane in ["nbdkit", "qemu-nbd"] {
            let rows = of(&data, "rows", lane);
            assert_eq!(rows.len(), 1, "{source}: {}", data["notes"]);
        }
    }
}

/// The default study has one further lane, where a target is installed.
#[test]
fn the_default_study_adds_one_target() {
    let installed = ["nbdkit", "nbd-server", "qemu-nbd", "tgtadm"];
    let Some(first) = installed.iter().find(|program| programs::find(program).is_some()) else {
        weft_testing::skip("no target of another project is installed");
        return;
    };
    let place = Place::new("study-peers-auto");
    let file = in_one_block(place.scratch.path(), "network");
    let lanes = |args: &[&str]| {
        let mut command = weft(place.scratch.path(), &["study", "--quick", "--suite", &file]);
        command.args(args).args(["--source", "ram:16MiB"]).env("TMPDIR", &place.targets);
        command.env_remove("SPDK_DIR");
        let ran = run(command);
        assert_eq!(ran.code(), Some(0), "{ran:?}");
        names(&place.results()["lanes"], "name").join(" ")
    };
    let peer = if *first == "tgtadm" { "tgt" } else { first };
    assert_eq!(lanes(&[]), format!("local nvme+tcp iscsi {peer}"));
    let notes = place.results()["notes"].to_string();
    assert!(notes.contains(&format!("{peer} is a target of another project")), "{notes}");
    assert_eq!(lanes(&["--peers", "none"]), "local nvme+tcp iscsi");
    assert_eq!(lanes(&["--lanes", "local,nbd"]), "local nbd");
    assert!(place.is_clean());
}

/// Whatever is refused is refused before anything is started.
#[test]
fn what_is_not_possible_is_refused() {
    let place = Place::new("study-peers-refused");
    let message = |args: &[&str]| {
        let mut study = place.study(args);
        study.env("PATH", &place.programs);
        let ran = run(study);
        assert_eq!(ran.code(), Some(2), "{ran:?}");
        ran.err
    };
    let unknown = message(&["--peers", "no-such"]);
    assert!(unknown.contains("there is no peer \"no-such\": use auto, none, all, or"), "{unknown}");
    // Also where it is possible: that device is not served.
    let source = "delay:read=1us,ram:16MiB";
    let kernel = message(&["--peers", "kernel", "--source", source]);
    assert!(
        kernel.contains("--peers nvmet") && kernel.contains("is not possible here"),
        "{kernel}"
    );
    let gateway = message(&["--peers", "hypervisor-qemu-nbd", "--source", source]);
    assert!(gateway.contains("without filters"), "{gateway}");
    let missing = message(&["--peers", "nbdkit"]);
    assert!(missing.contains("nbdkit is not installed: `apt-get install nbdkit`"), "{missing}");
    place.fake("fio", "exit 1");
    let unused = message(&["--peers", "fio"]);
    assert!(unused.contains("it reaches no lane of the study"), "{unused}");
    place.fake("nbdkit", "exit 1");
    let filtered = message(&["--peers", "nbdkit", "--source", "delay:read=1us,ram:16MiB"]);
    assert!(filtered.contains("without filters"), "{filtered}");
    let both = message(&["--peers", "nbdkit", "--target", "nbd://127.0.0.1:1/x"]);
    assert!(both.contains("cannot be used with"), "{both}");
    assert!(place.is_clean());
}

#[test]
fn a_target_that_does_not_start_costs_only_its_lane() {
    let place = Place::new("study-peers-broken");
    place.fake("nbdkit", "echo a note >&2; echo 'nbdkit: no such luck' >&2; exit 3");
    place.fake("fio", "if [ $1 = --enghelp ]; then echo nbd; else exit 1; fi");
    let ran = run(place.with_fakes(place.study(&["--peers", "nbdkit,fio"])));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let data = place.results();
    assert_eq!(names(&data["skipped"], "lane"), ["nbdkit", "nbdkit-fio"], "{data}");
    let why = data["skipped"][0]["why"].as_str().unwrap();
    assert_eq!(why, "nbdkit did not start: it ended with status 3: nbdkit: no such luck.", "{why}");
    assert_eq!(of(&data, "rows", "nbd").len(), 1, "{}", data["notes"]);
    assert!(place.is_clean());
}

/// Programs of SPDK are looked for in the directory in which it was built, too.
#[test]
fn the_directory_of_spdk_is_searched() {
    let place = Place::new("study-peers-spdk");
    let spdk = place.scratch.path().join("spdk");
    std::fs::create_dir_all(spdk.join("build/bin")).unwrap();
    place.fake("../spdk/build/bin/nvmf_tgt", "echo 'no such luck' >&2; exit 3");
    let mut study = place.study(&["--peers", "spdk"]);
    study.env("SPDK_DIR", &spdk).env("PATH", &place.programs);
    let ran = run(study);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let why = place.results()["skipped"][0]["why"].as_str().unwrap().to_owned();
    assert_eq!(why, "spdk did not start: it ended with status 3: no such luck.");
    assert!(place.is_clean());
}

/// The suite `matrix` has a line for each pair, and says why those of other projects are empty.
#[test]
fn a_matrix_names_what_is_missing() {
    let place = Place::new("study-peers-matrix");
    let args = ["study", "--suite", "matrix", "--quick", "--time-budget", "1s"];
    let mut study = weft(place.scratch.path(), &args);
    study.args(["--source", "ram:16MiB"]).env("PATH", &place.programs).env("COLUMNS", "80");
    let ran = run(study);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    for line in ["NVMe/TCP", "iSCSI", "NBD"] {
        assert!(ran.out.lines().any(|it| it == line), "{line}: {}", ran.out);
    }
    let missing = "– nbdkit: nbdkit is not installed: `apt-get install nbdkit`.";
    assert!(ran.out.lines().any(|it| it == missing), "{}", ran.out);
    let data = place.results();
    let mut lanes = names(&data["lanes"], "name");
    // It is looked for in /usr/sbin, too.
    lanes.retain(|name| *name != "tgt");
    assert_eq!(lanes, ["nvme+tcp", "iscsi", "nbd"]);
    let ends = |it: &&&Value| it["quantity"] == "target-cpu" && it["to"] == "nvme+tcp";
    assert_eq!(of(&data, "relations", "iscsi").iter().filter(ends).count(), 2, "{data}");
}

/// A study that lasts. It is ended when this is dropped.
struct Lasting(Child);

impl Lasting {
    /// Starts it, and waits until its target runs; returns that, too.
    fn start(place: &Place) -> (Self, u32) {
        let mut study = weft(place.scratch.path(), &["study", "--suite", "./targets.toml"]);
        study.args(["--lanes", "local,nbd", "--peers", "nbdkit", "--time-budget", "5s"]);
        study.env("TMPDIR", &place.targets).stdout(Stdio::null()).stderr(Stdio::null());
        let child = Self(study.spawn().unwrap());
        let target = wait::until_some("the target to run", || place.processes().first().copied());
        (child, target)
    }

    fn status(&mut self) -> Option<i32> {
        wait::until_some("the study to end", || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_target_costs_only_its_lane() {
    if !programs::have(&["nbdkit"]) {
        return;
    }
    let place = Place::new("study-peers-killed");
    let (mut study, target) = Lasting::start(&place);
    process::signal(target, "KILL");
    assert_eq!(study.status(), Some(0));
    let data = place.results();
    assert_eq!(of(&data, "rows", "nbd").len(), 1, "{}", data["notes"]);
    assert!(place.is_clean(), "{:?}", place.processes());
}

/// The study ends a target whose supervisor is gone.
#[test]
fn a_killed_supervisor_leaves_no_target_behind() {
    if !programs::have(&["nbdkit"]) {
        return;
    }
    let place = Place::new("study-peers-alone");
    let (mut study, target) = Lasting::start(&place);
    let stat = std::fs::read_to_string(format!("/proc/{target}/stat")).unwrap();
    let parent = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap();
    process::signal(parent.parse().unwrap(), "KILL");
    assert_eq!(study.status(), Some(0));
    wait::until("the target to end", || place.is_clean());
}

#[test]
fn a_killed_study_leaves_no_target_behind() {
    if !programs::have(&["nbdkit"]) {
        return;
    }
    let place = Place::new("study-peers-orphaned");
    let (study, _) = Lasting::start(&place);
    drop(study);
    wait::until("the target to end", || place.is_clean());
}
