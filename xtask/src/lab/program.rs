//! A program of weft on this machine, beside a guest.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context, Result, ensure};

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
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
