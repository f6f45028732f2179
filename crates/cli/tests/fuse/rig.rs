//! Shared by the tests of files by FUSE.

use crate::support::{Ran, Scratch, run, weft};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use weft_testing::wait::until;
use weft_testing::{process, programs, skip};

/// A directory whose connections end with it.
pub struct Dir(Scratch);

/// A directory, if this system has what the tests need; otherwise the test is skipped.
pub fn dir(name: &str) -> Option<Dir> {
    if !rustix::process::geteuid().is_root() {
        skip("only root mounts by mount(2)");
        return None;
    }
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        skip(super::NO_FUSE);
        return None;
    }
    Some(Dir(Scratch::new(name)))
}

impl Dir {
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn weft(&self, args: &[&str]) -> Ran {
        run(weft(self.path(), args))
    }

    pub fn done(&self, args: &[&str]) -> String {
        let ran = self.weft(args);
        assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    pub fn refused(&self, code: i32, args: &[&str]) -> String {
        let ran = self.weft(args);
        assert_eq!(ran.code(), Some(code), "{args:?}: {ran:?}");
        ran.message().to_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.done(&["list", "-o", "json"])).unwrap()
    }

    /// A connection with this name, as `weft list` has it.
    pub fn listed(&self, name: &str) -> Value {
        let json = self.json();
        let all = json["Devices"].as_array().unwrap();
        all.iter().find(|it| it["Name"] == name).cloned().unwrap_or_default()
    }

    pub fn device(&self, name: &str) -> PathBuf {
        self.listed(name)["DevicePath"].as_str().unwrap().into()
    }

    /// Kills the process of a connection.
    pub fn kill(&self, name: &str) -> u32 {
        let pid = u32::try_from(self.listed(name)["Pid"].as_u64().unwrap()).unwrap();
        process::signal(pid, "KILL");
        until("it has ended", || process::has_ended(pid));
        pid
    }

    /// Makes a directory in it.
    pub fn make(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    }

    /// Connects a file.
    pub fn connect(&self, url: &str, name: &str) -> File {
        let place = self.make(name);
        let args = ["connect", url, "--as", "fuse", "--name", name, "--directory", name];
        let said = self.done(&args);
        let path = place.join("disk");
        assert!(said.contains(&path.display().to_string()), "{said}");
        assert_eq!(self.device(name), path);
        open(&path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = weft(self.path(), &["disconnect", "--all", "--force"]).output();
    }
}

/// A running daemon.
pub struct Daemon(Child);

impl Daemon {
    pub fn start(dir: &Dir) -> Self {
        let mut child = weft(dir.path(), &["daemon"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line:?}");
        Self(child)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

/// Runs a program that succeeds, and returns what it printed.
pub fn program(words: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        programs::command(words[0]).args(&words[1..]).output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{words:?}: {said}");
    String::from_utf8_lossy(&stdout).into_owned()
}

/// Bytes that differ from place to place.
pub fn pattern(offset: u64, len: usize) -> Vec<u8> {
    (offset..).take(len).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 16) as u8).collect()
}

pub fn read(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

pub fn number<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}
