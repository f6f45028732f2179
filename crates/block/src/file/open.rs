//! Opens a file or disk: creates, locks and measures it, or refuses with a reason.

use super::access::FileAccess;
use super::disk::{Disk, Sysfs};
use super::facts::{DiskName, Facts};
use super::system::Direct;
use super::{drive, holders, system};
use crate::extent::PaddedSize;
use crate::limits::{BLOCK_BYTES_DEFAULT, DRIVE_MEMORY_ALIGN};
use crate::outcome::error::Error;
use crate::outcome::refusal::Refusal;
use crate::units::format_size;
use crate::url::naming::{DeviceName, Inode, Naming, Subject, number_and_device};
use crate::url::parts::UrlParts;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use weft_io::durable::sync_directory_of;
use weft_io::file_system;

/// The options of the URL.
struct Wanted {
    path: PathBuf,
    bytes: Option<u64>,
    /// `None`: those of the disk, or [`BLOCK_BYTES_DEFAULT`].
    block_bytes: Option<u32>,
    /// `None`: if possible.
    direct: Option<bool>,
    read_only: bool,
    uuid: Option<Uuid>,
    lock: bool,
}

/// A file that is ready to be served.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) direct: Option<Direct>,
    pub(super) read_only: bool,
    /// Properties that the system reports, if it is a disk.
    pub(super) disk: Option<(Disk, Facts)>,
    pub(super) name: DeviceName,
}

/// Kind of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathKind {
    Disk,
    File,
    /// A file that did not exist.
    Created,
}

/// Opens `url`; `rest` is the path with its options. A file that is created is added to those that
/// were, or removed again if it cannot be used.
pub(super) fn open(url: &str, rest: &str, access: &FileAccess<'_>) -> Result<Opened, Error> {
    let FileAccess { read_only, shared, created, names } = *access;
    let wanted = parse(url, rest, read_only)?;
    let check = || may_be_device(url, &wanted, shared);
    if let Some(opened) = drive::open(url, &wanted.path, wanted.read_only, check)? {
        let disk = Disk::Drive { _volumes: opened.volumes };
        let disk = Some((disk, opened.facts));
        return inspect(url, &wanted, (opened.file, PathKind::Disk), disk, names);
    }
    let (file, kind) = open_or_create(url, &wanted, shared)?;
    if wanted.lock {
        lock(url, &file, wanted.read_only || shared)?;
    }
    let disk = (kind == PathKind::Disk).then(|| disk(url, &file)).transpose();
    let opened = disk.and_then(|disk| inspect(url, &wanted, (file, kind), disk, names));
    match (&opened, created) {
        _ if kind != PathKind::Created => {}
        (Ok(_), Some(created)) => created.add(&wanted.path),
        (Ok(_), None) => {}
        (Err(_), _) => drop(std::fs::remove_file(&wanted.path)),
    }
    opened
}

/// Measures a file or disk that is open.
fn inspect(
    url: &str,
    wanted: &Wanted,
    (file, kind): (File, PathKind),
    disk: Option<(Disk, Facts)>,
    names: &dyn Naming,
) -> Result<Opened, Error> {
    let bytes = match &disk {
        Some((disk, _)) => disk.bytes(&file),
        None => system::end(&file),
    };
    let bytes = bytes.map_err(|e| Error::io(format!("{url}: cannot read its size: {e}"), e))?;
    let facts = disk.as_ref().map(|(_, facts)| facts);
    if !wanted.read_only && facts.is_some_and(|facts| facts.read_only) {
        return Err(Error::refused(url, Refusal::ReadOnlyDisk));
    }
    let shortest = facts.and_then(|facts| facts.logical_bytes).unwrap_or(BLOCK_BYTES_DEFAULT);
    let block_bytes = wanted.block_bytes.unwrap_or(shortest);
    if block_bytes < shortest {
        return Err(Error::refused(url, Refusal::ShortBlocks { disk_bytes: shortest }));
    }
    let extent = extent(url, wanted, disk.is_some(), bytes, block_bytes)?;
    let direct = match wanted.direct {
        Some(false) => None,
        // A sector is the least that bypasses the cache, and the last one of a file may be short.
        _ if disk.is_none() && extent.padding_bytes > 0 => None,
        _ if facts.is_some_and(|facts| facts.unbuffered) => {
            Some(Direct { memory_align: DRIVE_MEMORY_ALIGN })
        }
        _ => system::go_direct(&file, block_bytes, bytes),
    };
    if wanted.direct == Some(true) && direct.is_none() {
        return Err(Error::refused(url, Refusal::NotDirect { block_bytes }));
    }
    let name = match (wanted.uuid, &disk) {
        (Some(uuid), _) => DeviceName { uuid, passing: None },
        (None, Some((disk, facts))) => name_disk(names, &wanted.path, disk, facts),
        (None, None) => name_file(names, &wanted.path, &file, kind == PathKind::Created),
    };
    Ok(Opened { file, bytes, block_bytes, direct, read_only: wanted.read_only, disk, name })
}

