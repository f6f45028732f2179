//! Announces discovery controllers in the local network, and searches for them (mDNS and DNS-SD;
//! NVMe TP 8009: `_nvme-disc._tcp`).

use crate::limits::{MDNS_FOUND_MAX, MDNS_GOODBYE_MS};
use crate::process::exit::Failure;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use weft_block::ErrorKind;
use weft_endpoint::url::{HostPort, NVME_TCP, NvmeUrl};
use weft_extras::mdns::{self, Announcer, MdnsService};
use weft_proto::nvme::types::Nqn;
use weft_proto::printable::Printable;

/// The service: discovery controllers over IP.
const SERVICE: &str = "_nvme-disc._tcp.local.";

/// TXT key of the transport, and its value for NVMe/TCP.
const TRANSPORT: (&str, &str) = ("p", "tcp");

/// TXT key of the discovery subsystem's name.
const NAME: &str = "NQN";

/// First words of the errors of mDNS.
const ANNOUNCING: &str = "cannot announce the server by mDNS";
const SEARCHING: &str = "cannot search for discovery controllers by mDNS";

fn failed(what: &str) -> impl Fn(weft_extras::Error) -> Failure {
    move |e| Failure::from(e).about(what)
}

/// An announcement. Dropping it takes it back.
pub struct MdnsAnnouncement(Announcer);

impl MdnsAnnouncement {
    /// Announces the discovery controllers at the NVMe/TCP addresses among `urls`. `listen`: where
    /// the server was told to listen.
    ///
    /// # Errors
    /// There are none, or the system has no multicast.
    pub fn start(urls: &[String], listen: &[String]) -> Result<Self, Failure> {
        let addresses =
            urls.iter().filter(|url| url.starts_with(NVME_TCP)).filter_map(|url| at(url));
        let mut addresses: Vec<SocketAddr> = addresses.collect();
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            let text = "--mdns announces NVMe/TCP only; add --listen nvme+tcp://ADDR:PORT";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        let goodbye = Duration::from_millis(MDNS_GOODBYE_MS);
        let announcer = Announcer::start(goodbye).map_err(failed(ANNOUNCING))?;
        let mut announcement = Self(announcer);
        for address in addresses {
            let everywhere =
                [format!("0.0.0.0:{}", address.port()), format!("[::]:{}", address.port())];
            let is_everywhere =
                listen.iter().any(|url| everywhere.iter().any(|any| url.ends_with(any.as_str())));
            announcement.add(address, is_everywhere)?;
        }
        Ok(announcement)
    }

    fn add(&mut self, address: SocketAddr, is_everywhere: bool) -> Result<(), Failure> {
        let host = machine();
        let service = MdnsService {
            kind: SERVICE,
            name: &format!("weft {host} {}", address.port()),
            host: &format!("{host}-weft.local."),
            address,
            is_everywhere,
            properties: &[TRANSPORT, (NAME, Nqn::DISCOVERY)],
        };
        self.0.announce(&service).map_err(failed(ANNOUNCING))
    }
}

/// The address of a URL of this server.
fn at(url: &str) -> Option<SocketAddr> {
    let address = NvmeUrl::parse(url).ok()?.address;
    Some(SocketAddr::new(address.host().parse().ok()?, address.port()))
}

/// The name of this machine, as a label of a DNS name.
fn machine() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    let label: String = name
        .split('.')
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    if label.is_empty() { "host".to_owned() } else { label }
}

/// A discovery controller that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundController {
    /// Its name, which can be printed.
    pub name: String,
    /// Its address.
    pub address: HostPort,
    /// The name of its discovery subsystem.
    pub nqn: String,
}

/// Searches for discovery controllers over TCP for this time. At most [`MDNS_FOUND_MAX`] are found,
/// in the order of their names.
///
/// # Errors
/// The system has no multicast.
pub fn search(time: Duration) -> Result<Vec<FoundController>, Failure> {
    let mut all = BTreeMap::new();
    let mut add = |service: mdns::FoundService| {
        if let Some(found) = found(&service)
            && all.len() < MDNS_FOUND_MAX
        {
            all.insert((found.name.clone(), found.address.to_string()), found);
        }
    };
    mdns::search(SERVICE, time, &mut add).map_err(failed(SEARCHING))?;
    Ok(all.into_values().collect())
}

/// What a service says, if it is over TCP.
fn found(service: &mdns::FoundService) -> Option<FoundController> {
    let text = |key: &str| service.properties.get(&key.to_lowercase()).map(String::as_str);
    if !text(TRANSPORT.0).is_some_and(|transport| transport.eq_ignore_ascii_case(TRANSPORT.1)) {
        return None;
    }
    // IPv4 comes first: a link-local IPv6 address is of no use without its interface.
    let ip = *service.addresses.first()?;
    let name = service.name.strip_suffix(SERVICE).unwrap_or(&service.name).trim_end_matches('.');
    Some(FoundController {
        name: Printable(&name.replace('\\', "")).to_string(),
        address: SocketAddr::new(ip, service.port).into(),
        nqn: Printable(text(NAME).unwrap_or(Nqn::DISCOVERY)).to_string(),
    })
}
