//! Answers that need no device, and the operations of the device that other requests need.

use super::disk::Disk;
use super::request::{Request, Work};
use weft_io::fuse::{FILE, FuseRequestKind, Space, attributes, directory, entry, opened, space};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const ENOTTY: i32 = 25;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

/// Flags of `fallocate(2)`.
const KEEP_SIZE: u32 = 1;
/// See above.
const PUNCH_HOLE: u32 = 2;
/// See above.
const ZERO_RANGE: u32 = 16;

/// The next step of a request.
pub(super) enum Answer {
    /// It has this answer.
    Now(Vec<u8>),
    /// It fails with this error number.
    Error(i32),
    /// None is expected.
    None,
    /// The device has to do this, from an offset and with a length in bytes.
    Of(Work, u64, u64),
}

/// Answers a request, or says what it needs of the device.
pub(super) fn answer(disk: &Disk, node: u64, kind: FuseRequestKind) -> Answer {
    let now = || disk.attributes();
    match kind {
        FuseRequestKind::Lookup { is_known: true } => Answer::Now(entry(&now())),
        FuseRequestKind::Lookup { is_known: false } => Answer::Error(ENOENT),
        FuseRequestKind::Attributes => Answer::Now(attributes(&now(), node)),
        // As a disk: it has no other size.
        FuseRequestKind::Truncate { size } if size == now().bytes => {
            Answer::Now(attributes(&now(), node))
        }
        FuseRequestKind::Truncate { .. } => Answer::Error(EINVAL),
        FuseRequestKind::ChangeAttributes | FuseRequestKind::ChangeNames => Answer::Error(EPERM),
        FuseRequestKind::Open => Answer::Now(opened(FILE)),
        FuseRequestKind::OpenDirectory => Answer::Now(opened(node)),
        FuseRequestKind::Release => Answer::Now(Vec::new()),
        FuseRequestKind::ReadDirectory { offset, len } => Answer::Now(directory(offset, len)),
        FuseRequestKind::Space => {
            Answer::Now(space(&Space { bytes: now().bytes, block_bytes: disk.block_bytes() }))
        }
        FuseRequestKind::Sync if node == FILE => Answer::Of(Work::Flush, 0, 0),
        FuseRequestKind::Sync => Answer::Now(Vec::new()),
        FuseRequestKind::Control => Answer::Error(ENOTTY),
        FuseRequestKind::Unanswered => Answer::None,
        FuseRequestKind::Init { .. } | FuseRequestKind::Other(_) => Answer::Error(ENOSYS),
        FuseRequestKind::Read { offset, len } => read(disk, offset, len.into()),
        FuseRequestKind::Write { offset, len } => write(disk, offset, len.into()),
        FuseRequestKind::Allocate { offset, len, mode } => allocate(disk, offset, len, mode),
    }
}

/// Cuts a read at the end of the file.
fn read(disk: &Disk, offset: u64, len: u64) -> Answer {
    let len = disk.attributes().bytes.saturating_sub(offset).min(len);
    if len == 0 {
        return Answer::Now(Vec::new());
    }
    Answer::Of(Work::Read, offset, len)
}

/// Cuts a write at the end of the file, as a disk does.
fn write(disk: &Disk, offset: u64, len: u64) -> Answer {
    let now = disk.attributes();
    let inside = now.bytes.saturating_sub(offset).min(len);
    match inside {
        _ if now.is_read_only => Answer::Error(EROFS),
        0 if len > 0 => Answer::Error(ENOSPC),
        0 => Answer::Now(weft_io::fuse::written(0).to_vec()),
        _ if Request::is_whole(offset, inside, disk.block_bytes().into()) => {
            Answer::Of(Work::Write, offset, inside)
        }
        _ => Answer::Of(Work::Merge { is_read: false }, offset, inside),
    }
}

/// Both kinds of range read as zeroes afterwards; only a hole may give up its space.
fn allocate(disk: &Disk, offset: u64, len: u64, mode: u32) -> Answer {
    let deallocate = match mode & !KEEP_SIZE {
        PUNCH_HOLE => true,
        ZERO_RANGE => false,
        _ => return Answer::Error(EOPNOTSUPP),
    };
    let now = disk.attributes();
    let inside = now.bytes.saturating_sub(offset).min(len);
    let is_whole = Request::is_whole(offset, inside, disk.block_bytes().into());
    match inside {
        _ if now.is_read_only => Answer::Error(EROFS),
        _ if inside < len && mode & KEEP_SIZE == 0 => Answer::Error(ENOSPC),
        0 => Answer::Now(Vec::new()),
        // Programs write zeroes then.
        _ if !is_whole => Answer::Error(EOPNOTSUPP),
        _ => Answer::Of(Work::Zero { deallocate }, offset, inside),
    }
}
