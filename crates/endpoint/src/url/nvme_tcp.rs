//! NVMe/TCP URLs: `nvme+tcp://HOST[:PORT]/NQN[/NSID]`. In the name, `/`, `,`, `?`, `%`, white space and control characters are percent-encoded.

use super::HostPort;
use super::percent::{Encoded, decode};
use std::fmt;
use weft_block::{Error, ErrorKind};
use weft_proto::nvme::types::{Nqn, Nsid};

/// Scheme of NVMe/TCP.
pub const NVME_TCP: &str = "nvme+tcp://";

/// Port of NVMe/TCP subsystems that IANA assigned.
pub const NVME_TCP_PORT: u16 = 4420;

/// Port of NVMe/TCP discovery that IANA assigned.
pub const NVME_TCP_DISCOVERY_PORT: u16 = 8009;

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
        let rest = url.strip_prefix(NVME_TCP).ok_or_else(|| usage("wrong scheme".into()))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = HostPort::parse(authority, default_port).map_err(|e| usage(e.to_string()))?;
        let (name, nsid) = match path.rsplit_once('/') {
            Some((name, digits)) => {
                let nsid = digits.parse().ok().filter(|&n| n != 0 && n != Nsid::ALL.0);
                (
                    name,
                    Some(Nsid(nsid.ok_or_else(|| {
                        usage(format!("\"{digits}\" is not a namespace ID (1, 2, …); a / in a name is written %2F"))
                    })?)),
                )
            }
            None => (path, None),
        };
        if name.is_empty() && nsid.is_some() {
            return Err(usage("a namespace ID must follow an NQN".into()));
        }
        let named = |name: &str| Nqn::new(&decode(name)?).map_err(|e| e.to_string());
        let subsystem = if name.is_empty() { None } else { Some(named(name).map_err(usage)?) };
        Ok(Self { address, subsystem, nsid })
    }
}

impl fmt::Display for NvmeTcpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NVME_TCP}{}", self.address)?;
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
            "nvme+tcp://storage.example:8009",
            "nvme+tcp://127.0.0.1:4420/testnqn",
            "nvme+tcp://127.0.0.1:4420/blktests-subsystem-1/1",
            "nvme+tcp://127.0.0.1:4420/a%2Fb%2Cc%3Fd%25e%20f%0A/3",
            "nvme+tcp://127.0.0.1:4420/2/3",
        ] {
            assert_eq!(NvmeTcpUrl::parse(text, 4420).unwrap().to_string(), text);
        }
        let url = NvmeTcpUrl::parse("nvme+tcp://host/nqn.2014-08.org.example:disk", 4420).unwrap();
        assert_eq!((url.address.port, url.nsid), (4420, None));
        let url = NvmeTcpUrl::parse("nvme+tcp://host/a%2fb%2Cc%3Fd%25e%20f%0A/3", 4420).unwrap();
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
            ("nvme+tcp://two words/nqn.2014-08.org.example:x", "a name or an address"),
        ] {
            let error = NvmeTcpUrl::parse(text, 4420).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
    }
}
