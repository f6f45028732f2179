//! The threads of a group, and what they share.

use weft_block::Error;

/// Starts a thread of the group, which nobody waits for.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let started = std::thread::Builder::new().name(format!("weft-group-{name}")).spawn(work);
    started.map(drop).map_err(|e| Error::io(format!("no thread can be started: {e}"), e))
}
