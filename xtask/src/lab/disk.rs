//! A disk of the guest by vhost-user, whose source is a target over NVMe/TCP: two programs of weft
//! on this machine. Cases have the one killed that has the socket, and started again.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Bytes of the disk, as weft is told them.
const SIZE: &str = "512MiB";

/// How long it is away after it was killed.
const AWAY: Duration = Duration::from_millis(300);

/// See the module. It ends with this value.
pub(super) struct Disk {
    weft: PathBuf,
    socket: PathBuf,
    /// The options of the program that has the socket.
    options: Vec<String>,
    /// None while it is away.
    serving: Option<Program>,
    _target: Program,
    directory: TempDir,
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
        let source = format!("{url}/1");
        let options = ["serve", &source, "--listen", &listen, "--reconnect-delay=1"];
        let options = options.map(str::to_owned).to_vec();
        let mut disk = Self {
            weft: weft.to_owned(),
            socket,
            options,
            serving: None,
            _target: target,
            directory,
        };
        disk.serve()?;
        Ok(disk)
    }

    fn serve(&mut self) -> Result<()> {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let state = self.directory.path().join("state");
        self.serving = Some(Program::start(&self.weft, &state, &options)?.0);
        Ok(())
    }

    /// Kills the program that has the socket, and starts it again.
    pub(super) fn kill(&mut self) -> Result<()> {
        drop(self.serving.take());
        thread::sleep(AWAY);
        self.serve()
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
