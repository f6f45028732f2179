//! Common parts of the exports without a network: hosts in this system, and their queues.
//!
//! * `hosts`: the namespaces that they have open, their view of them, and the messages to queues.
//! * `queue`: the caller's end of a queue. Operations of a block device go in, completions and
//!   changes come out.
//! * `exchange`: data of callers that is in memory of others.
//! * `session`: the server's end, with everything that a server does.
//! * `ends`: disks that are ending.
//! * `reserving`: reservations, for those who speak of them as block devices do.

#[cfg(target_os = "linux")]
pub(super) mod ends;
pub(super) mod exchange;
pub(super) mod hosts;
pub(super) mod queue;
mod reserving;
mod session;
