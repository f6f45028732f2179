//! Where a peer is: a host name or address, and a port.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use weft_block::{Error, ErrorKind};

/// A host name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Name, IPv4 address or IPv6 address (without brackets).
    pub host: String,
    /// Port.
    pub port: u16,
}

impl HostPort {
    /// Reads `HOST[:PORT]`, `[V6]:PORT`.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, Error> {
        // In front of an @ there may be a password.
        let shown =
            text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, host)| format!("…@{host}"));
        let wrong = |why: &str| {
            Error::new(ErrorKind::Usage, format!("\"{shown}\" is not HOST[:PORT]: {why}"))
        };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(|| wrong("a ] is missing"))?;
                (
                    host,
                    after
                        .strip_prefix(':')
                        .or(if after.is_empty() { Some("") } else { None })
                        .ok_or_else(|| wrong("after ] comes :PORT"))?,
                )
            }
            None if text.matches(':').count() > 1 => {
                return Err(wrong("put an IPv6 address into brackets, as in [::1]:4420"));
            }
            None => text.split_once(':').unwrap_or((text, "")),
        };
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        if host.chars().any(|c| c.is_control() || c.is_whitespace() || "[]/@,".contains(c)) {
            return Err(wrong("the host must be a name or an address"));
        }
        let port = if port.is_empty() {
            default_port
        } else {
            port.parse().map_err(|_| wrong("the port must be a number from 0 to 65535"))?
        };
        Ok(Self { host: host.to_owned(), port })
    }

    /// All addresses of the host. Asks the system's resolver, which may take its time: not for
    /// event loops.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, Error> {
        let found: Vec<_> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|e| {
                Error::new(
                    ErrorKind::NotFound,
                    format!(
                        "cannot find the host \"{}\": {e}; check its name or use an address",
                        self.host
                    ),
                )
            })?
            .collect();
        if found.is_empty() {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("the host \"{}\" has no address", self.host),
            ));
        }
        Ok(found)
    }

    /// The first address of the host, to listen at. May take its time like [`HostPort::resolve`].
    pub fn resolve_first(&self) -> Result<SocketAddr, Error> {
        self.resolve().map(|found| found[0])
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
