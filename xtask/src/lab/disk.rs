//! A disk of the guest by vhost-user, whose source is a target over NVMe/TCP: two programs of weft
//! on this machine. Cases have the one killed that has the socket, and started again.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::Result;
use tempfile::TempDir;

use super::program::Program;

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
