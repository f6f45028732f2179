//! Announces discovery controllers in the local network, and searches for them (mDNS and DNS-SD;
//! NVMe TP 8009: `_nvme-disc._tcp`).

use crate::exit::Failure;
use crate::limits::{MDNS_FOUND_MAX, MDNS_GOODBYE_MS};
use mdns_sd::{ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use weft_block::ErrorKind;
use weft_endpoint::url::{HostPort, NVME_TCP, NvmeUrl};
use weft_proto::nvme::types::Nqn;
use weft_proto::printable::Printable;

/// The service: discovery controllers over IP.
const SERVICE: &str = "_nvme-disc._tcp.local.";

/// TXT key of the transport, and its value for NVMe/TCP.
const TRANSPORT: (&str, &str) = ("p", "tcp");

/// TXT key of the discovery subsystem's name.
const NAME: &str = "NQN";

fn failed(what: &str) -> impl Fn(mdns_sd::Error) -> Failure {
    move |e| Failure::new(1, format!("cannot {what} by mDNS: {e}"))
}

/// An announcement. Dropping it takes it back.
pub struct Announcement {
    daemon: ServiceDaemon,
    names: Vec<String>,
}

impl Announcement {
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
        let daemon = ServiceDaemon::new().map_err(failed("announce the server"))?;
        let mut announcement = Self { daemon, names: Vec::new() };
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
        let (host, failed) = (machine(), failed("announce the server"));
        let name = format!("weft {host} {}", address.port());
        let properties = [TRANSPORT, (NAME, Nqn::DISCOVERY)];
        let ip = address.ip().to_string();
        let info = ServiceInfo::new(
            SERVICE,
            &name,
            &format!("{host}-weft.local."),
            ip,
            address.port(),
            &properties[..],
        );
        let mut info = info.map_err(&failed)?;
        if is_everywhere {
            info = info.enable_addr_auto();
        }
        let full = info.get_fullname().to_owned();
        self.daemon.register(info).map_err(&failed)?;
        self.names.push(full);
        Ok(())
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        let limit = Instant::now() + Duration::from_millis(MDNS_GOODBYE_MS);
        for name in &self.names {
            let Ok(done) = self.daemon.unregister(name) else { continue };
            let _ = done.recv_timeout(limit.saturating_duration_since(Instant::now()));
        }
        if let Ok(done) = self.daemon.shutdown() {
            let _ = done.recv_timeout(limit.saturating_duration_since(Instant::now()));
        }
    }
}

/// The address of a URL of this server.
fn at(url: &str) -> Option<SocketAddr> {
    let HostPort { host, port } = NvmeUrl::parse(url).ok()?.address;
    Some(SocketAddr::new(host.parse().ok()?, port))
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
pub struct Found {
    /// Its name, which can be printed.
    pub name: String,
    /// Its address.
    pub address: HostPort,
    /// The name of its discovery subsystem.
    pub nqn: String,
}

/// Searches for discovery controllers over TCP for so long. At most [`MDNS_FOUND_MAX`] are found,
/// in the order of their names.
///
/// # Errors
/// The system has no multicast.
pub fn search(time: Duration) -> Result<Vec<Found>, Failure> {
    let failed = failed("search for discovery controllers");
    let daemon = ServiceDaemon::new().map_err(&failed)?;
    let events = daemon.browse(SERVICE).map_err(&failed)?;
    let (end, mut all) = (Instant::now() + time, BTreeMap::new());
    while let Ok(event) = events.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if let ServiceEvent::ServiceResolved(service) = event
            && let Some(found) = found(&service)
            && all.len() < MDNS_FOUND_MAX
        {
            all.insert((found.name.clone(), found.address.to_string()), found);
        }
    }
    let _ = daemon.shutdown();
    Ok(all.into_values().collect())
}

/// What a service says, if it is over TCP.
fn found(service: &ResolvedService) -> Option<Found> {
    let text = |key| service.get_property_val_str(key);
    if !text(TRANSPORT.0).is_some_and(|transport| transport.eq_ignore_ascii_case(TRANSPORT.1)) {
        return None;
    }
    let mut addresses: Vec<IpAddr> =
        service.get_addresses().iter().map(mdns_sd::ScopedIp::to_ip_addr).collect();
    // IPv4 first: a link-local IPv6 address is of no use without its interface.
    addresses.sort_unstable();
    let host = addresses.first()?.to_string();
    let name = service
        .get_fullname()
        .strip_suffix(SERVICE)
        .unwrap_or(service.get_fullname())
        .trim_end_matches('.');
    Some(Found {
        name: Printable(&name.replace('\\', "")).to_string(),
        address: HostPort { host, port: service.get_port() },
        nqn: Printable(text(NAME).unwrap_or(Nqn::DISCOVERY)).to_string(),
    })
}
