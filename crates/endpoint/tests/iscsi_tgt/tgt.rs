//! A `tgtd` of the test's own: on a free port, with a control socket of its own, ended by its
//! process id.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weft_endpoint::source::ConnectOptions;
use weft_endpoint::source::iscsi::IscsiOptions;
use weft_proto::iscsi::text::Name;
use weft_testing::programs;
use weft_testing::wait::PATIENCE;

pub const IQN: &str = "iqn.2026-01.example.tgt:disk";

/// The size of the disk.
const DISK_BYTES: u64 = 64 << 20;

/// Number that tells the control sockets of several tgtd apart; each has a directory of its own
/// besides.
const CONTROL: &str = "7";

pub struct Tgt {
    daemon: Child,
    dir: PathBuf,
    pub port: u16,
}

impl Tgt {
    /// A target with one disk of 64 MiB at LUN 1, open to everybody. `None`: tgt is not installed.
    pub fn start() -> Option<Self> {
        if !programs::have(&["tgtd", "tgtadm"]) {
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("weft-tgt-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let tgt = Self::launch(dir);
        let disk = tgt.dir.join("disk.img");
        std::fs::File::create(&disk).unwrap().set_len(DISK_BYTES).unwrap();
        let disk = disk.display().to_string();
        tgt.admin(&["--op", "new", "--mode", "target", "--tid", "1", "-T", IQN]);
        let unit =
            ["--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", &disk];
        tgt.admin(&unit);
        tgt.admin(&["--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"]);
        Some(tgt)
    }

    /// Starts tgtd on a port that is free now; should another process be faster, on another one.
    fn launch(dir: PathBuf) -> Self {
        let until = Instant::now() + PATIENCE;
        loop {
            let port =
                std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let log = std::fs::File::create(dir.join("log")).unwrap();
            let daemon = programs::command("tgtd")
                .args(["-f", "-C", CONTROL, "--iscsi", &format!("portal=127.0.0.1:{port}")])
                .env("TGT_IPC_SOCKET", dir.join("control"))
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap();
            let mut tgt = Self { daemon, dir: dir.clone(), port };
            while tgt.daemon.try_wait().unwrap().is_none() {
                if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() && tgt.is_controlled()
                {
                    return tgt;
                }
                assert!(Instant::now() < until, "tgtd does not listen: {}", tgt.log());
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(Instant::now() < until, "tgtd ends: {}", tgt.log());
            std::mem::forget(tgt);
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = programs::command("tgtadm");
        command
            .args(["-C", CONTROL, "--lld", "iscsi"])
            .args(args)
            .env("TGT_IPC_SOCKET", self.dir.join("control"));
        command
    }

    fn is_controlled(&self) -> bool {
        self.command(&["--op", "show", "--mode", "target"])
            .output()
            .is_ok_and(|output| output.status.success())
    }

    /// Runs tgtadm.
    pub fn admin(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Makes the target take digests, which it refuses by default.
    pub fn take_digests(&self) {
        for name in ["HeaderDigest", "DataDigest"] {
            self.admin(&[
                "--op",
                "update",
                "--mode",
                "target",
                "--tid",
                "1",
                "--name",
                name,
                "--value",
                "CRC32C,None",
            ]);
        }
    }

    pub fn url(&self) -> String {
        format!("iscsi://127.0.0.1:{}/{IQN}/1", self.port)
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn options() -> ConnectOptions {
    let initiator_name = Some(Name::new("iqn.2026-01.example.weft:test").unwrap());
    ConnectOptions {
        connect_timeout: PATIENCE,
        iscsi: IscsiOptions { initiator_name, ..IscsiOptions::default() },
        ..ConnectOptions::default()
    }
}
