//! Settings of the process in a configuration: event loops, memory, its iSCSI target and TLS.

use super::desired::beside;
use super::faults::{Finder, no_such};
use super::subsystems::initiator;
use super::tables::{At, IscsiTable, ServerTable, TlsTable};
use crate::psk;
use crate::secret::{from_file, held};
use crate::values::parse_cntlids;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_block::units;
use weft_endpoint::TlsFiles;
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::limits::CONNECTIONS_MAX;
use weft_endpoint::loops::LoopsConfig;
use weft_io::disk::DiskMode;
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::target::ChapUser;

pub(super) fn loops(table: &ServerTable, finder: &mut Finder<'_>) -> LoopsConfig {
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
pub(super) fn sharing(table: &ServerTable, finder: &mut Finder<'_>) -> (Option<(u16, u16)>, bool) {
    let cntlids =
        table.cntlid_range.as_ref().and_then(|text| finder.take(text.place(), parse_cntlids(text)));
    let shared = table.shared.as_ref().filter(|shared| ***shared);
    if let Some(shared) = shared.filter(|_| table.cntlid_range.is_none()) {
        let text = "shared needs cntlid_range, another one for each process: \"1-1000\" and \"1001-2000\", for example";
        finder.add(shared.place(), text);
    }
    (cntlids, shared.is_some())
}

pub(super) fn disk_timeout(table: &ServerTable, finder: &mut Finder<'_>) -> Duration {
    const DEFAULT: Duration = Duration::from_secs(20);
    let Some(text) = &table.disk_timeout else { return DEFAULT };
    finder.take(text.place(), units::parse_duration(text)).unwrap_or(DEFAULT)
}

pub(super) fn slow(table: &ServerTable, finder: &mut Finder<'_>) -> Option<Duration> {
    let text = table.slow.as_ref()?;
    finder.take(text.place(), crate::values::slow(text))
}

pub(super) fn connections(table: &ServerTable, finder: &mut Finder<'_>) -> usize {
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

pub(super) fn iscsi(table: &IscsiTable, directory: &Path, finder: &mut Finder<'_>) -> Settings {
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

pub(super) fn tls(table: &TlsTable, directory: &Path, finder: &mut Finder<'_>) -> TlsFiles {
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
