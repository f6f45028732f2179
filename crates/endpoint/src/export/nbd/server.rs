//! Starting and stopping a server.

use super::connection::Connection;
use super::places::Place;
use super::shared::Shared;
use crate::export::listen::{Homes, Listeners};
use crate::export::reach::reachable;
use crate::export::serving::{Export, ExportConfig, stop_all};
use crate::inventory::LiveInventory;
use crate::limits::CONNECTIONS_MAX;
use crate::loops::ask;
use crate::url::nbd::{NbdPlace, NbdUrl};
use std::sync::Arc;
use std::time::Duration;
use weft_block::Error;
use weft_io::{Handle, Remote};
use weft_proto::limits::HANDSHAKE_S;

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct NbdLimits {
    /// Connections; see [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// Time from accepting a connection to its choice of an export; see [`HANDSHAKE_S`].
    pub handshake: Duration,
}

impl Default for NbdLimits {
    fn default() -> Self {
        Self { connections: CONNECTIONS_MAX, handshake: Duration::from_secs(HANDSHAKE_S) }
    }
}

/// A running server.
pub struct NbdServer {
    shared: Arc<Shared>,
    listeners: Listeners,
    /// The listen URLs, without the name of an export.
    places: Vec<NbdUrl>,
}

/// Starts a server at URLs of NBD.
pub(in crate::export) fn start(config: &ExportConfig, urls: &[&str], loops: &[Remote]) -> Result<Box<dyn Export>, Error> {
    let places = urls.iter().map(|url| Place::of(url, &config.tls)).collect::<Result<_, _>>()?;
    Ok(Box::new(NbdServer::start_at(Arc::clone(&config.inventory), places, NbdLimits::default(), loops)?))
}

impl NbdServer {
    /// Like [`NbdServer::start_on`], from any thread.
    pub fn start(inventory: Arc<LiveInventory>, urls: &[&str], limits: NbdLimits, loops: &[Remote]) -> Result<Self, Error> {
        let places = urls.iter().map(|url| Place::of(url, &Default::default())).collect::<Result<_, _>>()?;
        Self::start_at(inventory, places, limits, loops)
    }

    /// Serves the namespaces that have a name at `nbd://` and `nbd+unix://` URLs without an export name. Called on the first of
    /// `loops`, over which connections are distributed.
    pub fn start_on(
        on: &Handle,
        inventory: Arc<LiveInventory>,
        urls: &[&str],
        limits: NbdLimits,
        loops: &[Remote],
    ) -> Result<Self, Error> {
        let places = urls.iter().map(|url| Place::of(url, &Default::default())).collect::<Result<_, _>>()?;
        Self::listen(on, inventory, places, limits, Homes::new(loops)?)
    }

    fn start_at(inventory: Arc<LiveInventory>, places: Vec<Place>, limits: NbdLimits, loops: &[Remote]) -> Result<Self, Error> {
        let homes = Homes::new(loops)?;
        let first = homes.first().clone();
        ask(&first, move |on| Self::listen(on, inventory, places, limits, homes))?
    }

    fn listen(
        on: &Handle,
        inventory: Arc<LiveInventory>,
        places: Vec<Place>,
        limits: NbdLimits,
        homes: Homes,
    ) -> Result<Self, Error> {
        let shared = Shared::new(inventory, limits, on.pool().cap_bytes(), homes);
        let mut server = Self { shared, listeners: Listeners::default(), places: Vec::new() };
        for place in places {
            let (shared, tls) = (Arc::clone(&server.shared), place.tls);
            let accepted = move |on: &Handle, stream| Connection::accept(on, stream, &shared, tls.clone());
            let at = match &place.url.place {
                NbdPlace::Tcp(_) => {
                    let bound = server.listeners.tcp(on, place.address, accepted)?;
                    let bound = reachable(bound);
                    NbdPlace::Tcp(crate::url::HostPort { host: bound.ip().to_string(), port: bound.port() })
                }
                NbdPlace::Unix(path) => {
                    server.listeners.unix(on, path, accepted)?;
                    place.url.place.clone()
                }
            };
            server.places.push(NbdUrl { place: at, certificates: None, ..place.url });
        }
        Ok(server)
    }

    /// Stops the server: accepts no more connections or commands, lets commands in flight end (for a bounded time), closes, and
    /// flushes.
    pub fn stop(self) -> Result<(), Error> {
        stop_all(&[&self], &self.shared.inventory.now().devices())
    }
}

impl Export for NbdServer {
    fn urls(&self) -> Vec<String> {
        let exports = self.shared.exports();
        let of = |place| exports.iter().map(move |listed| NbdUrl::with_export(place, &listed.name).to_string());
        self.places.iter().flat_map(of).collect()
    }

    fn attach_hint(&self) -> Option<(&'static str, String)> {
        let exports = self.shared.exports();
        let (place, name) = (self.places.iter().find(|place| !place.tls)?, &exports.first()?.name);
        let at = match &place.place {
            NbdPlace::Tcp(address) => format!("{} {}", address.host, address.port),
            NbdPlace::Unix(path) => format!("-unix {}", path.display()),
        };
        Some(("Linux", format!("nbd-client {at} /dev/nbd0 -N {name}")))
    }

    fn connections(&self) -> usize {
        self.shared.members.open()
    }

    fn drain(&self) {
        self.listeners.close();
        self.shared.members.drain();
    }

    fn draining(&self) -> usize {
        self.shared.members.serving()
    }

    fn close(&self) {
        self.shared.members.stop();
    }
}
