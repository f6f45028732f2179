//! URLs of network sources and exports: `nvme+tcp://HOST[:PORT]/NQN[/NSID]`, and those of [`nbd`].

pub mod nbd;

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use weft_block::{Error, ErrorKind};
use weft_proto::nvme::types::{Nqn, Nsid};

/// Scheme of NVMe/TCP.
pub const NVME_TCP: &str = "nvme+tcp://";

/// Port of NVMe/TCP subsystems that IANA assigned.
pub const NVME_TCP_PORT: u16 = 4420;

/// Port of NVMe/TCP discovery that IANA assigned.
pub const NVME_TCP_DISCOVERY_PORT: u16 = 8009;

/// Scheme of iSCSI.
pub const ISCSI: &str = "iscsi://";

/// Port of iSCSI targets that IANA assigned.
pub const ISCSI_PORT: u16 = 3260;

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
        let wrong = |why: &str| Error::new(ErrorKind::Usage, format!("\"{text}\" is not HOST[:PORT]: {why}"));
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
            None if text.matches(':').count() > 1 => return Err(wrong("put an IPv6 address into brackets, as in [::1]:4420")),
            None => text.split_once(':').unwrap_or((text, "")),
        };
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        if host.chars().any(|c| c.is_control() || c.is_whitespace() || "[]/@".contains(c)) {
            return Err(wrong("a host is a name or an address"));
        }
        let port =
            if port.is_empty() { default_port } else { port.parse().map_err(|_| wrong("a port is a number from 0 to 65535"))? };
        Ok(Self { host: host.to_owned(), port })
    }

    /// All addresses of the host. Asks the system's resolver, which may take its time: not for event loops.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, Error> {
        let found: Vec<_> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|e| {
                Error::new(
                    ErrorKind::NotFound,
                    format!("cannot find the host \"{}\": {e}; check its name or give an address", self.host),
                )
            })?
            .collect();
        if found.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, format!("the host \"{}\" has no address", self.host)));
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

/// A parsed `nvme+tcp` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeTcpUrl {
    /// Where the subsystem's port is.
    pub address: HostPort,
    /// Which subsystem. None: the discovery subsystem, or whatever a target is to be called.
    pub subsystem: Option<Nqn>,
    /// Which namespace. None: the first active one.
    pub nsid: Option<Nsid>,
}

impl NvmeTcpUrl {
    /// Reads the URL; `default_port` holds where it names none.
    pub fn parse(url: &str, default_port: u16) -> Result<Self, Error> {
        let usage =
            |why: String| Error::new(ErrorKind::Usage, format!("\"{url}\" is not nvme+tcp://HOST[:PORT]/NQN[/NSID]: {why}"));
        let rest = url.strip_prefix(NVME_TCP).ok_or_else(|| usage("it starts otherwise".into()))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = HostPort::parse(authority, default_port).map_err(|e| usage(e.to_string()))?;
        let (name, nsid) = match path.rsplit_once('/') {
            Some((name, digits)) => {
                let nsid = digits.parse().ok().filter(|&n| n != 0 && n != Nsid::ALL.0);
                (name, Some(Nsid(nsid.ok_or_else(|| usage(format!("\"{digits}\" is not a namespace ID (1, 2, …)")))?)))
            }
            None => (path, None),
        };
        if name.is_empty() && nsid.is_some() {
            return Err(usage("a namespace ID stands behind an NQN".into()));
        }
        let subsystem = if name.is_empty() { None } else { Some(Nqn::new(name).map_err(|e| usage(e.to_string()))?) };
        Ok(Self { address, subsystem, nsid })
    }
}

impl fmt::Display for NvmeTcpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NVME_TCP}{}", self.address)?;
        if let Some(subsystem) = &self.subsystem {
            write!(f, "/{subsystem}")?;
        }
        if let Some(nsid) = self.nsid {
            write!(f, "/{nsid}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_survive_the_round_trip() {
        for text in [
            "nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/2",
            "nvme+tcp://[::1]:4421/nqn.2014-08.org.example:disk",
            "nvme+tcp://storage.example:8009",
        ] {
            assert_eq!(NvmeTcpUrl::parse(text, 4420).unwrap().to_string(), text);
        }
        let url = NvmeTcpUrl::parse("nvme+tcp://host/nqn.2014-08.org.example:disk", 4420).unwrap();
        assert_eq!((url.address.port, url.nsid), (4420, None));
    }

    #[test]
    fn wrong_urls_say_what_is_wrong() {
        for (text, why) in [
            ("nvme+tcp:///nqn.2014-08.org.example:x", "host is missing"),
            ("nvme+tcp://h:99999/nqn.2014-08.org.example:x", "port is a number"),
            ("nvme+tcp://h/nqn.2014-08.org.example:x/0", "not a namespace ID"),
            ("nvme+tcp://h/iqn.2014-08.org.example:x", "NQN starts with"),
            ("nvme+tcp://::1:4420/nqn.2014-08.org.example:x", "brackets"),
            ("nvme+tcp://[::1/x", "] is missing"),
            ("nvme+tcp://h/2/3", "NQN starts with"),
            ("nvme+tcp://h//2", "behind an NQN"),
            ("nvme+tcp://two words/nqn.2014-08.org.example:x", "a name or an address"),
        ] {
            let error = NvmeTcpUrl::parse(text, 4420).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
    }
}
