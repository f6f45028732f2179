//! Use of a state directory by earlier versions, before names of files and disks were recorded in
//! it.

#[cfg(unix)]
use super::record::LOCK;
use super::record::{DISKS, all, enter, make, since_1970};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;
use weft_io::durable::{self, Readers};
use weft_io::file_system;

const FILE: &str = "origin.json";

/// What earlier versions have put into a state directory.
const RECORDS: [&str; 12] = [
    "hostnqn",
    "subsysnqn",
    "initiatorname",
    "targetiqn",
    "reservations",
    "health",
    "controllers",
    "keys",
    "copies",
    "connections.record",
    "known-agents",
    "agent-certificate.der",
];

/// What is known of the time before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Until when an earlier version may have shown names to hosts, nanoseconds since 1970. `None`:
    /// none has.
    #[serde(default)]
    derived_until_ns: Option<u64>,
}

impl Origin {
    /// That of a directory of records; one that cannot be read has none.
    pub(super) fn read(disks: &Path) -> Self {
        let read = || serde_json::from_slice(&fs::read(disks.join(FILE)).ok()?).ok();
        read().unwrap_or_default()
    }

    fn write(self, disks: &Path) -> io::Result<()> {
        let (path, bytes) = (disks.join(FILE), serde_json::to_vec(&self)?);
        let fresh = disks.join(format!("origin.{}.new", std::process::id()));
        durable::replace(&path, &fresh, &bytes, Readers::Mask)
    }

    /// Whether hosts may know a file by the name that an earlier version derived: it existed then,
    /// as far as is known.
    pub(super) fn covers(self, born: Option<SystemTime>) -> bool {
        self.derived_until_ns
            .is_some_and(|until| born.and_then(since_1970).is_none_or(|born| born < until))
    }
}

/// Notes whose a state directory was, before this version makes records there, so that it is not
/// taken for one of an earlier version.
pub(crate) fn settle(state: &Path) {
    let disks = state.join(DISKS);
    if disks.join(FILE).exists() || file_system::passing(state).is_some() {
        return;
    }
    let was_used = RECORDS.iter().any(|name| state.join(name).exists());
    let settled = make(&disks).and_then(|()| {
        // Another process has made these records, after it noted that there were none.
        if disks.join(FILE).exists() {
            return Ok(());
        }
        let until = was_used.then(|| since_1970(SystemTime::now())).flatten();
        Origin { derived_until_ns: until }.write(&disks)
    });
    if let Err(e) = settled {
        // What it is needed for says so.
        tracing::debug!("cannot write to {}: {e}", disks.display());
    }
}

/// Forgets all names of a state directory. Returns how many there were.
pub(crate) fn forget(state: &Path) -> io::Result<usize> {
    let disks = state.join(DISKS);
    let _door = enter(&disks)?;
    // First, so that none that was derived comes back.
    Origin::default().write(&disks)?;
    let all = all(&disks)?;
    all.iter().try_for_each(fs::remove_file)?;
    // Root may have renewed the names of a service.
    #[cfg(unix)]
    weft_io::private_files::give(&disks, &[FILE, LOCK], state)?;
    Ok(all.len())
}
