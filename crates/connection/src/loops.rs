//! A set of event loops on their own threads.

use crate::limits::LOOP_ANSWER_S;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_io::counters::Snapshot;
use weft_io::disk::DiskMode;
use weft_io::event_loop::spawn;
use weft_io::listening::Listening;
use weft_io::{LoopConfig, RemoteLoop, limits};

/// Configuration of the loops.
#[derive(Clone, Debug)]
pub struct LoopsConfig {
    /// Number of loops; `None`: one per core of `cpus`, or of the affinity mask.
    pub threads: Option<usize>,
    /// Cores to pin the loops to, in turn; `None`: not pinned.
    pub cpus: Option<Vec<usize>>,
    /// Never sleep.
    pub poll: bool,
    /// I/O method for files.
    pub disk: DiskMode,
    /// Payload memory of each loop, bytes.
    pub pool_bytes: usize,
    /// Listening sockets of the process: given by another one, or to be passed on.
    pub listening: Listening,
}

impl Default for LoopsConfig {
    fn default() -> Self {
        Self {
            threads: None,
            cpus: None,
            poll: false,
            disk: DiskMode::Auto,
            pool_bytes: limits::POOL_BYTES_DEFAULT,
            listening: Listening::default(),
        }
    }
}

impl LoopsConfig {
    /// Returns the number of loops.
    pub fn count(&self) -> usize {
        let cores = || self.cpus.as_ref().map_or_else(|| weft_io::cpu::allowed().len(), Vec::len);
        self.threads.unwrap_or_else(cores).max(1)
    }
}

/// Running loops. Dropping it ends them.
pub struct Loops {
    remotes: Vec<RemoteLoop>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Loops {
    /// Starts the loops.
    pub fn start(config: &LoopsConfig) -> Result<Self, Error> {
        let count = config.count();
        let mut loops =
            Self { remotes: Vec::with_capacity(count), threads: Vec::with_capacity(count) };
        for n in 0..count {
            let mut each = LoopConfig {
                name: format!("weft-loop-{n}"),
                pool_bytes: config.pool_bytes,
                disk: config.disk,
                listening: config.listening.clone(),
                ..LoopConfig::default()
            };
            each.cpu =
                config.cpus.as_ref().and_then(|cpus| cpus.get(n % cpus.len().max(1)).copied());
            if config.poll {
                each.spin = Duration::MAX;
            }
            let what = each.cpu.map_or_else(String::new, |cpu| format!(" on core {cpu}"));
            let ((), remote, thread) = spawn(each, |_| ())
                .map_err(|e| Error::io(format!("cannot start an event loop{what}: {e}"), e))?;
            loops.remotes.push(remote);
            loops.threads.push(thread);
        }
        Ok(loops)
    }

    /// Remotes of the loops, to post tasks.
    pub fn remotes(&self) -> &[RemoteLoop] {
        &self.remotes
    }

    /// The counters of each loop.
    pub fn counters(&self) -> Vec<Snapshot> {
        self.remotes.iter().filter_map(|r| ask(r, |on| on.counters().snapshot()).ok()).collect()
    }

    /// Ends the loops and waits for their threads.
    pub fn stop(mut self) -> Result<(), Error> {
        self.signal();
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(e)) => return Err(Error::io(format!("an event loop failed: {e}"), e)),
                Err(_) => {
                    return Err(Error::new(
                        ErrorKind::Io,
                        "an event loop's thread panicked; please report this",
                    ));
                }
            }
        }
        Ok(())
    }

    fn signal(&self) {
        for remote in &self.remotes {
            remote.post(|on| on.stop());
        }
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        self.signal();
    }
}

/// Runs `question` on a loop and waits a bounded time for the answer.
pub fn ask<T: Send + 'static>(
    remote: &RemoteLoop,
    question: impl FnOnce(&weft_io::Handle) -> T + Send + 'static,
) -> Result<T, Error> {
    let (give, take) = mpsc::channel();
    remote.post(move |on| {
        // After the time limit the receiver is gone.
        let _ = give.send(question(on));
    });
    take.recv_timeout(Duration::from_secs(LOOP_ANSWER_S))
        .map_err(|_| Error::new(ErrorKind::TimedOut, "an event loop does not answer"))
}
