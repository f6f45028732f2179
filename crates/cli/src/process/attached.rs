//! The process of a connection: signals, memory and the terminal.

use crate::process::exit::{Failure, at_once};
use crate::process::signals::on_interrupt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use weft_base::lock::Lock;
use weft_server::attach::memory::protect;

/// A connection whose disk nobody can use yet: SIGTERM and SIGINT end the process at once.
pub struct Beginning {
    take: Receiver<()>,
    is_used: Arc<Lock<bool>>,
}

impl Beginning {
    /// Its disk can be used from now on: the channel receives SIGTERM and SIGINT.
    pub fn end(self) -> Receiver<()> {
        *self.is_used.lock() = true;
        self.take
    }
}

/// The beginning of a server's process: protects its memory, and catches signals.
pub fn begin() -> Result<Beginning, Failure> {
    // Before there are threads, that of the signals too: they inherit it.
    protect();
    // Nobody else can connect to the socket of an NBD server before its mode is set.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let (give, take) = mpsc::channel();
    let is_used = Arc::new(Lock::new(false));
    let shared = Arc::clone(&is_used);
    on_interrupt(move || {
        let is_used = shared.lock();
        if !*is_used {
            let text = "interrupted before the disk was there";
            at_once(&Failure::new(Failure::INTERRUPTED, text));
        }
        drop(is_used);
        // At a second signal the receiver may be gone.
        let _ = give.send(());
    })?;
    Ok(Beginning { take, is_used })
}

/// Leaves the terminal and its session, so that their end does not end this process.
pub fn leave_terminal() {
    #[cfg(unix)]
    // The leader of a process group has no terminal to leave.
    let _ = rustix::process::setsid();
}
