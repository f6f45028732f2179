//! Opens block devices of other hosts.
//!
//! * [`source`]: opens devices of other targets, one directory for each protocol.
//! * [`paths`]: keeps devices of other targets connected, by one path or several.
//! * [`Control`]: opens connections and keeps them alive.
#![deny(unreachable_pub)]
#![forbid(unsafe_code)]

mod control;
mod names;
pub mod paths;
pub mod source;

pub use control::{Control, ControlTask};
pub use names::{NameTable, Names};
pub use paths::PathOptions;
pub use source::ConnectOptions;
