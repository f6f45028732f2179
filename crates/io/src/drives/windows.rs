//! The calls.

use super::{DriveAccess, DriveQuestion, VolumeOrder};
use crate::limits::VOLUME_EXTENTS_MAX;
use crate::overlapped::control;
use std::fs::File;
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::{
    ERROR_NO_MORE_FILES, ERROR_SUCCESS, GENERIC_READ, GENERIC_WRITE, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_NO_BUFFERING, FILE_FLAG_OVERLAPPED, FILE_SHARE_DELETE, FILE_SHARE_READ,
    FILE_SHARE_WRITE, FindFirstVolumeW, FindNextVolumeW, FindVolumeClose,
    GetVolumeNameForVolumeMountPointW, GetVolumePathNamesForVolumeNameW,
    IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS,
};
use windows_sys::Win32::System::Ioctl::{
    FSCTL_ALLOW_EXTENDED_DASD_IO, FSCTL_DISMOUNT_VOLUME, FSCTL_LOCK_VOLUME,
    IOCTL_DISK_GET_DRIVE_GEOMETRY_EX, IOCTL_DISK_GET_LENGTH_INFO, IOCTL_DISK_IS_WRITABLE,
    IOCTL_STORAGE_GET_DEVICE_NUMBER, IOCTL_STORAGE_QUERY_PROPERTY, PropertyStandardQuery,
    STORAGE_PROPERTY_ID, StorageAccessAlignmentProperty, StorageDeviceProperty,
};
use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RegGetValueW};
use windows_sys::Win32::System::SystemInformation::GetSystemWindowsDirectoryW;

/// Room for a path: UTF-16 units.
const PATH_UNITS: usize = 1024;

/// Bytes of the answers to all questions but that of extents; descriptions have texts behind them.
const ANSWER_BYTES: usize = 1024;

/// Opens a drive or volume, past the cache of Windows.
///
/// # Errors
/// What Windows says.
pub fn open(path: &str, access: DriveAccess) -> io::Result<File> {
    let (rights, share) = match access {
        DriveAccess::Ask => (0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE),
        DriveAccess::Read => (GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE),
        DriveAccess::WriteVolume => {
            (GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE)
        }
        DriveAccess::WriteDrive => (GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ),
    };
    File::options()
        .access_mode(rights)
        .share_mode(share)
        .custom_flags(FILE_FLAG_NO_BUFFERING | FILE_FLAG_OVERLAPPED)
        .open(path)
}

/// Asks about what is open.
///
/// # Errors
/// Returns the answer of Windows; [`DriveQuestion::Length`] needs more than [`DriveAccess::Ask`].
pub fn ask(file: &File, question: DriveQuestion) -> io::Result<Vec<u8>> {
    // The number of extents, and 24 bytes for each.
    let bytes = match question {
        DriveQuestion::Extents => 8 + VOLUME_EXTENTS_MAX * 24,
        _ => ANSWER_BYTES,
    };
    let mut answer = vec![0; bytes];
    let simple = |code, answer: &mut [u8]| control::<u8>(file, code, &[], answer);
    let property = |id: STORAGE_PROPERTY_ID, answer: &mut [u8]| {
        // `STORAGE_PROPERTY_QUERY`: what, how, and room for parameters that these do not have.
        let query = [id, PropertyStandardQuery, 0];
        control(file, IOCTL_STORAGE_QUERY_PROPERTY, &query, answer)
    };
    let filled = match question {
        DriveQuestion::Length => simple(IOCTL_DISK_GET_LENGTH_INFO, &mut answer),
        DriveQuestion::Alignment => property(StorageAccessAlignmentProperty, &mut answer),
        DriveQuestion::Geometry => simple(IOCTL_DISK_GET_DRIVE_GEOMETRY_EX, &mut answer),
        DriveQuestion::Description => property(StorageDeviceProperty, &mut answer),
        DriveQuestion::Number => simple(IOCTL_STORAGE_GET_DEVICE_NUMBER, &mut answer),
        DriveQuestion::Writable => simple(IOCTL_DISK_IS_WRITABLE, &mut answer),
        DriveQuestion::Extents => simple(IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, &mut answer),
    }?;
    answer.truncate(filled);
    Ok(answer)
}

/// Tells an open volume what to do.
///
/// # Errors
/// What Windows says.
pub fn order(file: &File, order: VolumeOrder) -> io::Result<()> {
    let code = match order {
        VolumeOrder::Lock => FSCTL_LOCK_VOLUME,
        VolumeOrder::Dismount => FSCTL_DISMOUNT_VOLUME,
        VolumeOrder::Unbound => FSCTL_ALLOW_EXTENDED_DASD_IO,
    };
    control::<u8>(file, code, &[], &mut []).map(drop)
}

