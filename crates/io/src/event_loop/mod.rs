//! The event loop: one per core, with its own drivers, timers, memory and disks; loops share
//! nothing.
//!
//! A [`Driver`] moves bytes or blocks: a connection, a listener, a benchmark job. The loop runs in
//! *turns*. In a turn every active driver first **receives**, then **works** (reaps devices, runs
//! engines, submits), then **sends**. So responses to everything that arrived together leave
//! together: one gather send per connection and turn. A driver is active if its socket or disk is
//! ready, its timer has expired, another driver or thread woke it, or it recently did something.
//!
//! Waiting is adaptive: while there is work the loop polls. After the last work it keeps polling
//! for [`LoopConfig::spin`] if that found work recently, then sleeps in the poller; otherwise it
//! sleeps at once. An idle loop costs nothing.

mod backend;
mod config;
mod driver;
mod handle;
#[cfg(all(test, feature = "loom"))]
mod model;
mod registrar;
mod run;
mod sleep;
mod system;
mod timers;
mod waiting;

pub use backend::Backend;
pub use config::LoopConfig;
pub use driver::{Activity, DriverId};
pub use handle::{Driver, Handle, RemoteLoop, TimerSlot};
pub use registrar::{Ready, Registrar, RegistryRef};
pub use run::{Loop, spawn};

#[cfg(test)]
mod tests;
