//! State of a guest with systemd while it is off: its disk, which is a file of this machine, and
//! the target of the network that it is a host of.

use std::path::Path;

use anyhow::Result;
use tempfile::{NamedTempFile, TempDir};

use super::{
    files::option,
    program::{NQN, Program, port_of, port_parameter},
};

/// Bytes of the disk, which is sparse; `lab/systemd/start` makes the root file system on it.
const DISK_BYTES: u64 = 1 << 30;

/// What the target serves, as weft is told it.
const SOURCE: &str = "ram:128MiB";

/// See the module. Both end with this value.
pub(super) struct System {
    disk: NamedTempFile,
    _target: Program,
    port: String,
    _state: TempDir,
}

impl System {
    /// Makes an empty disk, and starts the target.
    pub(super) fn start(weft: &Path) -> Result<Self> {
        let (disk, state) = (NamedTempFile::new()?, tempfile::tempdir()?);
        disk.as_file().set_len(DISK_BYTES)?;
        let serve = ["serve", SOURCE, "--listen", "127.0.0.1:0", "--nqn", NQN];
        let (target, url) = Program::start(weft, state.path(), &serve)?;
        Ok(Self { disk, _target: target, port: port_of(&url)?, _state: state })
    }

    /// What qemu is told of the disk. It need not survive a loss of power of this machine.
    pub(super) fn arguments(&self) -> Vec<String> {
        let path = option(self.disk.path());
        ["-drive".into(), format!("file={path},format=raw,if=virtio,cache=unsafe")].to_vec()
    }

    /// What the kernel is told, for `lab/systemd/run`.
    pub(super) fn parameter(&self) -> String {
        port_parameter(&self.port)
    }
}
