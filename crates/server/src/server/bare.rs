//! A server without anything around it: what is served, on event loops, for a process that manages
//! it by calls.

use super::Environment;
use super::absence::Absence;
use super::check::check_desired;
use crate::config::Desired;
use crate::config::desired::Fixed;
use crate::served::{ChangeMode, ChangeTiming, Served};
use std::sync::Arc;
use weft_block::{Error, ErrorKind};
use weft_endpoint::inventory::Inventory;
use weft_endpoint::loops::Loops;
use weft_endpoint::report::Report;

/// A server that has neither a control socket nor metrics, belongs to no group of gateways, takes
/// over from no other server, and goes on when a source is lost. [`BareServer::stop`] ends it in
/// order. If it is dropped instead, connections break off, and caches are not flushed.
pub struct BareServer {
    served: Arc<Served>,
    loops: Loops,
    /// The listen URLs of its configuration.
    listen: Vec<String>,
    /// What takes effect at the start only.
    fixed: Fixed,
    absence: Absence,
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
            Ok(served) => {
                let (listen, fixed) = (desired.listen.clone(), desired.fixed.clone());
                Ok(Self { served, loops, listen, fixed, absence: Absence::default() })
            }
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

    /// Changes what it serves into what is desired, also if that takes away what hosts use. Hosts
    /// stay connected.
    ///
    /// # Errors
    /// It differs in what takes effect at the start only, or in the addresses to listen at; a
    /// source cannot be opened. Nothing has changed then.
    pub fn apply(&self, desired: &mut Desired) -> Result<(), Error> {
        let mut differs = desired.fixed.differences(&self.fixed);
        if desired.listen != self.listen {
            differs.push("listen");
        }
        if let Some(first) = differs.first() {
            let text = format!("{first} cannot change while the server runs");
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let _stays = self.absence.hold();
        // Ports that were picked are kept, and a server that is away stays away.
        desired.listen = self.served.state().listen;
        let changed = self.served.apply(ChangeMode { force: true, dry_run: false }, desired)?;
        changed.notes.iter().for_each(|note| tracing::warn!("{note}"));
        Ok(())
    }

    /// Closes all connections. Hosts may come back at once.
    pub fn disconnect(&self) {
        self.served.exports.disconnect();
    }

    /// Stops listening, and closes all connections: to its hosts it is gone until
    /// [`BareServer::come_back`]. Waits for the connections to close, for [`LEAVE_S`] seconds at
    /// most. Devices stay open.
    ///
    /// # Errors
    /// The server ends.
    ///
    /// [`LEAVE_S`]: crate::limits::LEAVE_S
    pub fn leave(&self) -> Result<(), Error> {
        self.absence.begin(&self.served)
    }

    /// Listens again at the same addresses, unless it does.
    ///
    /// # Errors
    /// An address is in use.
    pub fn come_back(&self) -> Result<(), Error> {
        self.absence.end(&self.served)
    }

    /// Ends it: accepts no more connections, lets commands in flight end for a bounded time, closes
    /// all connections, flushes, and ends its threads. When this returns, nothing is in use.
    ///
    /// # Errors
    /// A device could not be flushed, or a loop has failed.
    pub fn stop(self) -> Result<(), Error> {
        let Self { served, loops, .. } = self;
        served.allow(ChangeTiming::Never);
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