/// Returns the properties that the system reports for an open disk.
fn disk(url: &str, file: &File) -> Result<(Disk, Facts), Error> {
    let metadata =
        file.metadata().map_err(|e| Error::io(format!("{url}: cannot be looked at: {e}"), e))?;
    let disk = Sysfs::of(&metadata).ok_or_else(|| Error::refused(url, Refusal::NoDisks))?;
    let facts = disk.facts();
    Ok((Disk::Sysfs(disk), facts))
}

/// Refuses options that drives and volumes of Windows do not have.
fn may_be_device(url: &str, wanted: &Wanted, shared: bool) -> Result<(), Error> {
    let why = if wanted.direct == Some(false) {
        "I/O on a drive or volume bypasses the cache of Windows; omit direct=off"
    } else if !wanted.read_only && (shared || !wanted.lock) {
        "one process has a drive or volume of Windows for itself; omit --shared and lock=off"
    } else {
        return Ok(());
    };
    Err(Error::refused(url, Refusal::Contradiction { why }))
}

/// Checks the options, and the size of a file that is there; nothing is opened.
pub(super) fn check(url: &str, rest: &str, read_only: bool) -> Result<(), Error> {
    let wanted = parse(url, rest, read_only)?;
    let Ok(metadata) = std::fs::metadata(&wanted.path) else { return Ok(()) };
    let block_bytes = wanted.block_bytes.unwrap_or(BLOCK_BYTES_DEFAULT);
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(());
    }
    extent(url, &wanted, false, metadata.len(), block_bytes).map(drop)
}

fn parse(url: &str, rest: &str, read_only: bool) -> Result<Wanted, Error> {
    let (path, mut spec) = UrlParts::source(url, rest);
    // `file:///path`, the form of other programs.
    let path = path.strip_prefix("//").filter(|p| p.starts_with('/')).unwrap_or(path);
    if path.is_empty() {
        return Err(spec.wrong(Refusal::NoPath));
    }
    let direct = spec.parsed("direct", |text| match text {
        "on" => Ok(Some(true)),
        "off" => Ok(Some(false)),
        "auto" => Ok(None),
        _ => Err("use on, off or auto".into()),
    })?;
    let wanted = Wanted {
        path: path.into(),
        bytes: spec.size("size")?,
        block_bytes: spec.block_bytes()?,
        direct: direct.flatten(),
        read_only,
        uuid: spec.uuid()?,
        lock: spec.switch("lock")?.unwrap_or(true),
    };
    if let Some(bytes) = wanted.bytes {
        spec.blocks(bytes, wanted.block_bytes.unwrap_or(BLOCK_BYTES_DEFAULT))?;
    }
    spec.finish()?;
    Ok(wanted)
}

fn open_or_create(url: &str, wanted: &Wanted, shared: bool) -> Result<(File, PathKind), Error> {
    let metadata = match std::fs::metadata(&wanted.path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Ok((create(url, wanted)?, PathKind::Created));
        }
        Err(e) => return Err(refused(url, wanted, e)),
        Ok(metadata) => metadata,
    };
    let is_block_device = system::is_block_device(&metadata);
    if !metadata.is_file() && !is_block_device {
        return Err(Error::refused(url, Refusal::NeitherFileNorDisk));
    }
    let mut options = File::options();
    options.read(true).write(!wanted.read_only);
    if is_block_device && !wanted.read_only {
        let mut exclusive = options.clone();
        system::refuse_mounted(&mut exclusive);
        let file = exclusive.open(&wanted.path).map_err(|e| refused(url, wanted, e))?;
        if wanted.lock && !shared {
            return Ok((file, PathKind::Disk));
        }
        // Others of weft's are to open it too. Nobody has it exclusively now.
    }
    let kind = if is_block_device { PathKind::Disk } else { PathKind::File };
    Ok((options.open(&wanted.path).map_err(|e| refused(url, wanted, e))?, kind))
}

