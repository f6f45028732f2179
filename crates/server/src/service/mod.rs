//! A server as a part of its system: the service manager, and the process that takes over from it.
//!
//! * [`notify`]: tells systemd of the start, the end, and that the process is alive.
//! * [`activation`]: sockets that systemd has opened.
//! * [`demands`]: what its hosts have to prove, for the one that takes over.
//! * [`takeover`]: a new process takes over the sockets of an old one.
//! * [`windows`]: the same for the service manager of Windows.

pub mod activation;
pub mod demands;
pub mod notify;
pub mod takeover;
pub mod windows;
