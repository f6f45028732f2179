//! Reads that end early: at the end of a file, or where a server ends them.

use std::fs::File;

/// Returns how many bytes of a read that began at `at` and ended early count: the next one goes on
/// behind them. One that bypasses the cache has to begin at a sector. So the part of a page is read
/// again, unless the read ended at a sector; 0: nothing else was read, and the file ends there.
pub(super) fn counts(file: &File, at: u64, bytes: u64) -> u64 {
    let end = at + bytes;
    if end.is_multiple_of(512) || !is_direct(file) {
        return bytes;
    }
    bytes.saturating_sub(end % 4096)
}

#[cfg(target_os = "linux")]
fn is_direct(file: &File) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::DIRECT))
}

#[cfg(not(target_os = "linux"))]
fn is_direct(_: &File) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
