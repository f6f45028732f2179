//! A server as a part of its system: signals, the service manager, and the process that takes over
//! from it.
//!
//! * [`signals`]: the first signal drains, the second ends at once.
//! * [`notify`]: tells systemd of the start, the end, and that the process is alive.
//! * [`activation`]: sockets that systemd has opened.
//! * [`takeover`]: a new process takes over the sockets of an old one.

pub mod activation;
pub mod notify;
pub mod signals;
pub mod takeover;
