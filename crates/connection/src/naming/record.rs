//! The record of a name: a file of its own.

use crate::limits::{DISK_NAME_BYTES_MAX, DISK_NAME_S, DISK_NAMES_MAX, DISK_PLACES_MAX};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use uuid::Uuid;
use weft_block::naming::Subject;
use weft_io::durable::{self, Readers};
use weft_io::private_files::{kept_lock_file, lock_within};

/// The directory of the records, in the state directory.
pub(super) const DISKS: &str = "disks";

/// The file that is locked while a name is recorded.
pub(super) const LOCK: &str = "lock";

/// The version of the format.
const VERSION: u32 = 1;

/// A name, and what has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// The name.
    pub(super) uuid: Uuid,
    /// Where it was found, the first place first.
    places: Vec<String>,
    /// The number of the inode of a file, where it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inode: Option<u64>,
    /// When a file was created, nanoseconds since 1970: the number of an inode is used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born_ns: Option<u64>,
}

/// Nanoseconds since 1970.
pub(super) fn since_1970(time: SystemTime) -> Option<u64> {
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

fn place_of(subject: &Subject) -> String {
    subject.place.to_string_lossy().into_owned()
}

impl Record {
    pub(super) fn new(uuid: Uuid, subject: &Subject) -> Self {
        Self {
            version: VERSION,
            uuid,
            places: vec![place_of(subject)],
            inode: subject.inode.as_ref().map(|inode| inode.number),
            born_ns: subject.born.and_then(since_1970),
        }
    }

    /// The same with all that is known of its file or disk by now.
    pub(super) fn with(self, subject: &Subject) -> Self {
        let now = Self::new(self.uuid, subject);
        let mut places = self.places;
        if !places.contains(&now.places[0]) && places.len() < DISK_PLACES_MAX {
            places.extend(now.places);
        }
        Self {
            places,
            inode: now.inode.or(self.inode),
            born_ns: now.born_ns.or(self.born_ns),
            ..self
        }
    }

    /// Whether it has all that is known of its file or disk.
    pub(super) fn knows(&self, subject: &Subject) -> bool {
        self.clone().with(subject) == *self
    }

    /// Whether the file is the one that was recorded, and no later one in its place. Where the time
    /// of creation is not told, a later file may have its inode, so the path counts as well.
    pub(super) fn is_of(&self, subject: &Subject) -> bool {
        let now = Self::new(self.uuid, subject);
        let agree = |one: Option<u64>, other: Option<u64>| {
            one.zip(other).is_none_or(|(one, other)| one == other)
        };
        let is_sure = self.born_ns.and(now.born_ns).is_some()
            || self.places.contains(&now.places[0])
            || self.places.len() == DISK_PLACES_MAX;
        is_sure && agree(self.inode, now.inode) && agree(self.born_ns, now.born_ns)
    }

    /// Whether the file is a copy of the one that was recorded, which is still where it was found
    /// before.
    pub(super) fn is_copied(&self, subject: &Subject) -> bool {
        let own = place_of(subject);
        let mut others = self.places.iter().take_while(|place| **place != own);
        others.any(|place| subject.is_copied_at(Path::new(place)))
    }

    /// Reads a record; `None`: there is none.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut bytes = Vec::new();
        file.take(DISK_NAME_BYTES_MAX).read_to_end(&mut bytes)?;
        let wrong = |why: String| {
            let text = format!("{}: {why}; delete it to have another name drawn", path.display());
            io::Error::new(ErrorKind::InvalidData, text)
        };
        let record: Self = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        match record.version {
            VERSION => Ok(Some(record)),
            other => Err(wrong(format!("version {other} is not known"))),
        }
    }

    /// Writes a record, which is durable then.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        durable::replace(path, &path.with_extension("new"), &bytes, Readers::Mask)
    }
}

/// Waits until no other process records a name; until the file is dropped none does. The directory
/// is made if it is not there.
///
/// # Errors
/// `WouldBlock` after [`DISK_NAME_S`]; otherwise the error of making, opening or locking.
pub(super) fn enter(disks: &Path) -> io::Result<File> {
    make(disks)?;
    let door = kept_lock_file(&disks.join(LOCK))?;
    lock_within(&door, Duration::from_secs(DISK_NAME_S))?;
    Ok(door)
}

/// Makes a directory that only its owner can enter, if it is not there.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// All records.
pub(super) fn all(disks: &Path) -> io::Result<Vec<PathBuf>> {
    let is_one = |path: &PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        Uuid::parse_str(name).is_ok() && path.extension().is_some_and(|it| it == "json")
    };
    let entries =
        fs::read_dir(disks)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    Ok(entries.into_iter().filter(is_one).collect())
}

/// Removes the records of files that are at none of their places any more, if there are many
/// records. Those of disks stay, and those of files in directories that are not there now.
pub(super) fn remove_lost(disks: &Path) -> io::Result<()> {
    let all = all(disks)?;
    if all.len() < DISK_NAMES_MAX {
        return Ok(());
    }
    for path in all {
        let is_gone = |place: &String| {
            let place = Path::new(place);
            !place.exists() && place.parent().is_some_and(Path::is_dir)
        };
        let is_lost = |record: &Record| record.inode.is_some() && record.places.iter().all(is_gone);
        if matches!(Record::read(&path), Ok(Some(record)) if is_lost(&record)) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_version_1_is_read_and_written_as_it_was() {
        let places = r#""places":["/srv/a","/srv/b"]"#;
        let uuid = "73209d6f-7945-4ece-8727-76a48e852ffc";
        let of_file = format!(
            r#"{{"version":1,"uuid":"{uuid}",{places},"inode":10094945,"born_ns":1795957526800012422}}"#
        );
        let of_disk = format!(r#"{{"version":1,"uuid":"{uuid}",{places}}}"#);
        let file = [Some(10_094_945), Some(1_795_957_526_800_012_422)];
        for (text, [inode, born_ns]) in [(of_file, file), (of_disk, [None; 2])] {
            let places = vec!["/srv/a".into(), "/srv/b".into()];
            let record = Record { version: 1, uuid: uuid.parse().unwrap(), places, inode, born_ns };
            assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
            assert_eq!(serde_json::to_string(&record).unwrap(), text);
        }
    }
}
