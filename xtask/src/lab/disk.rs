//! A disk of the guest by vhost-user, whose source is a target over NVMe/TCP: two programs of weft
//! on this machine. Cases have the one killed that has the socket, and started again. A guest that
//! moves to another qemu finds its disk at another program, which has a socket of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::{files::option, program::Program};

/// Bytes of the disk, as weft is told them.
const SIZE: &str = "512MiB";

/// How long it is away after it was killed.
const AWAY: Duration = Duration::from_millis(300);

/// See the module. It ends with this value.
pub(super) struct Disk {
    weft: PathBuf,
    /// The namespace of the target.
    source: String,
    serving: Server,
    _target: Program,
    directory: TempDir,
}

/// The program that has a socket. None while it is away.
struct Server {
    socket: PathBuf,
    program: Option<Program>,
}

impl Disk {
    /// Starts both programs.
    pub(super) fn start(weft: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        fs::create_dir(directory.path().join("state"))?;
        let (target, url) = Program::start(
            weft,
            &directory.path().join("state"),
            &["serve", &format!("ram:{SIZE}"), "--listen", "127.0.0.1:0"],
        )?;
        let mut disk = Self {
            weft: weft.to_owned(),
            source: format!("{url}/1"),
            serving: Server { socket: directory.path().join("0.sock"), program: None },
            _target: target,
            directory,
        };
        disk.serving.program = Some(disk.serve(&disk.serving.socket)?);
        Ok(disk)
    }

    /// Where files of this disk's guest may be.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn serve(&self, socket: &Path) -> Result<Program> {
        let listen = format!("vhost-user:{}?mode=600", socket.display());
        let options = ["serve", &self.source, "--listen", &listen, "--reconnect-delay=1"];
        Ok(Program::start(&self.weft, &self.directory.path().join("state"), &options)?.0)
    }

    /// Starts another program with another socket, for the machine to which the guest moves, the
    /// `nth`. The one before ends with what is returned.
    pub(super) fn serve_elsewhere(&mut self, nth: usize) -> Result<impl Drop + use<>> {
        let socket = self.directory.path().join(format!("{nth}.sock"));
        let program = Some(self.serve(&socket)?);
        let before = std::mem::replace(&mut self.serving, Server { socket, program });
        before.program.context("it is away")
    }

    /// Kills the program that has the socket, and starts it again.
    pub(super) fn kill(&mut self) -> Result<()> {
        drop(self.serving.program.take());
        thread::sleep(AWAY);
        self.serving.program = Some(self.serve(&self.serving.socket)?);
        Ok(())
    }

    /// What qemu is told of it, in a guest with so much memory.
    pub(super) fn arguments(&self, mem_mib: u64) -> Vec<String> {
        let memory = format!("memory-backend-memfd,id=memory,size={mem_mib}M,share=on");
        let path = option(&self.serving.socket);
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
