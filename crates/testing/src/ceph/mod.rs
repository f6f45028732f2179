//! A cluster of Ceph on this machine, for tests: a monitor, storage daemons on files in a directory
//! of its own, and the pool `rbd`. Everything listens on one address, 127.0.0.1 as a rule, on a
//! port that was free; nothing outside of the directory is touched. When the process ends, however
//! it does, the daemons and the directory go.

mod conf;

use crate::{port, process, programs};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Seconds after which one of Ceph's programs has failed.
const PATIENCE_S: &str = "120";

/// What waits for the end of the process that writes to it, and clears up then. It has a process
/// group of its own: whoever ends that of the tests does not end this.
const GUARDIAN: &str = "read -r _; for pid in \"$0\"/*.pid; do kill -KILL \"$(cat \"$pid\")\"; done 2>/dev/null; rm -rf \"$0\"";

/// Programs that make and run a cluster.
const PROGRAMS: [&str; 6] = ["ceph-mon", "ceph-osd", "ceph", "rbd", "monmaptool", "ceph-authtool"];

/// A running cluster.
pub struct CephCluster {
    dir: PathBuf,
    osds: u32,
    guardian: Child,
}

impl CephCluster {
    /// The cluster that all tests of this process share, with one storage daemon. `None`, and a
    /// line that says so: Ceph is not installed.
    ///
    /// # Panics
    /// If it does not start, or if it is not installed and `CI` is set.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<CephCluster> = OnceLock::new();
        // Each test reports it by itself.
        Self::is_installed()
            .then(|| SHARED.get_or_init(|| Self::started_at(Ipv4Addr::LOCALHOST, 1)))
    }

    /// A cluster with `osds` storage daemons, each of which has a copy of everything; without any,
    /// there is no pool. `None`: see [`CephCluster::shared`].
    ///
    /// # Panics
    /// See [`CephCluster::shared`].
    pub fn start(osds: u32) -> Option<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST, osds)
    }

    /// The same, which listens at another address of this machine.
    ///
    /// # Panics
    /// See [`CephCluster::shared`].
    pub fn start_at(address: Ipv4Addr, osds: u32) -> Option<Self> {
        Self::is_installed().then(|| Self::started_at(address, osds))
    }

    /// Checks that Ceph is installed. If not, the calling test counts as skipped.
    ///
    /// # Panics
    /// If it is not installed and `CI` is set.
    pub fn is_installed() -> bool {
        programs::have(&PROGRAMS)
    }

    fn started_at(address: Ipv4Addr, osds: u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("weft-ceph-{}-{n}", std::process::id()));
        std::fs::create_dir_all(dir.join("crash")).expect("a directory for the cluster");
        let guardian = Command::new("sh")
            .args(["-c", GUARDIAN])
            .arg(&dir)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a shell");
        let cluster = Self { dir, osds, guardian };
        cluster.make(address);
        cluster
    }

    fn make(&self, address: Ipv4Addr) {
        let fsid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")
            .expect("a UUID")
            .trim()
            .to_owned();
        let monitor = format!("v2:{address}:{}/0", port::free(address));
        conf::write(&self.dir, &fsid, (&monitor, address), self.osds.max(1));
        self.keys();
        let (map, keyring) = (self.path("monmap"), self.path("keyring"));
        self.run(
            "monmaptool",
            &["--create", "--fsid", &fsid, "--addv", "a", &format!("[{monitor}]"), &map],
        );
        std::fs::create_dir(self.dir.join("mon.a")).expect("a directory for the monitor");
        self.run("ceph-mon", &["--mkfs", "-i", "a", "--keyring", &keyring, "--monmap", &map]);
        self.launch("mon.a");
        for n in 0..self.osds {
            let (name, number) = (format!("osd.{n}"), n.to_string());
            let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid").expect("a UUID");
            std::fs::create_dir(self.dir.join(&name)).expect("a directory for the daemon");
            self.run("ceph", &["osd", "new", uuid.trim(), &number]);
            self.run("ceph-osd", &["--mkfs", "-i", &number, "--osd-uuid", uuid.trim()]);
            self.launch(&name);
        }
        if self.osds > 0 {
            self.run("ceph", &["osd", "pool", "create", "rbd"]);
            // It returns when the daemons serve the pool.
            self.run("rbd", &["pool", "init", "rbd"]);
        }
    }

    /// The monitor takes over every key that is there when it is made.
    fn keys(&self) {
        let keyring = self.path("keyring");
        let key = |arguments: &[&str]| {
            let made = programs::command("ceph-authtool")
                .arg(&keyring)
                .args(arguments)
                .stdout(Stdio::null())
                .status();
            assert!(made.is_ok_and(|status| status.success()), "ceph-authtool {arguments:?}");
        };
        key(&["--create-keyring"]);
        key(&["--gen-key", "-n", "mon.", "--cap", "mon", "allow *"]);
        key(&[
            "--gen-key",
            "-n",
            "client.admin",
            "--cap",
            "mon",
            "allow *",
            "--cap",
            "osd",
            "allow *",
            "--cap",
            "mgr",
            "allow *",
        ]);
        for (user, monitor, daemons) in [
            ("client.user", "profile rbd", "profile rbd"),
            ("client.reader", "profile rbd", "profile rbd-read-only"),
            ("client.guest", "allow r", "allow r"),
        ] {
            key(&["--gen-key", "-n", user, "--cap", "mon", monitor, "--cap", "osd", daemons]);
        }
        for n in 0..self.osds {
            key(&[
                "--gen-key",
                "-n",
                &format!("osd.{n}"),
                "--cap",
                "mon",
                "profile osd",
                "--cap",
                "osd",
                "allow *",
            ]);
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its configuration file, which names the keyring with the keys of `client.admin`,
    /// `client.user`, `client.reader` and `client.guest`, who may not even keep others out.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// A URL of weft.
    pub fn url(&self, image: &str) -> String {
        format!("rbd:{image},conf={}", self.conf().display())
    }

    /// Runs one of Ceph's programs, which succeeds; what it prints.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } =
            self.command(program, arguments).output().expect("timeout starts");
        assert!(status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8_lossy(&stdout).into_owned()
    }

    /// One of Ceph's programs, for this cluster.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = programs::command("timeout");
        command
            .args([PATIENCE_S, program, "-c", &self.path("ceph.conf")])
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Makes an image of this size, as `rbd` writes sizes, in the pool `rbd`; its name with the
    /// pool.
    pub fn image(&self, name: &str, size: &str) -> String {
        let image = format!("rbd/{name}");
        self.run("rbd", &["create", "--size", size, &image]);
        image
    }

    /// Starts a daemon, `mon.a` or `osd.0`, and returns when it has detached itself.
    pub fn launch(&self, name: &str) {
        let (kind, id) = name.split_once('.').expect("a daemon's name");
        self.run(&format!("ceph-{kind}"), &["-i", id]);
    }

    /// Sends a signal to a daemon; `KILL` waits until it is gone.
    ///
    /// # Panics
    /// If there is no such daemon.
    pub fn signal(&self, name: &str, signal: &str) {
        let pid = std::fs::read_to_string(self.dir.join(format!("{name}.pid")))
            .expect("the daemon has a pid file");
        let pid: u32 = pid.trim().parse().expect("a process's number");
        process::signal(pid, signal);
        if signal == "KILL" {
            crate::wait::until("the daemon ends", || process::has_ended(pid));
        }
    }
}

impl Drop for CephCluster {
    fn drop(&mut self) {
        // The guardian reads the end.
        drop(self.guardian.stdin.take());
        let _ = self.guardian.wait();
    }
}
