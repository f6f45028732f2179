//! Moving a guest from one qemu to another while it runs, by qemu's monitor protocol (QMP).

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::files::option;

/// How long the other qemu may take until it listens, and the guest until it has moved.
const LIMIT: Duration = Duration::from_secs(120);

/// How long the guest may stand still. A machine that is emulated beside others dirties its memory
/// slowly, and yet the default, 300 ms, may be too short for it.
const STANDSTILL_MS: u64 = 2000;

const POLL: Duration = Duration::from_millis(50);

/// What a qemu is told that can send its guest elsewhere, with its monitor at `monitor`.
pub(super) fn arguments_of_monitor(monitor: &Path) -> [String; 2] {
    ["-qmp".into(), format!("unix:{},server=on,wait=off", option(monitor))]
}

/// What a qemu is told that waits for a guest at `door`.
pub(super) fn arguments_of_arrival(door: &Path) -> [String; 2] {
    ["-incoming".into(), format!("unix:{}", door.display())]
}

/// Sends the guest of the qemu whose monitor is at `monitor` to the one that waits at `door`, and
/// waits until it is there. The guest runs on in the other one.
pub(super) fn send(monitor: &Path, door: &Path) -> Result<()> {
    let until = Instant::now() + LIMIT;
    while !door.exists() {
        ensure!(Instant::now() < until, "the other qemu does not listen");
        thread::sleep(POLL);
    }
    let mut monitor = Monitor::connect(monitor)?;
    monitor.ask("qmp_capabilities", json!({}))?;
    let limits = json!({ "downtime-limit": STANDSTILL_MS, "max-bandwidth": 1_u64 << 30 });
    monitor.ask("migrate-set-parameters", limits)?;
    monitor.ask("migrate", json!({ "uri": format!("unix:{}", door.display()) }))?;
    loop {
        let state = monitor.ask("query-migrate", json!({}))?;
        match state["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => bail!("the guest did not move: {state}"),
            _ if Instant::now() > until => bail!("the guest does not arrive: {state}"),
            _ => thread::sleep(POLL),
        }
    }
}

/// A connection to qemu's monitor.
struct Monitor {
    lines: BufReader<UnixStream>,
}

impl Monitor {
    fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path).context("qemu's monitor cannot be reached")?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self { lines: BufReader::new(stream) })
    }

    /// Has a command executed; gives its result. Events and the greeting are passed over.
    fn ask(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        writeln!(self.lines.get_mut(), "{request}")?;
        loop {
            let mut line = String::new();
            let got = self.lines.read_line(&mut line).context("qemu's monitor does not answer")?;
            ensure!(got > 0, "qemu ended while its guest moved");
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
