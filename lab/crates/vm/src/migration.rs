//! Moving a guest from one qemu to another while it runs.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::monitor::Monitor;

/// How long the other qemu may take until it listens, and the guest until it has moved.
const LIMIT: Duration = Duration::from_secs(120);

/// How long the guest may stand still. A machine that is emulated beside others dirties its memory
/// slowly, and yet the default, 300 ms, may be too short for it.
const STANDSTILL_MS: u64 = 2000;

/// Bytes a second that may be copied: as much as can be.
const RATE: u64 = 1 << 30;

const POLL: Duration = Duration::from_millis(50);

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
    let limits = json!({ "downtime-limit": STANDSTILL_MS, "max-bandwidth": RATE });
    monitor.ask("migrate-set-parameters", &limits)?;
    monitor.ask("migrate", &json!({ "uri": format!("unix:{}", door.display()) }))?;
    loop {
        let state = monitor.ask("query-migrate", &json!({}))?;
        match state["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => bail!("the guest did not move: {state}"),
            _ if Instant::now() > until => bail!("the guest does not arrive: {state}"),
            _ => thread::sleep(POLL),
        }
    }
}
