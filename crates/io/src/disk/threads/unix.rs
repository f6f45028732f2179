//! Calls of Unix systems.

use crate::disk::short;
use crate::limits::DISK_VECTORS;
use crate::segment::Segments;
use rustix::io::{preadv, pwritev};
use smallvec::SmallVec;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;

/// Bytes behind the end of a file that can be discarded without consequence.
pub(super) const DISCARD_TRIAL_BYTES: u64 = 4096;

/// Has a new file take up space only where it is written; Unix files do that by themselves.
///
/// # Errors
/// None.
pub fn make_sparse(_: &File) -> io::Result<()> {
    Ok(())
}

/// Reads into the data behind its first `skip` bytes.
pub(super) fn read(file: &File, data: &mut Segments, skip: u64, offset: u64) -> io::Result<usize> {
    let mut skip = skip as usize;
    let mut vectors = SmallVec::<[_; 8]>::new();
    for segment in data.iter_mut() {
        let skipped = skip.min(segment.len());
        skip -= skipped;
        if skipped < segment.len() && vectors.len() < DISK_VECTORS {
            vectors.push(IoSliceMut::new(&mut segment[skipped..]));
        }
    }
    let n = preadv(file, &mut vectors, offset)?;
    let is_short = n < vectors.iter().map(|v| v.len()).sum();
    Ok(if is_short { short::counts(file, offset, n as u64) as usize } else { n })
}

/// Writes the data behind its first `skip` bytes.
pub(super) fn write(
    file: &File,
    data: &Segments,
    skip: u64,
    offset: u64,
    dsync: bool,
) -> io::Result<usize> {
    let mut skip = skip as usize;
    let mut vectors = SmallVec::<[_; 8]>::new();
    for segment in data {
        let skipped = skip.min(segment.len());
        skip -= skipped;
        if skipped < segment.len() && vectors.len() < DISK_VECTORS {
            vectors.push(IoSlice::new(&segment[skipped..]));
        }
    }
    if dsync { write_durably(file, &vectors, offset) } else { Ok(pwritev(file, &vectors, offset)?) }
}

/// Writes one piece.
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

#[cfg(target_os = "linux")]
fn write_durably(file: &File, vectors: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pwritev2(file, vectors, offset, rustix::io::ReadWriteFlags::DSYNC)?)
}

#[cfg(not(target_os = "linux"))]
fn write_durably(file: &File, vectors: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    let n = pwritev(file, vectors, offset)?;
    file.sync_data()?;
    Ok(n)
}

/// Frees the range: on a disk by its own command, in a file by a hole.
#[cfg(target_os = "linux")]
pub(super) fn discard(file: &File, offset: u64, len: u64) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    if file.metadata()?.file_type().is_block_device() {
        discard_blocks(file, offset, len)
    } else {
        punch(file, offset, len)
    }
}

#[cfg(target_os = "linux")]
fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)?)
}

/// BLKDISCARD of `linux/fs.h`: `_IO(0x12, 119)`, with the first byte and the number of bytes.
#[cfg(target_os = "linux")]
fn discard_blocks(file: &File, offset: u64, len: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    const BLKDISCARD: libc::Ioctl = rustix::ioctl::opcode::none(0x12, 119) as libc::Ioctl;
    let range = [offset, len];
    // SAFETY: the request reads two 64-bit numbers, which `range` has; it keeps no pointer to them.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Zeroes the range without writing it.
#[cfg(target_os = "linux")]
pub(super) fn zero(file: &File, offset: u64, len: u64, free: bool) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    if free {
        return punch(file, offset, len);
    }
    Ok(fallocate(file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, offset, len)?)
}

/// This system's way is not used.
#[cfg(not(target_os = "linux"))]
pub(super) fn discard(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// This system's way is not used.
#[cfg(not(target_os = "linux"))]
pub(super) fn zero(_: &File, _: u64, _: u64, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
