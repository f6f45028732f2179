//! A service of Windows: installing it, and being one.
//!
//! * [`settings`]: what a service is installed with.
//! * [`message`]: the messages that it writes into the event log, by their numbers.
//! * `words`: what the service manager's errors mean.
//! * `manager`: what administrators ask of the service manager.
//! * `process`: this process as a service: it is started, reports, and is stopped.
//!
//! On other systems everything is there, too, and says that it is for Windows.

pub mod message;
pub mod settings;
#[cfg(any(windows, test))]
mod words;

#[cfg(not(windows))]
mod elsewhere;
#[cfg(windows)]
mod manager;
#[cfg(windows)]
mod process;

#[cfg(not(windows))]
pub use elsewhere::{
    install, is_service, on_controls, ready, remove, run, show, start, stop, stopping, supported,
    write,
};
#[cfg(windows)]
pub use manager::{install, remove, show, start, stop, supported};
#[cfg(windows)]
pub use process::{is_service, on_controls, ready, run, stopping, write};
