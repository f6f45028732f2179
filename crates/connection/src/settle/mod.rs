//! Commands of this process that a peer may still execute: after their connection is lost, and
//! after the process has ended (decisions 8 and 50).
//!
//! * [`LateWriters`]: the peers that may go on, for the process that comes next.
//! * `registry`: lost associations and sessions, and ways to have the peer end them early.
//! * `lost_writes`: writes of a lost connection, and the time from which none can be executed.
//! * `unresolved`: writes of a device that are sent again on another path, and what they hold back.

mod late_writers;
#[doc(hidden)]
pub mod lost_writes;
#[doc(hidden)]
pub mod registry;
#[doc(hidden)]
pub mod unresolved;

#[doc(hidden)]
pub use late_writers::LateWriterList;
pub use late_writers::{LateWriter, LateWriters, LateWrites, Stopping, Watch, Watcher};
