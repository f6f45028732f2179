//! Managing a server while it runs: a socket of its owner's, and a protocol of JSON lines
//! (`docs/control.md`).
//!
//! * [`protocol`]: requests, answers and the codes of errors.
//! * [`methods`]: what can be asked of a server, by name.
//! * [`server`]: the threads that answer. No request is ever answered on an I/O loop.
//! * [`client`]: asking a server.
//! * `pipe`: named pipes, on Windows.
//! * [`place`]: where the sockets are, and whose they are.
//! * [`running`]: the server that is managed, and its methods.
//! * [`inventory`]: what is served, as an answer.
//! * [`capture`]: captures of the connections of a host.

pub mod capture;
pub mod client;
pub mod inventory;
pub mod methods;
#[cfg(windows)]
pub mod pipe;
pub mod place;
pub mod protocol;
pub mod running;
pub mod server;
