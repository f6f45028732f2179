//! The record that a disk's process keeps in a file for the one that takes the disk over after a
//! kill. Before the second process serves the disk, no write of the first may still be executed,
//! and writes that may be lost must be reported.

#[cfg(target_os = "linux")]
use crate::inventory::Namespace;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::{fs, io};
use uuid::Uuid;
use weft_block::BlockDevice;
use weft_connection::limits::KEPT_RECORD_BYTES_MAX;
use weft_connection::settle::LateWrites;
use weft_io::durable::{self, Readers};
use weft_io::private_files::read_own;

/// The record of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// What tells its data from that of others: see [`label`].
    label: u64,
    /// The device's start counter.
    pub epoch: Option<u64>,
    /// Writes that targets may still execute for this process after its end.
    #[serde(flatten)]
    pub late: LateWrites,
}

impl Record {
    /// That of a disk with this label, of this device.
    pub(super) fn of(label: u64, device: &dyn BlockDevice) -> Self {
        Self { label, epoch: epoch_of(device), late: LateWrites::of(device) }
    }

    /// Returns whether the device certainly has what that process wrote and did not flush.
    pub(super) fn has_kept(&self, device: &dyn BlockDevice) -> bool {
        let is_same = self.epoch.is_some() && self.epoch == epoch_of(device);
        is_same || !device.features().volatile_cache
    }

    /// Keeps it. Where that cannot be, nothing is kept: a process that takes the disk over takes all
    /// for lost, and waits as long as it would have to be waited for.
    pub(super) fn keep(&self, place: &Path) {
        if let Err(e) = self.write(place) {
            forget(place);
            let place = place.display();
            tracing::warn!(
                "cannot keep in {place} what a process that takes the disk over would have to know: {e}"
            );
        }
    }

    fn write(&self, place: &Path) -> io::Result<()> {
        let mut fresh = place.as_os_str().to_owned();
        fresh.push(".new");
        let bytes = serde_json::to_vec(self)?;
        durable::replace_soon(place, Path::new(&fresh), &bytes, Readers::Owner)
    }

    /// That of a disk with this label; `None`: there is none that can be read. Others may write to
    /// the directory of a socket, so what they have put there counts for nothing.
    pub(super) fn read(place: &Path, label: u64) -> Option<Self> {
        let bytes = read_own(place, KEPT_RECORD_BYTES_MAX).ok()?;
        let record: Self = serde_json::from_slice(&bytes).ok()?;
        Some(record).filter(|record| record.label == label)
    }
}

/// Forgets that of a disk that is gone.
pub(super) fn forget(place: &Path) {
    // If it stays, its label tells that it is none of another disk.
    let _ = fs::remove_file(place);
}

/// The start counter of a device: its own, or that at the end of its path if it has one path. What
/// several say is no counter of one start.
fn epoch_of(device: &dyn BlockDevice) -> Option<u64> {
    let of_path = || match &device.paths()[..] {
        [path] => path.epoch,
        _ => None,
    };
    device.cache_epoch().or_else(of_path)
}

/// What tells the data of a disk from that of others. A device that says no UUID of its data has
/// that of its namespace, which another device of a later process may have, too.
#[cfg(target_os = "linux")]
pub(crate) fn label(namespace: &Namespace) -> u64 {
    label_of(namespace.uuid, &**namespace.given())
}

/// That of a device which gets this UUID if it has none.
pub(super) fn label_of(uuid: Uuid, device: &dyn BlockDevice) -> u64 {
    let identity = device.identity();
    let mut words = match identity.uuid {
        Some(_) => String::new(),
        None => device.url().to_owned(),
    };
    // A label is needed until the system ends, at most.
    let here = identity.passing.filter(|_| identity.uuid == Some(uuid));
    let uuid = here.map_or(uuid, |passing| passing.here);
    // The blocks of a RAM disk end with the process.
    if device.url().split([':', ',']).any(|word| word == "ram") {
        words.push_str(&Uuid::new_v4().to_string());
    }
    Uuid::new_v5(&uuid, words.as_bytes()).as_u64_pair().0 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::OpenOptions;

    #[test]
    fn another_start_counter_matters_only_where_there_is_a_cache() {
        let device = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        let record = Record::of(7, &*device);
        assert!(record.has_kept(&*device));
        let other = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        assert_eq!(record.has_kept(&*other), !other.features().volatile_cache);
    }

    #[test]
    fn a_record_is_read_and_written_as_it_was() {
        let text = r#"{"label":7,"epoch":3,"late_writes_ms":500,"late_writers":[{"pair":"a","instance":{"icid":1,"ciu":2,"cirn":4},"bound_ms":900}]}"#;
        let record: Record = serde_json::from_str(text).unwrap();
        assert_eq!(
            (record.label, record.epoch, record.late.bound().as_millis()),
            (7, Some(3), 900)
        );
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
    }
}
