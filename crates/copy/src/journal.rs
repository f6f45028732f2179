//! Up to where a flush of TO covers the copy, in a file, for the process that goes on with it.
//!
//! The file is replaced as a whole, and is durable before it is relied on. While a copy runs its
//! process holds a lock next to it, so that no other one goes on with the same copy.

use crate::ends::CopyEnds;
use crate::limits::JOURNAL_BYTES_MAX;
use crate::unreadable::UnreadableRanges;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use weft_block::placement::placement;
use weft_block::{Device, Error, ErrorKind, grammar};
use weft_io::durable::{self, Readers};
use weft_io::private_files::{kept_lock_file, read_own};

/// The version of the format; later ones are refused.
const VERSION: u32 = 1;

/// The version with places that could not be read. Earlier programs ignore unknown fields, and
/// would report such a copy as complete.
const VERSION_UNREADABLE: u32 = 2;

/// Identity of a device, which also changes with its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The URLs of its sources without options, and without secrets.
    pub url: String,
    /// Where its bytes lie ([`placement`]). Journals of earlier programs lack it.
    #[serde(default)]
    placement: Option<String>,
    /// Its UUID, if it has one.
    uuid: Option<uuid::Uuid>,
    /// Its serial number, if it has one.
    serial: Option<String>,
    /// Its size in bytes.
    pub bytes: u64,
    block_bytes: u32,
    /// Files that it consists of.
    files: Vec<KnownFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownFile {
    device: u64,
    inode: u64,
    /// Seconds and nanoseconds, where the system tells: a number of an inode is used again.
    created: Option<(u64, u32)>,
    /// Seconds and nanoseconds; not of a file that is written to.
    modified: Option<(u64, u32)>,
}

impl Known {
    /// Returns the present identity of a device; with `contents` also the last write to its files.
    pub fn of(device: &Device, contents: bool) -> Self {
        let (geometry, identity) = (device.geometry(), device.identity());
        let sources = grammar::sources(device.url());
        let paths = sources.iter().filter_map(|source| grammar::path(source.url));
        Self {
            placement: Some(placement(device.url())),
            url: sources
                .iter()
                .map(|source| grammar::options(source.url).0)
                .collect::<Vec<_>>()
                .join(","),
            uuid: identity.lasting_uuid(),
            serial: identity.serial,
            bytes: geometry.data_bytes(),
            block_bytes: geometry.block_bytes,
            files: paths.filter_map(|path| KnownFile::of(Path::new(path), contents)).collect(),
        }
    }

    /// Returns its name: its UUID, or its place.
    pub fn name(&self) -> String {
        self.uuid.map_or_else(|| self.url.clone(), |uuid| uuid.to_string())
    }

    /// Returns whether it is a disk of this machine that only its path distinguishes from others.
    pub fn is_path_alone(&self) -> bool {
        let is_path = grammar::sources(&self.url).iter().any(|of| grammar::path(of.url).is_some());
        is_path && self.files.is_empty() && self.serial.is_none()
    }

    /// Where its bytes lie. The URL alone says it only of one source without options.
    fn placement(&self) -> String {
        self.placement.clone().unwrap_or_else(|| placement(&self.url))
    }

    /// How it differs from what was known before, in words.
    fn difference(&self, now: &Self) -> Option<String> {
        if self.bytes != now.bytes || self.block_bytes != now.block_bytes {
            return Some(format!("its size is {} bytes now, it was {}", now.bytes, self.bytes));
        }
        // Earlier programs, which noted no placement, noted UUIDs that do not last.
        let is_noted = self.placement.is_some() || now.uuid.is_some();
        let now = &Self { uuid: if is_noted { now.uuid } else { self.uuid }, ..now.clone() };
        let of = |known: &Self| {
            let files: Vec<_> =
                known.files.iter().map(|it| (it.device, it.inode, it.created)).collect();
            (known.url.clone(), known.uuid, known.serial.clone(), files)
        };
        if of(self) != of(now) {
            return Some("it is another device".into());
        }
        let [was, is] = [self, now].map(Self::placement);
        if was != is {
            return Some(format!("its data lies elsewhere: it was {was}, and is {is} now"));
        }
        let now = &Self { placement: self.placement.clone(), ..now.clone() };
        (self != now).then(|| "it was written to since".into())
    }
}

