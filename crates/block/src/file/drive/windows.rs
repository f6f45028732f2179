//! Windows itself.

use super::super::system;
use super::Opened;
use super::claim::{self, Calls, Claim};
use super::name::{self, DriveName};
use crate::limits::VOLUME_LOCK_PAUSE_MS;
use crate::outcome::error::Error;
use crate::outcome::status::{Status, StatusKind};
use core::time::Duration;
use std::fs::File;
use std::io;
use std::path::{Component, Path};
use weft_io::drives::{self, DriveAccess, DriveQuestion, VolumeOrder};

/// Opens the path if it names a drive, a volume or another device, and no file on one.
pub fn open(
    url: &str,
    path: &Path,
    read_only: bool,
    check: impl FnOnce() -> Result<(), Error>,
) -> Result<Option<Opened>, Error> {
    let name = path.to_str().map_or(DriveName::File, name::read);
    if name == DriveName::File {
        return Ok(None);
    }
    check()?;
    let Claim { open, volumes, facts } = claim::claim(&Windows, url, &name, read_only)?;
    Ok(Some(Opened { file: open, volumes, facts }))
}

/// The size of what is open, bytes.
pub fn bytes(file: &File) -> io::Result<u64> {
    claim::bytes(&Windows, file)
}

/// Returns whether what is open has been removed from the system.
pub fn is_gone(file: &File) -> bool {
    bytes(file).is_err_and(|e| Status::from(&e).kind == StatusKind::Gone)
}

struct Windows;

impl Calls for Windows {
    type Open = File;

    fn open(&self, path: &str, access: DriveAccess) -> io::Result<File> {
        drives::open(path, access)
    }

    fn ask(&self, open: &File, question: DriveQuestion) -> io::Result<Vec<u8>> {
        drives::ask(open, question)
    }

    fn order(&self, open: &File, order: VolumeOrder) -> io::Result<()> {
        drives::order(open, order)
    }

    fn volumes(&self) -> io::Result<Vec<String>> {
        drives::volumes()
    }

    fn names(&self, volume: &str) -> (Vec<String>, Option<String>) {
        let name = match volume.strip_prefix(r"\\.\") {
            Some(letter) => drives::volume_of(&format!(r"{letter}\")).ok(),
            None => Some(format!(r"{volume}\")),
        };
        (name.as_deref().map(drives::mount_points).unwrap_or_default(), name)
    }

    fn system_volumes(&self) -> io::Result<Vec<String>> {
        let directory = drives::system_directory()?;
        let Some(Component::Prefix(drive)) = Path::new(&directory).components().next() else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let system = format!(r"\\.\{}", drive.as_os_str().to_string_lossy());
        Ok([Some(system), drives::boot_partition()].into_iter().flatten().collect())
    }

    fn machine(&self) -> Option<String> {
        system::machine()
    }

    fn pause(&self) {
        std::thread::sleep(Duration::from_millis(VOLUME_LOCK_PAUSE_MS));
    }
}
