//! A disk of the guest by vhost-user, whose source is a target over NVMe/TCP: two programs of weft
//! on this machine. The one that has the socket is killed and started again all the time.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Bytes of the disk, as weft is told them.
const SIZE: &str = "512MiB";

/// How long the program lives from when it serves, and how long it is away.
const ALIVE: Duration = Duration::from_secs(4);

/// See above.
const AWAY: Duration = Duration::from_millis(300);

/// See the module. It ends with this value.
pub(super) struct Disk {
    socket: PathBuf,
    /// Dropped, the disk stays away.
    stop: Option<Sender<()>>,
    killer: Option<JoinHandle<Result<()>>>,
    _target: Program,
    _directory: TempDir,
}

/// A program of weft, which ends with this value.
struct Program(Child);

impl Disk {
    /// Starts both programs.
    pub(super) fn start(weft: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let state = directory.path().join("state");
        fs::create_dir(&state)?;
        let (target, url) = Program::start(
            weft,
            &state,
            &["serve", &format!("ram:{SIZE}"), "--listen", "127.0.0.1:0"],
        )?;
        let socket = directory.path().join("disk.sock");
        let listen = format!("vhost-user:{}?mode=600", socket.display());
        let args = [
            "serve".into(),
            format!("{url}/1"),
            "--listen".into(),
            listen,
            "--reconnect-delay=1".into(),
        ];
        let (weft, serve) = (weft.to_owned(), move |weft: &Path| {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            Program::start(weft, &state, &args)
        });
        let (first, _) = serve(&weft)?;
        let (stop, stopped) = mpsc::channel();
        let killer = thread::spawn(move || {
            let mut serving = first;
            while stopped.recv_timeout(ALIVE) == Err(RecvTimeoutError::Timeout) {
                drop(serving);
                thread::sleep(AWAY);
                serving = serve(&weft)?.0;
            }
            Ok(())
        });
        let (stop, killer) = (Some(stop), Some(killer));
        Ok(Self { socket, stop, killer, _target: target, _directory: directory })
    }

    /// What qemu is told of it, in a guest with so much memory.
    pub(super) fn arguments(&self, mem_mib: u64) -> Vec<String> {
        let memory = format!("memory-backend-memfd,id=memory,size={mem_mib}M,share=on");
        // A comma separates qemu's options unless it is doubled.
        let path = self.socket.display().to_string().replace(',', ",,");
        let socket = format!("socket,id=disk,path={path},reconnect=1");
        let device = "vhost-user-blk-pci,chardev=disk,num-queues=2,packed=on";
        [
            "-object",
            &memory,
            "-machine",
            "memory-backend=memory",
            "-chardev",
            &socket,
            "-device",
            device,
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(Ok(Err(error))) = self.killer.take().map(JoinHandle::join) {
            eprintln!("lab: the disk by vhost-user does not come back: {error:#}");
        }
    }
}

impl Program {
    /// Starts a program, and waits until it serves; with where.
    fn start(weft: &Path, state: &Path, args: &[&str]) -> Result<(Self, String)> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(weft).args(args).env("WEFT_STATE_DIR", state);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start weft")?;
        let out = child.stdout.take().context("weft has no output")?;
        let program = Self(child);
        let mut lines = BufReader::new(out).lines();
        let listening = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
        ensure!(listening.is_some(), "weft {} does not serve", args.join(" "));
        // It has more to say than the pipe may hold.
        thread::spawn(move || lines.for_each(drop));
        Ok((program, listening.unwrap_or_default()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
