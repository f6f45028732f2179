//! A server without anything around it: what is served, on event loops, for a process that manages
//! it by calls.

use super::Environment;
use super::check::check_desired;
use crate::config::Desired;
use crate::config::check::listen_place;
use crate::config::desired::Fixed;
use crate::limits::LEAVE_S;
use crate::served::{ChangeMode, ChangeTiming, Served};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use weft_base::lock::Lock;
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

// A server that hosts cannot reach for a while, although it runs: it does not listen.

/// Pause between two looks at the connections.
const STEP: Duration = Duration::from_millis(2);

const HOW: ChangeMode = ChangeMode { force: true, dry_run: false };

/// Addresses at which the server listens again; `None`: it listens.
#[derive(Default)]
struct Absence(Lock<Option<Vec<String>>>);

impl Absence {
    /// Keeps the server from leaving and from coming back.
    fn hold(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.0.lock()
    }

    /// Stops listening, and closes all connections.
    fn begin(&self, served: &Served) -> Result<(), Error> {
        let mut absent = self.hold();
        if absent.is_none() {
            let places = places(&served.state().listen, &served.exports.urls());
            served.change(HOW, |state| {
                state.listen.clear();
                Ok(())
            })?;
            *absent = Some(places);
        }
        let end = Instant::now() + Duration::from_secs(LEAVE_S);
        // A connection may have been accepted that was not yet told the last time.
        while served.exports.connections() > 0 && Instant::now() < end {
            served.exports.disconnect();
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    /// Listens again.
    fn end(&self, served: &Served) -> Result<(), Error> {
        let mut absent = self.hold();
        if let Some(places) = &*absent {
            served.change(HOW, |state| {
                state.listen.clone_from(places);
                Ok(())
            })?;
            *absent = None;
        }
        Ok(())
    }
}

/// URLs to listen at, with the ports that were picked in the place of port 0, as the URLs for hosts
/// have them.
fn places(listen: &[String], urls: &[String]) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    for asked in listen {
        let picked = || {
            let (scheme, at) = (scheme(asked)?, listen_place(asked).filter(|at| at.port() == 0)?);
            let found = urls.iter().filter(|url| self::scheme(url) == Some(scheme));
            let found = found.filter_map(|url| listen_place(url));
            let mut found = found.filter(|of| at.ip().is_unspecified() || of.ip() == at.ip());
            let place = |port| {
                let mut at = at;
                at.set_port(port);
                format!("{scheme}://{at}")
            };
            found.find_map(|of| Some(place(of.port())).filter(|it| !places.contains(it)))
        };
        let place = picked();
        places.push(place.unwrap_or_else(|| asked.clone()));
    }
    places
}

fn scheme(url: &str) -> Option<&str> {
    url.split_once("://").map(|(scheme, _)| scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picked_ports_are_kept() {
        let texts = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let listen = texts(&[
            "nvme+tcp://127.0.0.1:0",
            "nvme+tcp://127.0.0.1:0",
            "nvme+tcp://127.0.0.1:4420",
            "nbd://0.0.0.0:0",
            "nbd+unix:///?socket=/tmp/x",
        ]);
        let urls = texts(&[
            "nvme+tcp://127.0.0.1:1001/nqn.2026-01.example:a",
            "nvme+tcp://127.0.0.1:1001/nqn.2026-01.example:b",
            "nvme+tcp://127.0.0.1:1002/nqn.2026-01.example:a",
            "nvme+tcp://127.0.0.1:4420/nqn.2026-01.example:a",
            "nbd://192.0.2.1:1003/disk",
        ]);
        let expected = texts(&[
            "nvme+tcp://127.0.0.1:1001",
            "nvme+tcp://127.0.0.1:1002",
            "nvme+tcp://127.0.0.1:4420",
            "nbd://0.0.0.0:1003",
            "nbd+unix:///?socket=/tmp/x",
        ]);
        assert_eq!(places(&listen, &urls), expected);
    }
}
