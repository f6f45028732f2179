//! The file of one subsystem's counters, `UUID.json`, and `UUID.lock`, which the one process that
//! may write it holds.

use crate::replaced_file::{replace, replace_soon};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use uuid::Uuid;
use weft_connection::limits::{HEALTH_FILE_BYTES_MAX, HEALTH_FILES_MAX};
use weft_io::private_files::kept_lock_file;
use weft_proto::nvme::controller::{HealthCounts, IoStatistics};
use weft_proto::nvme::types::Nqn;

/// The namespace of UUIDs that stand for names of subsystems.
const SUBSYSTEMS: Uuid = Uuid::from_u128(0x7c3f_0b92_51d8_4e6a_a2c4_9d07_e813_f65b);

/// Of the form of the file.
const VERSION: u32 = 1;

/// What is in the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    subsystem: String,
    /// A process serves it; a file that says so when the next process begins is that of one which
    /// did not end in order.
    is_served: bool,
    host_read_commands: u64,
    host_write_commands: u64,
    bytes_read: u64,
    bytes_written: u64,
    media_errors: u64,
    error_log_entries: u64,
    power_on_seconds: u64,
    power_cycles: u64,
    unsafe_shutdowns: u64,
}

/// Why the counters of a subsystem are not kept by this process.
#[derive(Debug)]
pub(super) enum NotKept {
    /// Another process keeps them.
    Elsewhere,
    /// The file is that of a newer weft, which knows more.
    Newer(u32),
    /// There is no file, and none can be made.
    Impossible(io::Error),
}

/// The file of a subsystem, which this process may write.
#[derive(Debug)]
pub(super) struct HealthFile {
    path: PathBuf,
    subsystem: Nqn,
    _lock: File,
}

impl HealthFile {
    /// The file of a subsystem, and the counters as this process begins with them. What cannot be
    /// read is put aside, and said.
    pub(super) fn open(directory: &Path, nqn: &Nqn) -> Result<(Self, HealthCounts), NotKept> {
        let path =
            directory.join(format!("{}.json", Uuid::new_v5(&SUBSYSTEMS, nqn.as_str().as_bytes())));
        fs::create_dir_all(directory).map_err(NotKept::Impossible)?;
        if matches!(path.try_exists(), Ok(false)) {
            make_room(directory);
        }
        let file = Self { _lock: hold(&path)?, path, subsystem: nqn.clone() };
        let before = match file.read() {
            Ok(before) => before,
            Err(Unreadable::Newer(version)) => return Err(NotKept::Newer(version)),
            Err(Unreadable::Damaged(why)) => {
                file.put_aside(&why);
                None
            }
        };
        Ok((file, before.map_or_else(HealthCounts::default, |content| content.continued())))
    }

    /// What the process before has kept; `None`: there was none.
    fn read(&self) -> Result<Option<Content>, Unreadable> {
        let damaged = |e: io::Error| Unreadable::Damaged(e.to_string());
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(damaged(e)),
        };
        let mut text = String::new();
        file.take(HEALTH_FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(damaged)?;
        decode(&text, &self.subsystem).map(Some)
    }

    fn put_aside(&self, why: &str) {
        let (nqn, path) = (&self.subsystem, self.path.display());
        let aside = self.path.with_extension("damaged");
        let left = match fs::rename(&self.path, &aside) {
            Ok(()) => format!("the file is now {}", aside.display()),
            Err(e) => format!("the file will be replaced: {e}"),
        };
        tracing::warn!(
            "the counters of {nqn} in {path} cannot be read: {why}; those of its SMART log begin at 0, and {left}"
        );
    }

    /// Keeps counters, durably. `is_served`: the process goes on.
    pub(super) fn keep(&self, counts: &HealthCounts, is_served: bool) -> io::Result<()> {
        replace(&self.path, &encode(&self.subsystem, counts, is_served))
    }

    /// Keeps that the process serves the subsystem, as far as an end of the process alone goes.
    pub(super) fn keep_soon(&self, counts: &HealthCounts) -> io::Result<()> {
        replace_soon(&self.path, &encode(&self.subsystem, counts, true))
    }

    /// For messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Content {
    /// The counters with which a process begins that finds these.
    fn continued(&self) -> HealthCounts {
        HealthCounts {
            io: IoStatistics {
                reads: self.host_read_commands,
                writes: self.host_write_commands,
                bytes_read: self.bytes_read,
                bytes_written: self.bytes_written,
                media_errors: self.media_errors,
            },
            error_entries: self.error_log_entries,
            power_on_s: self.power_on_seconds,
            power_cycles: self.power_cycles.saturating_add(1),
            unsafe_shutdowns: self.unsafe_shutdowns.saturating_add(self.is_served.into()),
        }
    }
}

/// Why a file says nothing.
#[derive(Debug, PartialEq, Eq)]
enum Unreadable {
    Newer(u32),
    Damaged(String),
}

fn encode(nqn: &Nqn, counts: &HealthCounts, is_served: bool) -> String {
    let content = Content {
        version: VERSION,
        subsystem: nqn.to_string(),
        is_served,
        host_read_commands: counts.io.reads,
        host_write_commands: counts.io.writes,
        bytes_read: counts.io.bytes_read,
        bytes_written: counts.io.bytes_written,
        media_errors: counts.io.media_errors,
        error_log_entries: counts.error_entries,
        power_on_seconds: counts.power_on_s,
        power_cycles: counts.power_cycles,
        unsafe_shutdowns: counts.unsafe_shutdowns,
    };
    serde_json::to_string_pretty(&content).unwrap_or_default() + "\n"
}

