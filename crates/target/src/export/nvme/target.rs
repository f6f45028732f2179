//! Starting and stopping a target.

use super::ports::OtherPort;
use super::ports::PortAddress;
use super::target_state::{TargetLimits, TargetState};
use super::tcp::ConnectionSecurity;
use super::{rdma, tcp};
use crate::export::hosts::ConnectedHost;
use crate::export::listen::{Listeners, Open};
use crate::export::reachable_address::reachable_address;
use crate::export::running::{Export, ExportConfig, ListeningExport, stop_all};
use crate::export::shell_word::shell_word;
use crate::inventory::{Access, Authentication, Change, Follower, Inventory, LiveInventory};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use weft_block::{Error, ErrorKind};
use weft_connection::capture::Capture;
use weft_connection::identity::Identities;
use weft_connection::loops::ask;
use weft_connection::tls::TlsFiles;
use weft_connection::url::{HostPort, NvmeTransport, NvmeUrl};
use weft_io::{Handle, RemoteLoop};
use weft_proto::nvme::types::Nqn;

/// Configuration of a target.
pub struct TargetConfig {
    /// Subsystems, namespaces, and access. `listen` says where to listen.
    pub inventory: Arc<LiveInventory>,
    /// Addresses to listen on; port 0 picks a free port.
    pub listen: Vec<SocketAddr>,
    /// Source of random numbers.
    pub identities: Identities,
    /// Keys of TLS for its TCP ports, or none.
    pub tls: TlsFiles,
}

/// A running target.
pub struct Target {
    shared: Arc<TargetState>,
    listeners: Listeners<At>,
    /// What its TCP ports speak.
    security: ConnectionSecurity,
    /// Tells it of other gateways.
    _others: Arc<OtherGateways>,
}

/// Where it listens.
type At = (NvmeTransport, SocketAddr);

impl Target {
    /// Starts to listen; connections are distributed over `loops`.
    pub fn start(config: TargetConfig, loops: &[RemoteLoop]) -> Result<Self, Error> {
        Self::start_limited(config, TargetLimits::default(), loops)
    }

    /// Like [`Target::start`], with other limits.
    pub fn start_limited(
        config: TargetConfig,
        limits: TargetLimits,
        loops: &[RemoteLoop],
    ) -> Result<Self, Error> {
        let first = loops
            .first()
            .ok_or_else(|| Error::new(ErrorKind::Usage, "a target needs at least one loop"))?;
        let loops = loops.to_vec();
        ask(first, move |on| Self::start_on(on, config, limits, loops))?
    }

    /// Like [`Target::start_limited`], for a caller on the loop that is to listen.
    pub fn start_on(
        on: &Handle,
        config: TargetConfig,
        limits: TargetLimits,
        loops: Vec<RemoteLoop>,
    ) -> Result<Self, Error> {
        let random = u64::from_le_bytes(config.identities.random());
        let shared =
            TargetState::new(config.inventory, limits, on.pool().cap_bytes(), loops, random);
        let security = ConnectionSecurity::new(&config.tls, &shared.generated)?;
        let _others = OtherGateways::of(&shared, security.clone());
        let target = Self { shared, listeners: Listeners::default(), security, _others };
        for at in config.listen {
            let (address, open) = tcp::listen(on, at, &target.shared, target.security.clone())?;
            target.listeners.add(&at.to_string(), (NvmeTransport::Tcp, address), open);
        }
        Ok(target)
    }

    /// Like [`ListeningExport::listen`], for a caller on the loop that is to listen.
    ///
    /// # Errors
    /// The URL is not one to listen at, or listening fails.
    pub fn listen_on(&self, on: &Handle, url: &str) -> Result<(), Error> {
        let at = address(url)?;
        let opened = open(on, at, &self.shared, self.security.clone())?;
        self.keep(url, at, opened);
        Ok(())
    }

    fn keep(&self, url: &str, (transport, _): At, (address, open): (SocketAddr, Open)) {
        self.listeners.add(url, (transport, address), open);
    }

    /// The listen addresses, in the order in which they were added.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.places().into_iter().map(|(_, address)| address).collect()
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.shared.members.open()
    }

    /// Stops the target: accepts no more connections or commands, lets commands in flight end (for
    /// a bounded time), closes, and flushes.
    pub fn stop(self) -> Result<(), Error> {
        stop_all(&[&self], &self.shared.inventory.now().devices())
    }

    /// The first half of [`Target::stop`]: accepts no more connections or commands; lets commands
    /// in flight end. Does not wait.
    pub fn drain(&self) {
        self.listeners.close();
        self.shared.members.drain();
    }

    /// The second half of [`Target::stop`]: closes every connection as soon as no device holds any
    /// of its operations. Does not wait.
    pub fn close(&self) {
        self.shared.members.stop();
    }

    /// Connected I/O queues.
    pub fn io_queues(&self) -> usize {
        self.shared.members.serving()
    }
}

