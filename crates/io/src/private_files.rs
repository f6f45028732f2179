//! Files and directories that another user of the machine must not be able to lead elsewhere, or
//! to hold: lock files, records, and the directories of these.
//!
//! With [`crate::durable`], [`crate::secret_file`], [`crate::output`] and [`crate::kernel_file`],
//! this is all that makes files or opens them for writing. No function here follows a symbolic
//! link in the last component of a path, and none waits where somebody has put a pipe.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[cfg(unix)]
pub use system::give;
pub use system::{check_directory, make_private};

/// Options to open files for writing and to create them readable by the user only.
fn private() -> OpenOptions {
    let mut options = File::options();
    options.create(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    system::keep_to_path(&mut options);
    options
}

/// Creates a file that is not there yet, readable by the user only.
///
/// # Errors
/// `AlreadyExists`, also for a symbolic link; otherwise the error of creating it.
pub fn create_new(path: &Path) -> io::Result<File> {
    private().create_new(true).open(path)
}

/// Opens a file to append to it; a new one is readable by the user only.
///
/// # Errors
/// It is a symbolic link, no regular file, or another user's; otherwise the error of opening it.
pub fn append(path: &Path) -> io::Result<File> {
    let file = private().append(true).open(path).map_err(|e| system::told(e, path))?;
    system::check_own(&file, path)?;
    Ok(file)
}

/// Reads a file that this user or root has written, of at most `bytes_max` bytes.
///
/// # Errors
/// It is a symbolic link, no regular file, another user's, or longer; otherwise the error of
/// reading it.
pub fn read_own(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    system::keep_to_path(options.read(true));
    let file = options.open(path).map_err(|e| system::told(e, path))?;
    system::check_own(&file, path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let text = format!("{} has more than {bytes_max} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(bytes)
}

/// Opens a lock file, which is made if it is not there. One that another user could lock is
/// refused.
pub fn lock_file(path: &Path) -> io::Result<File> {
    let file = private().truncate(false).open(path).map_err(|e| system::told(e, path))?;
    system::check_lock(&file, path)?;
    Ok(file)
}

/// Opens a lock file of the state directory, or next to a file of the user's, and makes it if
/// necessary. Earlier versions made such files readable for others, so this user's file is
/// restricted and not refused.
///
/// # Errors
/// It is a symbolic link, has another name too, or is not a regular file; otherwise the error of
/// opening it.
pub fn kept_lock_file(path: &Path) -> io::Result<File> {
    let file = private().truncate(false).open(path).map_err(|e| system::told(e, path))?;
    system::restrict_lock(&file, path)?;
    Ok(file)
}

/// Locks a file, and waits for a limited time for whoever has the lock.
///
/// # Errors
/// `WouldBlock` if that one keeps it.
pub fn lock_within(file: &File, limit: Duration) -> Result<(), TryLockError> {
    let end = Instant::now() + limit;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// A lock file that this process holds, and that goes with it.
#[derive(Debug)]
pub struct LockFile {
    file: File,
    path: PathBuf,
}

impl LockFile {
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

impl Drop for LockFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

#[cfg(unix)]
mod system {
    use rustix::fs::{Mode, OFlags, openat};
    use std::fs::{self, File, Metadata, OpenOptions, Permissions};
    use std::io::{self, ErrorKind};
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
    use std::path::Path;

    /// Set in directories in which only the owner of a file may remove it.
    const STICKY: u32 = 0o1000;

    /// May write: group and others.
    const OTHERS_WRITE: u32 = 0o022;

    fn refused<T>(text: String) -> io::Result<T> {
        Err(io::Error::new(ErrorKind::PermissionDenied, text))
    }

    /// Follows no link, and waits for nobody where somebody has put a pipe.
    pub fn keep_to_path(options: &mut OpenOptions) {
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }

    /// Returns whether an open file is the one at a path.
    pub fn is_at(file: &File, path: &Path) -> bool {
        let both = (file.metadata(), fs::symlink_metadata(path));
        matches!(both, (Ok(open), Ok(there)) if (open.dev(), open.ino()) == (there.dev(), there.ino()))
    }

    fn is_own(found: &Metadata) -> bool {
        found.uid() == rustix::process::geteuid().as_raw()
    }

    /// The error of opening a file, in words where the system has only a number.
    pub fn told(e: io::Error, path: &Path) -> io::Error {
        if e.raw_os_error() == Some(libc::ELOOP) {
            let text =
                format!("{} is a symbolic link, which is not followed; remove it", path.display());
            return io::Error::new(ErrorKind::PermissionDenied, text);
        }
        e
    }

    /// Refuses what is not a regular file of this user or of root.
    pub fn check_own(file: &File, path: &Path) -> io::Result<()> {
        let found = file.metadata()?;
        if !found.is_file() {
            return refused(format!("{} is not a regular file", path.display()));
        }
        if !is_own(&found) && found.uid() != 0 {
            return refused(format!("{} belongs to another user; remove it", path.display()));
        }
        Ok(())
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

    /// Refuses what is not a regular file, or has another name that somebody else may rely on.
    fn check_alone(file: &File, path: &Path) -> io::Result<Metadata> {
        let found = file.metadata()?;
        if !found.is_file() || found.nlink() > 1 {
            return refused(format!(
                "{} is not a regular file, or has another name, too; remove it",
                path.display()
            ));
        }
        Ok(found)
    }

    pub fn restrict_lock(file: &File, path: &Path) -> io::Result<()> {
        let found = check_alone(file, path)?;
        if is_own(&found) && found.mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(())
    }

    /// Gives a directory and files in it to the owner of another directory.
    ///
    /// # Errors
    /// The directory or a file is a symbolic link, a file has another name too, or the error of
    /// opening or giving it.
    pub fn give(directory: &Path, names: &[&str], like: &Path) -> io::Result<()> {
        let owner = fs::metadata(like)?;
        let give_one = |file: &File, found: &Metadata| match found.uid() == owner.uid() {
            true => Ok(()),
            false => fchown(file, Some(owner.uid()), Some(owner.gid())),
        };
        let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY;
        let opened = File::options().read(true).custom_flags(flags).open(directory)?;
        give_one(&opened, &opened.metadata()?)?;
        for name in names {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(openat(&opened, *name, flags, Mode::empty())?);
            give_one(&file, &check_alone(&file, &directory.join(name))?)?;
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
                format!("{} is not a directory", path.display()),
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
}

/// Modes do not say here who may do what.
#[cfg(not(unix))]
mod system {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::path::Path;

    pub fn keep_to_path(_: &mut OpenOptions) {}

    pub fn told(e: io::Error, _: &Path) -> io::Error {
        e
    }

    pub fn check_own(_: &File, _: &Path) -> io::Result<()> {
        Ok(())
    }

    pub fn check_lock(_: &File, _: &Path) -> io::Result<()> {
        Ok(())
    }

    pub fn restrict_lock(_: &File, _: &Path) -> io::Result<()> {
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weft-private-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        make_private(&path).unwrap();
        path
    }

    fn said(outcome: io::Result<impl Sized>) -> String {
        outcome.err().map(|e| e.to_string()).unwrap_or_default()
    }

    type Open = fn(&Path) -> io::Result<()>;

    /// Every function of this module that opens a file, by its name.
    const OPENERS: [(&str, Open); 5] = [
        ("create_new", |path| create_new(path).map(drop)),
        ("append", |path| append(path).and_then(|mut file| file.write_all(b"more"))),
        ("read_own", |path| read_own(path, 100).map(drop)),
        ("lock_file", |path| lock_file(path).map(drop)),
        ("kept_lock_file", |path| kept_lock_file(path).map(drop)),
    ];

    #[test]
    fn no_link_is_followed_and_no_pipe_waited_for() {
        let dir = directory("links");
        let (precious, place) = (dir.join("precious"), dir.join("place"));
        for (name, open) in OPENERS {
            fs::write(&precious, "as it was").unwrap();
            fs::set_permissions(&precious, Permissions::from_mode(0o640)).unwrap();
            for target in [&precious, &dir.join("not there")] {
                symlink(target, &place).unwrap();
                assert!(open(&place).is_err(), "{name} follows a link");
                fs::remove_file(&place).unwrap();
            }
            assert!(!dir.join("not there").exists(), "{name} makes a file through a link");
            assert_eq!(fs::read_to_string(&precious).unwrap(), "as it was", "{name}");
            assert_eq!(fs::metadata(&precious).unwrap().mode() & 0o777, 0o640, "{name}");
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &place,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o600),
                0,
            )
            .unwrap();
            assert!(open(&place).is_err(), "{name} takes a pipe");
            fs::remove_file(&place).unwrap();
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_lock_of_an_earlier_version_is_restricted() {
        let dir = directory("kept-lock");
        let path = dir.join("a.lock");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let lock = kept_lock_file(&path).unwrap();
        assert_eq!(lock.metadata().unwrap().mode() & 0o777, 0o600);
        // Another name may be one that somebody else relies on.
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        fs::hard_link(&path, dir.join("other")).unwrap();
        assert!(said(kept_lock_file(&path)).contains("another name"));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn nothing_is_given_away_through_a_link() {
        let dir = directory("give");
        let (disks, precious) = (dir.join("disks"), dir.join("precious"));
        make_private(&disks).unwrap();
        for path in [&precious, &disks.join("own")] {
            fs::write(path, "").unwrap();
        }
        give(&disks, &["own"], &dir).unwrap();
        symlink(&precious, disks.join("link")).unwrap();
        fs::hard_link(&precious, disks.join("name")).unwrap();
        symlink(&disks, dir.join("other")).unwrap();
        for name in ["link", "name", "none"] {
            assert!(give(&disks, &[name], &dir).is_err(), "{name}");
        }
        assert!(give(&dir.join("other"), &["own"], &dir).is_err());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_is_too_long_is_not_read() {
        let dir = directory("long");
        let path = dir.join("record");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_own(&path, 5).unwrap(), b"12345");
        assert!(said(read_own(&path, 4)).contains("more than 4 bytes"));
        fs::remove_dir_all(dir).unwrap();
    }
}
