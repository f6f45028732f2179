//! Linux's own hosts, in the lab's virtual machine, on the gateways of a group: `lab/hosts` has
//! their side.

use super::rig::{NAMESPACES, Rig};
use crate::support::Scratch;
use std::fs::{self, File};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use weft_testing::skip;
use weft_testing::wait::until;

/// The exit status of `cargo xtask` where this machine lacks something.
const SKIPPED: i32 = 77;

/// Between two looks at what the machine has written.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a script of `lab/hosts` in a virtual machine.
fn lab(script: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["xtask", "lab", "run", &format!("lab/hosts/{script}.sh")]);
    // RUSTC_BOOTSTRAP is set for the tests' own harness, and for another value of it cargo builds
    // much anew.
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env_remove("RUSTC_BOOTSTRAP");
    command
}

/// The reason for which the lab cannot run, from its output.
fn reason(said: &str) -> String {
    let reasons = said.lines().filter_map(|line| line.trim().strip_prefix("skipped: "));
    let reasons: Vec<&str> = reasons.collect();
    if reasons.is_empty() { said.to_owned() } else { reasons.join("; ") }
}

/// A virtual machine whose kernel has a path to each gateway and writes to two namespaces.
struct Linux {
    child: Child,
    scratch: Scratch,
    steps: u32,
}

impl Linux {
    /// Boots it, and waits until it writes. `None`: the lab cannot run here.
    fn boot(rig: &Rig) -> Option<Self> {
        let scratch = Scratch::new("gateways-linux");
        let (share, said) = (scratch.path().join("share"), scratch.path().join("said"));
        let mut command = lab("gateways");
        command.arg("--share").arg(share).arg("--").args(rig.ports().iter().map(u16::to_string));
        let log = File::create(said).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut linux = Self { child, scratch, steps: 0 };
        match linux.until_written("ready") {
            Ok(()) => Some(linux),
            Err(status) if status.code() == Some(SKIPPED) => {
                skip(reason(&linux.said()));
                None
            }
            Err(status) => panic!("the virtual machine ended: {status}"),
        }
    }

    /// What it has printed.
    fn said(&self) -> String {
        fs::read_to_string(self.scratch.path().join("said")).unwrap_or_default()
    }

    /// Waits for a file of the guest. The lab ends a guest that takes too long.
    fn until_written(&mut self, name: &str) -> Result<(), ExitStatus> {
        let file = self.scratch.path().join("share").join(name);
        while !file.exists() {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Err(status);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Writes a file for the guest, which appears with its content.
    fn tell(&self, name: &str, text: &str) {
        let (made, share) = (self.scratch.path().join("made"), self.scratch.path().join("share"));
        fs::write(&made, text).unwrap();
        fs::rename(made, share.join(name)).unwrap();
    }

    fn awaits(&mut self, name: &str) {
        let step = format!("{}.{name}", self.steps);
        self.until_written(&step).unwrap_or_else(|status| panic!("before {step}: {status}"));
    }

    /// Something has happened to a gateway: I/O goes on.
    fn goes_on(&mut self, what: &str) {
        self.steps += 1;
        self.tell(&format!("{}.fault", self.steps), what);
        self.awaits("went-on");
    }

    /// All gateways run, and serve this namespace besides: the host has all paths, and finds it.
    fn is_whole(&mut self, nsid: u32) {
        self.tell(&format!("{}.mended", self.steps), &nsid.to_string());
        self.awaits("whole");
    }

    /// Ends the load; there was no error.
    fn end(mut self) {
        self.tell("end", "");
        self.tell(&format!("{}.fault", self.steps + 1), "");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        println!("{}", self.said());
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the virtual machine said:\n{}", self.said());
        }
    }
}

/// Adds a namespace at one gateway, and waits until all of these serve it. Its identifier.
fn add(rig: &Rig, at: &str, serve: &[&str], nth: u32) -> u32 {
    let (image, nsid) = (rig.image(&format!("more-{nth}"), "16M"), NAMESPACES + nth);
    rig.weft(at, &["namespace", "add", &format!("rbd:{image}"), "--nsid", &nsid.to_string()]);
    serve.iter().for_each(|gateway| {
        until("it serves what was added", || rig.namespaces(gateway) == nsid as usize)
    });
    nsid
}

/// A gateway that is optimized is killed, another one stands still for longer than its lease, all
/// are replaced one by one, and each time a namespace is added meanwhile: the kernel's host loses
/// nothing, sees no error, and has all of its paths again.
#[test]
#[ignore = "needs the lab's virtual machine: cargo xtask test lab"]
fn linux_goes_on_whatever_happens_to_a_gateway() {
    let names = ["a", "b", "c"];
    let Some(mut rig) = Rig::start("kernel", &names) else { return };
    let Some(mut linux) = Linux::boot(&rig) else { return };
    let others = |of: &str| names.into_iter().filter(|name| *name != of).collect::<Vec<_>>();

    let dead = rig.optimized(1);
    rig.kill(&dead);
    let left = others(&dead);
    let nsid = add(&rig, left[0], &left, 1);
    linux.goes_on(&format!("gateway {dead} is killed"));
    rig.launch(&dead);
    linux.is_whole(nsid);

    let stopped = rig.optimized(1);
    rig.signal(&stopped, "STOP");
    until("another gateway has the group", || rig.optimized(1) != stopped);
    let left = others(&stopped);
    let nsid = add(&rig, left[0], &left, 2);
    linux.goes_on(&format!("gateway {stopped} stands still"));
    rig.signal(&stopped, "CONT");
    let (status, said) = rig.wait(&stopped);
    assert_eq!(status.code(), Some(7), "{said}");
    rig.launch(&stopped);
    linux.is_whole(nsid);

    for (nth, name) in (3..).zip(names) {
        rig.terminate(name);
        let left = others(name);
        let nsid = add(&rig, left[0], &left, nth);
        linux.goes_on(&format!("gateway {name} is restarted"));
        rig.launch(name);
        linux.is_whole(nsid);
    }
    linux.end();
    rig.end();
}

/// What a host reserves at one gateway keeps the others out at all: hosts with nvme-cli, initiators
/// with sg_persist, and both beside each other.
#[test]
#[ignore = "needs the lab's virtual machine: cargo xtask test lab"]
fn linux_reserves_at_all_gateways() {
    let Some(mut rig) = Rig::start_with_iscsi("reserved", &["a", "b", "c"]) else { return };
    let ports = [rig.ports(), rig.iscsi_ports()].concat();
    let ran =
        lab("reservations").arg("--").args(ports.iter().map(u16::to_string)).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    if ran.status.code() == Some(SKIPPED) {
        skip(reason(&said));
    } else {
        println!("{}", said.trim());
        assert!(ran.status.success(), "{}", ran.status);
    }
    rig.end();
}
