//! Services in the local network, by mDNS (RFC 6762) and DNS-SD (RFC 6763).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

#[cfg(feature = "mdns")]
mod daemon;
#[cfg(any(not(feature = "mdns"), test))]
mod left_out;

#[cfg(feature = "mdns")]
pub use daemon::{Announcer, search};
#[cfg(not(feature = "mdns"))]
pub use left_out::{Announcer, search};

/// A service to announce.
#[derive(Clone, Debug)]
pub struct MdnsService<'a> {
    /// Its kind, as in `_nvme-disc._tcp.local.`.
    pub kind: &'a str,
    /// Its name, which no other service of its kind has.
    pub name: &'a str,
    /// The name of this machine, as in `host.local.`.
    pub host: &'a str,
    /// Address and port of the service.
    pub address: SocketAddr,
    /// It is reached at all addresses of this machine.
    pub is_everywhere: bool,
    /// Keys and values.
    pub properties: &'a [(&'a str, &'a str)],
}

/// A service that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundService {
    /// Its name, with its kind.
    pub name: String,
    /// Its addresses, in their order; those of IPv4 come first.
    pub addresses: Vec<IpAddr>,
    /// Its port.
    pub port: u16,
    /// Values by their keys, which are in lower case.
    pub properties: BTreeMap<String, String>,
}
