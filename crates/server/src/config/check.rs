//! From tables to what is desired, with all mistakes of the file.

use super::authentication::authentication;
use super::desired::{Desired, DesiredAnaState, Fixed, beside, concatenate};
use super::faults::{Finder, no_such};
use super::host_identifiers::host_identifiers;
use super::limits::limits;
use super::source_options::{SourceOptions, arguments};
use super::subsystems::{group, initiator, subsystems};
use super::tables::{AnaTable, At, ConfigFile, IscsiTable, ServerTable, Text, TlsTable};
use crate::psk;
use crate::secret::{from_file, held};
use crate::values::parse_cntlids;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_block::{AccessState, units};
use weft_endpoint::TlsFiles;
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::limits::CONNECTIONS_MAX;
use weft_endpoint::loops::LoopsConfig;
use weft_endpoint::url::{NVME_TCP, is_listen_url};
use weft_io::disk::DiskMode;
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::target::ChapUser;

/// The server that the tables ask for. It is of use only if no mistake was found.
pub fn check(
    tables: &ConfigFile,
    (directory, options): (&Path, &dyn SourceOptions),
    finder: &mut Finder<'_>,
) -> Desired {
    let connect = arguments(&tables.connect, (directory, options), finder);
    let (cntlids, shared) = sharing(&tables.server, finder);
    let (iscsi, tls) =
        (iscsi(&tables.iscsi, directory, finder), tls(&tables.tls, directory, finder));
    let mut subsystems = subsystems(&tables.subsystem, (directory, shared), finder);
    let mut discovery = tables
        .discovery_authentication
        .as_ref()
        .map(|table| authentication(table, directory, finder));
    concatenate(&mut subsystems, &mut discovery, tls.concat);
    for table in
        tables.subsystem.iter().filter(|table| tls.concat && table.authentication.is_none())
    {
        let text = "concat of [tls] needs the secrets of the hosts: give the subsystem a table [subsystem.authentication]";
        finder.add(table.nqn.place(), text);
    }
    Desired {
        name: tables.name.as_ref().and_then(|name| server_name(name, finder)),
        listen: listen(&tables.listen, &tls, finder),
        loops: loops(&tables.server, finder),
        exit_on_loss: tables.server.exit_on_loss,
        disk_timeout: disk_timeout(&tables.server, finder),
        slow: slow(&tables.server, finder),
        connections: connections(&tables.server, finder),
        subsystems,
        discovery,
        states: tables
            .ana
            .iter()
            .filter_map(|table| state(table, &tables.listen, finder))
            .collect(),
        limits: limits(&tables.host_limit, finder),
        identifiers: host_identifiers(&tables.host_identifier, finder),
        cntlids,
        shared,
        fixed: fixed(tables, &connect, &iscsi, &tls),
        connect,
        iscsi,
        tls,
    }
}

fn fixed(tables: &ConfigFile, connect: &[String], iscsi: &Settings, tls: &TlsFiles) -> Fixed {
    let server = &tables.server;
    let loops = (
        server.threads.as_deref(),
        server.cpus_allowed.as_deref(),
        server.poll,
        server.disk_io.as_deref(),
    );
    let memory = (server.pool.as_deref(), server.disk_timeout.as_deref(), server.slow.as_deref());
    let sharing = (
        server.cntlid_range.as_deref(),
        server.shared.as_deref(),
        server.max_connections.as_deref(),
    );
    let tables = vec![
        ("name", format!("{:?}", tables.name.as_deref())),
        ("server", format!("{loops:?} {memory:?} {} {sharing:?}", server.exit_on_loss)),
        ("connect", format!("{connect:?}")),
        ("iscsi", format!("{:?}", iscsi.name)),
        ("tls", format!("{tls:?}")),
    ];
    Fixed { tables, users: iscsi.chap.clone(), target: iscsi.chap_target.clone() }
}

