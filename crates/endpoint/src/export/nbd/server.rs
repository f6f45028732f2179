//! Starting and stopping a server.

use super::connection::Connection;
use super::places::Place;
use super::shared::Shared;
use crate::export::listen::{Homes, Listeners};
use crate::export::serving::{Export, ExportConfig, Named, stop_all};
use crate::limits::{CONNECTIONS_MAX, HANDSHAKE_S};
use crate::loops::ask;
use crate::url::nbd::{NbdPlace, NbdUrl};
use std::sync::Arc;
use std::time::Duration;
use weft_block::Error;
use weft_io::{Handle, Remote};

/// Bounds that a server keeps to.
#[derive(Clone, Copy, Debug)]
pub struct NbdLimits {
    /// Connections; see [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// From accepting a connection to its choice of an export; see [`HANDSHAKE_S`].
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
    /// Where it listens, without the name of an export.
    places: Vec<NbdUrl>,
}

/// Starts a server at URLs of NBD.
pub(in crate::export) fn start(config: &ExportConfig, urls: &[&str], loops: &[Remote]) -> Result<Box<dyn Export>, Error> {
    let places = urls.iter().map(|url| Place::of(url, &config.tls)).collect::<Result<_, _>>()?;
    Ok(Box::new(NbdServer::start_at(config.devices.clone(), places, NbdLimits::default(), loops)?))
}

impl NbdServer {
    /// Serves `devices` at `nbd://` and `nbd+unix://` URLs that name no export; connections are spread over `loops`.
    pub fn start(devices: Vec<Named>, urls: &[&str], limits: NbdLimits, loops: &[Remote]) -> Result<Self, Error> {
        let places = urls.iter().map(|url| Place::of(url, &Default::default())).collect::<Result<_, _>>()?;
        Self::start_at(devices, places, limits, loops)
    }

    fn start_at(devices: Vec<Named>, places: Vec<Place>, limits: NbdLimits, loops: &[Remote]) -> Result<Self, Error> {
        let homes = Homes::new(loops)?;
        let first = homes.first().clone();
        ask(&first, move |on| Self::start_on(on, devices, places, limits, homes))?
    }

    fn start_on(on: &Handle, devices: Vec<Named>, places: Vec<Place>, limits: NbdLimits, homes: Homes) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(devices, limits, on.pool().cap_bytes(), homes));
        let mut server = Self { shared, listeners: Listeners::default(), places: Vec::new() };
        for place in places {
            let (shared, tls) = (Arc::clone(&server.shared), place.tls);
            let accepted = move |_: &Handle, stream| Connection::accept(stream, &shared, tls.clone());
            let at = match &place.url.place {
                NbdPlace::Tcp(_) => {
                    let bound = server.listeners.tcp(on, place.address, accepted)?;
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

    /// Takes no more connections or commands, lets those under way end (for a bounded time), closes, and makes durable what was
    /// written.
    pub fn stop(self) -> Result<(), Error> {
        stop_all(&[&self], &self.shared.bare_devices())
    }
}

impl Export for NbdServer {
    fn urls(&self) -> Vec<String> {
        let names = || self.shared.exports.iter().map(|listed| listed.name.as_str());
        self.places.iter().flat_map(|place| names().map(|name| place.with_export(name).to_string())).collect()
    }

    fn attach_hint(&self) -> Option<(&'static str, String)> {
        let (place, name) = (self.places.iter().find(|place| !place.tls)?, &self.shared.exports.first()?.name);
        let at = match &place.place {
            NbdPlace::Tcp(address) => format!("{} {}", address.host, address.port),
            NbdPlace::Unix(path) => format!("-unix {}", path.display()),
        };
        Some(("Linux", format!("nbd-client {at} /dev/nbd0 -N {name}")))
    }

    fn connections(&self) -> usize {
        self.shared.seats.taken()
    }

    fn drain(&self) {
        self.listeners.close();
        self.shared.drain();
    }

    fn draining(&self) -> usize {
        self.shared.transmitting()
    }

    fn close(&self) {
        self.shared.stop();
    }
}
