//! Properties of a disk or partition that the system reports: sizes, limits and identity, from
//! `/sys/dev/block` (Linux; documented in the kernel's `Documentation/ABI/stable/sysfs-block`), or
//! by the calls of Windows.

use super::drive;
use super::facts::{DiskName, Facts};
use super::system;
use std::fs::{File, Metadata};
use std::io;
use std::path::PathBuf;

/// A disk or partition that exists in the system.
pub(super) enum Disk {
    /// One of Linux.
    Sysfs(Sysfs),
    /// A drive or volume of Windows.
    Drive {
        /// The volumes on the drive: open, hence locked.
        _volumes: Vec<File>,
    },
}

/// A disk or partition of Linux.
pub(super) struct Sysfs {
    /// Its directory.
    place: PathBuf,
    /// A number that no other disk had since the system was started.
    sequence: Option<String>,
}

impl Disk {
    /// Returns whether it has been removed from the system.
    pub(super) fn is_gone(&self, file: &File) -> bool {
        match self {
            Self::Sysfs(disk) => disk.is_gone(),
            Self::Drive { .. } => drive::is_gone(file),
        }
    }

    /// The file behind it, if it is a loop device.
    pub(super) fn backing(&self) -> Option<String> {
        match self {
            Self::Sysfs(disk) => disk.whole("loop/backing_file"),
            Self::Drive { .. } => None,
        }
    }

    /// Its size, bytes.
    pub(super) fn bytes(&self, file: &File) -> io::Result<u64> {
        match self {
            Self::Sysfs(_) => system::end(file),
            Self::Drive { .. } => drive::bytes(file),
        }
    }
}

impl Sysfs {
    /// The disk of a device file.
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        let (major, minor) = system::device_number(metadata)?;
        let disk = Self { place: format!("/sys/dev/block/{major}:{minor}").into(), sequence: None };
        let sequence = disk.whole("diskseq");
        Some(Self { sequence, ..disk })
    }

    fn is_gone(&self) -> bool {
        !self.place.exists() || self.whole("diskseq") != self.sequence
    }

    fn read(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.place.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// An attribute that a partition does not have, but its disk.
    fn whole(&self, name: &str) -> Option<String> {
        self.read(name).or_else(|| self.partition().and_then(|_| self.read(&format!("../{name}"))))
    }

    fn partition(&self) -> Option<String> {
        self.read("partition")
    }

    pub(super) fn facts(&self) -> Facts {
        let number = |name| self.whole(name).and_then(|text| text.parse::<u64>().ok());
        let bytes = |name| {
            number(name)
                .and_then(|bytes| u32::try_from(bytes).ok())
                .filter(|bytes| bytes.is_power_of_two())
        };
        Facts {
            logical_bytes: bytes("queue/logical_block_size"),
            physical_bytes: bytes("queue/physical_block_size"),
            discards: number("queue/discard_max_bytes").is_some_and(|most| most > 0),
            // What does not tell may have one.
            volatile_cache: self
                .whole("queue/write_cache")
                .is_none_or(|kind| kind != "write through"),
            read_only: self.read("ro").is_some_and(|flag| flag == "1"),
            name: self.name(),
            unbuffered: false,
            serial: self.whole("device/serial"),
            model: self.whole("device/model"),
        }
    }

    fn name(&self) -> Option<DiskName> {
        let of_disk = ["wwid", "device/wwid", "dm/uuid", "md/uuid"]
            .iter()
            .find_map(|attribute| self.whole(attribute))?;
        Some(DiskName::given(&of_disk, self.partition().as_deref()))
    }
}
