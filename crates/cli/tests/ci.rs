//! The scripts of docs/ci.md: NVMe over TCP in a CI job, without modules of the kernel for block
//! devices.
#![cfg(target_os = "linux")]

use crate::fuse::NO_FUSE;
use crate::support::{Scratch, run, weft};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use weft_testing::{programs, skip};

/// A user that owns nothing here.
const NOBODY: u32 = 65_534;

/// The scripts of the page, in order: what stands below `- run: |`.
fn scripts() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ci.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let script = |block: &str| {
        let lines: Vec<&str> = block.lines().collect();
        assert!(lines.len() <= 10, "ten lines of YAML: {block}");
        assert_eq!(lines[..2], ["steps:", "  - run: |"]);
        lines[2..]
            .iter()
            .map(|line| format!("{}\n", line.strip_prefix("      ").unwrap()))
            .collect()
    };
    blocks.map(script).collect()
}

/// A place in which the script of a page runs, with a port of its own, a `weft` and a `sudo`.
struct Job(Scratch);

impl Job {
    fn new(name: &str, script: &str) -> Self {
        let dir = Scratch::new(name);
        let port = weft_testing::port::free(Ipv4Addr::LOCALHOST);
        let (bin, mnt) = (dir.path().join("bin"), dir.path().join("mnt"));
        [&bin, &mnt].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weft"), bin.join("weft")).unwrap();
        std::fs::write(bin.join("sudo"), "#!/bin/sh\nexec \"$@\"\n").unwrap();
        std::fs::set_permissions(bin.join("sudo"), PermissionsExt::from_mode(0o755)).unwrap();
        let serve = "weft serve ram:256MiB";
        assert!(script.contains(serve) && script.contains(":4420/"), "{script}");
        let script = script
            .replace(serve, &format!("{serve} --listen 127.0.0.1:{port}"))
            .replace(":4420/", &format!(":{port}/"))
            .replace("/mnt", mnt.to_str().unwrap());
        std::fs::write(dir.path().join("script"), script).unwrap();
        Self(dir)
    }

    /// Runs the script by a command that takes it.
    fn run(&self, by: &[&str]) {
        let path = self.0.path();
        let mut all = vec![path.join("bin")];
        all.extend(std::env::split_paths(&programs::path()));
        let mut command = Command::new(by[0]);
        command.args(&by[1..]).args(["sh", "-ex", "script"]).current_dir(path);
        command.env("PATH", std::env::join_paths(all).unwrap());
        command.env("WEFT_STATE_DIR", path.join("state")).env("WEFT_RUNTIME_DIR", path.join("run"));
        let ran = run(command);
        assert_eq!(ran.code(), Some(0), "{ran:?}");
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = weft(self.0.path(), &["disconnect", "--all", "--force"]).output();
    }
}

fn opens(path: &str) -> bool {
    File::options().read(true).write(true).open(path).is_ok()
}

#[test]
fn a_job_without_root_has_a_file() {
    if !programs::have(&["mkfs.ext4", "e2fsck", "fusermount3", "setpriv", "unshare", "mount"]) {
        return;
    }
    let Ok(fuse) = std::fs::metadata("/dev/fuse") else {
        return skip(NO_FUSE);
    };
    let job = Job::new("ci-user", &scripts()[0]);
    let path = job.0.path();
    if !rustix::process::geteuid().is_root() {
        return job.run(&["env"]);
    }
    for name in ["", "run", "state"] {
        let place = path.join(name);
        std::fs::create_dir_all(&place).unwrap();
        chown(place, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let is_open = fuse.file_type().is_char_device() && fuse.permissions().mode() & 0o006 == 0o006;
    if is_open {
        return job.run(&user);
    }
    // A job has the device that udev gives to all users; this system has no udev.
    let device = "mknod -m 666 fuse c 10 229 && mount --bind fuse /dev/fuse && exec \"$@\"";
    let private = ["unshare", "--mount", "sh", "-c", device, "sh"];
    job.run(&[&private[..], &user].concat());
}

#[test]
fn a_job_with_root_has_a_loop_device() {
    if !programs::have(&["mkfs.ext4", "losetup", "mount", "umount"]) {
        return;
    }
    if !(rustix::process::geteuid().is_root() && opens("/dev/loop-control")) {
        return skip("root or /dev/loop-control is missing");
    }
    if !opens("/dev/fuse") {
        return skip(NO_FUSE);
    }
    Job::new("ci-root", &scripts()[1]).run(&["env"]);
}
