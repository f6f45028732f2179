//! Location of a peer: a host name or address, and a port.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use weft_block::{Error, ErrorKind};
use weft_proto::printable::Printable;

/// A host name or address, and a port. Whatever it was made of, its text form can be parsed again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    /// A host and a port that stand apart, as in a discovery log and in nvme-cli's options. An IPv6
    /// address has no brackets then.
    ///
    /// # Errors
    /// `host` is neither a name nor an address.
    pub fn new(host: &str, port: u16) -> Result<Self, Error> {
        let wrong = |why| {
            let text = format!("\"{}\" is not a host: {why}", Printable(&shown(host)));
            Error::new(ErrorKind::Usage, text)
        };
        check(host).map_err(wrong)?;
        Ok(Self { host: host.to_owned(), port })
    }

    /// Name, IPv4 address or IPv6 address (without brackets).
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads `HOST[:PORT]`, `[V6]:PORT`. In front of the scope of an IPv6 address is a `%`, also as
    /// `%25`, which URLs have (RFC 6874).
    pub fn parse(text: &str, default_port: u16) -> Result<Self, Error> {
        let shown = shown(text);
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
        let host = match host.split_once("%25") {
            Some((ip, scope)) if !scope.is_empty() => format!("{ip}%{scope}"),
            _ => host.to_owned(),
        };
        check(&host).map_err(wrong)?;
        let port = if port.is_empty() {
            default_port
        } else {
            port.parse().map_err(|_| wrong("the port must be a number from 0 to 65535"))?
        };
        Ok(Self { host, port })
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

/// A text for a message, without what may be a password: what is in front of an @.
fn shown(text: &str) -> String {
    text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, host)| format!("…@{host}"))
}

/// Whether a host is a name or an address, an IPv6 address without brackets; why not.
fn check(host: &str) -> Result<(), &'static str> {
    if host.is_empty() {
        return Err("the host is missing");
    }
    let is_named = |c: char| c.is_alphanumeric() || "-._".contains(c);
    if !host.contains(':') {
        let is_name = host.chars().all(is_named);
        return is_name.then_some(()).ok_or("the host must be a name or an address");
    }
    let (ip, scope) = host.split_once('%').map_or((host, None), |(ip, scope)| (ip, Some(scope)));
    let is_scope = |scope: &str| !scope.is_empty() && scope.chars().all(is_named);
    let is_address = ip.parse::<Ipv6Addr>().is_ok() && scope.is_none_or(is_scope);
    is_address.then_some(()).ok_or("it is not an IPv6 address")
}

impl From<SocketAddr> for HostPort {
    fn from(at: SocketAddr) -> Self {
        let scope = match at {
            SocketAddr::V6(at) if at.scope_id() != 0 => format!("%{}", at.scope_id()),
            _ => String::new(),
        };
        Self { host: format!("{}{scope}", at.ip()), port: at.port() }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host.replacen('%', "%25", 1), self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts, and why they are none.
    const NO_HOSTS: [(&str, &str); 12] = [
        ("", "missing"),
        ("see console", "a name or an address"),
        ("192.0.2.1,192.0.2.2", "a name or an address"),
        ("192.0.2.1;192.0.2.2", "a name or an address"),
        ("???", "a name or an address"),
        ("a\u{1b}b", "a name or an address"),
        ("n/a", "a name or an address"),
        ("hidden@192.0.2.1", "…@192.0.2.1"),
        ("[::1]", "not an IPv6 address"),
        ("192.0.2.1:4420", "not an IPv6 address"),
        ("fd00::1::2", "not an IPv6 address"),
        ("fe80::1%", "not an IPv6 address"),
    ];

    #[test]
    fn what_is_no_host_is_refused_wherever_it_comes_from() {
        for (host, why) in NO_HOSTS {
            let said = HostPort::new(host, 4420).unwrap_err();
            assert!(said.to_string().contains(why), "{host}: {said}");
            assert_eq!(said.kind(), ErrorKind::Usage);
            assert!(!said.to_string().contains('\u{1b}'), "{said}");
            assert!(HostPort::parse(&format!("[{host}]:4420"), 1).is_err(), "{host}");
        }
    }

    #[test]
    fn every_host_survives_the_round_trip() {
        for host in [
            "192.0.2.1",
            "::1",
            "fd00::7",
            "fe80::1%eth0",
            "fe80::1%12",
            "fe80::1%25",
            "fe80::1%253",
            "storage_1.example",
        ] {
            let made = HostPort::new(host, 4420).unwrap();
            assert_eq!((made.host(), made.port()), (host, 4420));
            assert_eq!(HostPort::parse(&made.to_string(), 1).unwrap(), made);
        }
        for (written, host) in [
            ("[fe80::1%25eth0]:4420", "fe80::1%eth0"),
            ("[fe80::1%eth0]:4420", "fe80::1%eth0"),
            ("[fe80::1%2512]", "fe80::1%12"),
            ("[fe80::1%12]", "fe80::1%12"),
            ("[fe80::1%25]", "fe80::1%25"),
        ] {
            assert_eq!(HostPort::parse(written, 4420).unwrap().host(), host, "{written}");
        }
        assert_eq!(HostPort::new("fe80::1%eth0", 1).unwrap().to_string(), "[fe80::1%25eth0]:1");
        for at in ["192.0.2.1:7", "[fd00::7]:7", "[fe80::1%3]:7"] {
            let made = HostPort::from(at.parse::<SocketAddr>().unwrap());
            assert_eq!(HostPort::parse(&made.to_string(), 1).unwrap(), made);
        }
    }
}
