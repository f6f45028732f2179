//! Loads that go on until a test has seen enough.

use super::{Ran, run, weft};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use weft_testing::wait::until;

/// Writes after which a load is in full swing.
const MANY: u64 = 200;

/// How the error begins if nobody listens when a host starts. A host that was connected waits for
/// its server instead.
const NOBODY_LISTENS: &str = "weft: cannot connect to ";

/// Part of the error of a host whose connection a server accepted and closed because it was
/// ending.
const ENDED_MEANWHILE: &str = " closed the connection in answer to ";

/// A load that begins again whenever it has ended well.
pub struct Loads {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Loads {
    /// Starts the first one; `load` makes a command that ends by itself.
    pub fn start(load: impl Fn() -> Command + Send + 'static) -> Self {
        Self::begin(load, |_| false)
    }

    /// The same for a server that is stopped and started: a load that finds nobody listening, or a
    /// server that ends, has not begun, and is started again.
    pub fn start_when_served(load: impl Fn() -> Command + Send + 'static) -> Self {
        Self::begin(load, |ran| {
            let has_ended = || ran.err.contains(ENDED_MEANWHILE);
            ran.code() == Some(7) && (ran.err.starts_with(NOBODY_LISTENS) || has_ended())
        })
    }

    /// The same for a server that another one replaces. The port is open all the time, but the
    /// server that ends closes connections without a session.
    pub fn start_while_replaced(load: impl Fn() -> Command + Send + 'static) -> Self {
        Self::begin(load, |ran| ran.code() == Some(7) && ran.err.contains(ENDED_MEANWHILE))
    }

    fn begin(
        load: impl Fn() -> Command + Send + 'static,
        has_not_begun: impl Fn(&Ran) -> bool + Send + 'static,
    ) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let told = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                let ran = run(load());
                assert!(ran.code() == Some(0) || has_not_begun(&ran), "{ran:?}");
            }
        });
        Self { is_over, thread }
    }

    /// Waits for the end of the last one. None has failed.
    pub fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// Writes that the server with this control has executed.
pub fn writes(dir: &Path, control: &str) -> u64 {
    let ran = run(weft(dir, &["status", "--json", "--control", control]));
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_default();
    let subsystems = report["subsystems"].as_array().into_iter().flatten();
    let namespaces = subsystems.flat_map(|of| of["namespaces"].as_array().into_iter().flatten());
    let counts = namespaces.map(|namespace| &namespace["counts"]["write"]["operations"]);
    counts.filter_map(Value::as_u64).sum()
}

/// Waits until a server has executed many more writes.
pub fn until_many_writes(dir: &Path, control: &str) {
    let before = writes(dir, control);
    until("there are many writes", || writes(dir, control) >= before + MANY);
}