fn decode(text: &str, nqn: &Nqn) -> Result<Content, Unreadable> {
    /// The part that each version has.
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let damaged = |e: serde_json::Error| Unreadable::Damaged(e.to_string());
    if text.len() as u64 > HEALTH_FILE_BYTES_MAX {
        let why = format!("it has more than {HEALTH_FILE_BYTES_MAX} bytes");
        return Err(Unreadable::Damaged(why));
    }
    let Head { version } = serde_json::from_str(text).map_err(damaged)?;
    if version > VERSION {
        return Err(Unreadable::Newer(version));
    }
    let content: Content = serde_json::from_str(text).map_err(damaged)?;
    if content.subsystem != nqn.as_str() {
        return Err(Unreadable::Damaged(format!("it is about {:?}", content.subsystem)));
    }
    Ok(content)
}

/// Becomes the process that writes the file.
fn hold(path: &Path) -> Result<File, NotKept> {
    let lock = kept_lock_file(&path.with_extension("lock")).map_err(NotKept::Impossible)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(NotKept::Elsewhere),
        Err(TryLockError::Error(e)) => Err(NotKept::Impossible(e)),
    }
}

/// Removes the files that were written longest ago, so that there is room for one more. Those of
/// processes that run stay.
fn make_room(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|of| of == "json"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort_unstable();
    let mut surplus = (files.len() + 1).saturating_sub(HEALTH_FILES_MAX);
    for (_, path) in files {
        if surplus == 0 {
            return;
        }
        let Ok(_held) = hold(&path) else { continue };
        surplus -= 1;
        for extension in ["json", "damaged", "lock"] {
            // What stays is removed another time.
            let _ = fs::remove_file(path.with_extension(extension));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nqn() -> Nqn {
        Nqn::new("nqn.2026-01.example:a").unwrap()
    }

    #[test]
    fn what_is_kept_is_read_and_what_is_wrong_is_said() {
        let counts = HealthCounts { error_entries: 7, ..HealthCounts::default() };
        let text = encode(&nqn(), &counts, true);
        assert!((text.len() as u64) < HEALTH_FILE_BYTES_MAX / 2);
        let continued = decode(&text, &nqn()).unwrap().continued();
        assert_eq!(continued, HealthCounts { power_cycles: 2, unsafe_shutdowns: 1, ..counts });
        let in_order = decode(&encode(&nqn(), &counts, false), &nqn()).unwrap().continued();
        assert_eq!(in_order.unsafe_shutdowns, 0);
        assert_eq!(
            decode(&text.replace("\"version\": 1", "\"version\": 9, \"more\": 1"), &nqn()),
            Err(Unreadable::Newer(9))
        );
        let wrong = [
            String::new(),
            text[..text.len() / 2].to_owned(),
            text.replace("example:a", "example:b"),
            text.replace("\"error_log_entries\": 7", "\"error_log_entries\": -7"),
            format!("{text}{}", " ".repeat(HEALTH_FILE_BYTES_MAX as usize)),
        ];
        for text in wrong {
            let found = decode(&text, &nqn());
            assert!(matches!(found, Err(Unreadable::Damaged(_))), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_file_of_version_1_is_read_and_written_as_it_was() {
        let kept = include_str!("version_1/file.json");
        let (reads, writes, bytes_read, bytes_written, media_errors) = (1, 2, 3, 4, 5);
        let counts = HealthCounts {
            io: IoStatistics { reads, writes, bytes_read, bytes_written, media_errors },
            error_entries: 6,
            power_on_s: 7,
            power_cycles: 8,
            unsafe_shutdowns: 9,
        };
        assert_eq!(encode(&nqn(), &counts, true), kept.replace("\r\n", "\n"));
        let continued = decode(kept, &nqn()).unwrap().continued();
        assert_eq!(continued, HealthCounts { power_cycles: 9, unsafe_shutdowns: 10, ..counts });
        let name = Uuid::new_v5(&SUBSYSTEMS, b"nqn.2026-01.example.weft:recorded");
        assert_eq!(name.to_string(), "af257ca8-31a6-53f7-bc0b-56953023a178");
    }

    #[test]
    fn the_oldest_files_make_room_and_those_in_use_stay() {
        let directory = std::env::temp_dir().join(format!("weft-health-{}", Uuid::new_v4()));
        let named = |n: usize| Nqn::new(&format!("nqn.2026-01.example:{n}")).unwrap();
        let held = HealthFile::open(&directory, &named(0)).unwrap();
        for n in 0..=HEALTH_FILES_MAX {
            let opened = HealthFile::open(&directory, &named(n));
            assert_eq!(matches!(opened, Err(NotKept::Elsewhere)), n == 0);
            let (file, counts) = if n == 0 { &held } else { &opened.unwrap() };
            file.keep_soon(counts).unwrap();
        }
        let files = |extension: &str| {
            let entries = fs::read_dir(&directory).unwrap().flatten();
            entries.filter(|of| of.path().extension().is_some_and(|e| e == extension)).count()
        };
        assert_eq!((files("json"), files("lock")), (HEALTH_FILES_MAX, HEALTH_FILES_MAX));
        assert!(held.0.path().exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
