//! The process of a connection: signals, memory and the terminal.

use crate::exit::Failure;
use crate::signals::on_interrupt;
use std::sync::mpsc::{self, Receiver};
use weft_server::attach::memory::protect;

/// The beginning of a server's process: protects its memory, and makes a channel that receives
/// SIGTERM and SIGINT.
pub fn begin() -> Result<Receiver<()>, Failure> {
    // Before there are threads, that of the signals too: they inherit it.
    protect();
    // Nobody else can connect to the socket of an NBD server before its mode is set.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let (give, take) = mpsc::channel();
    on_interrupt(move || {
        // At a second signal the receiver may be gone.
        let _ = give.send(());
    })?;
    Ok(take)
}

/// Leaves the terminal and its session, so that their end does not end this process.
pub fn leave_terminal() {
    #[cfg(unix)]
    // The leader of a process group has no terminal to leave.
    let _ = rustix::process::setsid();
}
