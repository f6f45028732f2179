//! Attaching a device to this system: a server on the loopback, the system's own initiator, and a
//! record of both.
//!
//! * [`plan`]: the commands that attach and detach on each system; this module runs nothing.
//! * [`entries`]: the records, one per connection, in a directory of the user; those of dead
//!   servers are removed.
//! * [`path_states`]: states of the paths to the source of a connection.
//! * [`runtime_place`]: where that directory is.
//! * [`run`]: runs the commands, and finds the name of the disk in the system.
//! * [`server`]: the server of a connection, in the background or in the foreground.
//! * `takeover`: what it continues of a server that was killed.

pub mod entries;
pub mod memory;
pub mod path_states;
pub mod plan;
pub mod run;
pub mod runtime_place;
pub mod server;
mod takeover;
