//! A program of weft on this machine, next to a guest.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context, Result, ensure};

/// The name of targets, as `lab/lib.sh` has it.
pub(super) const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6e1cb2c2-0c86-4ee2-a5b5-0c2f0a6a9f01";

/// A program of weft, which ends with this value.
pub(super) struct Program(Child);

impl Program {
    /// Starts a program, and waits until it serves; with where.
    pub(super) fn start(weft: &Path, state: &Path, args: &[&str]) -> Result<(Self, String)> {
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

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

/// The port of a program's address, for the guest.
pub(super) fn port_of(url: &str) -> Result<String> {
    let authority = url.split("://").nth(1).and_then(|rest| rest.split('/').next());
    let port = authority.and_then(|authority| authority.rsplit_once(':'));
    port.map(|(_, port)| port.to_owned()).with_context(|| format!("{url} has no port"))
}

/// What the guest's kernel is told of it: cases have it as `LAB_PORT`.
pub(super) fn port_parameter(port: &str) -> String {
    format!("lab.port={port}")
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_the_address() {
        assert_eq!(port_of("nvme+tcp://127.0.0.1:35017/nqn.x:uuid:6e1c").unwrap(), "35017");
        assert!(port_of("nvme+tcp://127.0.0.1").is_err());
    }
}
