//! Calls of Windows.

use crate::overlapped::{self, control};
use crate::segment::Segments;
use std::fs::File;
use std::io;
use windows_sys::Win32::Foundation::{
    ERROR_CALL_NOT_IMPLEMENTED, ERROR_INVALID_FUNCTION, ERROR_NOT_SUPPORTED,
};
use windows_sys::Win32::System::Ioctl::{
    FILE_ZERO_DATA_INFORMATION, FSCTL_SET_SPARSE, FSCTL_SET_ZERO_DATA,
};

/// Bytes behind the end of a file that can be discarded without consequence: an empty range is
/// valid.
pub(super) const DISCARD_TRIAL_BYTES: u64 = 0;

/// Has a new file take up space only where it is written.
///
/// # Errors
/// What the system says; a file system without sparse files refuses.
pub fn make_sparse(file: &File) -> io::Result<()> {
    control::<()>(file, FSCTL_SET_SPARSE, &[], &mut []).map(drop)
}

/// Reads into the data behind its first `skip` bytes: the rest of one piece.
pub(super) fn read(file: &File, data: &mut Segments, skip: u64, offset: u64) -> io::Result<usize> {
    let mut skip = skip as usize;
    for segment in data.iter_mut() {
        if skip < segment.len() {
            return overlapped::read(file, &mut segment[skip..], offset);
        }
        skip -= segment.len();
    }
    Ok(0)
}

/// Writes the data behind its first `skip` bytes: the rest of one piece.
pub(super) fn write(
    file: &File,
    data: &Segments,
    skip: u64,
    offset: u64,
    dsync: bool,
) -> io::Result<usize> {
    let mut skip = skip as usize;
    for (index, segment) in data.iter().enumerate() {
        if skip < segment.len() {
            let n = overlapped::write(file, &segment[skip..], offset)?;
            let last = index + 1 == data.len() && skip + n == segment.len();
            if dsync && last {
                file.sync_data()?;
            }
            return Ok(n);
        }
        skip -= segment.len();
    }
    Ok(0)
}

/// Writes one piece.
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    overlapped::write(file, bytes, offset)
}

/// Frees the range, if the file is sparse.
pub(super) fn discard(file: &File, offset: u64, len: u64) -> io::Result<()> {
    // `DiskOp::foregone` sees to it that both fit.
    let range = FILE_ZERO_DATA_INFORMATION {
        FileOffset: offset as i64,
        BeyondFinalZero: (offset + len) as i64,
    };
    let done = control(file, FSCTL_SET_ZERO_DATA, core::slice::from_ref(&range), &mut []);
    let unknown = [ERROR_NOT_SUPPORTED, ERROR_INVALID_FUNCTION, ERROR_CALL_NOT_IMPLEMENTED];
    done.map(drop).map_err(|error| match error.raw_os_error() {
        Some(code) if unknown.contains(&(code as u32)) => io::ErrorKind::Unsupported.into(),
        _ => error,
    })
}

/// Zeroes the range without writing it. Drives and volumes refuse that with many codes. Whatever
/// the reason is, zeroes are written instead, and fail if they must.
pub(super) fn zero(file: &File, offset: u64, len: u64, _: bool) -> io::Result<()> {
    discard(file, offset, len).map_err(|_| io::ErrorKind::Unsupported.into())
}
