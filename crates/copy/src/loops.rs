//! The event loops of a pass.

use crate::shared::{LoopEvent, Shared};
use crate::worker::CopyWorker;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use weft_block::{Error, ErrorKind};
use weft_io::{DriverId, Handle, LoopConfig, RemoteLoop, event_loop};

/// See the module. Dropping it ends them.
pub struct CopyLoops {
    loops: Vec<(RemoteLoop, DriverId)>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    events: Receiver<LoopEvent>,
    idle: Cell<usize>,
}

impl CopyLoops {
    /// Starts `count` loops, which begin at once.
    pub fn start(shared: &Arc<Shared>, count: usize) -> Result<Self, Error> {
        let (give, events) = mpsc::channel();
        let mut all = Self { loops: Vec::new(), threads: Vec::new(), events, idle: Cell::new(0) };
        for n in 0..count {
            let (shared, give) = (Arc::clone(shared), give.clone());
            // Transfers are long: who carries them out needs the CPU more than this loop does.
            let config = LoopConfig {
                name: format!("weft-copy-{n}"),
                spin: Duration::ZERO,
                ..LoopConfig::default()
            };
            let start =
                move |on: &Handle| on.try_spawn(|id| CopyWorker::new(on, id, shared, n == 0, give));
            let (driver, remote, thread) = event_loop::spawn(config, start)
                .map_err(|e| Error::io(format!("cannot start an event loop: {e}"), e))?;
            all.threads.push(thread);
            all.loops.push((remote.clone(), driver.inspect_err(|_| remote.post(|on| on.stop()))?));
        }
        // Those that were started before the last one may have found nothing to do.
        all.wake();
        Ok(all)
    }

    /// Loops that have something to do.
    pub fn working(&self) -> usize {
        self.loops.len() - self.idle.get()
    }

    /// Lets all of them look for what changed.
    pub fn wake(&self) {
        self.loops.iter().for_each(|(remote, driver)| remote.wake(*driver));
    }

    /// Begins a flush of TO.
    pub fn flush(&self, shared: &Shared) {
        shared.flushes.fetch_add(1, Relaxed);
        self.wake();
    }

    /// Waits at most `most` for the next event of a loop. The result of a flush, if that is it.
    pub fn wait(&self, most: Duration) -> Option<Result<(), Error>> {
        match self.events.recv_timeout(most) {
            Ok(LoopEvent::Idle) => self.idle.set(self.idle.get() + 1),
            Ok(LoopEvent::Flushed(result)) => return Some(result),
            Err(RecvTimeoutError::Timeout) if !self.threads.iter().any(JoinHandle::is_finished) => {
            }
            Err(_) => {
                return Some(Err(Error::new(ErrorKind::Io, "an event loop ended unexpectedly")));
            }
        }
        None
    }

    /// Ends them, and waits for their threads.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end();
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(e)) => return Err(Error::io(format!("an event loop failed: {e}"), e)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        for (remote, driver) in self.loops.drain(..) {
            remote.post(move |on| {
                on.remove(driver);
                on.stop();
            });
        }
    }
}

impl Drop for CopyLoops {
    fn drop(&mut self) {
        self.end();
        for thread in self.threads.drain(..) {
            // The error that led here is told.
            let _ = thread.join();
        }
    }
}
