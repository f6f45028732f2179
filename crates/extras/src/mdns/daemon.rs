//! By the daemon of `mdns-sd`, a thread of this process.

use super::{FoundService, MdnsService};
use crate::Error;
use mdns_sd::{ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};
use std::net::IpAddr;
use std::time::{Duration, Instant};

fn failed(error: mdns_sd::Error) -> Error {
    Error::Failed(error.to_string())
}

/// Announces services. Dropping it takes them back.
pub struct Announcer {
    daemon: ServiceDaemon,
    names: Vec<String>,
    goodbye: Duration,
}

impl Announcer {
    /// Starts without a service. Taking services back takes at most `goodbye`.
    ///
    /// # Errors
    /// The system has no multicast.
    pub fn start(goodbye: Duration) -> Result<Announcer, Error> {
        let daemon = ServiceDaemon::new().map_err(failed)?;
        Ok(Announcer { daemon, names: Vec::new(), goodbye })
    }

    /// Announces a service.
    ///
    /// # Errors
    /// Its name cannot be one, or the daemon has ended.
    pub fn announce(&mut self, service: &MdnsService<'_>) -> Result<(), Error> {
        let &MdnsService { kind, name, host, address, is_everywhere, properties } = service;
        let ip = address.ip().to_string();
        let mut info =
            ServiceInfo::new(kind, name, host, ip, address.port(), properties).map_err(failed)?;
        if is_everywhere {
            info = info.enable_addr_auto();
        }
        let full = info.get_fullname().to_owned();
        self.daemon.register(info).map_err(failed)?;
        self.names.push(full);
        Ok(())
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        let limit = Instant::now() + self.goodbye;
        for name in &self.names {
            let Ok(done) = self.daemon.unregister(name) else { continue };
            let _ = done.recv_timeout(limit.saturating_duration_since(Instant::now()));
        }
        if let Ok(done) = self.daemon.shutdown() {
            let _ = done.recv_timeout(limit.saturating_duration_since(Instant::now()));
        }
    }
}

/// Searches for services of a kind for this time, and gives each to `found`, perhaps several times.
///
/// # Errors
/// The system has no multicast.
pub fn search(
    kind: &str,
    time: Duration,
    found: &mut dyn FnMut(FoundService),
) -> Result<(), Error> {
    let daemon = ServiceDaemon::new().map_err(failed)?;
    let events = daemon.browse(kind).map_err(failed)?;
    let end = Instant::now() + time;
    while let Ok(event) = events.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if let ServiceEvent::ServiceResolved(service) = event {
            found(of(&service));
        }
    }
    let _ = daemon.shutdown();
    Ok(())
}

fn of(service: &ResolvedService) -> FoundService {
    let mut addresses: Vec<IpAddr> =
        service.get_addresses().iter().map(mdns_sd::ScopedIp::to_ip_addr).collect();
    addresses.sort_unstable();
    let property = |it: &mdns_sd::TxtProperty| (it.key().to_lowercase(), it.val_str().to_owned());
    FoundService {
        name: service.get_fullname().to_owned(),
        addresses,
        port: service.get_port(),
        properties: service.get_properties().iter().map(property).collect(),
    }
}
