//! The event loop: one per core, with its own drivers, timers, memory and disks; nothing of it is shared.
//!
//! A [`Driver`] is whatever moves bytes or blocks: a connection, a listener, a benchmark's job. The loop runs in *turns*. A turn
//! lets every active driver **receive**, then **work** (reap devices, feed engines, submit), then **send**, so that everything
//! that arrived together leaves together: one gather send per connection and turn. A driver is active when its socket or disk
//! became ready, when its timer ran out, when another driver or thread woke it, or when it did something a moment ago.
//!
//! Waiting is adaptive: while there is work the loop polls. After the last work it goes on polling for [`LoopConfig::spin`] where that found
//! work lately, then, or at once, it sleeps in the poller until something happens. An idle loop costs nothing.

mod backend;
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
pub use remote::{Remote, spawn};
pub use run::Loop;

use crate::disk::DiskMode;
use crate::limits;
use core::time::Duration;

/// How a loop behaves.
#[derive(Clone, Debug)]
pub struct LoopConfig {
    /// Name of the thread, for people.
    pub name: String,
    /// How long to go on polling after the last work before sleeping, where polling pays. [`Duration::MAX`] never sleeps.
    pub spin: Duration,
    /// Cap of the loop's payload memory, bytes.
    pub pool_bytes: usize,
    /// Core to run on.
    pub cpu: Option<usize>,
    /// How files are read and written.
    pub disk: DiskMode,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            name: "weft-loop".into(),
            spin: Duration::from_micros(limits::SPIN_US_DEFAULT),
            pool_bytes: limits::POOL_BYTES_DEFAULT,
            cpu: None,
            disk: DiskMode::Auto,
        }
    }
}

/// Names a driver of one loop; never reused for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DriverId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Whether a phase did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Activity {
    /// Nothing to do. A driver whose phases are all idle for the loop's spin time is left alone until it is woken.
    Idle,
    /// Something was done, and there is nothing more to do until the driver is woken: its socket has been found empty, or full.
    Settled,
    /// Something was done; there may be more soon.
    Busy,
}

impl Activity {
    /// Busy if the condition holds.
    pub fn busy_if(condition: bool) -> Self {
        if condition { Self::Busy } else { Self::Idle }
    }

    /// The same, but settled instead of busy if the condition holds.
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

/// Something that a loop drives. Phases must not block and must bound what they do in one call.
///
/// Readiness is edge-triggered: before a driver that listens to a socket reports [`Activity::Idle`] it has seen `WouldBlock`,
/// or remembers to go on by itself. [`crate::Stream::tells_rest`] says when it may report [`Activity::Settled`] without.
pub trait Driver {
    /// Takes in what sockets hold.
    fn receive(&mut self, on: &Handle) -> Activity {
        let _ = on;
        Activity::Idle
    }

    /// Reaps devices, lets engines work, submits. Runs again in the same turn when another driver wakes this one.
    fn work(&mut self, on: &Handle) -> Activity;

    /// Sends what is due.
    fn send(&mut self, on: &Handle) -> Activity {
        let _ = on;
        Activity::Idle
    }
}

#[cfg(test)]
mod tests;
