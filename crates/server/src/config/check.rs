//! From tables to what is desired, with all mistakes of the file.

use super::authentication::authentication;
use super::desired::{Desired, DesiredAnaState, Fixed, concatenate};
use super::faults::{Finder, no_such};
use super::host_identifiers::host_identifiers;
use super::limits::limits;
use super::process::{connections, disk_timeout, iscsi, loops, sharing, slow, tls};
use super::source_options::{SourceOptions, arguments};
use super::subsystems::{group, subsystems};
use super::tables::{AnaTable, ConfigFile, Text};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use weft_block::AccessState;
use weft_endpoint::TlsFiles;
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::url::{NVME_TCP, is_listen_url};

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