fn create(url: &str, wanted: &Wanted) -> Result<File, Error> {
    let Some(bytes) = wanted.bytes.filter(|_| !wanted.read_only) else {
        return Err(Error::refused(url, Refusal::NoSuchFile));
    };
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&wanted.path)
        .map_err(|e| refused(url, wanted, e))?;
    if let Err(e) = weft_io::disk::make_sparse(&file) {
        tracing::debug!("{url}: the file takes up its whole size: {e}");
    }
    let made = file
        .set_len(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| sync_directory_of(&wanted.path));
    if let Err(e) = made {
        let _ = std::fs::remove_file(&wanted.path);
        let size = format_size(bytes);
        return Err(Error::io(
            format!(
                "{url}: cannot create a file of {size} here: {e}; choose another size or place"
            ),
            e,
        ));
    }
    Ok(file)
}

/// The sentence for a file that this user may not write to.
pub fn no_permission_to_write(url: &str) -> String {
    format!(
        "{url}: no permission to write; run as a user with permission, or put readonly: in front of the source"
    )
}

/// Explains why the system refused to open the file.
fn refused(url: &str, wanted: &Wanted, error: io::Error) -> Error {
    use io::ErrorKind as E;
    if error.kind() == E::ResourceBusy {
        return Error::refused(url, Refusal::Busy { by: holders::of(&wanted.path) });
    }
    let message = match error.kind() {
        E::PermissionDenied | E::ReadOnlyFilesystem if !wanted.read_only => {
            no_permission_to_write(url)
        }
        E::PermissionDenied => {
            format!("{url}: no permission to read; run as a user with permission")
        }
        E::NotFound | E::NotADirectory => {
            format!("{url}: there is no such directory; create it or correct the path")
        }
        _ => format!("{url}: cannot open it: {error}"),
    };
    Error::io(message, error)
}

/// Locks the file against other weft processes: one writer, or any number of readers or of those
/// that share it.
fn lock(url: &str, file: &File, shared: bool) -> Result<(), Error> {
    let locked = if shared { file.try_lock_shared() } else { file.try_lock() };
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let holder = system::holder(file);
            if holder == Some(std::process::id()) {
                return Err(Error::refused(url, Refusal::InUseHere));
            }
            let by = holder.map_or("another process".into(), |pid| format!("process {pid}"));
            Err(Error::refused(url, Refusal::InUse { by }))
        }
        Err(TryLockError::Error(e)) => {
            // Some network file systems do not support locks.
            tracing::warn!(
                "{url}: it cannot be locked ({e}); see to it that nobody else serves it"
            );
            Ok(())
        }
    }
}

/// The blocks of a file or disk. One whose size is not a whole number of blocks is only read.
fn extent(
    url: &str,
    wanted: &Wanted,
    is_disk: bool,
    bytes: u64,
    block_bytes: u32,
) -> Result<PaddedSize, Error> {
    let wrong = |refusal| Err(Error::refused(url, refusal));
    if let Some(asked) = wanted.bytes.filter(|&size| size != bytes) {
        return wrong(Refusal::OtherSize { has: bytes, asked });
    }
    if bytes == 0 {
        return wrong(Refusal::NotWholeBlocks { bytes, block_bytes });
    }
    let extent = PaddedSize::of(bytes, block_bytes);
    match (extent.padding_bytes, wanted.read_only, is_disk) {
        (0, ..) | (_, true, _) => Ok(extent),
        (_, false, true) => wrong(Refusal::OddSize { bytes, block_bytes }),
        (_, false, false) => wrong(Refusal::OddFile { bytes, block_bytes }),
    }
}

// The UUID of a file or disk: that of its own name, or one that is given to it ([`naming`]).
//
// [`naming`]: crate::naming

/// The namespace of UUIDs that earlier versions derived from a machine and a path.
const PATHS: Uuid = Uuid::from_u128(0x6c1f_3a52_7d0e_4b7b_9c55_2f6f_1e80_a9d4);

/// The namespace of UUIDs that are derived from the names that disks give themselves.
const DISKS: Uuid = Uuid::from_u128(0x0c9e_5b1f_2a67_4d83_b4e0_71d3_96fa_c258);

/// The name of a file that was just created, or that existed before.
fn name_file(names: &dyn Naming, path: &Path, file: &File, is_new: bool) -> DeviceName {
    names.name(&of_file(path, file, is_new))
}

