//! The file of a listening Unix socket, with the permissions that it is to have from the beginning.
//!
//! Its directory may belong to somebody else, such as the user of a hypervisor, who can put another
//! file in the place of the socket at any time. So no mode is set by a path.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Possible attachments of messages from peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brings {
    /// Nothing but bytes. Descriptors are refused where the system can do that: see
    /// [`crate::unasked`].
    Bytes,
    /// Descriptors, too, which the receiver takes.
    Descriptors,
}

/// Listens at a path, where nothing may be yet. With a mode, the socket's file has it, whatever the
/// umask is; without one, it has what the umask leaves.
///
/// # Errors
/// `AddrInUse` if something is there; `PermissionDenied` if somebody has put another file in the
/// place of the socket.
pub fn bind(
    path: &Path,
    mode: Option<u32>,
    backlog: i32,
    brings: Brings,
) -> io::Result<UnixListener> {
    system::bind(path, mode, backlog, brings)
}

/// Gives the socket of this user at a path these permissions.
///
/// # Errors
/// What is there is no socket, another user's, or has another name too.
pub fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    system::give(path, mode, None)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use super::Brings;
    use rustix::fs::{FileType, Mode, OFlags};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    pub fn bind(
        path: &Path,
        mode: Option<u32>,
        backlog: i32,
        brings: Brings,
    ) -> io::Result<UnixListener> {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        if brings == Brings::Bytes {
            // Connections have the option of their listener. Where the system has none, they are
            // a matter of those who accept: see `unasked`.
            crate::unasked::refuse(&socket);
        }
        // The file gets the mode that the socket has, less what the umask takes from it. Where that
        // is too little, nobody gets anything before the file has been looked at.
        let late = mode.filter(|mode| mode & umask() != 0);
        if let Some(mode) = mode {
            let first = late.map_or(mode, |_| 0);
            rustix::fs::fchmod(&socket, Mode::from_raw_mode(first))?;
        }
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        if let Some(mode) = late {
            give(path, mode, Some(0)).inspect_err(|_| drop(std::fs::remove_file(path)))?;
        }
        rustix::net::listen(&socket, backlog)?;
        Ok(socket.into())
    }

    /// Sets the mode of a socket by a descriptor of it, which no other file can take the place of.
    /// `before`: the mode that it must have.
    pub fn give(path: &Path, mode: u32, before: Option<u32>) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&file)?;
        let is_ours = FileType::from_raw_mode(found.st_mode) == FileType::Socket
            && found.st_uid == rustix::process::geteuid().as_raw()
            && found.st_nlink == 1
            && before.is_none_or(|before| found.st_mode & 0o7777 == before);
        if !is_ours {
            let text = format!(
                "another file has taken the place of the socket {}: other users can write to its directory",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let of_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(rustix::fs::chmod(of_descriptor, Mode::from_raw_mode(mode))?)
    }

    /// The permissions that the system takes from new files. Where it does not tell, a file has less
    /// than was asked for, and not more.
    fn umask() -> u32 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let of = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        of.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0)
    }
}

/// A socket has no mode before its file here. It is made in a directory that only the user can
/// enter.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    use super::Brings;
    use std::fs::{self, Permissions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    pub fn bind(path: &Path, mode: Option<u32>, _: i32, _: Brings) -> io::Result<UnixListener> {
        let Some(mode) = mode else { return UnixListener::bind(path) };
        if fs::symlink_metadata(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let inner = path.with_extension(format!("{}.d", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&inner)?;
        let socket = inner.join("socket");
        let bound = UnixListener::bind(&socket).and_then(|listener| {
            fs::set_permissions(&socket, Permissions::from_mode(mode))?;
            fs::rename(&socket, path)?;
            Ok(listener)
        });
        let _ = fs::remove_file(&socket);
        let _ = fs::remove_dir(&inner);
        bound
    }

    /// In a directory that nobody else can change.
    pub fn give(path: &Path, mode: u32, _: Option<u32>) -> io::Result<()> {
        crate::private_files::check_directory(path.parent().unwrap_or(path))?;
        let found = fs::symlink_metadata(path)?;
        let is_own = found.uid() == rustix::process::geteuid().as_raw();
        if !found.file_type().is_socket() || !is_own || found.nlink() != 1 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        fs::set_permissions(path, Permissions::from_mode(mode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weft-socket-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn a_socket_has_its_mode_whatever_the_umask() {
        let dir = directory("mode");
        for mode in [0o600, 0o660, 0o666, 0o777] {
            let path = dir.join("a.sock");
            let listener = bind(&path, Some(mode), 1, Brings::Bytes).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode, "{mode:o}");
            UnixStream::connect(&path).unwrap();
            let again = bind(&path, Some(mode), 1, Brings::Bytes);
            assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
            drop(listener);
            fs::remove_file(&path).unwrap();
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn only_a_socket_gets_a_mode() {
        let dir = directory("swapped");
        let (socket, precious, link) = (dir.join("a.sock"), dir.join("precious"), dir.join("link"));
        let _listener = bind(&socket, Some(0o600), 1, Brings::Bytes).unwrap();
        fs::write(&precious, "as it was").unwrap();
        fs::set_permissions(&precious, Permissions::from_mode(0o600)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        for target in [&precious, &socket] {
            symlink(target, &link).unwrap();
            assert!(restrict(&link, 0o666).is_err());
            assert!(bind(&link, Some(0o666), 1, Brings::Bytes).is_err());
            fs::remove_file(&link).unwrap();
        }
        assert!(restrict(&precious, 0o666).is_err());
        fs::hard_link(&socket, &link).unwrap();
        assert!(restrict(&link, 0o666).is_err(), "it is a socket that is known by another name");
        fs::remove_file(&link).unwrap();
        assert_eq!((mode(&precious), mode(&socket)), (0o600, 0o600));
        restrict(&socket, 0o660).unwrap();
        assert_eq!(mode(&socket), 0o660);
        fs::remove_dir_all(dir).unwrap();
    }
}