impl KnownFile {
    fn of(path: &Path, contents: bool) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let since = |at: SystemTime| {
            at.duration_since(UNIX_EPOCH).ok().map(|at| (at.as_secs(), at.subsec_nanos()))
        };
        let modified = metadata.modified().ok().filter(|_| contents).and_then(since);
        let created = metadata.created().ok().and_then(since);
        let (device, inode) = place(&metadata);
        Some(Self { device, inode, created, modified })
    }
}

#[cfg(unix)]
fn place(metadata: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn place(_: &fs::Metadata) -> (u64, u64) {
    (0, 0)
}

/// Contents of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalRecord {
    version: u32,
    /// The source.
    pub from: Known,
    /// The destination.
    pub to: Known,
    /// Bytes from the start that are copied, and that a flush covers.
    pub copied: u64,
    /// TO was made for this copy, and reads as zeroes where nothing was written.
    pub blank: bool,
    /// Milliseconds for which writes of the process that wrote this may still be executed after its
    /// end.
    pub late_writes_ms: u64,
    /// Unreadable parts of the source; they are zero in TO.
    #[serde(default, skip_serializing_if = "UnreadableRanges::is_empty")]
    pub unreadable: UnreadableRanges,
}

impl JournalRecord {
    /// That of a copy which begins.
    pub fn new(ends: &CopyEnds, blank: bool) -> Self {
        let late = ends.to.late_writes_bound().unwrap_or_default();
        Self {
            version: VERSION,
            from: Known::of(&ends.from, true),
            to: Known::of(&ends.to, false),
            copied: 0,
            blank,
            late_writes_ms: u64::try_from(late.as_millis()).unwrap_or(u64::MAX),
            unreadable: UnreadableRanges::default(),
        }
    }

    /// Returns whether it is of these two devices, as they may be now: by their names, or by where
    /// they are, as another file may have taken the place of one.
    pub fn is_of(&self, ends: &CopyEnds) -> bool {
        let is = |before: &Known, end| {
            let now = Known::of(end, false);
            before.name() == now.name() || before.url == now.url
        };
        is(&self.from, &ends.from) && is(&self.to, &ends.to)
    }

    /// Checks that it belongs to these two devices, and that they are unchanged.
    ///
    /// # Errors
    /// Which of them differs, and how.
    pub fn check(&self, ends: &CopyEnds) -> Result<(), Error> {
        let now = [Known::of(&ends.from, true), Known::of(&ends.to, false)];
        for (before, now) in [&self.from, &self.to].into_iter().zip(&now) {
            if let Some(difference) = before.difference(now) {
                let text = format!(
                    "{}: {difference}, so the copy cannot resume: use --restart to copy everything again",
                    now.url
                );
                return Err(Error::new(ErrorKind::Usage, text));
            }
        }
        Ok(())
    }
}

