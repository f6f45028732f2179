//! From tables to what is desired, with all mistakes of the file.

use super::authentication::authentication;
use super::desired::{
    Desired, DesiredNamespace, DesiredState, DesiredSubsystem, Fixed, beside, concatenate,
};
use super::host_identifiers::host_identifiers;
use super::limits::limits;
use super::options::arguments;
use super::read::{Finder, no_such};
use super::tables::{
    AnaTable, At, ConfigFile, IscsiTable, NamespaceTable, ServerTable, SubsystemTable, Text,
    TlsTable,
};
use crate::connection::parse_nqn;
use crate::psk;
use crate::secret::{conceal, from_file};
use crate::sharing_args::parse_cntlids;
use std::collections::HashSet;
use std::hash::Hash;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;
use weft_block::{AccessState, grammar, units};
use weft_endpoint::TlsFiles;
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::inventory::{Access, DEFAULT_GROUP};
use weft_endpoint::loops::LoopsConfig;
use weft_endpoint::source::discovered;
use weft_endpoint::url::NVME_TCP;
use weft_io::disk::DiskMode;
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::target::ChapUser;
use weft_proto::iscsi::text::Name;
use weft_proto::limits::ANA_GROUPS_MAX;
use weft_proto::nvme::types::{Nqn, Nsid};

/// What the tables ask for. It is of use only if nothing was found.
pub fn check(tables: &ConfigFile, directory: &Path, finder: &mut Finder<'_>) -> Desired {
    let connect = arguments(&tables.connect, directory, finder);
    let (cntlids, shared) = sharing(&tables.server, finder);
    let (iscsi, tls) =
        (iscsi(&tables.iscsi, directory, finder), tls(&tables.tls, directory, finder));
    let mut subsystems = subsystems(&tables.subsystem, directory, finder);
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
    let memory = (server.pool.as_deref(), server.disk_timeout.as_deref());
    let sharing = (server.cntlid_range.as_deref(), server.shared.as_deref());
    let tables = vec![
        ("name", format!("{:?}", tables.name.as_deref())),
        ("server", format!("{loops:?} {memory:?} {} {sharing:?}", server.exit_on_loss)),
        ("connect", format!("{connect:?}")),
        ("iscsi", format!("{:?}", iscsi.name)),
        ("tls", format!("{tls:?}")),
    ];
    Fixed { tables, users: iscsi.chap.clone(), target: iscsi.chap_target.clone() }
}

