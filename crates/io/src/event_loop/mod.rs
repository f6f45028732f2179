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
mod closed_peers;
mod handle;
#[cfg(all(test, loom))]
mod model;
mod remote;
mod run;
mod sleep;
mod timers;
mod waiting;

pub use backend::{Backend, Ready, Registrar, RegistryRef};
pub use handle::{Handle, TimerSlot};
pub use remote::{RemoteLoop, spawn};
pub use run::Loop;

use crate::disk::DiskMode;
use crate::limits;
use crate::listening::Listening;
use core::time::Duration;

/// Configuration of a loop.
#[derive(Clone, Debug)]
pub struct LoopConfig {
    /// Name of the thread.
    pub name: String,
    /// Time to keep polling after the last work, if polling pays. [`Duration::MAX`] never sleeps.
    pub spin: Duration,
    /// Cap of the loop's payload memory, bytes.
    pub pool_bytes: usize,
    /// Core to run on.
    pub cpu: Option<usize>,
    /// I/O method for files.
    pub disk: DiskMode,
    /// Listening sockets of the process.
    pub listening: Listening,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            name: "weft-loop".into(),
            spin: Duration::from_micros(limits::SPIN_US_DEFAULT),
            pool_bytes: limits::POOL_BYTES_DEFAULT,
            cpu: None,
            disk: DiskMode::Auto,
            listening: Listening::default(),
        }
    }
}

/// ID of a driver on one loop; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DriverId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The result of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Activity {
    /// Nothing to do. If all phases of a driver are idle for the loop's spin time, it is not called
    /// again until it is woken.
    Idle,
    /// Something was done, and there is nothing more to do until the driver is woken: its socket is
    /// empty, or full.
    Settled,
    /// Something was done, and more may follow soon.
    Busy,
}

impl Activity {
    /// Busy if the condition holds.
    pub fn busy_if(condition: bool) -> Self {
        if condition { Self::Busy } else { Self::Idle }
    }

    /// Like `busy_if`, but settled instead of busy if the condition holds.
    pub fn or_settled_if(self, condition: bool) -> Self {
        if condition && self == Self::Busy { Self::Settled } else { self }
    }

    /// The same, but busy instead of settled unless the condition holds.
    pub fn or_busy_unless(self, condition: bool) -> Self {
        if !condition && self == Self::Settled { Self::Busy } else { self }
    }

    /// Whether something was done.
    pub fn is_some(self) -> bool {
        self != Self::Idle
    }
}

/// Something that a loop drives. Phases must not block, and must bound the work of one call.
///
/// Readiness is edge-triggered: before a driver with a socket returns [`Activity::Idle`], it must
/// have seen `WouldBlock`, or must remember to continue by itself. [`crate::Stream::tells_rest`]
/// says when it may return [`Activity::Settled`] without.
pub trait Driver {
    /// Receives from sockets.
    fn receive(&mut self, on: &Handle) -> Activity {
        let _ = on;
        Activity::Idle
    }

    /// Reaps devices, runs engines, submits. Runs again in the same turn if another driver wakes
    /// this one.
    fn work(&mut self, on: &Handle) -> Activity;

    /// Sends pending data.
    fn send(&mut self, on: &Handle) -> Activity {
        let _ = on;
        Activity::Idle
    }
}

#[cfg(test)]
mod tests;
