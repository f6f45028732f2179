//! Files by FUSE whose requests come by io_uring, where the kernel offers that.

use super::rig::{dir, open, pattern, read};
use crate::support::Server;
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

/// Whether the kernel offers it. There is no such file before Linux 6.14.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

fn is_offered() -> bool {
    fs::read_to_string(SWITCH).is_ok_and(|text| text.starts_with('Y'))
}

/// The setting as it was, which comes back in the end.
struct Switched(String);

impl Switched {
    fn on() -> Self {
        let before = fs::read_to_string(SWITCH);
        let before =
            before.unwrap_or_else(|e| panic!("this proof needs Linux 6.14: {SWITCH}: {e}"));
        fs::write(SWITCH, "Y").unwrap();
        Self(before)
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, &self.0);
    }
}

#[test]
fn io_uring_is_used_or_refused_as_asked() {
    let Some(dir) = dir("fuse-ring") else { return };
    for asked in ["on", "off"] {
        let place = dir.make(asked);
        let url = format!("fuse:{}?io-uring={asked}", place.display());
        let port = "nvme+tcp://127.0.0.1:0";
        let args = ["ram:16MiB,block=4096", "--listen", port, "--listen", &url];
        if asked == "on" && !is_offered() {
            let said = dir.refused(10, &[&["serve"], &args[..]].concat());
            assert!(said.contains("echo Y >/sys/module/fuse/parameters/enable_uring"), "{said}");
            assert!(place.read_dir().unwrap().next().is_none(), "nothing is left");
            continue;
        }
        let server = Server::start(dir.path(), &args);
        let file = open(&place.join("disk"));
        for (offset, len) in [(0, 4096), (10_000, 5000), (1 << 20, 3 << 20)] {
            file.write_all_at(&pattern(offset, len), offset).unwrap();
            assert_eq!(read(&file, offset, len), pattern(offset, len), "{asked}: {offset} {len}");
        }
        file.sync_all().unwrap();
        drop(file);
        assert!(server.terminate().success() && place.read_dir().unwrap().next().is_none());
    }
}

/// The other tests of files, with a kernel that offers io_uring.
#[test]
#[ignore = "switches a setting of the kernel: cargo xtask long"]
fn all_that_holds_of_files_holds_over_io_uring() {
    let _switched = Switched::on();
    let this = std::env::current_exe().unwrap();
    let mut tests = Command::new(this);
    let ended = tests.args(["fuse::", "--test-threads=2"]).env("CI", "true").status().unwrap();
    assert!(ended.success(), "{ended}");
}
