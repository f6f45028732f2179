//! A connection to the monitor of a qemu, by its protocol QMP.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// How long qemu may take for an answer.
const LIMIT: Duration = Duration::from_secs(120);

/// See the module.
pub(super) struct Monitor(BufReader<UnixStream>);

impl Monitor {
    /// Connects to the qemu whose monitor is at `path`.
    pub(super) fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path).context("qemu's monitor cannot be reached")?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut monitor = Self(BufReader::new(stream));
        monitor.ask("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Has a command executed; gives its result. Events and the greeting are passed over.
    pub(super) fn ask(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        writeln!(self.0.get_mut(), "{request}")?;
        loop {
            let mut line = String::new();
            let got = self.0.read_line(&mut line).context("qemu's monitor does not answer")?;
            ensure!(got > 0, "qemu's monitor has ended");
            let mut said: Value = serde_json::from_str(&line)?;
            if let Some(error) = said.get("error") {
                bail!("qemu refuses {command}: {error}");
            }
            if let Some(result) = said.get_mut("return") {
                return Ok(result.take());
            }
        }
    }
}
