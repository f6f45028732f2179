//! The blocking calls, whole: short ones are continued.

use crate::disk::DiskKind;
use crate::segment::Segments;
use crate::zeroes::{ZEROES, ZEROES_BYTES};
use std::fs::File;
use std::io;

#[cfg(unix)]
#[path = "unix.rs"]
mod sys;
#[cfg(windows)]
#[path = "windows.rs"]
mod sys;

pub use sys::make_sparse;

/// Returns whether [`DiskKind::Discard`] works on a file of `len` bytes; finds out behind its end,
/// where nothing is lost.
pub fn can_discard(file: &File, len: u64) -> bool {
    let modified = |file: &File| file.metadata().and_then(|of| of.modified()).ok();
    let before = modified(file);
    let is_done = sys::discard(file, len, sys::DISCARD_TRIAL_BYTES).is_ok();
    // To file systems that was a change, though nothing has changed.
    if let Some(before) = before.filter(|_| before != modified(file)) {
        let _ = file.set_modified(before);
    }
    is_done
}

/// Does what the operation says, to its end.
pub(super) fn execute(
    file: &File,
    kind: DiskKind,
    offset: u64,
    len: u64,
    data: &mut Segments,
) -> io::Result<()> {
    match kind {
        DiskKind::Read => whole(len, io::ErrorKind::UnexpectedEof, |done| {
            sys::read(file, data, done, offset + done)
        }),
        DiskKind::Write { dsync } => whole(len, io::ErrorKind::WriteZero, |done| {
            sys::write(file, data, done, offset + done, dsync)
        }),
        DiskKind::Sync => file.sync_data(),
        DiskKind::Discard => sys::discard(file, offset, len),
        DiskKind::WriteZeroes { free, dsync } => {
            match sys::zero(file, offset, len, free) {
                // The range is sound, so that "invalid" means: not of whole sectors of the disk.
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
                    ) =>
                {
                    write_zeroes(file, offset, len)?;
                }
                other => other?,
            }
            if dsync { file.sync_data() } else { Ok(()) }
        }
    }
}

/// Calls `part(bytes done)` until all is done; a part of no bytes is the error `end`.
fn whole(
    len: u64,
    end: io::ErrorKind,
    mut part: impl FnMut(u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        match part(done) {
            Ok(0) => return Err(end.into()),
            Ok(n) => done += n as u64,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn write_zeroes(file: &File, offset: u64, len: u64) -> io::Result<()> {
    whole(len, io::ErrorKind::WriteZero, |done| {
        let part = (len - done).min(ZEROES_BYTES as u64) as usize;
        sys::write_at(file, &ZEROES.0[..part], offset + done)
    })
}
