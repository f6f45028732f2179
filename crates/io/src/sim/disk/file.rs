//! The file beneath: who it is, and what it holds for good.

use std::fs::File;
use std::io;

/// Identity of a file, however often it is opened.
pub(super) type FileId = (u64, u64);

/// Reads at `offset` until `bytes` are full or the file ends; the rest becomes zero.
pub(super) fn read(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match sys::read_at(file, &mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes[done..].fill(0);
    Ok(())
}

/// Writes all of `bytes` at `offset`.
pub(super) fn write(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match sys::write_at(file, &bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Returns the identity of the file. Lets a file that was opened for direct transfers take bytes
/// from any memory.
pub(super) fn identify(file: &File) -> io::Result<FileId> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        let flags = fcntl_getfl(file)?;
        if flags.contains(OFlags::DIRECT) {
            fcntl_setfl(file, flags - OFlags::DIRECT)?;
        }
    }
    sys::identify(file)
}

#[cfg(unix)]
mod sys {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::{FileExt, MetadataExt};

    pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(bytes, offset)
    }

    pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }

    pub(super) fn identify(file: &File) -> io::Result<(u64, u64)> {
        let metadata = file.metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }
}

#[cfg(windows)]
mod sys {
    use std::fs::File;
    use std::io;
    use std::os::windows::fs::FileExt;
    use std::os::windows::io::AsRawHandle;
    use windows_sys::Win32::Storage::FileSystem::{
        BY_HANDLE_FILE_INFORMATION, GetFileInformationByHandle,
    };

    pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match file.seek_read(bytes, offset) {
            // ERROR_HANDLE_EOF
            Err(e) if e.raw_os_error() == Some(38) => Ok(0),
            other => other,
        }
    }

    pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.seek_write(bytes, offset)
    }

    pub(super) fn identify(file: &File) -> io::Result<(u64, u64)> {
        let mut about = BY_HANDLE_FILE_INFORMATION::default();
        // SAFETY: the handle is open as long as `file` is borrowed, and `about` is a whole
        // structure to write to.
        if unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut about) } == 0 {
            return Err(io::Error::last_os_error());
        }
        let index = u64::from(about.nFileIndexHigh) << 32 | u64::from(about.nFileIndexLow);
        Ok((u64::from(about.dwVolumeSerialNumber), index))
    }
}
