//! Files that are replaced as a whole: a new one is written and made durable, takes the place of the
//! old one by renaming, and then the directory is made durable. So after a crash at any moment there
//! is the old file or the new one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces the file, by way of one beside it with the extension `new`. On return it is durable.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs::rename(&fresh, path)?;
    path.parent().map_or(Ok(()), sync_directory)
}

/// The same, but durable only when the system sees fit: a loss of power may leave none of the two.
pub(crate) fn replace_soon(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text)?;
    fs::rename(&fresh, path)
}

/// Makes the names in a directory durable. Windows does so by itself, and opens no directory as a
/// file.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}