fn state(table: &AnaTable, listen: &[Text], finder: &mut Finder<'_>) -> Option<DesiredState> {
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
    Some(DesiredState {
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

pub(super) fn group(group: &At<u32>, finder: &mut Finder<'_>) -> u32 {
    if !(1..=ANA_GROUPS_MAX).contains(&**group) {
        finder.add(
            group.place(),
            format!("{} is not an ANA group: use 1 to {ANA_GROUPS_MAX}", **group),
        );
    }
    **group
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

/// What the name of a server has to be.
pub const SERVER_NAMES: &str = "the name of a server has up to 64 letters, digits, \"-\", \"_\" and \".\", of which \".\" is not the first";

/// Whether a server can have this name: it becomes part of the name of a file.
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
            if url.contains("://") { url.to_string() } else { format!("{NVME_TCP}{}", **url) };
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

fn loops(table: &ServerTable, finder: &mut Finder<'_>) -> LoopsConfig {
    const WAYS: [(&str, DiskMode); 3] =
        [("auto", DiskMode::Auto), ("uring", DiskMode::Uring), ("threads", DiskMode::Threads)];
    let mut config = LoopsConfig { poll: table.poll, ..LoopsConfig::default() };
    config.threads = table.threads.as_ref().map(|threads| usize::from(**threads));
    if let Some(threads) = table.threads.as_ref().filter(|threads| ***threads == 0) {
        finder.add(threads.place(), "threads is 0: give at least 1, or leave it out");
    }
    if let Some(list) = &table.cpus_allowed {
        config.cpus = finder.take(list.place(), crate::cpus::parse(list));
    }
    if let Some(pool) = &table.pool {
        config.pool_bytes =
            finder.take(pool.place(), crate::loop_args::pool(pool)).unwrap_or_default() as usize;
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
        conceal();
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

fn host(name: &Text, finder: &mut Finder<'_>) -> Option<Nqn> {
    finder.take(name.place(), parse_nqn(name))
}

fn initiator(name: &Text, finder: &mut Finder<'_>) -> Option<Name> {
    let named = Name::new(name).map_err(|e| format!("\"{}\" is not an iSCSI name: {e}", **name));
    finder.take(name.place(), named)
}

fn access<T: Ord + Clone>(
    names: Option<&Vec<Text>>,
    finder: &mut Finder<'_>,
    parse: impl Fn(&Text, &mut Finder<'_>) -> Option<T>,
) -> Access<T> {
    names
        .map(|names| names.iter().filter_map(|name| parse(name, finder)).collect::<Vec<_>>())
        .into()
}

/// The subsystems of a file, at least one.
pub(super) fn subsystems(
    tables: &[SubsystemTable],
    directory: &Path,
    finder: &mut Finder<'_>,
) -> Vec<DesiredSubsystem> {
    Names::new(directory).subsystems(tables, finder)
}

/// What must differ in the whole file.
struct Names<'a> {
    /// Where paths of files begin.
    directory: &'a Path,
    nqns: HashSet<String>,
    uuids: HashSet<Uuid>,
    names: HashSet<String>,
    /// Files that are written to.
    files: HashSet<String>,
}

impl<'a> Names<'a> {
    fn new(directory: &'a Path) -> Self {
        let (nqns, uuids, names, files) = Default::default();
        Self { directory, nqns, uuids, names, files }
    }

    fn subsystems(
        &mut self,
        tables: &[SubsystemTable],
        finder: &mut Finder<'_>,
    ) -> Vec<DesiredSubsystem> {
        if tables.is_empty() {
            finder.add(0..0, "there is no subsystem to serve: give a [[subsystem]] with an nqn");
        }
        tables.iter().filter_map(|table| self.subsystem(table, finder)).collect()
    }

    fn subsystem(
        &mut self,
        table: &SubsystemTable,
        finder: &mut Finder<'_>,
    ) -> Option<DesiredSubsystem> {
        once(&mut self.nqns, table.nqn.to_string(), &table.nqn, "subsystems have the NQN", finder);
        let mut nsids = HashSet::new();
        let mut namespaces = Vec::new();
        for namespace in &table.namespace {
            once(
                &mut nsids,
                *namespace.nsid,
                &namespace.nsid,
                "namespaces of a subsystem have the nsid",
                finder,
            );
            namespaces.extend(self.namespace(namespace, finder));
        }
        let nqn = host(&table.nqn, finder)?;
        if nqn == Nqn::discovery() {
            finder.add(
                table.nqn.place(),
                format!("{nqn} is the name of discovery: give the subsystem another NQN"),
            );
        }
        let hosts = access(table.hosts.as_ref(), finder, host);
        let initiators = access(table.initiators.as_ref(), finder, initiator);
        let authentication = table
            .authentication
            .as_ref()
            .map(|table| authentication(table, self.directory, finder));
        Some(DesiredSubsystem { nqn, hosts, initiators, authentication, namespaces })
    }

    fn namespace(
        &mut self,
        table: &NamespaceTable,
        finder: &mut Finder<'_>,
    ) -> Option<DesiredNamespace> {
        let nsid = Nsid(*table.nsid);
        if nsid.0 == 0 || nsid == Nsid::ALL {
            finder.add(
                table.nsid.place(),
                format!("{nsid} is not a namespace identifier: use 1 to 4294967294"),
            );
        }
        let identity = [&table.uuid, &table.nguid, &table.eui64].into_iter().flatten().next();
        if let Some(identity) = identity.filter(|_| forgets(&table.source)) {
            finder.add(identity.place(), FORGETS);
        }
        let source = source(&table.source, table.read_only, finder);
        for file in written(&source) {
            once(
                &mut self.files,
                file.to_owned(),
                &table.source,
                "namespaces that are not read_only have the file",
                finder,
            );
        }
        if let Some(name) = &table.name {
            once(&mut self.names, name.to_string(), name, "namespaces have the name", finder);
        }
        let uuid = table.uuid.as_ref().and_then(|text| {
            let parsed = Uuid::parse_str(text)
                .map_err(|_| format!("\"{}\" is not a UUID: `uuidgen` makes one", **text));
            let uuid = finder.take(text.place(), parsed)?;
            once(&mut self.uuids, uuid, text, "namespaces have the UUID", finder);
            Some(uuid)
        });
        Some(DesiredNamespace {
            nsid,
            source,
            paths: paths(&table.paths, finder),
            name: table.name.as_deref().cloned(),
            uuid,
            nguid: table.nguid.as_ref().and_then(|text| digits("nguid", text, finder)),
            eui64: table.eui64.as_ref().and_then(|text| digits("eui64", text, finder)),
            bytes: table
                .size
                .as_ref()
                .and_then(|size| finder.take(size.place(), units::parse_size(size))),
            group: table.ana_group.as_ref().map_or(DEFAULT_GROUP, |of| group(of, finder)),
            reservations: table.reservations.unwrap_or(true),
            hosts: access(table.hosts.as_ref(), finder, host),
            initiators: access(table.initiators.as_ref(), finder, initiator),
        })
    }
}

/// Why a RAM disk has no fixed identity.
pub const FORGETS: &str = "a RAM disk is empty after a restart, and hosts would take it for the same disk; add volatile=on to its source if that is fine";

/// Whether a source, or a part of it, comes back empty after a restart, which nobody consented to.
pub fn forgets(source: &str) -> bool {
    let forgets = |url: &str| {
        url.starts_with("ram:") && !grammar::options(url).1.contains(&("volatile", "on"))
    };
    grammar::sources(source).iter().any(|source| forgets(source.url))
}

/// The URL of a source, with `readonly:` where it is not to be written to.
fn source(url: &Text, read_only: bool, finder: &mut Finder<'_>) -> String {
    finder.take(url.place(), weft_endpoint::check(url));
    if read_only { format!("readonly:{}", **url) } else { url.to_string() }
}

/// The files of a source that are not only read.
fn written(source: &str) -> impl Iterator<Item = &str> {
    let written =
        grammar::sources(source).into_iter().filter(|source| !source.above.contains(&"readonly"));
    written.filter_map(|source| grammar::path(source.url))
}

/// URLs of further paths to a source, or the word for those that are to be discovered.
fn paths(urls: &[Text], finder: &mut Finder<'_>) -> Vec<String> {
    for url in urls.iter().filter(|url| discovered::asks(url).is_none()) {
        if !url.contains("://") {
            let text =
                format!("\"{}\" cannot be a path; a path is a URL of NVMe, iSCSI or NBD", **url);
            finder.add(url.place(), text);
        } else {
            finder.take(url.place(), weft_endpoint::check(url));
        }
    }
    urls.iter().map(|url| url.to_string()).collect()
}

fn once<T: Hash + Eq + ToString, U>(
    seen: &mut HashSet<T>,
    value: T,
    at: &At<U>,
    what: &str,
    finder: &mut Finder<'_>,
) {
    let text = value.to_string();
    if !seen.insert(value) {
        finder.add(at.place(), format!("two {what} {text}: change one of them"));
    }
}

fn digits<const N: usize>(what: &str, text: &Text, finder: &mut Finder<'_>) -> Option<[u8; N]> {
    let bytes = from_digits(text)
        .ok_or_else(|| format!("{what} \"{}\" is not {} hexadecimal digits", **text, 2 * N));
    finder.take(text.place(), bytes)
}

/// Bytes from hexadecimal digits; dashes between them do not count.
pub fn from_digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let digit = |of: u8| char::from(of).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(bytes)
}
