//! A server without anything around it: what is served, on event loops, for a process that manages
//! it by calls.

use super::Environment;
use super::check::check_desired;
use crate::config::Desired;
use crate::served::{Changes, Served};
use std::sync::Arc;
use weft_block::Error;
use weft_endpoint::inventory::Inventory;
use weft_endpoint::loops::Loops;
use weft_endpoint::report::Report;

/// A server that has neither a control socket nor metrics, belongs to no group of gateways, takes
/// over from no other server, and goes on when a source is lost. [`BareServer::stop`] ends it in
/// order. If it is dropped instead, connections break off, and caches are not flushed.
pub struct BareServer {
    served: Arc<Served>,
    loops: Loops,
}

impl BareServer {
    /// Starts a server. When this returns hosts can connect. Only the parts of the environment are
    /// used that such a server has.
    ///
    /// # Errors
    /// The configuration is wrong, or a source or listener cannot be opened. Then nothing stays in
    /// use.
    pub fn start(desired: &Desired, environment: &Environment) -> Result<Self, Error> {
        check_desired(desired, environment)?;
        let loops = Loops::start(&desired.loops)?;
        match Served::start(desired, environment, None, loops.remotes()) {
            Ok(served) => Ok(Self { served, loops }),
            Err(e) => {
                // That matters more than how the loops ended.
                let _ = loops.stop();
                Err(e)
            }
        }
    }

    /// Returns what it serves now.
    pub fn inventory(&self) -> Arc<Inventory> {
        self.served.inventory.now()
    }

    /// The URLs at which hosts reach it.
    pub fn urls(&self) -> Vec<String> {
        self.served.exports.urls()
    }

    /// Open connections of any kind.
    pub fn connections(&self) -> usize {
        self.served.exports.connections()
    }

    /// Its state. Waits for no I/O.
    pub fn report(&self) -> Report {
        let (listeners, open_connections) = (self.urls(), self.connections());
        let inventory = &self.served.inventory;
        Report { listeners, open_connections, ..Report::of(inventory, self.loops.remotes()) }
    }

    /// Ends it: accepts no more connections, lets commands in flight end for a bounded time, closes
    /// all connections, flushes, and ends its threads. When this returns, nothing is in use.
    ///
    /// # Errors
    /// A device could not be flushed, or a loop has failed.
    pub fn stop(self) -> Result<(), Error> {
        let Self { served, loops } = self;
        served.allow(Changes::Never);
        let exports = Arc::clone(&served.exports);
        exports.withdraw();
        let stopped = exports.stop();
        if stopped.is_ok() {
            served.inventory.health().end();
        }
        drop((exports, served));
        loops.stop()?;
        stopped
    }
}
