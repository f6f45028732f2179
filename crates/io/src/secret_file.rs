//! Files with secrets: other users must not be able to read them.

use std::fs::File;
use std::io;
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

/// Whether other users can read a file.
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
