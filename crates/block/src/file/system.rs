//! Functions that depend on the operating system: the size of a block device, lock holders,
//! bypassing the page cache.

use super::server::Ask;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};

/// Requirements on memory for I/O that bypasses the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Direct {
    /// Alignment of each piece, bytes.
    pub(super) memory_align: usize,
}

/// The identifier of this machine from which earlier versions derived names. `None`: it has none
/// that no other machine has, as in many containers.
pub(super) fn machine() -> Option<String> {
    let files = ["/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostid"];
    match files.iter().find_map(|path| std::fs::read_to_string(path).ok()) {
        Some(text) => Some(text.trim().to_owned()).filter(|text| is_machine_id(text)),
        None => std::env::var("COMPUTERNAME").ok().filter(|name| !name.is_empty()),
    }
}

/// Returns whether a text is 128 bits in hexadecimal, and not all of them zero.
fn is_machine_id(text: &str) -> bool {
    uuid::Uuid::parse_str(text).is_ok_and(|id| !id.is_nil())
}

/// A number of the start of this system; `None`: it does not tell.
pub(super) fn start() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    uuid::Uuid::parse_str(text.trim()).ok().map(|id| id.as_u64_pair().0 ^ id.as_u64_pair().1)
}

/// Returns whether the path is a disk and not a file.
#[cfg(unix)]
pub(super) fn is_block_device(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_block_device()
}

/// Returns whether the path is a disk and not a file.
#[cfg(not(unix))]
pub(super) fn is_block_device(_: &std::fs::Metadata) -> bool {
    false
}

/// The end of a file, or of a disk that can be opened like one, in bytes.
pub(super) fn end(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// The length of an open file in bytes. Of a file on a server it is the length that this system
/// knows: to wait for the server would hold up an event loop.
#[cfg(target_os = "linux")]
pub(super) fn length(file: &File) -> io::Result<u64> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    match statx(file, c"", flags, StatxFlags::SIZE) {
        Ok(found) => Ok(found.stx_size),
        // Old systems and sandboxes lack it.
        Err(_) => Ok(file.metadata()?.len()),
    }
}

/// The length of an open file in bytes.
#[cfg(not(target_os = "linux"))]
pub(super) fn length(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

/// Returns what asks the server of an open file for its length. It has no part in the lock of the
/// file, which is free when the file is closed although a question is under way.
#[cfg(target_os = "linux")]
pub(super) fn question(file: &File) -> io::Result<Ask> {
    use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, fstat, open, statx};
    use std::os::fd::{AsRawFd, OwnedFd};
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let place = match open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(place) => place,
        // There may be no /proc.
        Err(_) => OwnedFd::from(file.try_clone()?),
    };
    Ok(Box::new(move || {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        match statx(&place, c"", flags, StatxFlags::SIZE) {
            Ok(found) => Ok(found.stx_size),
            // Old systems and sandboxes lack it.
            Err(_) => Ok(fstat(&place)?.st_size as u64),
        }
    }))
}

/// Returns what asks the system for the length of an open file.
#[cfg(not(target_os = "linux"))]
pub(super) fn question(file: &File) -> io::Result<Ask> {
    let file = file.try_clone()?;
    Ok(Box::new(move || length(&file)))
}

/// Returns the first run of bytes from `from` on outside of holes; an empty one at the end if there
/// is none. `None`: the system does not report it, or the file is shorter than `bytes`.
#[cfg(any(target_os = "linux", target_os = "freebsd", target_os = "macos"))]
pub(super) fn next_data(file: &File, from: u64, bytes: u64) -> Option<core::ops::Range<u64>> {
    use rustix::fs::SeekFrom;
    let end = file.metadata().ok()?.len();
    // What it has lost is no hole: a read tells of it.
    if end < bytes {
        return None;
    }
    // The position of the file is used by nothing else.
    match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => Some(start..rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(end)),
        Err(rustix::io::Errno::NXIO) => Some(end..end),
        Err(_) => None,
    }
}

/// Not supported on this system.
#[cfg(not(any(target_os = "linux", target_os = "freebsd", target_os = "macos")))]
pub(super) fn next_data(_: &File, _: u64, _: u64) -> Option<core::ops::Range<u64>> {
    None
}

/// The major and minor number of the device that a device file stands for.
#[cfg(target_os = "linux")]
pub(super) fn device_number(metadata: &std::fs::Metadata) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    is_block_device(metadata)
        .then(|| (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev())))
}

/// Not supported on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn device_number(_: &std::fs::Metadata) -> Option<(u32, u32)> {
    None
}

/// Makes `open` refuse a disk that is mounted or otherwise in use.
#[cfg(target_os = "linux")]
pub(super) fn refuse_mounted(options: &mut std::fs::OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags(rustix::fs::OFlags::EXCL.bits() as i32);
}

/// Not supported on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn refuse_mounted(_: &mut std::fs::OpenOptions) {}

/// The process that holds the lock of a file, if the system reports it.
#[cfg(target_os = "linux")]
pub(super) fn holder(file: &File) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let inode = format!("{major:02x}:{minor:02x}:{}", metadata.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 4711 fd:01:123456 0 EOF`
    let fields = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let held = fields.into_iter().find(|f| f.len() > 5 && f[1] == "FLOCK" && f[5] == inode)?;
    held[4].parse().ok().filter(|&pid| pid > 0)
}

/// Not supported on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn holder(_: &File) -> Option<u32> {
    None
}

/// Switches to I/O that bypasses the page cache. Returns `None` and changes nothing if the file
/// system does not support it, or requires larger blocks; it reads a block to find out.
#[cfg(target_os = "linux")]
pub(super) fn go_direct(file: &File, block_bytes: u32, bytes: u64) -> Option<Direct> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let flags = fcntl_getfl(file).ok()?;
    fcntl_setfl(file, flags | OFlags::DIRECT).ok()?;
    let offset = if bytes > u64::from(block_bytes) { u64::from(block_bytes) } else { 0 };
    let works = |align: &usize| reads_direct(file, offset, block_bytes as usize, *align);
    let found = [512, 4096].into_iter().find(works).map(|memory_align| Direct { memory_align });
    if found.is_none() {
        fcntl_setfl(file, flags).ok()?;
    }
    found
}

/// Returns whether a read into memory aligned to exactly `align` bytes succeeds.
#[cfg(target_os = "linux")]
fn reads_direct(file: &File, offset: u64, len: usize, align: usize) -> bool {
    use std::os::unix::fs::FileExt;
    let mut memory = vec![0; len + 3 * 4096];
    let page = memory.as_ptr().align_offset(4096);
    let start = page + align % 4096;
    file.read_at(&mut memory[start..start + len], offset).is_ok_and(|n| n == len)
}

/// Not supported on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn go_direct(_: &File, _: u32, _: u64) -> Option<Direct> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_or_unset_identifier_is_none() {
        for text in ["3d1219c7c4c5404aaa1f6d2a48adfda4", "3D1219C7-C4C5-404A-AA1F-6D2A48ADFDA4"] {
            assert!(is_machine_id(text), "{text}");
        }
        let zeroes = "0".repeat(32);
        for text in ["", "uninitialized", &zeroes, "3d1219c7", "\u{1}\u{2}\u{3}\u{4}"] {
            assert!(!is_machine_id(text), "{text}");
        }
    }
}
