//! An initiator of the kernel: it makes a disk of a target, on which weft's load generator or fio
//! puts the load.

use super::super::peer::PeerProgram;
use super::session::KernelGroup;
use crate::limits::PEER_START_S;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use weft_bench::suite::Through;
use weft_block::waiting;
use weft_endpoint::url::HostPort;

/// An initiator of the kernel. Each is a file of this directory.
pub struct KernelInitiator {
    /// Last part of the names of its lanes, and its name in `--peers`.
    pub name: &'static str,
    /// The protocol that it reaches.
    pub through: Through,
    /// The programs that must be installed.
    pub programs: &'static [PeerProgram],
    /// The modules that the kernel must have.
    pub modules: &'static [&'static str],
    /// `kernel` means it only where nothing of it is missing.
    pub is_optional: bool,
    /// Returns why it cannot be used with targets at an address.
    pub refusal: fn(IpAddr) -> Option<String>,
    /// Makes a disk of a device. Returns its path.
    ///
    /// # Errors
    /// The reason, without a full stop.
    pub attach: fn(&KernelGroup, &Remote<'_>) -> Result<String, String>,
}

/// A device of a target on this machine.
pub struct Remote<'a> {
    pub url: &'a str,
    /// Connections for its I/O.
    pub queues: u16,
    /// Operations on each of them.
    pub queue_size: u16,
    /// The target is stopped while others are measured, and answers nothing then.
    pub rests: bool,
}

/// Time between two looks for a disk.
const LOOK: Duration = Duration::from_millis(50);

/// The address of a target.
pub fn place(address: &HostPort) -> Result<SocketAddr, String> {
    address.resolve_first().map_err(|e| e.to_string())
}

/// Waits until a disk appears, and returns its path.
pub fn appeared(what: &str, find: impl Fn() -> Option<String>) -> Result<String, String> {
    let until = Instant::now() + Duration::from_secs(PEER_START_S);
    let _waiting = waiting::begin(|| format!("the disk of {what} to appear"));
    while Instant::now() < until {
        if let Some(name) = find().filter(|name| is_plain(name)) {
            return Ok(format!("/dev/{name}"));
        }
        std::thread::sleep(LOOK);
    }
    Err(format!("no disk of {what} has appeared within {PEER_START_S} s"))
}

/// Returns whether a name is that of a disk that can be opened.
fn is_plain(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_alphanumeric())
        && std::fs::metadata(format!("/dev/{name}")).is_ok()
}