fn state(table: &AnaTable, listen: &[Text], finder: &mut Finder<'_>) -> Option<DesiredAnaState> {
    let group = group(&table.group, finder);
    let state = finder.take(table.state.place(), parse_state(&table.state));
    let listener = table.listener.as_ref().map(|text| {
        let parsed =
            text.parse::<SocketAddr>().map_err(|_| format!("\"{}\" is not an ADDR:PORT", **text));
        let at = finder.take(text.place(), parsed)?;
        // Names, and ports that are to be chosen, are known only when the server listens.
        let known: Option<Vec<SocketAddr>> =
            listen.iter().map(|url| listen_place(url).filter(|of| of.port() != 0)).collect();
        let is_at =
            |of: &SocketAddr| *of == at || (of.ip().is_unspecified() && of.port() == at.port());
        if known.is_some_and(|known| !known.iter().any(is_at)) {
            finder
                .add(text.place(), format!("there is no listener {at}: use an address of listen"));
        }
        Some(at)
    });
    Some(DesiredAnaState {
        group,
        state: state?,
        listener: listener.map_or(Some(None), |listener| listener.map(Some))?,
    })
}

/// The address in a URL to listen at, if it is a number.
pub fn listen_place(url: &str) -> Option<SocketAddr> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next()?.parse().ok()
}

/// The words for states that last.
pub const STATES: [(&str, AccessState); 4] = [
    ("optimized", AccessState::Optimized),
    ("non-optimized", AccessState::NonOptimized),
    ("inaccessible", AccessState::Inaccessible),
    ("persistent-loss", AccessState::PersistentLoss),
];

/// The ANA state of a word.
pub fn parse_state(text: &str) -> Result<AccessState, String> {
    let found = STATES.iter().find(|(word, _)| *word == text);
    found
        .map(|(_, state)| *state)
        .ok_or_else(|| no_such("ANA state", text, STATES.map(|(word, _)| word)))
}

/// The rule for the name of a server.
pub const SERVER_NAMES: &str = "the name of a server has up to 64 letters, digits, \"-\", \"_\" and \".\", of which \".\" is not the first";

/// Returns whether a server can have this name: it becomes part of the name of a file.
pub fn is_server_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain) && !name.starts_with('.')
}

fn server_name(name: &Text, finder: &mut Finder<'_>) -> Option<String> {
    if !is_server_name(name) {
        finder.add(name.place(), SERVER_NAMES);
    }
    is_server_name(name).then(|| name.to_string())
}

fn listen(urls: &[Text], tls: &TlsFiles, finder: &mut Finder<'_>) -> Vec<String> {
    let mut seen = HashSet::new();
    if urls.is_empty() {
        finder.add(
            0..0,
            "there is no address to listen at: give listen = [\"nvme+tcp://127.0.0.1:4420\"]",
        );
    }
    let mut all = Vec::new();
    for url in urls {
        let full =
            if is_listen_url(url) { url.to_string() } else { format!("{NVME_TCP}{}", **url) };
        if !seen.insert(full.clone()) {
            finder.add(url.place(), format!("\"{full}\" is given twice: remove one of them"));
        }
        let checked = finder.take(url.place(), weft_endpoint::export::check_listen(&full));
        if checked.is_some() && full.starts_with("nbds") {
            finder.take(url.place(), weft_endpoint::export::listen_address(&full, tls));
        }
        all.push(full);
    }
    all
}

// Settings of the process in a configuration: event loops, memory, its iSCSI target and TLS.

fn loops(table: &ServerTable, finder: &mut Finder<'_>) -> LoopsConfig {
    const WAYS: [(&str, DiskMode); 3] =
        [("auto", DiskMode::Auto), ("uring", DiskMode::Uring), ("threads", DiskMode::Threads)];
    let mut config = LoopsConfig { poll: table.poll, ..LoopsConfig::default() };
    config.threads = table.threads.as_ref().map(|threads| usize::from(**threads));
    if let Some(threads) = table.threads.as_ref().filter(|threads| ***threads == 0) {
        finder.add(threads.place(), "threads is 0: give at least 1, or leave it out");
    }
    if let Some(list) = &table.cpus_allowed {
        config.cpus = finder.take(list.place(), crate::values::cores::parse(list));
    }
    if let Some(pool) = &table.pool {
        config.pool_bytes = finder
            .take(pool.place(), crate::values::loops::pool(pool))
            .unwrap_or_default() as usize;
    }
    if let Some(way) = &table.disk_io {
        match WAYS.iter().find(|(word, _)| *word == way.as_str()) {
            Some((_, mode)) => config.disk = *mode,
            None => finder.add(way.place(), no_such("value", way, WAYS.map(|(word, _)| word))),
        }
    }
    config
}

