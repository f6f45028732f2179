//! Connections that last: recorded, made again after a restart, and looked after by a daemon.
//!
//! Each connection is a process of its own, that of `weft connect`. So a connection that fails
//! delays no other one, and a daemon that ends, is killed or is replaced by a newer one takes no
//! disk away: the next daemon finds the processes by their locks
//! ([`entries`](crate::attach::entries)).
//!
//! * [`record`]: what is recorded, as text. No I/O.
//! * [`supervision`]: the state of each connection, and when it is tried again. No I/O.
//! * [`store`]: the file of the record, and its lock.
//! * [`attacher`]: what makes and ends a connection: weft's own commands.
//! * `place`: the directory in which such a command runs.
//! * [`daemon`]: drives all of it.
//! * [`orders`]: what can be asked of a daemon, for both ends.

pub mod attacher;
pub mod daemon;
pub mod orders;
mod place;
pub mod record;
pub mod store;
pub mod supervision;
