//! The control loop: one thread for everything that is not I/O: admin connections, handshakes, keep alive. It sleeps.

use crate::loops::ask;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weft_block::Error;
use weft_io::event_loop::spawn;
use weft_io::{LoopConfig, Remote};

/// Payload memory of the control loop, bytes.
const POOL_BYTES: usize = 16 << 20;

/// How long the end of a process waits for its associations to be shut down.
const FINISH: Duration = Duration::from_secs(6);

static CONTROL: Mutex<Option<Remote>> = Mutex::new(None);

/// The control loop of this process; started when it is first asked for.
pub(crate) fn control_loop() -> Result<Remote, Error> {
    let mut control = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(remote) = &*control {
        return Ok(remote.clone());
    }
    let config =
        LoopConfig { name: "weft-control".into(), spin: Duration::ZERO, pool_bytes: POOL_BYTES, ..LoopConfig::default() };
    let ((), remote, _) = spawn(config, |_| ()).map_err(|e| Error::io(format!("cannot start the control loop: {e}"), e))?;
    Ok(control.insert(remote).clone())
}

/// Waits (a bounded time) until every association whose devices are dropped has been shut down. To be called before the process
/// ends; otherwise targets see connections break off, which is harmless but untidy.
pub fn finish() {
    let Some(remote) = CONTROL.lock().unwrap_or_else(PoisonError::into_inner).clone() else { return };
    let until = Instant::now() + FINISH;
    while Instant::now() < until && ask(&remote, |on| on.live_drivers()).is_ok_and(|n| n > 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
}