/// Identifiers of controllers, and whether other processes serve the same sources.
fn sharing(table: &ServerTable, finder: &mut Finder<'_>) -> (Option<(u16, u16)>, bool) {
    let cntlids =
        table.cntlid_range.as_ref().and_then(|text| finder.take(text.place(), parse_cntlids(text)));
    let shared = table.shared.as_ref().filter(|shared| ***shared);
    if let Some(shared) = shared.filter(|_| table.cntlid_range.is_none()) {
        let text = "shared needs cntlid_range, another one for each process: \"1-1000\" and \"1001-2000\", for example";
        finder.add(shared.place(), text);
    }
    (cntlids, shared.is_some())
}

fn disk_timeout(table: &ServerTable, finder: &mut Finder<'_>) -> Duration {
    const DEFAULT: Duration = Duration::from_secs(20);
    let Some(text) = &table.disk_timeout else { return DEFAULT };
    finder.take(text.place(), units::parse_duration(text)).unwrap_or(DEFAULT)
}

fn slow(table: &ServerTable, finder: &mut Finder<'_>) -> Option<Duration> {
    let text = table.slow.as_ref()?;
    finder.take(text.place(), crate::values::slow(text))
}

fn connections(table: &ServerTable, finder: &mut Finder<'_>) -> usize {
    let given = table.max_connections.as_ref().and_then(|number| {
        finder.take(number.place(), crate::values::max_connections((**number).into()))
    });
    given.unwrap_or(CONNECTIONS_MAX)
}

fn secret(
    name: &str,
    file: &At<PathBuf>,
    directory: &Path,
    finder: &mut Finder<'_>,
) -> Option<Credentials> {
    let secret = finder.take(file.place(), from_file(&beside(directory, file)))?;
    Some(Credentials { name: name.to_owned(), secret: secret.into() })
}

fn iscsi(table: &IscsiTable, directory: &Path, finder: &mut Finder<'_>) -> Settings {
    let name = table.name.as_ref().and_then(|name| initiator(name, finder));
    let mut settings = Settings { name, ..Settings::default() };
    for user in &table.user {
        let initiators =
            user.initiators.iter().filter_map(|name| initiator(name, finder)).collect();
        let credentials = secret(&user.name, &user.secret_file, directory, finder);
        settings.chap.extend(credentials.map(|credentials| ChapUser { credentials, initiators }));
    }
    if let Some(target) = &table.target {
        settings.chap_target = secret(&target.name, &target.secret_file, directory, finder);
    }
    let first = table.user.first().map(|user| user.secret_file.place());
    let place = first.or(table.target.as_ref().map(|target| target.secret_file.place()));
    finder.take(place.unwrap_or(0..0), settings.check());
    settings
}

fn tls(table: &TlsTable, directory: &Path, finder: &mut Finder<'_>) -> TlsFiles {
    let mut file = |path: &Option<At<PathBuf>>| {
        let path = path.as_ref()?;
        let full = beside(directory, path);
        let readable =
            std::fs::File::open(&full).map_err(|e| format!("cannot read {}: {e}", full.display()));
        finder.take(path.place(), readable).map(|_| full)
    };
    let (certificate, key, ca) =
        (file(&table.cert_file), file(&table.cert_key_file), file(&table.ca_file));
    if key.is_some() {
        held();
    }
    let psk = table.psk_file.as_ref().and_then(|path| {
        let read = psk::required(Some(&beside(directory, path)), None);
        let keys = finder.take(path.place(), read.map_err(|e| e.to_string()))?;
        Some(if table.kernel == Some(false) { keys.in_user_space() } else { keys })
    });
    if let Some(file) = table.psk_file.as_ref().filter(|_| table.concat) {
        finder.add(file.place(), "psk_file and concat exclude each other: leave one of them out");
    }
    TlsFiles {
        certificate,
        key,
        ca,
        psk,
        concat: table.concat,
        concat_in_user_space: table.kernel == Some(false),
    }
}
