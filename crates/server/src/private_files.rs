//! Sockets that only permitted users can use; with [`weft_io::private_files`], all places in the
//! file system that other users must not be able to change.

#[cfg(unix)]
pub use system::{bind, bind_for, check_peer, check_user};
pub use weft_io::private_files::{LockFile, check_directory, create_new, lock_file, make_private};

#[cfg(unix)]
mod system {
    use crate::permitted::Permitted;
    use std::io;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use weft_io::socket_file::{self, Brings};

    /// Clients that wait to be accepted.
    const BACKLOG: i32 = 128;

    /// Listens at a path, where nobody but this user and root can connect at any time, and messages
    /// may bring descriptors.
    pub fn bind(path: &Path) -> io::Result<UnixListener> {
        socket_file::bind(path, Some(0o600), BACKLOG, Brings::Descriptors)
    }

    /// Refuses a process at the other end that is neither this user's nor root's.
    pub fn check_peer(stream: &UnixStream) -> io::Result<()> {
        check_user(stream, &Permitted::default())
    }

    /// Listens at a path. If others are permitted, anybody can connect, and `check_user` tells them
    /// apart. They are permitted on Linux only.
    pub fn bind_for(path: &Path, users: &Permitted) -> io::Result<UnixListener> {
        let mode = if users.is_empty() { 0o600 } else { 0o666 };
        socket_file::bind(path, Some(mode), BACKLOG, Brings::Bytes)
    }

    /// Refuses a process at the other end that is neither this user's nor root's, nor that of a
    /// user who is permitted.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn check_user(stream: &UnixStream, users: &Permitted) -> io::Result<()> {
        let peer = rustix::net::sockopt::socket_peercred(stream)?;
        let own = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
        if own || users.has(peer.uid.as_raw()) {
            return Ok(());
        }
        let text = "the process at the other end belongs to another user";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }

    /// The modes of the socket and of its directory let nobody else in.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub fn check_user(_: &UnixStream, _: &Permitted) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::io::{self, Read};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt;
    use std::path::{Path, PathBuf};

    /// A user that owns nothing here.
    const NOBODY: u32 = 65_534;

    fn directory(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("weft-private-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        make_private(&path).unwrap();
        path
    }

    fn has_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn said(outcome: io::Result<impl Sized>) -> String {
        outcome.err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let path = directory("directory");
        for mode in [0o777, 0o775, 0o722] {
            has_mode(&path, mode);
            assert!(said(check_directory(&path)).contains("chmod go-w"), "{mode:o}");
            assert!(said(make_private(&path)).contains("chmod go-w"), "{mode:o}");
        }
        has_mode(&path, 0o1777);
        assert!(check_directory(&path).is_ok(), "it is sticky");
        assert!(make_private(&path).is_err(), "others could put records there");
        // What was there keeps its mode.
        has_mode(&path, 0o755);
        make_private(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
        symlink(&path, path.join("link")).unwrap();
        assert!(make_private(&path.join("link")).is_err());
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(NOBODY), None).unwrap();
            assert!(said(check_directory(&path)).contains("another user"));
            assert!(said(make_private(&path)).contains("another user"));
        } else {
            weft_testing::skip("only root can give a directory to another user");
        }
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_lock_is_no_link_and_nobody_elses() {
        let path = directory("lock");
        let (lock, precious) = (path.join("a.lock"), path.join("precious"));
        symlink(&precious, &lock).unwrap();
        assert!(said(lock_file(&lock)).contains("symbolic link"));
        assert!(!precious.exists());
        fs::remove_file(&lock).unwrap();
        drop(lock_file(&lock).unwrap());
        has_mode(&lock, 0o644);
        assert!(
            said(lock_file(&lock)).contains("other users could hold the lock"),
            "whoever can open it can lock it"
        );
        has_mode(&lock, 0o600);
        if rustix::process::geteuid().is_root() {
            chown(&lock, Some(NOBODY), None).unwrap();
            assert!(said(lock_file(&lock)).contains("other users could hold the lock"));
        } else {
            weft_testing::skip("only root can give a file to another user");
        }
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_socket_is_private_from_the_beginning() {
        let path = directory("socket");
        let socket = path.join("a.sock");
        let listener = bind(&socket).unwrap();
        assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o777, 0o600);
        let client = UnixStream::connect(&socket).unwrap();
        check_peer(&client).unwrap();
        check_peer(&listener.accept().unwrap().0).unwrap();
        assert!(bind(&socket).is_err());
        fs::remove_dir_all(path).unwrap();
    }

    /// Names the socket to which the next test connects as another user.
    const VARIABLE: &str = "WEFT_TEST_CONNECTS";

    #[test]
    fn connects_where_it_is_told() {
        if let Some(socket) = std::env::var_os(VARIABLE) {
            let _ = UnixStream::connect(socket).unwrap().read(&mut [0]);
        }
    }

    /// Although the mode of the socket lets it in.
    #[test]
    fn a_process_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return weft_testing::skip("only root can start a process of another user");
        }
        let path = directory("peer");
        has_mode(&path, 0o755);
        let listener = bind(&path.join("a.sock")).unwrap();
        has_mode(&path.join("a.sock"), 0o666);
        // A copy of this program that the other user can reach.
        let program = path.join("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        has_mode(&program, 0o755);
        let mut command = std::process::Command::new(&program);
        command
            .args(["--exact", "private_files::tests::connects_where_it_is_told"])
            .env(VARIABLE, path.join("a.sock"));
        command.stdout(std::process::Stdio::null()).uid(NOBODY);
        let Ok(mut child) = command.spawn() else {
            fs::remove_dir_all(path).unwrap();
            return weft_testing::skip("another user cannot run this program here");
        };
        listener.set_nonblocking(true).unwrap();
        let mut stranger = None;
        while stranger.is_none() && child.try_wait().unwrap().is_none() {
            stranger = listener.accept().ok();
        }
        if let Some((stranger, _)) = stranger {
            assert!(said(check_peer(&stranger)).contains("another user"));
        } else {
            weft_testing::skip("another user cannot run this program here");
        }
        let _ = child.wait();
        fs::remove_dir_all(path).unwrap();
    }
}
