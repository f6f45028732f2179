//! Locks, refusals and properties of a drive or volume. It asks Windows by [`Calls`], so that a
//! script can answer in tests.

use super::super::facts::{DiskName, Facts};
use super::answers::{self, Extent};
use super::name::DriveName;
use crate::limits::VOLUME_LOCK_TRIES;
use crate::outcome::error::Error;
use crate::outcome::refusal::Refusal;
use std::io;
use weft_io::drives::{DriveAccess, DriveQuestion, VolumeOrder};

/// Codes of Windows.
mod code {
    pub(super) const INVALID_FUNCTION: i32 = 1;
    pub(super) const FILE_NOT_FOUND: i32 = 2;
    pub(super) const PATH_NOT_FOUND: i32 = 3;
    pub(super) const ACCESS_DENIED: i32 = 5;
    pub(super) const WRITE_PROTECT: i32 = 19;
    pub(super) const NOT_READY: i32 = 21;
    pub(super) const SHARING_VIOLATION: i32 = 32;
    pub(super) const NOT_SUPPORTED: i32 = 50;
    pub(super) const NO_MEDIA: i32 = 1112;
}

/// The calls of Windows that this needs ([`weft_io::drives`]).
pub(super) trait Calls {
    /// An open object.
    type Open;

    fn open(&self, path: &str, access: DriveAccess) -> io::Result<Self::Open>;
    fn ask(&self, open: &Self::Open, question: DriveQuestion) -> io::Result<Vec<u8>>;
    fn order(&self, open: &Self::Open, order: VolumeOrder) -> io::Result<()>;
    /// All volumes: `\\?\Volume{GUID}\`.
    fn volumes(&self) -> io::Result<Vec<String>>;
    /// Where a volume is mounted, and its name as `volumes` has it. The volume is given as the path
    /// that opens it.
    fn names(&self, volume: &str) -> (Vec<String>, Option<String>);
    /// The volumes that the running system needs, as paths that open them; the first is the one
    /// that Windows is on, and must be found.
    fn system_volumes(&self) -> io::Result<Vec<String>>;
    /// The identifier of this machine from which earlier versions derived names.
    fn machine(&self) -> Option<String>;
    /// Waits before the next try.
    fn pause(&self);
}

/// A drive or volume that is open.
pub(super) struct Claim<T> {
    pub(super) open: T,
    /// The volumes on the drive, locked until this is dropped.
    pub(super) volumes: Vec<T>,
    pub(super) facts: Facts,
}

/// Opens what the URL names.
pub(super) fn claim<C: Calls>(
    calls: &C,
    url: &str,
    name: &DriveName,
    read_only: bool,
) -> Result<Claim<C::Open>, Error> {
    let claimer = Claimer { calls, url };
    let (open, volumes) = match name {
        DriveName::Drive(path) if read_only => (claimer.open(path, DriveAccess::Read)?, Vec::new()),
        DriveName::Volume(path) if read_only => {
            let open = claimer.open(path, DriveAccess::Read)?;
            let _ = calls.order(&open, VolumeOrder::Unbound);
            (open, Vec::new())
        }
        DriveName::Drive(path) => claimer.drive(path)?,
        DriveName::Volume(path) => (claimer.volume(path)?, Vec::new()),
        DriveName::Other | DriveName::File => {
            return Err(Error::refused(url, Refusal::NeitherDriveNorVolume));
        }
    };
    let facts = claimer.facts(name, &open, read_only)?;
    Ok(Claim { open, volumes, facts })
}

/// The size of what is open, bytes.
pub(super) fn bytes<C: Calls>(calls: &C, open: &C::Open) -> io::Result<u64> {
    let answer = calls.ask(open, DriveQuestion::Length)?;
    answers::length(&answer).ok_or_else(unclear)
}

fn unclear() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "Windows gives no clear answer")
}

struct Claimer<'a, C> {
    calls: &'a C,
    url: &'a str,
}

