//! Starting and stopping a target.

use super::config::Settings;
use super::connection::Connection;
use super::target_state::TargetState;
use crate::export::hosts::ConnectedHost;
use crate::export::listen::{Homes, Listeners, Open};
use crate::export::reachable_address::reachable_address;
use crate::export::running::{Export, ExportConfig, ListeningExport, stop_all};
use crate::export::shell_word::shell_word;
use crate::inventory::LiveInventory;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_connection::capture::Capture;
use weft_connection::iscsi_remarks::remark;
use weft_connection::limits::{
    CONNECTIONS_MAX, ISCSI_BURST_BYTES, ISCSI_CONNECTIONS_MAX, ISCSI_PDU_BYTES,
    ISCSI_TRANSFER_BYTES_MAX, POOL_PARTS,
};
use weft_connection::loops::ask;
use weft_connection::tls::TlsFiles;
use weft_connection::url::{HostPort, ISCSI, ISCSI_PORT, IscsiUrl};
use weft_io::limits::BUF_BYTES_MIN;
use weft_io::{Handle, RemoteLoop};
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::digest::Digests;
use weft_proto::iscsi::target::IscsiTargetConfig as EngineConfig;
use weft_proto::iscsi::text::{Name, OfferedParameters};
use weft_proto::limits::{HANDSHAKE_S, R2T_OUTSTANDING_MAX};
use weft_proto::nvme::types::Nqn;

/// Configuration of a target.
pub struct TargetConfig {
    /// The user's settings.
    pub settings: Settings,
    /// The inventory.
    pub inventory: Arc<LiveInventory>,
    /// The subsystem with the namespaces to serve as logical units.
    pub subsystem: Nqn,
    /// Addresses to listen on; port 0 picks a free port.
    pub listen: Vec<SocketAddr>,
}

/// Limits of a target.
#[derive(Clone, Copy, Debug)]
pub struct TargetLimits {
    /// Connections; see [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// Time from accepting a connection to the end of its login; see [`HANDSHAKE_S`].
    pub login: Duration,
}

impl Default for TargetLimits {
    fn default() -> Self {
        Self { connections: CONNECTIONS_MAX, login: Duration::from_secs(HANDSHAKE_S) }
    }
}

/// A running target.
pub struct Target {
    shared: Arc<TargetState>,
    listeners: Listeners<SocketAddr>,
    homes: Homes,
    name: Name,
    /// How initiators log in, for a hint.
    login: Option<String>,
}

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
        let homes = Homes::new(loops)?;
        let first = homes.first().clone();
        ask(&first, move |on| Self::start_at(on, config, limits, &homes))?
    }

    /// Like [`Target::start_limited`], called on the first of the loops.
    pub fn start_on(
        on: &Handle,
        config: TargetConfig,
        limits: TargetLimits,
        loops: &[RemoteLoop],
    ) -> Result<Self, Error> {
        Self::start_at(on, config, limits, &Homes::new(loops)?)
    }

    fn start_at(
        on: &Handle,
        config: TargetConfig,
        limits: TargetLimits,
        homes: &Homes,
    ) -> Result<Self, Error> {
        let name = config.settings.target_name()?;
        remark("the target's name", &name);
        let shared = shared(&config, &name, limits, on.pool().cap_bytes())?;
        let (listeners, login) = (Listeners::default(), login(&config.settings));
        let target = Self { shared, listeners, homes: homes.clone(), name, login };
        for at in config.listen {
            let url = at.to_string();
            let port = target.shared.add_port(&url)?;
            let (address, open) = listen(on, at, port, &target.shared, homes)?;
            target.listeners.add(&url, address, open);
        }
        Ok(target)
    }

    /// The listen addresses, in the order in which they were added.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.places()
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Number of sessions, without discovery sessions.
    pub fn sessions(&self) -> usize {
        self.shared.sessions()
    }

    /// Stops the target: accepts no more connections or commands, lets commands in flight end (for
    /// a bounded time), closes, and flushes.
    pub fn stop(self) -> Result<(), Error> {
        stop_all(&[&self], &self.shared.inventory.now().devices())
    }
}

