//! What a guest with systemd has while it is off: its disk, which is a file of this machine, and the
//! target of the network that it is a host of.

use std::path::Path;

use anyhow::{Context, Result};
use tempfile::{NamedTempFile, TempDir};

use super::{files::option, program::Program};

/// Bytes of the disk, which is sparse; `lab/systemd/start` makes the root file system on it.
const DISK_BYTES: u64 = 1 << 30;

/// What the target serves, as weft is told it.
const SOURCE: &str = "ram:128MiB";

/// The target's name, as `lab/lib.sh` has it.
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6e1cb2c2-0c86-4ee2-a5b5-0c2f0a6a9f01";

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
        let port = port_of(&url).with_context(|| format!("{url} has no port"))?.to_owned();
        Ok(Self { disk, _target: target, port, _state: state })
    }

    /// What qemu is told of the disk. It need not survive a loss of power of this machine.
    pub(super) fn arguments(&self) -> Vec<String> {
        let path = option(self.disk.path());
        ["-drive".into(), format!("file={path},format=raw,if=virtio,cache=unsafe")].to_vec()
    }

    /// What the kernel is told, for `lab/systemd/run`.
    pub(super) fn parameter(&self) -> String {
        format!("lab.port={}", self.port)
    }
}

fn port_of(url: &str) -> Option<&str> {
    let authority = url.split("://").nth(1)?.split('/').next()?;
    authority.rsplit_once(':').map(|(_, port)| port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_the_address() {
        assert_eq!(port_of("nvme+tcp://127.0.0.1:35017/nqn.x:uuid:6e1c"), Some("35017"));
        assert_eq!(port_of("nvme+tcp://127.0.0.1"), None);
    }
}