impl<C: Calls> Claimer<'_, C> {
    /// Opens a drive, and locks and dismounts the volumes on it. All are locked before the first
    /// one is dismounted, so that a refusal leaves all as they were.
    fn drive(&self, path: &str) -> Result<(C::Open, Vec<C::Open>), Error> {
        let number = self.number(&self.open(path, DriveAccess::Ask)?)?;
        self.refuse_running_system(&[Extent::whole(number)])?;
        let open = self.open(path, DriveAccess::WriteDrive)?;
        // It could be another one by now.
        if self.number(&open)? != number {
            return Err(self.failed("it was replaced in the meantime; try again", unclear()));
        }
        let mut locked = Vec::new();
        for volume in self.volumes_on(number)? {
            let open = self.open(&volume, DriveAccess::WriteVolume)?;
            self.lock(&open, &volume)?;
            locked.push((open, volume));
        }
        for (open, volume) in &locked {
            self.dismount(open, volume)?;
        }
        Ok((open, locked.into_iter().map(|(open, _)| open).collect()))
    }

    /// Opens a volume, locks and dismounts it.
    fn volume(&self, path: &str) -> Result<C::Open, Error> {
        // What is open to ask would be in the way of the lock.
        let extents = self.extents(path).map_err(|e| self.refused(path, e))?;
        self.refuse_running_system(&extents)?;
        let open = self.open(path, DriveAccess::WriteVolume)?;
        self.lock(&open, path)?;
        // A volume without a file system has no such boundary, and refuses.
        let _ = self.calls.order(&open, VolumeOrder::Unbound);
        self.dismount(&open, path)?;
        Ok(open)
    }

    /// Opens a path. A drive or volume that somebody else has open is tried again for a while.
    fn open(&self, path: &str, access: DriveAccess) -> Result<C::Open, Error> {
        let mut tries = 1;
        loop {
            match self.calls.open(path, access) {
                Err(e)
                    if e.raw_os_error() == Some(code::SHARING_VIOLATION)
                        && tries < VOLUME_LOCK_TRIES =>
                {
                    tries += 1;
                    self.calls.pause();
                }
                other => return other.map_err(|e| self.refused(path, e)),
            }
        }
    }

    fn lock(&self, open: &C::Open, volume: &str) -> Result<(), Error> {
        for tries in 1.. {
            match self.calls.order(open, VolumeOrder::Lock).map_err(|e| (e.raw_os_error(), e)) {
                Ok(()) => break,
                Err((Some(code::ACCESS_DENIED | code::SHARING_VIOLATION), _)) => {
                    if tries == VOLUME_LOCK_TRIES {
                        let by = format!("another program uses the volume {}", self.shown(volume));
                        return Err(Error::refused(self.url, Refusal::Busy { by }));
                    }
                    self.calls.pause();
                }
                Err((_, e)) => {
                    let what = format!("the volume {} cannot be locked", self.shown(volume));
                    return Err(self.failed(&what, e));
                }
            }
        }
        Ok(())
    }

    fn dismount(&self, open: &C::Open, volume: &str) -> Result<(), Error> {
        self.calls.order(open, VolumeOrder::Dismount).map_err(|e| {
            self.failed(&format!("the volume {} cannot be dismounted", self.shown(volume)), e)
        })
    }

    /// The volumes of which some part is on the drive, as paths that open them.
    fn volumes_on(&self, drive: u32) -> Result<Vec<String>, Error> {
        let volumes = self.calls.volumes().map_err(|e| self.failed("cannot list volumes", e))?;
        let mut found = Vec::new();
        for volume in volumes {
            let path = volume.strip_suffix('\\').unwrap_or(&volume);
            // Locking only those that answer could leave one on this drive mounted.
            let extents = self.extents(path).map_err(|e| {
                let what = format!("cannot find out where the volume {} lies", self.shown(path));
                self.failed(&what, e)
            })?;
            if extents.iter().any(|extent| extent.drive == drive) {
                found.push(path.to_owned());
            }
        }
        Ok(found)
    }

    /// Returns the extents of a volume on drives. One that lies on no drive lies nowhere: a CD-ROM,
    /// a slot without a card; nor does one that is gone by now.
    fn extents(&self, path: &str) -> io::Result<Vec<Extent>> {
        let open = self.calls.open(path, DriveAccess::Ask)?;
        match self.calls.ask(&open, DriveQuestion::Extents) {
            Ok(answer) => answers::extents(&answer).ok_or_else(unclear),
            Err(e) => match e.raw_os_error() {
                Some(
                    code::INVALID_FUNCTION
                    | code::NOT_SUPPORTED
                    | code::NOT_READY
                    | code::NO_MEDIA
                    | code::FILE_NOT_FOUND,
                ) => Ok(Vec::new()),
                _ => Err(e),
            },
        }
    }

    /// Refuses what holds a volume that the running system needs.
    fn refuse_running_system(&self, wanted: &[Extent]) -> Result<(), Error> {
        let lost = |e| self.failed("cannot find out where the running system lies", e);
        for (n, volume) in self.calls.system_volumes().map_err(lost)?.iter().enumerate() {
            let extents = match self.extents(volume) {
                Ok(extents) if n > 0 || !extents.is_empty() => extents,
                Ok(_) => return Err(lost(unclear())),
                Err(e) if n == 0 => return Err(lost(e)),
                // The one that it was started from; Windows runs without it.
                Err(_) => continue,
            };
            if extents.iter().any(|extent| wanted.iter().any(|other| other.overlaps(extent))) {
                let volume = self.shown(volume);
                return Err(Error::refused(self.url, Refusal::RunningSystem { volume }));
            }
        }
        Ok(())
    }

    fn number(&self, open: &C::Open) -> Result<u32, Error> {
        let answer = self.calls.ask(open, DriveQuestion::Number);
        let number = answer.and_then(|answer| answers::drive_number(&answer).ok_or_else(unclear));
        number.map_err(|e| self.failed("cannot read its number", e))
    }

    fn facts(&self, name: &DriveName, open: &C::Open, read_only: bool) -> Result<Facts, Error> {
        let asked = |question| self.calls.ask(open, question).ok();
        let (logical, physical) = asked(DriveQuestion::Alignment)
            .and_then(|answer| answers::alignment(&answer))
            .or_else(|| {
                let logical = answers::geometry(&asked(DriveQuestion::Geometry)?)?;
                Some((logical, logical))
            })
            .ok_or_else(|| self.failed("cannot read its block size", unclear()))?;
        let mut facts = Facts {
            logical_bytes: Some(logical),
            physical_bytes: Some(physical),
            // Windows promises trimming only to file systems.
            discards: false,
            // Flushes are passed on whether there is one or not.
            volatile_cache: true,
            read_only: !read_only && self.is_write_protected(open),
            unbuffered: true,
            ..Facts::default()
        };
        if let Some(answer) = asked(DriveQuestion::Description) {
            answers::describe(&answer, &mut facts);
        }
        if let DriveName::Volume(path) = name {
            let guid = self.calls.names(path).1;
            facts.name = guid.map(|guid| {
                let place = guid.trim_end_matches('\\').to_lowercase();
                let former = self.calls.machine().map(|machine| format!("{machine}\0{place}"));
                DiskName::Here { place, former }
            });
        }
        Ok(facts)
    }

    fn is_write_protected(&self, open: &C::Open) -> bool {
        let answer = self.calls.ask(open, DriveQuestion::Writable);
        answer.is_err_and(|e| e.raw_os_error() == Some(code::WRITE_PROTECT))
    }

    /// A volume as people know it: by where it is mounted, otherwise by its path.
    fn shown(&self, volume: &str) -> String {
        match self.calls.names(volume).0 {
            mounted if mounted.is_empty() => volume.to_owned(),
            mounted => mounted.join(", "),
        }
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        Error::io(format!("{}: {what}: {error}", self.url), error)
    }

    /// Explains why Windows does not open a path.
    fn refused(&self, path: &str, error: io::Error) -> Error {
        let url = self.url;
        // The kind that `std` has for the code on Windows, also where tests run.
        let kinded = |kind, text: String| Error::io(text, io::Error::new(kind, error.to_string()));
        match error.raw_os_error() {
            Some(code::ACCESS_DENIED) => kinded(
                io::ErrorKind::PermissionDenied,
                format!("{url}: only an administrator may open it; run as administrator"),
            ),
            Some(code::FILE_NOT_FOUND | code::PATH_NOT_FOUND) => kinded(
                io::ErrorKind::NotFound,
                format!("{url}: there is no {path}; Get-Disk and mountvol list what there is"),
            ),
            Some(code::NOT_READY | code::NO_MEDIA) => kinded(
                io::ErrorKind::NotFound,
                format!("{url}: there is no medium in {path}; insert one"),
            ),
            Some(code::WRITE_PROTECT) => Error::refused(url, Refusal::ReadOnlyDisk),
            Some(code::SHARING_VIOLATION) => {
                let by = format!("another program has {path} open for writing");
                Error::refused(url, Refusal::Busy { by })
            }
            _ => self.failed(&format!("cannot open {path}"), error),
        }
    }
}
