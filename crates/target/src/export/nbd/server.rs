//! Starting and stopping a server.

use super::connection::Connection;
use super::server_state::{NbdLimits, ServerState};
use crate::export::hosts::ConnectedHost;
use crate::export::listen::{Homes, Listeners, Open};
use crate::export::reachable_address::reachable_address;
use crate::export::running::{Export, ExportConfig, ListeningExport, stop_all};
use crate::export::shell_word::shell_word;
use crate::inventory::LiveInventory;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use weft_block::{Error, ErrorKind};
use weft_connection::capture::Capture;
use weft_connection::loops::ask;
use weft_connection::tls::TlsFiles;
use weft_connection::url::nbd::{NbdPlace, NbdUrl};
use weft_io::tls::TlsServer;
use weft_io::{Handle, RemoteLoop};

/// A running server.
pub struct NbdServer {
    shared: Arc<ServerState>,
    /// With the listen URLs, without the name of an export.
    listeners: Listeners<NbdUrl>,
    tls: TlsFiles,
}

/// Where a URL has it listen, if that is an address.
pub(in crate::export) fn place(url: &str, files: &TlsFiles) -> Result<Option<SocketAddr>, Error> {
    let place = ListenAddress::of(url, files)?;
    Ok(matches!(place.url.place, NbdPlace::Tcp(_)).then_some(place.address))
}

/// Checks the text of a listen URL.
pub(in crate::export) fn check(url: &str) -> Result<(), Error> {
    parse(url).map(drop)
}

/// Starts a server that listens nowhere yet.
pub(in crate::export) fn start(
    config: &ExportConfig,
    loops: &[RemoteLoop],
) -> Result<Box<dyn ListeningExport>, Error> {
    let inventory = Arc::clone(&config.inventory);
    let limits = NbdLimits { connections: inventory.connections_max(), ..NbdLimits::default() };
    let server = NbdServer::start_at(inventory, Vec::new(), limits, loops)?;
    Ok(Box::new(NbdServer { tls: config.tls.clone(), ..server }))
}

impl NbdServer {
    /// Like [`NbdServer::start_on`], from any thread.
    pub fn start(
        inventory: Arc<LiveInventory>,
        urls: &[&str],
        limits: NbdLimits,
        loops: &[RemoteLoop],
    ) -> Result<Self, Error> {
        let places = urls
            .iter()
            .map(|url| ListenAddress::of(url, &Default::default()))
            .collect::<Result<_, _>>()?;
        Self::start_at(inventory, places, limits, loops)
    }

    /// Serves the namespaces that have a name at `nbd://` and `nbd+unix://` URLs without an export
    /// name. Called on the first of `loops`, over which connections are distributed.
    pub fn start_on(
        on: &Handle,
        inventory: Arc<LiveInventory>,
        urls: &[&str],
        limits: NbdLimits,
        loops: &[RemoteLoop],
    ) -> Result<Self, Error> {
        let places = urls
            .iter()
            .map(|url| ListenAddress::of(url, &Default::default()))
            .collect::<Result<_, _>>()?;
        Self::listen(on, inventory, places, limits, Homes::new(loops)?)
    }

    fn start_at(
        inventory: Arc<LiveInventory>,
        places: Vec<ListenAddress>,
        limits: NbdLimits,
        loops: &[RemoteLoop],
    ) -> Result<Self, Error> {
        let homes = Homes::new(loops)?;
        let first = homes.first().clone();
        ask(&first, move |on| Self::listen(on, inventory, places, limits, homes))?
    }

    fn listen(
        on: &Handle,
        inventory: Arc<LiveInventory>,
        places: Vec<ListenAddress>,
        limits: NbdLimits,
        homes: Homes,
    ) -> Result<Self, Error> {
        let shared = ServerState::new(inventory, limits, on.pool().cap_bytes(), homes);
        let server = Self { shared, listeners: Listeners::default(), tls: TlsFiles::default() };
        for place in places {
            let url = place.url.to_string();
            let (at, open) = listen(on, place, &server.shared)?;
            server.listeners.add(&url, at, open);
        }
        Ok(server)
    }