/// The journal of a copy that runs. It stays when this is dropped.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Journal {
    /// Takes the journal at this path, which need not exist.
    ///
    /// # Errors
    /// Another process has it, or the directory cannot be written to.
    pub fn take(path: &Path) -> Result<Self, Error> {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::create_dir_all(dir).map_err(|e| cannot("create", dir, e))?;
        }
        let place = beside(path, "lock");
        let lock = kept_lock_file(&place).map_err(|e| cannot("open", &place, e))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let text = format!("another process copies by the journal {}", path.display());
                Err(Error::new(ErrorKind::InUse, text))
            }
            Err(TryLockError::Error(e)) => Err(cannot("lock", &place, e)),
        }
    }

    /// Returns its contents; none if there is no copy to go on with.
    ///
    /// # Errors
    /// It cannot be read, or has another version.
    pub fn read(&self) -> Result<Option<JournalRecord>, Error> {
        let bytes = match read_own(&self.path, JOURNAL_BYTES_MAX) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| cannot("read", &self.path, e))?,
        };
        let record = serde_json::from_slice::<JournalRecord>(&bytes).ok();
        let is_known = |of: &JournalRecord| [VERSION, VERSION_UNREADABLE].contains(&of.version);
        record.filter(is_known).map(Some).ok_or_else(|| {
            let text = format!(
                "{} is not a journal of a copy by this version: remove it, or give another one",
                self.path.display()
            );
            Error::new(ErrorKind::Usage, text)
        })
    }

    /// Replaces what it holds. It is durable then.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, record: &JournalRecord) -> Result<(), Error> {
        let fresh = beside(&self.path, "new");
        let version = match record.unreadable.is_empty() {
            true => VERSION,
            false => VERSION_UNREADABLE,
        };
        let record = JournalRecord { version, ..record.clone() };
        let text = serde_json::to_vec(&record).map_err(io::Error::from);
        text.and_then(|text| durable::replace(&self.path, &fresh, &text, Readers::Mask))
            .map_err(|e| cannot("write", &self.path, e))
    }

    /// Removes it: the copy is complete, or begins again.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> Result<(), Error> {
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|e| cannot("remove", &self.path, e)),
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Journal {
    /// Without a copy to go on with, nothing stays.
    fn drop(&mut self) {
        if !self.path.exists() {
            // Whoever opened it meanwhile has a lock on nothing; it locks no other copy out.
            let _ = fs::remove_file(beside(&self.path, "lock"));
        }
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn cannot(what: &str, path: &Path, e: io::Error) -> Error {
    let text = format!(
        "cannot {what} {}: {e}; give another --journal, or --no-journal for a copy that cannot go on after an interruption",
        path.display()
    );
    Error::io(text, e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::OpenOptions;

    fn file(dir: &Path, name: &str, bytes: usize) -> String {
        let path = dir.join(name);
        fs::write(&path, vec![1; bytes]).unwrap();
        format!("file:{}", path.display())
    }

    fn ends(from: &str, to: &str) -> CopyEnds {
        let open = |url: &str| weft_block::open(url, &OpenOptions::default()).unwrap();
        CopyEnds::new(open(&format!("readonly:{from}")), open(to)).unwrap()
    }

    #[test]
    fn a_record_is_of_its_two_devices_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (file(dir.path(), "from", 8192), file(dir.path(), "to", 8192));
        let record = JournalRecord::new(&ends(&from, &to), false);
        record.check(&ends(&from, &to)).unwrap();
        let refused = |from: &str, to: &str| record.check(&ends(from, to)).unwrap_err().to_string();
        file(dir.path(), "to", 16384);
        assert!(refused(&from, &to).contains("its size is 16384 bytes now, it was 8192"));
        file(dir.path(), "to", 8192);
        record.check(&ends(&from, &to)).unwrap();
        let other = file(dir.path(), "other", 8192);
        assert!(refused(&from, &other).contains("another device"));
        let later = fs::metadata(dir.path().join("from")).unwrap().modified().unwrap()
            + std::time::Duration::from_secs(2);
        File::options()
            .write(true)
            .open(dir.path().join("from"))
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert!(refused(&from, &to).contains("written to since"));
        fs::remove_file(dir.path().join("to")).unwrap();
        fs::write(dir.path().join("hold"), "").unwrap();
        file(dir.path(), "to", 8192);
        assert!(record.check(&ends(&from, &to)).is_err());
    }

    #[test]
    fn the_same_disks_put_together_in_another_way_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let plain = file(dir.path(), "plain", 2 << 20);
        // Null devices have no UUID, as NBD exports.
        let stripe = |chunk: &str| format!("stripe:{chunk},null:1MiB,null:2MiB");
        let before = stripe("64KiB");
        for [one, other] in [[&plain, &before], [&before, &plain]] {
            let record = JournalRecord::new(&ends(one, other), false);
            let check = |now: &str| {
                let now = [one, other].map(|end| if **end == before { now } else { end.as_str() });
                record.check(&ends(now[0], now[1])).map_err(|e| e.to_string())
            };
            check(&before).unwrap();
            check(&stripe("65536")).unwrap();
            check(&format!("delay:read=1us,{before}")).unwrap();
            let refused = check(&stripe("4KiB")).unwrap_err();
            assert!(
                refused.contains("stripe:65536") && refused.contains("stripe:4096"),
                "{refused}"
            );
            check("stripe:64KiB,null:2MiB,null:1MiB").unwrap_err();
        }
    }

    /// Those of earlier programs do not say how a device is put together.
    #[test]
    fn a_journal_without_placements_is_taken_where_it_says_enough() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (file(dir.path(), "from", 1 << 20), file(dir.path(), "to", 1 << 20));
        let earlier = |ends: &CopyEnds| -> JournalRecord {
            let mut json = serde_json::to_value(JournalRecord::new(ends, false)).unwrap();
            for end in ["from", "to"] {
                json[end].as_object_mut().unwrap().remove("placement").unwrap();
            }
            serde_json::from_value(json).unwrap()
        };
        let plain = ends(&from, &to);
        earlier(&plain).check(&plain).unwrap();
        let stripe = ends(&from, "stripe:64KiB,null:1MiB,null:1MiB");
        assert!(earlier(&stripe).check(&stripe).is_err());
    }

    #[test]
    fn one_process_has_a_journal_and_it_is_read_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/journal.json");
        let journal = Journal::take(&path).unwrap();
        assert_eq!(Journal::take(&path).unwrap_err().kind(), ErrorKind::InUse);
        assert_eq!(journal.read().unwrap(), None);
        let (from, to) = (file(dir.path(), "from", 4096), file(dir.path(), "to", 4096));
        let plain = ends(&from, &to);
        let begun = JournalRecord { copied: 512, ..JournalRecord::new(&plain, true) };
        journal.write(&begun).unwrap();
        assert_eq!(journal.read().unwrap().as_ref(), Some(&begun));
        // Earlier programs, which know one version, refuse a copy with places that they ignore.
        let places: UnreadableRanges = serde_json::from_str(r#"[{"at":0,"bytes":512}]"#).unwrap();
        for (unreadable, version) in [(places, 2), (UnreadableRanges::default(), 1)] {
            let record = JournalRecord { unreadable, ..begun.clone() };
            journal.write(&record).unwrap();
            assert_eq!(journal.read().unwrap(), Some(JournalRecord { version, ..record }));
        }
        for text in [String::from("{}"), fs::read_to_string(&path).unwrap().replace(":1,", ":3,")] {
            fs::write(&path, text).unwrap();
            assert_eq!(journal.read().unwrap_err().kind(), ErrorKind::Usage);
        }
        journal.remove().unwrap();
        drop(journal);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn journals_of_both_versions_are_read_and_written_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::take(&dir.path().join("journal.json")).unwrap();
        let end = |name: &str, modified: &str| {
            format!(
                r#"{{"url":"file:/srv/{name}","placement":"file:/srv/{name}","uuid":"73209d6f-7945-4ece-8727-76a48e852ffc","serial":"s","bytes":8192,"block_bytes":512,"files":[{{"device":1,"inode":2,"created":[3,4],"modified":{modified}}}]}}"#
            )
        };
        let (from, to) = (end("from", "[5,6]"), end("to", "null"));
        let places = r#","unreadable":[{"at":0,"bytes":512}]"#;
        for (version, places) in [(VERSION, ""), (VERSION_UNREADABLE, places)] {
            let text = format!(
                r#"{{"version":{version},"from":{from},"to":{to},"copied":4096,"blank":true,"late_writes_ms":7{places}}}"#
            );
            fs::write(journal.path(), &text).unwrap();
            let record = journal.read().unwrap().unwrap();
            assert_eq!((record.copied, record.blank, record.late_writes_ms), (4096, true, 7));
            assert_eq!(record.unreadable.is_empty(), places.is_empty());
            journal.write(&record).unwrap();
            assert_eq!(fs::read_to_string(journal.path()).unwrap(), text);
        }
    }
}