/// The maximum transfer on loops with pools of this size.
fn transfer_bytes(pool_bytes: usize) -> u32 {
    let part = (pool_bytes / POOL_PARTS).clamp(BUF_BYTES_MIN, ISCSI_TRANSFER_BYTES_MAX as usize);
    1 << part.ilog2()
}

/// The parameters that the engine negotiates.
fn offer(transfer_bytes: u32) -> OfferedParameters {
    OfferedParameters {
        digests: Digests::BOTH,
        max_connections: ISCSI_CONNECTIONS_MAX,
        initial_r2t: false,
        max_recv_bytes: ISCSI_PDU_BYTES,
        max_burst_bytes: ISCSI_BURST_BYTES,
        first_burst_bytes: ISCSI_PDU_BYTES.min(transfer_bytes),
        max_outstanding_r2t: R2T_OUTSTANDING_MAX.into(),
        // Nothing is kept of a lost session.
        time2retain_s: 0,
        ..OfferedParameters::default()
    }
}

/// The target with its logical units.
fn shared(
    config: &TargetConfig,
    name: &Name,
    limits: TargetLimits,
    pool_bytes: usize,
) -> Result<Arc<TargetState>, Error> {
    let transfer_bytes = transfer_bytes(pool_bytes);
    let mut engine = EngineConfig::new(name.clone());
    engine.chap = config.settings.policy()?;
    engine.offer = offer(transfer_bytes);
    engine.login_limit = limits.login;
    let (inventory, nqn, identities) = (
        Arc::clone(&config.inventory),
        config.subsystem.clone(),
        config.settings.identities.clone(),
    );
    let guesses = (!config.settings.random_secrets).then(Arc::default);
    Ok(TargetState::new(
        inventory,
        nqn,
        engine,
        limits.connections,
        identities,
        guesses,
        transfer_bytes,
    ))
}

/// Listens at the address of a port on the loop of `on`.
fn listen(
    on: &Handle,
    at: SocketAddr,
    port: u16,
    shared: &Arc<TargetState>,
    homes: &Homes,
) -> Result<(SocketAddr, Open), Error> {
    let (to, homes) = (Arc::clone(shared), homes.clone());
    let (address, open) =
        Open::tcp(on, at, move |on, stream| Connection::accept(on, stream, port, &to, &homes))?;
    shared.port_opened(port, address);
    Ok((address, open))
}

/// Starts a target that listens nowhere yet.
pub(in crate::export) fn start(
    config: &ExportConfig,
    loops: &[RemoteLoop],
) -> Result<Box<dyn ListeningExport>, Error> {
    let (settings, inventory) = (config.iscsi.clone(), Arc::clone(&config.inventory));
    let now = inventory.now();
    let none = || {
        Error::new(
            ErrorKind::Usage,
            "an iSCSI target needs a subsystem to serve, and the inventory has none",
        )
    };
    let subsystem = now.subsystems().first().ok_or_else(none)?.nqn.clone();
    let config = TargetConfig { settings, inventory, subsystem, listen: Vec::new() };
    let connections = config.inventory.connections_max();
    let limits = TargetLimits { connections, ..TargetLimits::default() };
    Ok(Box::new(Target::start_limited(config, limits, loops)?))
}

/// Checks the text of a listen URL.
pub(in crate::export) fn check(url: &str) -> Result<(), Error> {
    host_port(url).map(drop)
}

/// Where a URL has it listen.
pub(in crate::export) fn place(url: &str, _: &TlsFiles) -> Result<Option<SocketAddr>, Error> {
    address(url).map(Some)
}

/// The address of a listen URL.
fn address(url: &str) -> Result<SocketAddr, Error> {
    host_port(url)?.resolve_first()
}