    /// Stops the server: accepts no more connections or commands, lets commands in flight end (for
    /// a bounded time), closes, and flushes.
    pub fn stop(self) -> Result<(), Error> {
        stop_all(&[&self], &self.shared.inventory.now().devices())
    }
}

/// Listens at a place on the loop of `on`, and tells where clients reach it.
fn listen(
    on: &Handle,
    place: ListenAddress,
    shared: &Arc<ServerState>,
) -> Result<(NbdUrl, Open), Error> {
    let (shared, tls) = (Arc::clone(shared), place.tls);
    let accepted = move |on: &Handle, stream| Connection::accept(on, stream, &shared, tls.clone());
    let (at, open) = match &place.url.place {
        NbdPlace::Tcp(_) => {
            let (bound, open) = Open::tcp(on, place.address, accepted)?;
            (NbdPlace::Tcp(reachable_address(bound).into()), open)
        }
        NbdPlace::Unix(path) => (place.url.place.clone(), Open::unix(on, path, accepted)?),
    };
    Ok((NbdUrl { place: at, certificates: None, ..place.url }, open))
}

impl Export for NbdServer {
    fn hosts(&self) -> Vec<ConnectedHost> {
        self.shared.hosts()
    }

    fn connections(&self) -> usize {
        self.shared.members.open()
    }

    fn capture(&self, capture: &Capture) {
        self.shared.members.capture(capture);
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

impl ListeningExport for NbdServer {
    fn listen(&self, url: &str) -> Result<(), Error> {
        let (place, shared) = (ListenAddress::of(url, &self.tls)?, Arc::clone(&self.shared));
        let (at, open) = ask(self.shared.homes.first(), move |on| listen(on, place, &shared))??;
        self.listeners.add(url, at, open);
        Ok(())
    }

    fn unlisten(&self, url: &str) -> bool {
        self.listeners.remove(url)
    }

    fn urls(&self) -> Vec<String> {
        let exports = self.shared.exports();
        let of = |place| {
            exports.iter().map(move |listed| NbdUrl::with_export(place, &listed.name).to_string())
        };
        self.listeners.places().iter().flat_map(of).collect()
    }

    fn attach_hint(&self) -> Option<(&'static str, String)> {
        let (listed, _, namespace) = self.shared.find("")?;
        let (places, name) = (self.listeners.places(), listed.name);
        // Linux leaves out the end of an export that is not a whole number of sectors.
        let geometry = namespace.device.geometry().of_first(namespace.blocks);
        let place = places.iter().find(|place| !place.tls && geometry.padding_bytes == 0)?;
        let at = match &place.place {
            NbdPlace::Tcp(address) => format!("{} {}", address.host(), address.port()),
            NbdPlace::Unix(path) => format!("-unix {}", shell_word(&path.display().to_string())),
        };
        // nbd-client does not pass on the size that the server asks for. It takes this option in
        // front of the others only.
        let size = match geometry.block_bytes {
            512 => String::new(),
            bytes => format!("-b {bytes} "),
        };
        Some(("Linux", format!("nbd-client {size}{at} /dev/nbd0 -N {}", shell_word(&name))))
    }
}

// Where a server listens, and with which certificate.

/// A URL to listen at, made out.
struct ListenAddress {
    pub url: NbdUrl,
    /// The address; of no meaning for a Unix socket.
    pub address: SocketAddr,
    /// Present if connections must use TLS.
    pub tls: Option<TlsServer>,
}

impl ListenAddress {
    fn of(url: &str, files: &TlsFiles) -> Result<Self, Error> {
        let url = parse(url)?;
        let tls = if url.tls { Some(files.server(url.certificates.as_deref())?) } else { None };
        let address = match &url.place {
            NbdPlace::Tcp(address) => address.resolve_first()?,
            NbdPlace::Unix(_) => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).into(),
        };
        Ok(Self { url, address, tls })
    }
}

/// A listen URL, which has no export.
fn parse(text: &str) -> Result<NbdUrl, Error> {
    let url = NbdUrl::parse(text)?;
    if !url.export.is_empty() {
        let text = format!(
            "--listen \"{url}\" contains an export name; set names with --name, because each address serves all sources"
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(url)
}