/// Listens by a transport.
fn open(
    on: &Handle,
    (transport, at): At,
    shared: &Arc<TargetState>,
    security: ConnectionSecurity,
) -> Result<(SocketAddr, Open), Error> {
    match transport {
        NvmeTransport::Tcp => tcp::listen(on, at, shared, security),
        NvmeTransport::Rdma => rdma::listen(on, at, shared),
    }
}

/// Starts a target that listens nowhere yet.
pub(in crate::export) fn start(
    config: &ExportConfig,
    loops: &[RemoteLoop],
) -> Result<Box<dyn ListeningExport>, Error> {
    let config = TargetConfig {
        inventory: Arc::clone(&config.inventory),
        listen: Vec::new(),
        identities: Identities::default(),
        tls: config.tls.clone(),
    };
    let connections = config.inventory.connections_max();
    let limits = TargetLimits { connections, ..TargetLimits::default() };
    Ok(Box::new(Target::start_limited(config, limits, loops)?))
}

/// Checks the text of a listen URL.
pub(in crate::export) fn check(url: &str) -> Result<(), Error> {
    host_port(url).map(drop)
}

/// Where a URL has it listen.
pub(in crate::export) fn place(url: &str, tls: &TlsFiles) -> Result<Option<SocketAddr>, Error> {
    let (transport, address) = address(url)?;
    if transport == NvmeTransport::Rdma && (tls.psk.is_some() || tls.concat) {
        let option = if tls.concat { "--concat" } else { "--tls" };
        let text =
            format!("NVMe over RDMA has no TLS: leave {option} out, or do not listen at {url}");
        return Err(Error::new(ErrorKind::Usage, text));
    }
    // A port of RDMA is none of TCP.
    Ok((transport == NvmeTransport::Tcp).then_some(address))
}

/// The address of a listen URL.
fn address(url: &str) -> Result<At, Error> {
    let (transport, address) = host_port(url)?;
    Ok((transport, address.resolve_first()?))
}

