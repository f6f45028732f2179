//! Places in the file system that other users must not be able to change: directories of control
//! sockets and records, lock files, and sockets.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Options to open files for writing and to create them readable by the user only. A symbolic link
/// in their place is refused.
pub fn private() -> OpenOptions {
    let mut options = File::options();
    options.create(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Nobody is waited for where somebody has put a pipe.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    options
}

/// Opens a lock file, which is made if it is not there. One that another user could lock is
/// refused.
pub fn lock_file(path: &Path) -> io::Result<File> {
    let file = private().truncate(false).open(path).map_err(|e| system::told(e, path))?;
    system::check_lock(&file, path)?;
    Ok(file)
}

/// A lock file that this process holds, and that goes with it.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock at a path.
    ///
    /// # Errors
    /// A living process has it, or the error of opening or locking the file.
    pub fn take(path: &Path) -> Result<Self, TryLockError> {
        loop {
            let file = lock_file(path).map_err(TryLockError::Error)?;
            file.try_lock()?;
            // Whoever had it may have removed the file meanwhile.
            if system::is_at(&file, path) {
                return Ok(Self { file, path: path.to_owned() });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

#[cfg(unix)]
pub use system::{bind, bind_for, check_peer, check_user};
pub use system::{check_directory, make_private};

#[cfg(unix)]
mod system {
    use crate::permitted::Permitted;
    use rustix::fs::Mode;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use std::fs::{self, File, Metadata};
    use std::io::{self, ErrorKind};
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;

    /// Set in directories in which only the owner of a file may remove it.
    const STICKY: u32 = 0o1000;

    /// May write: group and others.
    const OTHERS_WRITE: u32 = 0o022;

    /// Clients that wait to be accepted.
    const BACKLOG: i32 = 128;

    fn refused<T>(text: String) -> io::Result<T> {
        Err(io::Error::new(ErrorKind::PermissionDenied, text))
    }

    /// Whether an open file is the one at a path.
    pub fn is_at(file: &File, path: &Path) -> bool {
        let both = (file.metadata(), fs::symlink_metadata(path));
        matches!(both, (Ok(open), Ok(there)) if (open.dev(), open.ino()) == (there.dev(), there.ino()))
    }

    fn is_own(found: &Metadata) -> bool {
        found.uid() == rustix::process::geteuid().as_raw()
    }

    /// The error of opening a lock file, in words where the system has only a number.
    pub fn told(e: io::Error, path: &Path) -> io::Error {
        if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            let text =
                format!("{} is a symbolic link, which is not followed; remove it", path.display());
            return io::Error::new(ErrorKind::PermissionDenied, text);
        }
        e
    }

    pub fn check_lock(file: &File, path: &Path) -> io::Result<()> {
        let found = file.metadata()?;
        if !found.is_file() || !is_own(&found) || found.mode() & 0o077 != 0 {
            return refused(format!(
                "other users could hold the lock {}; remove it if no server runs",
                path.display()
            ));
        }
        Ok(())
    }

    /// Refuses a directory in which other users could replace what is made there: it belongs to
    /// this user or to root, and nobody else may write to it, unless it is sticky.
    pub fn check_directory(path: &Path) -> io::Result<()> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let found = fs::metadata(path)?;
        if !found.is_dir() {
            return Err(io::Error::new(
                ErrorKind::NotADirectory,
                format!("{} is no directory", path.display()),
            ));
        }
        if !is_own(&found) && found.uid() != 0 {
            return refused(format!("the directory {} belongs to another user", path.display()));
        }
        if found.mode() & OTHERS_WRITE != 0 && found.mode() & STICKY == 0 {
            return refused(format!(
                "other users can write to the directory {}; restrict it with chmod go-w",
                path.display()
            ));
        }
        Ok(())
    }

    /// Creates a directory that only its owner can enter, or takes one that is there as it is. One
    /// of another user is refused, also if root runs weft, and so is one that others can write to,
    /// because weft trusts the records in it. A symbolic link is refused too, because it may lead
    /// anywhere.
    pub fn make_private(path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let found = fs::symlink_metadata(path)?;
        if !found.is_dir() || !is_own(&found) {
            return refused("it is a link, or belongs to another user".into());
        }
        if found.mode() & OTHERS_WRITE != 0 {
            return refused("other users can write to it; restrict it with chmod go-w".into());
        }
        Ok(())
    }

    /// Listens at a path, where nobody but this user and root can connect at any time.
    pub fn bind(path: &Path) -> io::Result<UnixListener> {
        bind_for(path, &Permitted::default())
    }

    /// Refuses a process at the other end that is neither this user's nor root's.
    pub fn check_peer(stream: &UnixStream) -> io::Result<()> {
        check_user(stream, &Permitted::default())
    }

    /// Listens at a path. If others are permitted, anybody can connect, and `check_user` tells them
    /// apart.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn bind_for(path: &Path, users: &Permitted) -> io::Result<UnixListener> {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // The file gets the mode that the socket has.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(path)?)?;
        if !users.is_empty() {
            // Whatever the umask of this process is.
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
        }
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket.into())
    }

    /// The same, where a socket has no mode before its file: it is made in a directory that only
    /// the user can enter.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub fn bind_for(path: &Path, _: &Permitted) -> io::Result<UnixListener> {
        let inner = path.with_extension(format!("{}.d", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&inner)?;
        let socket = inner.join("socket");
        let bound = UnixListener::bind(&socket).and_then(|listener| {
            fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            fs::rename(&socket, path)?;
            Ok(listener)
        });
        let _ = fs::remove_file(&socket);
        let _ = fs::remove_dir(&inner);
        bound
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
        refused("the process at the other end belongs to another user".into())
    }

    /// The modes of the socket and of its directory let nobody else in.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub fn check_user(_: &UnixStream, _: &Permitted) -> io::Result<()> {
        Ok(())
    }
}

/// Who may do what is not told by modes.
#[cfg(not(unix))]
mod system {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub fn told(e: io::Error, _: &Path) -> io::Error {
        e
    }

    pub fn check_lock(_: &File, _: &Path) -> io::Result<()> {
        Ok(())
    }

    /// An open file cannot be replaced there.
    pub fn is_at(_: &File, _: &Path) -> bool {
        true
    }

    /// Does nothing: directories of a user belong to that user alone here.
    pub fn check_directory(_: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Makes a directory, which belongs to its user alone here.
    pub fn make_private(path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::io::Read;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt;
    use std::path::PathBuf;

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
