//! NVMe URLs: `nvme+tcp://HOST[:PORT]/NQN[/NSID]`, and the same with `nvme+rdma`. In the name, `/`,
//! `,`, `?`, `%`, white space and control characters are percent-encoded.

use super::HostPort;
use super::percent::{Encoded, decode};
use super::secret::{NO_USER, holds_user, without_secret};
use std::fmt;
use weft_block::{Error, ErrorKind, meant};
use weft_proto::nvme::log_page::TransportType;
use weft_proto::nvme::types::{Nqn, Nsid};

/// Scheme of NVMe/TCP.
pub const NVME_TCP: &str = "nvme+tcp://";

/// Scheme of NVMe over RDMA.
pub const NVME_RDMA: &str = "nvme+rdma://";

/// The schemes of NVMe.
pub const NVME_SCHEMES: [&str; 2] = [NVME_TCP, NVME_RDMA];

/// Port of NVMe/TCP subsystems that IANA assigned.
pub const NVME_TCP_PORT: u16 = 4420;

/// Port of NVMe/TCP discovery that IANA assigned.
pub const NVME_TCP_DISCOVERY_PORT: u16 = 8009;

/// Port of subsystems and of discovery by RDMA that IANA assigned.
pub const NVME_RDMA_PORT: u16 = weft_proto::nvme_rdma::PORT;

/// Transport of NVMe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NvmeTransport {
    /// TCP.
    #[default]
    Tcp,
    /// RDMA.
    Rdma,
}

impl NvmeTransport {
    /// The scheme of its URLs.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Tcp => NVME_TCP,
            Self::Rdma => NVME_RDMA,
        }
    }

    /// Its name, as nvme-cli has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }

    /// The port of subsystems.
    pub const fn port(self) -> u16 {
        match self {
            Self::Tcp => NVME_TCP_PORT,
            Self::Rdma => NVME_RDMA_PORT,
        }
    }

    /// The port of discovery.
    pub const fn discovery_port(self) -> u16 {
        match self {
            Self::Tcp => NVME_TCP_DISCOVERY_PORT,
            Self::Rdma => NVME_RDMA_PORT,
        }
    }

    /// That of an entry of a discovery log, if it is one of these.
    pub fn of(trtype: TransportType) -> Option<Self> {
        match trtype {
            TransportType::TCP => Some(Self::Tcp),
            TransportType::RDMA => Some(Self::Rdma),
            _ => None,
        }
    }
}

/// A parsed URL of NVMe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeUrl {
    /// The transport.
    pub transport: NvmeTransport,
    /// Address of the subsystem's port.
    pub address: HostPort,
    /// The subsystem. None: the discovery subsystem, or whatever name a server gives its target.
    pub subsystem: Option<Nqn>,
    /// The namespace. None: the first active one.
    pub nsid: Option<Nsid>,
}

impl NvmeUrl {
    /// Reads the URL of a subsystem, or of what is in it.
    pub fn parse(url: &str) -> Result<Self, Error> {
        Self::parse_with(url, NvmeTransport::port)
    }

    /// Reads the URL of a discovery subsystem.
    pub fn parse_discovery(url: &str) -> Result<Self, Error> {
        Self::parse_with(url, NvmeTransport::discovery_port)
    }