fn host_port(url: &str) -> Result<(NvmeTransport, HostPort), Error> {
    let parsed = NvmeUrl::parse(url)?;
    if parsed.subsystem.is_some() {
        let text = format!(
            "--listen \"{url}\" contains a subsystem NQN; set it with --nqn, because all ports serve the same subsystem"
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok((parsed.transport, parsed.address))
}

/// A URL at which a subsystem is reached.
fn url((transport, address): At, nqn: &Nqn) -> String {
    let address = HostPort::from(reachable_address(address));
    NvmeUrl { transport, address, subsystem: Some(nqn.clone()), nsid: None }.to_string()
}

impl Export for Target {
    fn hosts(&self) -> Vec<ConnectedHost> {
        self.shared.hosts()
    }

    fn connections(&self) -> usize {
        Self::connections(self)
    }

    fn withdraw(&self) {
        self.shared.keep_ports(|_| false);
    }

    fn capture(&self, capture: &Capture) {
        self.shared.members.capture(capture);
    }

    fn drain(&self) {
        Self::drain(self);
    }

    fn draining(&self) -> usize {
        self.io_queues()
    }

    fn close(&self) {
        Self::close(self);
    }
}

impl ListeningExport for Target {
    fn listen(&self, url: &str) -> Result<(), Error> {
        let (at, shared) = (address(url)?, Arc::clone(&self.shared));
        let first = self
            .shared
            .loops
            .first()
            .ok_or_else(|| Error::new(ErrorKind::Usage, "a target needs at least one loop"))?;
        let security = self.security.clone();
        let opened = ask(first, move |on| open(on, at, &shared, security))??;
        self.keep(url, at, opened);
        Ok(())
    }

    fn unlisten(&self, url: &str) -> bool {
        let removed = self.listeners.remove(url);
        let left = self.listeners.places();
        let of =
            |port: &PortAddress| Some((NvmeTransport::of(port.address.trtype)?, port.listener?));
        self.shared.keep_ports(|port| of(port).is_some_and(|at| left.contains(&at)));
        removed
    }

    fn urls(&self) -> Vec<String> {
        let inventory = self.shared.inventory.now();
        let names = || inventory.subsystems().iter().map(|subsystem| &subsystem.nqn);
        self.listeners
            .places()
            .into_iter()
            .flat_map(|at| names().map(move |nqn| url(at, nqn)))
            .collect()
    }

    fn attach_hint(&self) -> Option<(&'static str, String)> {
        let inventory = self.shared.inventory.now();
        let (transport, address) = *self.listeners.places().first()?;
        let (address, nqn) = (reachable_address(address), &inventory.subsystems().first()?.nqn);
        let (name, ip, port) = (transport.name(), address.ip(), address.port());
        let tls = match &self.security {
            ConnectionSecurity::Tls(_) if transport == NvmeTransport::Tcp => " --tls",
            ConnectionSecurity::Either(_) if transport == NvmeTransport::Tcp => " --concat",
            _ => "",
        };
        let demanded = inventory.authentication(nqn).map(|demanded| &**demanded);
        let proof = demanded.map(secrets).unwrap_or_default();
        let hosts = &inventory.subsystem(nqn)?.hosts;
        let host = host(hosts, demanded)
            .map_or_else(String::new, |host| format!(" --hostnqn={}", shell_word(&host)));
        let nqn = shell_word(nqn.as_str());
        Some((
            "Linux",
            format!("nvme connect -t {name} -a {ip} -s {port} -n {nqn}{host}{tls}{proof}"),
        ))
    }
}

/// The name that a host has to have, if it is one of some; `…` where people have to choose it.
fn host(allowed: &Access<Nqn>, demanded: Option<&Authentication>) -> Option<String> {
    let known = demanded.filter(|of| of.others.is_empty()).map(|of| of.hosts.keys().collect());
    let names: Vec<&Nqn> = match (allowed, known) {
        (Access::Only(names), _) => names.iter().collect(),
        (Access::Any, Some(names)) => names,
        (Access::Any, None) => return None,
    };
    match names[..] {
        [one] => Some(one.to_string()),
        _ => Some("…".into()),
    }
}

/// The options with the secrets of an authentication.
fn secrets(of: &Authentication) -> String {
    let controller = if of.controller.is_some() { " --dhchap-ctrl-secret=…" } else { "" };
    format!(" --dhchap-secret=…{controller}")
}

// The ports of the other gateways that serve the same subsystems, as discovery reports them.

/// Tells a target of them, as long as it lives.
struct OtherGateways {
    target: Weak<TargetState>,
    /// What TCP ports speak: the same at all gateways of a group.
    security: ConnectionSecurity,
}

impl OtherGateways {
    /// For a target whose ports speak this.
    fn of(target: &Arc<TargetState>, security: ConnectionSecurity) -> Arc<Self> {
        target.inventory.join(|now| {
            let others = Arc::new(Self { target: Arc::downgrade(target), security });
            others.tell(now);
            others
        })
    }

    fn tell(&self, now: &Inventory) {
        let Some(target) = self.target.upgrade() else { return };
        let others = now.discovery().others.nvme();
        target.set_others(others.map(|port| self.port(port)).collect());
    }

    fn port(&self, (id, transport, at): (u16, NvmeTransport, SocketAddr)) -> OtherPort {
        let address = match transport {
            NvmeTransport::Tcp => self.security.address(at),
            NvmeTransport::Rdma => rdma::address(at),
        };
        OtherPort { id, address, ip: at.ip() }
    }
}

impl Follower for OtherGateways {
    fn follow(&self, now: &Arc<Inventory>, changes: &[Change]) {
        if changes.iter().any(|change| matches!(change, Change::OthersChanged(_))) {
            self.tell(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_proto::nvme::auth::DhchapSecret;

    #[test]
    fn a_hint_says_by_which_name_and_secrets_a_host_is_let_in() {
        let nqn = |name: &str| Nqn::new(&format!("nqn.2026-01.example.host:{name}")).unwrap();
        let secret = || DhchapSecret::of_key(&[7; 32], None).unwrap();
        let only = |names: &[&str]| Access::Only(names.iter().map(|name| nqn(name)).collect());
        let others = Authentication { others: vec![secret()], ..Authentication::default() };
        let own = Authentication {
            hosts: [(nqn("a"), vec![secret()])].into(),
            controller: Some(secret()),
            ..Authentication::default()
        };
        assert_eq!(host(&Access::Any, None), None);
        assert_eq!(host(&Access::Any, Some(&others)), None);
        let a = Some(nqn("a").to_string());
        assert_eq!(host(&Access::Any, Some(&own)), a);
        assert_eq!(host(&only(&["a"]), Some(&others)), a);
        assert_eq!(host(&only(&["a", "b"]), None).as_deref(), Some("…"));
        assert_eq!(secrets(&others), " --dhchap-secret=…");
        assert_eq!(secrets(&own), " --dhchap-secret=… --dhchap-ctrl-secret=…");
    }
}