fn host_port(url: &str) -> Result<HostPort, Error> {
    let rest = url.strip_prefix(ISCSI).unwrap_or(url);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !path.is_empty() {
        let text = format!(
            "\"{url}\" contains a target name; set it with --iqn, because all ports serve the same target"
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    HostPort::parse(host, ISCSI_PORT)
}

impl Export for Target {
    fn hosts(&self) -> Vec<ConnectedHost> {
        self.shared.hosts()
    }

    fn connections(&self) -> usize {
        self.shared.members.open()
    }

    fn capture(&self, capture: &Capture) {
        self.shared.members.capture(capture);
    }

    fn drain(&self) {
        self.listeners.close();
        self.shared.members.drain();
    }

    fn draining(&self) -> usize {
        self.shared.members.serving()
    }

    fn close(&self) {
        self.shared.members.stop();
    }
}

impl ListeningExport for Target {
    fn listen(&self, url: &str) -> Result<(), Error> {
        let (at, shared, homes) = (address(url)?, Arc::clone(&self.shared), self.homes.clone());
        let port = shared.add_port(url)?;
        let (address, open) =
            ask(self.homes.first(), move |on| listen(on, at, port, &shared, &homes))??;
        self.listeners.add(url, address, open);
        Ok(())
    }

    fn unlisten(&self, url: &str) -> bool {
        let removed = self.listeners.remove(url);
        self.shared.port_closed(url);
        removed
    }

    fn urls(&self) -> Vec<String> {
        let name = self.name.as_str();
        let url = |address: &SocketAddr, lun: usize| {
            format!("{ISCSI}{}/{}/{lun}", reachable_address(*address), IscsiUrl::segment(name))
        };
        let numbers = self.shared.numbers();
        let of = |address| numbers.iter().map(move |lun| url(address, *lun));
        self.addresses().iter().flat_map(of).collect()
    }

    fn attach_hint(&self) -> Option<(&'static str, String)> {
        let address = reachable_address(*self.addresses().first()?);
        let name = shell_word(self.name.as_str());
        let Some(login) = &self.login else {
            let find = format!("iscsiadm -m discovery -t sendtargets -p {address}");
            return Some(("Linux", format!("{find} && iscsiadm -m node -T {name} -l")));
        };
        // Discovery needs the login as well, for which iscsiadm has no options.
        let node = format!("iscsiadm -m node -T {name} -p {address}");
        Some(("Linux", format!("{node} -o new && {node} -o update{login} && {node} -l")))
    }
}

/// The options with which open-iscsi gets to know how it logs in, if it has to; the secrets are
/// left to people.
fn login(settings: &Settings) -> Option<String> {
    let set = |name: &str, value: &str| format!(" -n node.session.auth.{name} -v {value}");
    let both = |of: &Credentials, is_own: &str| {
        set(&format!("username{is_own}"), &shell_word(&of.name))
            + &set(&format!("password{is_own}"), "…")
    };
    let user = settings.chap.first()?;
    let target = settings.chap_target.as_ref().map(|of| both(of, "_in")).unwrap_or_default();
    Some(set("authmethod", "CHAP") + &both(&user.credentials, "") + &target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_proto::iscsi::target::ChapUser;

    #[test]
    fn a_hint_says_how_an_initiator_logs_in() {
        let credentials =
            |name: &str, secret: &str| Credentials { name: name.into(), secret: secret.into() };
        let mut settings = Settings::default();
        assert_eq!(login(&settings), None);
        let credentials_of = credentials("alice", "0123456789ab");
        settings.chap = vec![ChapUser { credentials: credentials_of, initiators: Vec::new() }];
        let of = "node.session.auth";
        let user =
            format!(" -n {of}.authmethod -v CHAP -n {of}.username -v alice -n {of}.password -v …");
        assert_eq!(login(&settings), Some(user.clone()));
        settings.chap_target = Some(credentials("the disk", "ba9876543210"));
        let target = format!(" -n {of}.username_in -v 'the disk' -n {of}.password_in -v …");
        assert_eq!(login(&settings), Some(user + &target));
    }
}