/// The name of a disk.
fn name_disk(names: &dyn Naming, path: &Path, disk: &Disk, facts: &Facts) -> DeviceName {
    let subject = match &facts.name {
        Some(DiskName::Own(name)) => return DeviceName { uuid: of_name(name), passing: None },
        Some(DiskName::Here { place, former }) => Subject {
            place: place.into(),
            former: system::machine().and(former.as_deref()).map(of_name),
            ..Subject::default()
        },
        None => of_place(path, disk),
    };
    names.name(&subject)
}

fn of_file(path: &Path, file: &File, is_new: bool) -> Subject {
    let metadata = file.metadata().ok();
    let numbers = metadata.as_ref().and_then(number_and_device);
    let inode = numbers.and_then(|(number, _)| {
        Some(Inode { file_system: file_system::identifier(file)?, number })
    });
    let place = canonical(path);
    Subject {
        inode,
        now: numbers,
        // Windows gives a file that takes the place of another one its time of creation, too.
        born: numbers.and(metadata).and_then(|metadata| metadata.created().ok()),
        former: (!is_new).then(|| of_path(&place)).flatten(),
        place,
    }
}

/// A disk that nothing but its path names; a loop device with the file behind it.
fn of_place(path: &Path, disk: &Disk) -> Subject {
    let path = canonical(path);
    let place = match disk.backing() {
        Some(file) => format!("{}\0{file}", path.display()).into(),
        None => path.clone(),
    };
    Subject { place, former: of_path(&path), ..Subject::default() }
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The UUID of a disk, on whatever machine and under whatever path.
fn of_name(name: &str) -> Uuid {
    Uuid::new_v5(&DISKS, name.as_bytes())
}

/// The UUID that earlier versions derived from the machine and the path.
fn of_path(path: &Path) -> Option<Uuid> {
    let machine = system::machine()?;
    let name = [machine.as_bytes(), b"\0", path.as_os_str().as_encoded_bytes()].concat();
    Some(Uuid::new_v5(&PATHS, &name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also drives and volumes of Windows: their size is the one that the system reports, in bytes.
    #[test]
    fn what_has_only_a_part_of_a_block_is_read_to_its_end_or_refused() {
        let of = |read_only, is_disk, bytes, block_bytes| {
            let wanted = parse("/disk", "/disk", read_only).unwrap();
            let extent = extent("/disk", &wanted, is_disk, bytes, block_bytes);
            extent.map_err(|e| e.refusal().cloned().unwrap())
        };
        let bytes = (4 << 40) + 512;
        for is_disk in [false, true] {
            for read_only in [false, true] {
                assert_eq!(of(read_only, is_disk, bytes, 512), Ok(PaddedSize::of(bytes, 512)));
                let empty = Err(Refusal::NotWholeBlocks { bytes: 0, block_bytes: 512 });
                assert_eq!(of(read_only, is_disk, 0, 512), empty);
            }
            let padded = PaddedSize { blocks: (1 << 30) + 1, padding_bytes: 4096 - 512 };
            assert_eq!(of(true, is_disk, bytes, 4096), Ok(padded));
        }
        let block_bytes = 4096;
        let refused = [false, true].map(|is_disk| of(false, is_disk, bytes, block_bytes));
        let odd_file = Err(Refusal::OddFile { bytes, block_bytes });
        assert_eq!(refused, [odd_file, Err(Refusal::OddSize { bytes, block_bytes })]);
    }

    #[test]
    fn a_file_that_is_moved_is_the_same_and_a_copy_is_not() {
        let dir = std::env::temp_dir();
        let path = |name: &str| dir.join(format!("weft-subject-{}-{name}", std::process::id()));
        let [a, b, c] = ["a", "b", "c"].map(path);
        let subject = |path: &Path| of_file(path, &File::open(path).unwrap(), false);
        std::fs::write(&a, "data").unwrap();
        let first = subject(&a);
        std::fs::copy(&a, &c).unwrap();
        std::fs::rename(&a, &b).unwrap();
        let (moved, copy) = (subject(&b), subject(&c));
        assert_eq!((&moved.inode, moved.now, moved.born), (&first.inode, first.now, first.born));
        assert_ne!(moved.place, first.place);
        assert!(copy.inode != first.inode || first.inode.is_none());
        // It is the file itself.
        assert!(!first.is_copied_at(&b) && !first.is_copied_at(&c));
        let now = first.now.map(|(number, device)| (number, device + 1));
        let elsewhere = Subject { now, ..first.clone() };
        assert_eq!(elsewhere.is_copied_at(&b), first.inode.is_some());
        assert!(!elsewhere.is_copied_at(&c));
        assert_eq!(of_file(&b, &File::open(&b).unwrap(), true).former, None);
        [b, c].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}
