//! Running the program as its users do.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod iscsi;
pub mod loads;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weft_testing::programs;

/// How long a command may take before the test gives it up as hanging: longer than a study on a
/// machine that does much else.
const PATIENCE: Duration = Duration::from_secs(300);

/// Names the program of an earlier version, from which upgrades begin.
const EARLIER: &str = "WEFT_EARLIER";

/// A directory of the test's own, removed at its end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        Self::within(&std::env::temp_dir(), name)
    }

    /// One in which names of disks are recorded: not where files pass. `None`: there is no such
    /// place, and the test is skipped.
    pub fn lasting(name: &str) -> Option<Self> {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        if let Some(kind) = weft_io::file_system::passing(place) {
            weft_testing::skip(format!("{} is on {kind}", place.display()));
            return None;
        }
        Some(Self::within(place, name))
    }

    fn within(place: &Path, name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = place.join(format!("weft-cli-{name}-{own}"));
        std::fs::create_dir_all(&path).unwrap();
        // Whatever the user's umask lets others do.
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it that only its owner can read.
    pub fn private(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The output of a command and its exit status.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The lines on standard error, without those about long waits: a loaded machine causes them.
    pub fn said(&self) -> Vec<&str> {
        self.err.lines().filter(|line| !line.starts_with("weft: waiting for ")).collect()
    }

    /// The message for people, which is one line.
    pub fn message(&self) -> &str {
        self.err.lines().rfind(|line| line.starts_with("weft: ")).unwrap_or(&self.err)
    }
}

/// A command of weft that runs in `dir` and keeps its lasting names there. It finds the programs
/// that tests find.
pub fn weft(dir: &Path, args: &[&str]) -> Command {
    program(&this_program(), dir, args)
}

/// The program under test.
pub fn this_program() -> PathBuf {
    env!("CARGO_BIN_EXE_weft").into()
}

/// As [`weft`], by this program.
pub fn program(path: &Path, dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(path);
    command
        .args(args)
        .current_dir(dir)
        .env("WEFT_STATE_DIR", dir.join("state"))
        .env("WEFT_RUNTIME_DIR", dir.join("run"))
        .env("PATH", programs::path())
        .stdin(Stdio::null());
    command
}

/// The program from which an upgrade begins, the program under test, and the first one again.
/// `None`: nobody has built it, and the test is skipped.
pub fn there_and_back() -> Option<[PathBuf; 3]> {
    let Some(earlier) = std::env::var_os(EARLIER).map(PathBuf::from) else {
        weft_testing::skip(format!("{EARLIER} names no program; `cargo xtask long` builds one"));
        return None;
    };
    Some([earlier.clone(), this_program(), earlier])
}

/// Runs a command to its end; one that hangs fails the test.
pub fn run(mut command: Command) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || text(&mut err));
    let writer = std::thread::spawn(move || text(&mut out));
    let until = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("{command:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ran { status, out: writer.join().unwrap(), err: reader.join().unwrap() }
}

fn text(from: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A running `weft serve`; ended by its process id.
pub struct Server {
    child: Child,
    /// The URLs that it listens on.
    pub urls: Vec<String>,
    /// The URL of its metrics.
    pub metrics: Option<String>,
}

impl Server {
    /// Starts one on free ports and waits until it listens.
    pub fn start(dir: &Path, args: &[&str]) -> Self {
        let mut command = weft(dir, &["serve"]);
        command.args(args);
        if !args.contains(&"--listen") {
            command.args(["--listen", "nvme+tcp://127.0.0.1:0"]);
        }
        Self::spawn(command)
    }

    /// Starts a command that is a `weft serve`.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut urls, mut metrics) = (Vec::new(), None);
        for line in lines.by_ref().map_while(Result::ok) {
            match line.strip_prefix("listening on ") {
                Some(url) => urls.push(url.to_owned()),
                None if line.starts_with("from weft") => break,
                None => metrics = line.strip_prefix("metrics at ").map(str::to_owned).or(metrics),
            }
        }
        assert!(!urls.is_empty(), "{command:?} did not listen: {:?}", child.wait());
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, urls, metrics }
    }

    pub fn url(&self) -> &str {
        &self.urls[0]
    }

    /// `HOST:PORT` of the first port.
    pub fn address(&self) -> &str {
        self.url().trim_start_matches("nvme+tcp://").split('/').next().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it ends by itself; gives its exit status and what it said on standard error, if
    /// that is piped.
    pub fn wait(&mut self) -> (ExitStatus, String) {
        let said = self.child.stderr.take().map(|mut err| text(&mut err)).unwrap_or_default();
        (self.child.wait().unwrap(), said)
    }

    /// Ends it as a service manager does; gives its exit status.
    #[cfg(unix)]
    pub fn terminate(mut self) -> ExitStatus {
        weft_testing::process::signal(self.child.id(), "TERM");
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
