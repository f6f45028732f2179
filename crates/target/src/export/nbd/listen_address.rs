//! Where a server listens, and with which certificate.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_block::{Error, ErrorKind};
use weft_connection::tls::TlsFiles;
use weft_connection::url::nbd::{NbdPlace, NbdUrl};
use weft_io::tls::TlsServer;

/// A URL to listen at, made out.
pub(super) struct ListenAddress {
    pub url: NbdUrl,
    /// The address; of no meaning for a Unix socket.
    pub address: SocketAddr,
    /// Present if connections must use TLS.
    pub tls: Option<TlsServer>,
}

impl ListenAddress {
    pub(super) fn of(url: &str, files: &TlsFiles) -> Result<Self, Error> {
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
pub(super) fn parse(text: &str) -> Result<NbdUrl, Error> {
    let url = NbdUrl::parse(text)?;
    if !url.export.is_empty() {
        let text = format!(
            "--listen \"{url}\" contains an export name; set names with --name, because each address serves all sources"
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(url)
}
