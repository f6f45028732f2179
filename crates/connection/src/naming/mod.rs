//! Names of files and disks that are kept in the state directory ([`weft_block::naming`]).
//!
//! Each name is random, and recorded before anybody sees it: by the file system and the inode of a
//! file where both last, otherwise by the path. Where the state directory ends with the system or
//! the container, or cannot be written, nothing is kept: each process gives other names.
//!
//! Earlier versions derived names from an identifier of the machine and the path. Where a state
//! directory was theirs (`origin`), what existed then keeps its name, which is recorded.

mod origin;
mod record;

pub(crate) use origin::{forget, settle};

use origin::Origin;
use record::{DISKS, Record};
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use weft_block::naming::{DeviceName, Inode, Naming, PassingNames, Subject};
use weft_io::file_system;

/// The namespace of UUIDs by which records are found.
const KEYS: Uuid = Uuid::from_u128(0x3f0b_9d64_51c7_4b1c_a6a9_0e2d_7c43_88f5);

/// The names of a state directory.
pub(crate) struct StateNames {
    /// The state directory; none if the system tells no place for it.
    state: Option<PathBuf>,
    passing: PassingNames,
}

impl StateNames {
    pub(crate) fn new(state: Option<PathBuf>) -> Self {
        Self { state, passing: PassingNames::default() }
    }

    /// The recorded name, which is drawn if there is none.
    ///
    /// # Errors
    /// Why none is recorded here.
    fn lasting(&self, subject: &Subject) -> Result<Uuid, String> {
        let Some(state) = &self.state else {
            return Err("there is no state directory".into());
        };
        if let Some(kind) = file_system::passing(state) {
            return Err(format!("the state directory {} is on {kind}", state.display()));
        }
        let disks = state.join(DISKS);
        let failed =
            |e: io::Error| format!("the directory {} cannot be used: {e}", disks.display());
        match find(&disks, subject).map_err(failed)?.record {
            Some(record) if record.knows(subject) => Ok(record.uuid),
            // What else is known of it need not be recorded.
            Some(record) => Ok(draw(&disks, subject).unwrap_or(record.uuid)),
            None => draw(&disks, subject).map_err(failed),
        }
    }
}

impl Naming for StateNames {
    fn name(&self, subject: &Subject) -> DeviceName {
        // A process gives one name, also if another one could be recorded by now.
        if let Some(name) = self.passing.known(subject) {
            return name;
        }
        match self.lasting(subject) {
            Ok(uuid) => DeviceName { uuid, passing: None },
            Err(why) => self.passing.give(subject, &why),
        }
    }
}

/// Where the record of a file or disk is or would be, and the record.
struct Found {
    place: PathBuf,
    record: Option<Record>,
}

/// Looks for a record, without changing any.
fn find(disks: &Path, subject: &Subject) -> io::Result<Found> {
    let read = |key: Vec<Vec<u8>>| {
        let place = disks.join(format!("{}.json", Uuid::new_v5(&KEYS, &key.join(&0))));
        let record = Record::read(&place)?.filter(|record| record.is_of(subject));
        Ok::<_, io::Error>(Found { place, record })
    };
    let path = || subject.place.as_os_str().as_encoded_bytes().to_vec();
    let by_path = || vec![b"path".to_vec(), path()];
    let Some(Inode { file_system, number }) = &subject.inode else { return read(by_path()) };
    let by_inode =
        vec![b"inode".to_vec(), file_system.clone().into_bytes(), number.to_string().into_bytes()];
    let found = read(by_inode.clone())?;
    match &found.record {
        // A copy of the file system has the same inodes, and is mounted as well.
        Some(record) if record.is_copied(subject) => read([by_inode, vec![path()]].concat()),
        Some(_) => Ok(found),
        // It was recorded where the file system could not be told.
        None => Ok(Found { record: read(by_path())?.record, ..found }),
    }
}

/// Records a name: that of earlier versions, or a random one.
fn draw(disks: &Path, subject: &Subject) -> io::Result<Uuid> {
    let _door = record::enter(disks)?;
    // Another process may have been first.
    let Found { place, record } = find(disks, subject)?;
    let record = match record {
        Some(record) => record.with(subject),
        None => {
            let former = subject.former.filter(|_| Origin::read(disks).covers(subject.born));
            record::remove_lost(disks)?;
            Record::new(former.unwrap_or_else(Uuid::new_v4), subject)
        }
    };
    record.write(&place)?;
    Ok(record.uuid)
}

#[cfg(test)]
mod tests;
