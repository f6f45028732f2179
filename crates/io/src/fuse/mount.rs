//! Mounts and unmounts a file system at a directory: by the system calls as root, and by
//! `fusermount3`, where it is installed, as another user.

use super::channel::FuseChannel;
use super::helper;
use super::settings::MountSettings;
use crate::kernel_file;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::{ffi::OsString, io};

/// The type of the file systems, as the table of mounts has it.
pub const FILE_SYSTEM: &str = "fuse.weft";

/// A mounted file system.
pub struct Mounted {
    /// Its requests.
    pub channel: FuseChannel,
    /// Maximum data of a request in bytes.
    pub request_bytes: u32,
    /// Requests come by a [`FuseRing`](super::FuseRing), after each of the kernel's queues has a
    /// slot.
    pub has_ring: bool,
}

/// Mounts a file system at a directory and negotiates with the kernel.
///
/// # Errors
/// Those of the system. [`io::ErrorKind::NotFound`] with `/dev/fuse` in its text, or of the program
/// `fusermount3`, if this system lacks them.
pub fn mount(directory: &Path, settings: &MountSettings) -> io::Result<Mounted> {
    let channel = match by_system(directory, settings) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            helper::mount(directory, settings)?
        }
        other => other?,
    };
    match channel.begin(settings.request_bytes, settings.is_plain) {
        Ok((request_bytes, has_ring)) => Ok(Mounted { channel, request_bytes, has_ring }),
        Err(e) => {
            let _ = unmount(directory, true);
            Err(e)
        }
    }
}

fn by_system(directory: &Path, settings: &MountSettings) -> io::Result<FuseChannel> {
    let opened = kernel_file::open("/dev/fuse");
    let file = opened.map_err(|e| io::Error::new(e.kind(), format!("/dev/fuse: {e}")))?;
    let channel = FuseChannel::of(file.into());
    let (user, group) = owner();
    let options = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},default_permissions,max_read={}",
        channel.fd().as_fd().as_raw_fd(),
        settings.request_bytes
    );
    let options = CString::new(options).expect("it has no zeroes");
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    flags.set(MountFlags::RDONLY, settings.is_read_only);
    rustix::mount::mount("weft", directory, FILE_SYSTEM, flags, &*options)?;
    Ok(channel)
}

/// Unmounts the file system at a directory. `is_forced`: also while it is in use; its users get
/// errors from then on.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] if it is used, and not forced; [`io::ErrorKind::InvalidInput`]
/// if none is there.
pub fn unmount(directory: &Path, is_forced: bool) -> io::Result<()> {
    let flags = if is_forced { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(directory, flags | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => helper::unmount(directory, is_forced),
        other => Ok(other?),
    }
}

/// User and group of this process.
pub fn owner() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Returns whether a file system of weft is mounted at a directory. The path must have no links.
pub fn is_mounted(directory: &Path) -> bool {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    is_in(&table, directory)
}

/// Returns whether a file system of weft is mounted at a directory, and its process has ended.
pub fn is_dead(directory: &Path) -> bool {
    let looked = std::fs::symlink_metadata(directory);
    let is_dead = looked.is_err_and(|e| Errno::from_io_error(&e) == Some(Errno::NOTCONN));
    // The directory itself cannot be resolved, only its parent.
    let above = directory.parent().and_then(|above| above.canonicalize().ok());
    let place = above.zip(directory.file_name()).map(|(above, name)| above.join(name));
    is_dead && place.is_some_and(|place| is_mounted(&place))
}

/// Returns whether the topmost file system at a directory in the table of mounts is weft's.
fn is_in(table: &[u8], directory: &Path) -> bool {
    let of_line = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ');
        let place = unescaped(words.nth(4)?);
        // Optional words end with a hyphen.
        let kind = words.skip_while(|word| *word != b"-").nth(1)?.to_vec();
        (place == directory).then_some(kind)
    };
    let mut found = table.rsplit(|byte| *byte == b'\n').filter_map(of_line);
    found.next().is_some_and(|kind| kind == FILE_SYSTEM.as_bytes())
}

/// A path of the table of mounts, in which blanks and backslashes are octal numbers.
fn unescaped(text: &[u8]) -> PathBuf {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let number = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match number.filter(|_| *first == b'\\') {
            Some(byte) => {
                out.push(byte);
                rest = &behind[3..];
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_in_the_table() {
        let table = b"22 1 0:20 / /proc rw - proc proc rw\n\
            50 1 0:40 / /mnt/a\\040b rw,nosuid shared:1 master:2 - fuse.weft weft rw\n\
            51 1 0:41 / /mnt/c rw - fuse.weft weft rw\n\
            52 51 0:42 / /mnt/c rw - tmpfs none rw\n";
        assert!(is_in(table, Path::new("/mnt/a b")));
        assert!(!is_in(table, Path::new("/mnt/c")), "something else is above it");
        assert!(!is_in(table, Path::new("/proc")) && !is_in(table, Path::new("/mnt")));
        assert!(!is_in(b"", Path::new("/")) && !is_in(b"1 2 3", Path::new("/")));
    }

    #[test]
    fn octal_numbers_of_paths_are_characters() {
        assert_eq!(unescaped(br"/a\011\134b\"), Path::new("/a\t\\b\\"));
        assert_eq!(unescaped(br"\0"), Path::new("\\0"));
    }
}
