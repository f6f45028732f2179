//! A disk of the guest by vhost-user, whose source is a target over NVMe/TCP: two programs of weft
//! on this machine. Cases have the one killed that has the socket, and started again. A guest that
//! moves to another qemu finds its disk at another program, which has a socket of its own. The
//! target's second namespace is for the guest itself, over its network.

use std::{
    fs, mem,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::{
    counts::{self, Trace},
    files::option,
    program::{NQN, Program, port_of, port_parameter},
};

/// Bytes of each namespace, as weft is told them.
const SIZE: &str = "512MiB";

/// How long it is away after it was killed.
const AWAY: Duration = Duration::from_millis(300);

/// See the module. It ends with this value.
pub(super) struct Disk {
    weft: PathBuf,
    /// The URL of its namespace.
    source: String,
    /// The program that has the socket. None while it is away.
    serving: Option<Program>,
    /// How often its guest has moved to another qemu.
    moves: usize,
    target: Program,
    port: String,
    /// Of the program that has the socket.
    trace: Option<Trace>,
    directory: TempDir,
}

impl Disk {
    /// Starts both programs.
    pub(super) fn start(weft: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let state = directory.path().join("state");
        fs::create_dir(&state)?;
        let ram = format!("ram:{SIZE}");
        let serve = ["serve", &ram, &ram, "--listen", "127.0.0.1:0", "--nqn", NQN];
        let (target, url) = Program::start(weft, &state, &serve)?;
        let mut disk = Self {
            weft: weft.to_owned(),
            source: format!("{url}/1"),
            serving: None,
            moves: 0,
            target,
            port: port_of(&url)?,
            trace: None,
            directory,
        };
        disk.serve()?;
        Ok(disk)
    }

    fn serve(&mut self) -> Result<()> {
        let listen = format!("vhost-user:{}?mode=600", self.path("sock").display());
        let options = ["serve", &self.source, "--listen", &listen, "--reconnect-delay=1"];
        let state = self.directory.path().join("state");
        self.serving = Some(Program::start(&self.weft, &state, &options)?.0);
        Ok(())
    }

    /// A file of the qemu in which the guest is.
    fn path(&self, kind: &str) -> PathBuf {
        self.directory.path().join(format!("{}.{kind}", self.moves))
    }

    /// Where that qemu answers questions.
    pub(super) fn monitor(&self) -> PathBuf {
        self.path("monitor")
    }

    /// Where that qemu takes a guest in that moves to it.
    pub(super) fn door(&self) -> PathBuf {
        self.path("door")
    }

    /// Kills the program that has the socket, and starts it again.
    pub(super) fn kill(&mut self) -> Result<()> {
        drop(self.serving.take());
        thread::sleep(AWAY);
        self.serve()
    }

    /// Starts another program with another socket, for another qemu to which the guest is to move.
    /// The one before ends with what is returned.
    pub(super) fn serve_elsewhere(&mut self) -> Result<impl Drop + use<>> {
        let before = mem::take(&mut self.serving).context("the disk is away")?;
        self.moves += 1;
        self.serve()?;
        Ok(before)
    }

    /// What has been done outside, until now: instructions of the guest, nanoseconds of the program
    /// that has the socket, and of the target; then system calls of the former and bytes that they
    /// moved, if they were counted since the last time.
    pub(super) fn counts(&mut self, calls: bool) -> Result<String> {
        let serving = self.serving.as_ref().context("the disk is away")?.id();
        let (made, moved) = self.trace.take().map(Trace::end).transpose()?.unwrap_or_default();
        let instructions = counts::instructions(&self.monitor())?;
        let [own, target] = [serving, self.target.id()].map(counts::processor_time);
        self.trace = calls.then(|| Trace::start(serving)).transpose()?;
        Ok(format!("{instructions} {} {} {made} {moved}", own?, target?))
    }

    /// What the guest's kernel is told of it.
    pub(super) fn parameter(&self) -> String {
        port_parameter(&self.port)
    }

    /// What qemu is told of it, in a guest with so much memory.
    pub(super) fn arguments(&self, mem_mib: u64) -> Vec<String> {
        let memory = format!("memory-backend-memfd,id=memory,size={mem_mib}M,share=on");
        let socket = format!("socket,id=disk,path={},reconnect=1", option(&self.path("sock")));
        let monitor = format!("unix:{},server=on,wait=off", option(&self.monitor()));
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
            "-qmp",
            &monitor,
        ]
        .map(str::to_owned)
        .to_vec()
    }
}
