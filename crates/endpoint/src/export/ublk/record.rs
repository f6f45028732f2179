//! What is kept of a disk for the process that takes it over when this one has ended without
//! having stopped it: as long as the kernel has the disk, and so only until it starts again.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, io};
use weft_block::BlockDevice;

/// The record of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// What the disk is labelled with in the kernel.
    label: u64,
    /// The device's start counter.
    epoch: Option<u64>,
    /// Milliseconds for which writes of this process may be executed after it has ended.
    late_writes_ms: u64,
}

impl Record {
    /// That of a disk with this label, of this device.
    pub fn of(label: u64, device: &dyn BlockDevice) -> Self {
        let bound = device.late_writes_bound().unwrap_or_default();
        let late_writes_ms = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        Self { label, epoch: epoch_of(device), late_writes_ms }
    }

    /// How long writes of the process that kept it may still be executed.
    pub fn late_writes(&self) -> Duration {
        Duration::from_millis(self.late_writes_ms)
    }

    /// Whether the device certainly has what that process wrote and did not flush.
    pub fn has_kept(&self, device: &dyn BlockDevice) -> bool {
        let is_same = self.epoch.is_some() && self.epoch == epoch_of(device);
        is_same || !device.features().volatile_cache
    }

    /// Keeps it. Where that cannot be, a process that takes the disk over takes all for lost.
    pub fn keep(&self, number: u32) {
        if let Err(e) = self.write(number) {
            tracing::warn!(
                "cannot keep what a process that takes over /dev/ublkb{number} would have to know: {e}"
            );
        }
    }

    fn write(&self, number: u32) -> io::Result<()> {
        let (place, fresh) = (place(number), place(number).with_extension("new"));
        if let Some(directory) = place.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(&fresh, serde_json::to_vec(self)?)?;
        fs::rename(fresh, place)
    }

    /// That of a disk with this label; `None`: there is none that can be read.
    pub fn read(number: u32, label: u64) -> Option<Self> {
        let record: Self = serde_json::from_slice(&fs::read(place(number)).ok()?).ok()?;
        Some(record).filter(|record| record.label == label)
    }
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

/// Forgets the record of a disk that is gone.
pub(super) fn forget(number: u32) {
    // If it stays, its label tells that it is none of the next disk of this number.
    let _ = fs::remove_file(place(number));
}

fn place(number: u32) -> PathBuf {
    let of = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = of("WEFT_RUNTIME_DIR")
        .or_else(|| of("XDG_RUNTIME_DIR").map(|directory| directory.join("weft")))
        .unwrap_or_else(|| PathBuf::from("/run/weft"));
    directory.join(format!("ublk{number}.disk"))
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
}
