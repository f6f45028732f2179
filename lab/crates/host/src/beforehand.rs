//! Building the test programs while packages are fetched.

use std::process::{Child, Stdio};

use anyhow::{Context, Result};
use xtask::sh;

/// Cargo, which builds what `cargo xtask test` runs, until this is dropped. What it has built by
/// then stays. It is stopped, so that those tests run that are built while others are not.
pub struct Build(Child);

impl Build {
    /// Starts it, with a lower priority.
    ///
    /// # Errors
    /// If cargo cannot be started.
    pub fn start() -> Result<Self> {
        let mut cargo = xtask::steps::giving_way(sh::cargo("test"));
        cargo.args(["--workspace", "--tests", "--no-run", "--locked", "--quiet"]);
        cargo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Its compilers end with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut cargo, 0);
        cargo.spawn().map(Self).context("cannot start cargo")
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) =
            i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            // It may have ended by itself; as it was not waited for, its number is still its own.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        }
        #[cfg(not(unix))]
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
