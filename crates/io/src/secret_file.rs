//! Files with secrets: other users must not be able to read them.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Opens a file with a secret. What is asked about is the file that is read, whatever its name
/// leads to later.
///
/// # Errors
/// `PermissionDenied` if other users can read it; otherwise the error of opening it.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if is_public(&file)? {
        let text = "other users can read it; restrict it with chmod 600";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(file)
}

/// Creates a file for what other users must not read, or empties one that is there and is empty or
/// begins with `magic`: nothing else is overwritten. A symbolic link is not followed.
///
/// # Errors
/// It is not a file, is a symbolic link, belongs to another user, or holds something else;
/// otherwise the error of creating it.
pub fn create(path: &Path, magic: &[u8]) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Nobody is waited for where somebody has put a pipe.
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    let mut file = options.open(path).map_err(told)?;
    let mut start = Vec::new();
    (&file).take(magic.len() as u64).read_to_end(&mut start)?;
    if !start.is_empty() && start != magic {
        let text =
            "it holds something else, which is not overwritten; remove it, or choose another name";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    make_own(&file)?;
    file.set_len(0)?;
    file.rewind()?;
    Ok(file)
}

/// An error of opening, in words where the system has only a number.
fn told(e: io::Error) -> io::Error {
    #[cfg(unix)]
    if e.raw_os_error() == Some(libc::ELOOP) {
        let text = "it is a symbolic link, which is not followed";
        return io::Error::new(io::ErrorKind::PermissionDenied, text);
    }
    e
}

/// Keeps other users from a file of this user.
#[cfg(unix)]
fn make_own(file: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if found.nlink() > 1 {
        let text = "it has another name, too; remove it, or choose another name";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        let text = "it belongs to another user; remove it, or choose another name";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

/// Not known on this system.
#[cfg(not(unix))]
fn make_own(_: &File) -> io::Result<()> {
    Ok(())
}

/// Returns whether other users can read a file.
#[cfg(unix)]
fn is_public(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(file.metadata()?.permissions().mode() & 0o077 != 0)
}

/// Not known on this system.
#[cfg(not(unix))]
fn is_public(_: &File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_new_file_is_private_and_no_link_is_followed() {
        let name = format!("weft-secret-file-{}", std::process::id());
        let (path, link) =
            (std::env::temp_dir().join(&name), std::env::temp_dir().join(name + "-link"));
        std::fs::write(&path, "what was there before").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(create(&path, b"when").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap().len(), 21, "it is as it was");
        let created = create(&path, b"what").unwrap().metadata().unwrap();
        assert_eq!((created.len(), created.permissions().mode() & 0o777), (0, 0o600));
        symlink(&path, &link).unwrap();
        assert_eq!(create(&link, b"what").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(create(&std::env::temp_dir(), b"what").is_err());
        std::fs::remove_file(link).unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
