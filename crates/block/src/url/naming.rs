//! Names of files, and of disks that do not name themselves.
//!
//! Such a file or disk has a random UUID, which whoever opens it keeps ([`Naming`]): nothing that
//! two machines may have in common is part of it. This crate knows no place for records: by default
//! it uses [`PassingNames`], which end with the process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;
use uuid::Uuid;
use weft_base::lock::Lock;

/// The namespace of [`Passing::here`].
const HERE: Uuid = Uuid::from_u128(0x8d42_c1f7_3e0b_4c96_b85a_17d9_60e4_2f3c);

/// A file that a name is wanted for, or a disk that does not name itself.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The inode of a file, where its number lasts.
    pub inode: Option<Inode>,
    /// The canonical path, or another name that counts on this machine only.
    pub place: PathBuf,
    /// The number of the inode and that of the device of the file system, until the system ends.
    pub now: Option<(u64, u64)>,
    /// The time when the file was created, where the system tells it.
    pub born: Option<SystemTime>,
    /// The UUID that earlier versions derived from an identifier of the machine and the path.
    /// `None`: the machine has no identifier, or the file is new.
    pub former: Option<Uuid>,
}

/// The inode of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inode {
    /// The identifier of the file system ([`weft_io::file_system::identifier`]).
    pub file_system: String,
    /// The number.
    pub number: u64,
}

impl Subject {
    /// Returns whether the file at another path is the same one in a copy of the file system, for
    /// example a snapshot that is mounted.
    pub fn is_copied_at(&self, path: &Path) -> bool {
        let Some(inode) = &self.inode else { return false };
        std::fs::metadata(path).is_ok_and(|found| {
            number_and_device(&found).is_some_and(|(number, device)| {
                number == inode.number
                    && self.now.is_some_and(|(_, own)| own != device)
                    && found.created().ok() == self.born
            })
        })
    }
}

/// The numbers of an inode and of the device of its file system.
#[cfg(unix)]
pub(crate) fn number_and_device(metadata: &std::fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.ino(), metadata.dev()))
}

/// Not known on this system.
#[cfg(not(unix))]
pub(crate) fn number_and_device(_: &std::fs::Metadata) -> Option<(u64, u64)> {
    None
}

/// A name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// The UUID.
    pub uuid: Uuid,
    /// Set if another process gives another name.
    pub passing: Option<Passing>,
}

/// State of a name that ends with its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    /// The reason.
    pub why: String,
    /// A UUID by which the processes of this system know the data until the system ends. It is not
    /// shown to hosts: that of another system may be the same.
    pub here: Uuid,
}

/// Whoever gives names.
pub trait Naming: Send + Sync {
    /// The name of a file or disk: the same each time, or one that ends with this process. May wait
    /// for the disk.
    fn name(&self, subject: &Subject) -> DeviceName;
}

/// Names that end with this process.
#[derive(Default)]
pub struct PassingNames(Lock<HashMap<Known, DeviceName>>);

/// Identity of files and disks within a process.
type Known = (PathBuf, Option<Inode>, Option<SystemTime>);

impl PassingNames {
    /// The name that was given to a file or disk before.
    pub fn known(&self, subject: &Subject) -> Option<DeviceName> {
        self.0.lock().get(&key(subject)).cloned()
    }

    /// Gives a name, or the one that was given before; `why` no other process gives it.
    pub fn give(&self, subject: &Subject, why: &str) -> DeviceName {
        let mut given = self.0.lock();
        let fresh = || {
            let passing = Passing { why: why.to_owned(), here: here(subject) };
            DeviceName { uuid: Uuid::new_v4(), passing: Some(passing) }
        };
        given.entry(key(subject)).or_insert_with(fresh).clone()
    }
}

/// See [`Passing::here`].
fn here(subject: &Subject) -> Uuid {
    let words = format!("{:?} {:?}\0", subject.now, subject.born);
    let name = [words.as_bytes(), subject.place.as_os_str().as_encoded_bytes()].concat();
    Uuid::new_v5(&HERE, &name)
}

fn key(subject: &Subject) -> Known {
    (subject.place.clone(), subject.inode.clone(), subject.born)
}

impl Naming for PassingNames {
    fn name(&self, subject: &Subject) -> DeviceName {
        self.give(subject, "this program keeps no names")
    }
}

/// Names for those who give none.
pub(crate) fn of_this_process() -> &'static dyn Naming {
    static NAMES: LazyLock<PassingNames> = LazyLock::new(PassingNames::default);
    &*NAMES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_gives_each_file_one_name() {
        let subject = |place: &str, born: Option<SystemTime>| Subject {
            place: place.into(),
            born,
            ..Subject::default()
        };
        let names = PassingNames::default();
        let a = names.name(&subject("/a", None));
        assert_eq!(names.name(&subject("/a", None)), a);
        assert_eq!(names.known(&subject("/a", None)), Some(a.clone()));
        assert!(names.known(&subject("/b", None)).is_none());
        // Another file in its place.
        let born = Some(SystemTime::UNIX_EPOCH);
        let later = names.name(&subject("/a", born));
        assert!(later.uuid != a.uuid && later.passing != a.passing);
        let elsewhere = PassingNames::default().name(&subject("/a", None));
        assert!(elsewhere.uuid != a.uuid && elsewhere.passing == a.passing);
    }
}