    fn parse_with(
        url: &str,
        default_port: impl FnOnce(NvmeTransport) -> u16,
    ) -> Result<Self, Error> {
        let is_rdma = url.starts_with(NVME_RDMA);
        let transport = if is_rdma { NvmeTransport::Rdma } else { NvmeTransport::Tcp };
        let scheme = transport.scheme();
        let shown = without_secret(url);
        let usage = |why: String| {
            Error::new(
                ErrorKind::Usage,
                format!("\"{shown}\" is not {scheme}HOST[:PORT]/NQN[/NSID]: {why}"),
            )
        };
        let rest = url.strip_prefix(scheme).ok_or_else(|| {
            let meant = meant(url).filter(|meant| meant != url);
            let meant = meant.map(|meant| format!("did you mean {meant}?"));
            usage(meant.unwrap_or_else(|| "wrong scheme".into()))
        })?;
        if holds_user(rest) {
            return Err(usage(NO_USER.into()));
        }
        let default_port = default_port(transport);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = HostPort::parse(authority, default_port).map_err(|e| {
            // What follows an address would lead astray where an address is all that is wanted.
            if rest.contains('/') { usage(e.to_string()) } else { e }
        })?;
        let (name, nsid) = match path.rsplit_once('/') {
            Some((name, digits)) => {
                let nsid = Nsid::parse(digits).ok_or_else(|| {
                    usage(format!(
                        "\"{digits}\" is not a namespace ID (1, 2, …); a / in a name is written %2F"
                    ))
                });
                (name, Some(nsid?))
            }
            None => (path, None),
        };
        if name.is_empty() && nsid.is_some() {
            return Err(usage("a namespace ID must follow an NQN".into()));
        }
        let named = |name: &str| Nqn::new(&decode(name)?).map_err(|e| e.to_string());
        let subsystem = if name.is_empty() { None } else { Some(named(name).map_err(usage)?) };
        Ok(Self { transport, address, subsystem, nsid })
    }
}

impl fmt::Display for NvmeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.transport.scheme(), self.address)?;
        if let Some(subsystem) = &self.subsystem {
            write!(f, "/{}", Encoded::segment(subsystem.as_str()))?;
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
            "nvme+tcp://[fe80::1%25eth0]:4420/nqn.2014-08.org.example:disk",
            "nvme+tcp://storage.example:8009",
            "nvme+tcp://127.0.0.1:4420/testnqn",
            "nvme+tcp://127.0.0.1:4420/blktests-subsystem-1/1",
            "nvme+tcp://127.0.0.1:4420/a%2Fb%2Cc%3Fd%25e%20f%0A/3",
            "nvme+tcp://127.0.0.1:4420/2/3",
            "nvme+rdma://192.0.2.1:4420/nqn.2014-08.org.example:disk/2",
        ] {
            assert_eq!(NvmeUrl::parse(text).unwrap().to_string(), text);
        }
        let url = NvmeUrl::parse("nvme+tcp://host/nqn.2014-08.org.example:disk").unwrap();
        assert_eq!((url.address.port(), url.nsid), (4420, None));
        let discovery = |url| NvmeUrl::parse_discovery(url).unwrap().address.port();
        assert_eq!(
            (
                discovery("nvme+tcp://host"),
                discovery("nvme+rdma://host"),
                discovery("nvme+rdma://host:7")
            ),
            (8009, 4420, 7)
        );
        let url = NvmeUrl::parse("nvme+tcp://host/a%2fb%2Cc%3Fd%25e%20f%0A/3").unwrap();
        assert_eq!(url.subsystem.unwrap().as_str(), "a/b,c?d%e f\n");
    }

    #[test]
    fn wrong_urls_say_what_is_wrong() {
        for (text, why) in [
            ("nvme+tcp:///nqn.2014-08.org.example:x", "host is missing"),
            ("nvme+tcp://h:99999/nqn.2014-08.org.example:x", "port must be a number"),
            ("nvme+tcp://h/nqn.2014-08.org.example:x/0", "not a namespace ID"),
            ("nvme+tcp://h/a/b", "%2F"),
            ("nvme+tcp://h/a%00b", "zero byte"),
            ("nvme+tcp://h/a%2", "two digits"),
            ("nvme+tcp://h/%FF", "not UTF-8"),
            ("nvme+tcp://::1:4420/nqn.2014-08.org.example:x", "brackets"),
            ("nvme+tcp://[::1/x", "] is missing"),
            ("nvme+tcp://h//2", "follow an NQN"),
            ("nvme+rdma:///nqn.2014-08.org.example:x", "is not nvme+rdma://HOST"),
            ("nvme+tcp://two words/nqn.2014-08.org.example:x", "a name or an address"),
        ] {
            let error = NvmeUrl::parse(text).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
    }
}
