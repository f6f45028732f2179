//! Places of control sockets: `NAME.control` in the runtime directory, which only its owner can
//! enter, or the path that `--control` gives.

use crate::attach::entries::Runtime;
use crate::config::check::{SERVER_NAMES, is_server_name};
use crate::private_files::{LockFile, check_directory};
use std::ffi::OsString;
#[cfg(windows)]
use std::fs::File;
use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use weft_block::{Error, ErrorKind};

/// The control socket of a server.
#[derive(Clone, Debug)]
pub struct ControlSocket {
    /// Path, or name in the runtime directory of the user.
    pub place: String,
    /// Without the socket the server does not start. Otherwise there is a warning.
    pub is_required: bool,
}

/// The kind of the files.
const KIND: &str = "control";

/// The socket of the server that is meant: `given`, or the only one of this user.
///
/// # Errors
/// [`ErrorKind::NotFound`] if no server runs, [`ErrorKind::Usage`] if it is not clear which is
/// meant.
pub fn resolve(given: Option<&str>) -> Result<PathBuf, Error> {
    match given {
        Some(given) => named(given),
        None => only(&live(&Runtime::open()?)),
    }
}

/// The socket with a path, or with a name in the runtime directory.
pub fn named(given: &str) -> Result<PathBuf, Error> {
    if given.contains(std::path::is_separator) {
        return Ok(given.into());
    }
    if !is_server_name(given) {
        let text = format!(
            "{given:?} is neither a name nor a path of a control socket: {SERVER_NAMES}; a path has a \"/\""
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(Runtime::open()?.file(given, KIND))
}

/// Refuses a path at which something else than a socket is: a server removes what it finds where it
/// is to listen.
///
/// # Errors
/// [`ErrorKind::InUse`].
pub fn check(path: &Path) -> Result<(), Error> {
    if is_foreign(path) {
        return Err(Error::new(
            ErrorKind::InUse,
            format!("{} is not a socket; choose another --control", path.display()),
        ));
    }
    Ok(())
}

/// Removes the socket at a path, if one is there, and nothing else.
pub fn remove(path: &Path) -> std::io::Result<()> {
    if is_foreign(path) {
        return Ok(());
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Whether something is at a path that is no socket.
#[cfg(unix)]
fn is_foreign(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket())
}

/// Whether something is at a path that does not name a pipe of weft's.
#[cfg(windows)]
fn is_foreign(path: &Path) -> bool {
    use std::io::Read;
    let prefix = super::pipe::PREFIX.as_bytes();
    let mut begin = Vec::new();
    match File::open(path).and_then(|file| file.take(prefix.len() as u64).read_to_end(&mut begin)) {
        Ok(_) => begin != prefix,
        Err(e) => e.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Removes the sockets that dead servers of this user have left.
pub fn clean() {
    if let Ok(runtime) = Runtime::open() {
        live(&runtime);
    }
}

/// The servers of this user that are alive. Removes the sockets of dead ones.
fn live(runtime: &Runtime) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(runtime.path()).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sockets: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|kind| kind == KIND)).collect();
    sockets.retain(|socket| !is_foreign(socket));
    sockets.retain(|socket| match ClaimedPath::take(socket) {
        Ok(claim) => {
            claim.clear();
            false
        }
        Err(e) => e.kind() == ErrorKind::InUse,
    });
    sockets.sort();
    sockets
}

fn only(servers: &[PathBuf]) -> Result<PathBuf, Error> {
    let name = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match servers {
        [one] => Ok(one.clone()),
        [] => {
            let text = "no weft serve of this user is running; start one, or give its control socket with --control";
            Err(Error::new(ErrorKind::NotFound, text))
        }
        many => {
            let names: Vec<String> = many.iter().map(name).collect();
            Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "several servers are running; choose one with --control: {}",
                    names.join(", ")
                ),
            ))
        }
    }
}

/// A path at which this process alone may listen, for as long as this lives: it holds a lock next
/// to it.
pub struct ClaimedPath {
    path: PathBuf,
    // Goes after what it guards.
    _lock: LockFile,
}

impl ClaimedPath {
    /// Takes a path.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if a living process has it, [`ErrorKind::PermissionDenied`] if another
    /// user could take it.
    pub fn take(path: &Path) -> Result<Self, Error> {
        let mut lock_path = OsString::from(path);
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        let failed =
            |e| Error::io(format!("cannot use {} for the control socket: {e}", path.display()), e);
        check_directory(path.parent().unwrap_or(path)).map_err(failed)?;
        match LockFile::take(&lock_path) {
            Ok(lock) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let text = format!(
                    "another weft serve listens at {}; give this one another --control",
                    path.display()
                );
                Err(Error::new(ErrorKind::InUse, text))
            }
            Err(TryLockError::Error(e)) => Err(failed(e)),
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the socket at the path.
    fn clear(&self) {
        let _ = remove(&self.path);
    }
}

impl Drop for ClaimedPath {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_is_not_a_socket_stays() {
        let directory = std::env::temp_dir().join(format!("weft-foreign-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("precious.control");
        std::fs::write(&path, "data").unwrap();
        assert_eq!(check(&path).unwrap_err().kind(), ErrorKind::InUse);
        drop(ClaimedPath::take(&path).unwrap());
        remove(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
        let link = directory.join("link.control");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(
            check(&link).is_err()
                && check(&directory).is_err()
                && check(&directory.join("new")).is_ok()
        );
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn names_are_no_paths() {
        for wrong in ["", "..", ".hidden", "a b", "a\u{1b}[2J"] {
            let error = named(wrong).unwrap_err();
            assert!(
                error.kind() == ErrorKind::Usage && !error.to_string().contains('\u{1b}'),
                "{error}"
            );
        }
        assert_eq!(named("/run/a b").unwrap(), Path::new("/run/a b"));
    }

    #[cfg(unix)]
    #[test]
    fn a_path_has_one_server() {
        let directory = std::env::temp_dir().join(format!("weft-claim-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a.control");
        let first = ClaimedPath::take(&path).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert_eq!(ClaimedPath::take(&path).err().unwrap().kind(), ErrorKind::InUse);
        drop(first);
        assert!(!path.exists());
        // A process that another test is just starting has the lock's descriptor until its program
        // begins.
        while ClaimedPath::take(&path).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn one_server_needs_no_name() {
        let path = |name: &str| PathBuf::from(format!("/run/weft/{name}.control"));
        assert_eq!(only(&[path("a")]).unwrap(), path("a"));
        assert!(only(&[]).unwrap_err().to_string().contains("no weft serve"));
        assert!(
            only(&[path("a"), path("b")]).unwrap_err().to_string().ends_with("--control: a, b")
        );
    }
}
