//! `--metrics`: the state of a server for Prometheus.
//!
//! * `exposition`: a report as metrics, by the conventions of Prometheus: base units, `_total` on
//!   counters.
//! * `families`: a part of that.
//! * `plain`: the same in the older format.
//! * `page`: what is at each path: the metrics, the server's health, and a page for people.
//! * `health`: what is wrong with a server now.
//! * `http`: the server that answers a scrape, on threads of its own.

mod exposition;
mod families;
mod health;
mod http;
mod page;
mod plain;

pub use http::MetricsServer;

use crate::config::exposure::is_loopback;
use crate::management::running::Running;
use crate::secret;
use page::PageRequest;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use weft_block::{Error, ErrorKind};
use zeroize::Zeroizing;

/// Where the metrics are, and who may read them.
#[derive(Clone, Debug, Default)]
pub struct MetricsConfig {
    /// `ADDR:PORT` to listen at; `None`: there are none. Port 0 picks a free port.
    pub listen: Option<String>,
    /// File with the token that a scrape has to show; needed for addresses other than the loopback.
    pub token_file: Option<PathBuf>,
}

impl MetricsConfig {
    /// Checks the options, before anything starts; the address. One that `takes_over` may be in
    /// use: the server that it replaces may still have the port.
    pub fn check(&self, takes_over: bool) -> Result<Option<SocketAddr>, Error> {
        let at = self.address()?;
        if let Some(at) = at
            && let Err(e) = TcpListener::bind(at)
            && !(takes_over && e.kind() == std::io::ErrorKind::AddrInUse)
        {
            return Err(http::cannot(at, e));
        }
        self.token().map(|_| at)
    }

    /// Starts the server, if one is wanted.
    pub fn start(&self, running: &Arc<Running>) -> Result<Option<MetricsServer>, Error> {
        let Some(at) = self.address()? else { return Ok(None) };
        // Clients may still be connected when the server has ended.
        let running = Arc::downgrade(running);
        let pages = move |wanted: PageRequest<'_>| {
            running.upgrade().and_then(|running| page::at(wanted, &running.report()))
        };
        Ok(Some(MetricsServer::start(at, self.token()?, Box::new(pages))?))
    }

    fn token(&self) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        self.token_file.as_deref().map(secret::from_file).transpose()
    }

    fn address(&self) -> Result<Option<SocketAddr>, Error> {
        let Some(given) = &self.listen else { return Ok(None) };
        let wrong = |why: &dyn std::fmt::Display| {
            Error::new(
                ErrorKind::Usage,
                format!("--metrics {given}: {why}; give ADDR:PORT, as in 127.0.0.1:9464"),
            )
        };
        let mut found = given.to_socket_addrs().map_err(|e| wrong(&e))?;
        let address = found.next().ok_or_else(|| wrong(&"the name has no address"))?;
        if !is_loopback(address.ip()) && self.token_file.is_none() {
            let text = format!(
                "--metrics {given}: without --metrics-token-file, everybody in the network could read them; listen on 127.0.0.1, or give a token"
            );
            return Err(Error::new(ErrorKind::Usage, text));
        }
        Ok(Some(address))
    }
}
