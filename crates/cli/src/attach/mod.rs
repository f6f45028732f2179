//! Handing a device to this system: a server on the loopback, the system's own initiator, and a note of both.
//!
//! * [`plan`]: which commands attach and detach, on which system; nothing is run there.
//! * [`entries`]: the notes, one per connection, in a directory of the user's own; those of dead servers are cleaned away.
//! * [`run`]: running the commands, and finding out what the system calls the disk.
//! * [`server`]: the server of a connection, in the background or in the foreground.

pub mod entries;
pub mod plan;
pub mod run;
pub mod server;