/// All volumes, as `\\?\Volume{GUID}\`, whether they have a drive letter or not.
///
/// # Errors
/// What Windows says.
pub fn volumes() -> io::Result<Vec<String>> {
    let mut name = [0; PATH_UNITS];
    // SAFETY: the name is writable for its length, which is given.
    let search = unsafe { FindFirstVolumeW(name.as_mut_ptr(), name.len() as u32) };
    if search == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let ended = loop {
        found.push(text(&name));
        // SAFETY: the search is open, and the name is writable for its length.
        if unsafe { FindNextVolumeW(search, name.as_mut_ptr(), name.len() as u32) } == 0 {
            break io::Error::last_os_error();
        }
    };
    // SAFETY: the search is open, and is not used afterwards.
    unsafe { FindVolumeClose(search) };
    match ended.raw_os_error() {
        Some(code) if code == ERROR_NO_MORE_FILES.cast_signed() => Ok(found),
        _ => Err(ended),
    }
}

/// Where a volume, as [`volumes`] names it, is mounted: `E:\`, `D:\disks\`. None if that is not
/// known.
pub fn mount_points(volume: &str) -> Vec<String> {
    let volume = wide(volume);
    let mut names = vec![0; PATH_UNITS * 16];
    let mut units = 0;
    // SAFETY: the volume ends with 0, and the names are writable for their length.
    let ok = unsafe {
        GetVolumePathNamesForVolumeNameW(
            volume.as_ptr(),
            names.as_mut_ptr(),
            names.len() as u32,
            &mut units,
        )
    };
    if ok == 0 {
        return Vec::new();
    }
    // The end is an empty name.
    names.split(|unit| *unit == 0).take_while(|name| !name.is_empty()).map(text).collect()
}

/// The name that [`volumes`] has for the volume at a mount point: `E:\`.
///
/// # Errors
/// What Windows says.
pub fn volume_of(mount_point: &str) -> io::Result<String> {
    let mount_point = wide(mount_point);
    let mut name = [0; PATH_UNITS];
    // SAFETY: the mount point ends with 0, and the name is writable for its length.
    let ok = unsafe {
        GetVolumeNameForVolumeMountPointW(
            mount_point.as_ptr(),
            name.as_mut_ptr(),
            name.len() as u32,
        )
    };
    if ok == 0 { Err(io::Error::last_os_error()) } else { Ok(text(&name)) }
}

/// The directory of Windows: `C:\Windows`.
///
/// # Errors
/// What Windows says.
pub fn system_directory() -> io::Result<String> {
    let mut name = [0; PATH_UNITS];
    // SAFETY: the name is writable for its length.
    let units = unsafe { GetSystemWindowsDirectoryW(name.as_mut_ptr(), name.len() as u32) };
    match units as usize {
        0 => Err(io::Error::last_os_error()),
        units if units < name.len() => Ok(text(&name)),
        _ => Err(io::ErrorKind::InvalidFilename.into()),
    }
}

/// The volume that this system was started from, in a form that can be opened, if Windows tells.
pub fn boot_partition() -> Option<String> {
    let (key, value) = (wide(r"SYSTEM\Setup"), wide("SystemPartition"));
    let mut name = [0_u16; PATH_UNITS];
    let mut bytes = size_of_val(&name) as u32;
    // SAFETY: key and value end with 0, and the name is writable for the bytes that are given.
    let status = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key.as_ptr(),
            value.as_ptr(),
            RRF_RT_REG_SZ,
            null_mut(),
            name.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    let name = (status == ERROR_SUCCESS).then(|| text(&name))?;
    name.starts_with('\\').then(|| format!(r"\\?\GLOBALROOT{name}"))
}

/// With the 0 that ends it.
fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// Up to the 0 that ends it.
fn text(units: &[u16]) -> String {
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    String::from_utf16_lossy(&units[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is no such drive anywhere: nothing is opened.
    #[test]
    fn a_drive_that_does_not_exist_is_not_opened() {
        for access in [DriveAccess::Ask, DriveAccess::Read, DriveAccess::WriteDrive] {
            let error = open(r"\\.\PhysicalDrive4711", access).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{access:?}: {error}");
        }
    }

    #[test]
    fn the_directory_of_windows_is_found() {
        let directory = system_directory().unwrap();
        assert!(std::path::Path::new(&directory).is_dir(), "{directory}");
    }

    /// A file answers no question about drives.
    #[test]
    fn a_file_answers_no_question_about_drives() {
        let path = std::env::temp_dir().join(format!("weft-drives-{}", std::process::id()));
        std::fs::write(&path, [0; 4096]).unwrap();
        let file = open(path.to_str().unwrap(), DriveAccess::WriteVolume).unwrap();
        assert!(ask(&file, DriveQuestion::Extents).is_err());
        drop(file);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn texts_end_at_the_first_zero() {
        assert_eq!(text(&wide("C:\\")), "C:\\");
        assert_eq!(text(&[u16::from(b'a'), u16::from(b'b')]), "ab");
    }
}
