//! NVMe/TCP URLs: `nvme+tcp://HOST[:PORT]/NQN[/NSID]`.

use super::HostPort;
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
