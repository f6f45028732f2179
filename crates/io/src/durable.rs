//! Files that are replaced as a whole: whatever happens, they have either the old or the new
//! contents.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Permitted readers of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner.
    Owner,
    /// Those whom the mask of the process lets.
    Mask,
}

/// Replaces what is at `path`, by way of a file at `fresh` in the same directory. On return that is
/// durable. What a killed process has left at `fresh` is removed; a link is not followed.
///
/// # Errors
/// The old content is still there, or, where the directory alone could not be made durable, may be
/// after a loss of power.
pub fn replace(path: &Path, fresh: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    place(path, fresh, |fresh| create(fresh, bytes, readers)?.sync_all())?;
    sync_directory_of(path)
}

/// Like [`replace`], but durable only when the system sees fit: a loss of power may leave neither
/// content.
///
/// # Errors
/// The old content is still there.
pub fn replace_soon(path: &Path, fresh: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    place(path, fresh, |fresh| create(fresh, bytes, readers).map(drop))
}

fn place(path: &Path, fresh: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    match fs::remove_file(fresh) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    make(fresh).and_then(|()| fs::rename(fresh, path)).inspect_err(|_| {
        let _ = fs::remove_file(fresh);
    })
}

/// Creates a file with these bytes, which are not durable yet. Returns it, so that the caller can
/// make them so.
///
/// # Errors
/// `AlreadyExists`, also for a symbolic link; otherwise the error of creating or writing it.
pub fn create(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if readers == Readers::Owner {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = readers;
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Makes the name of a file durable, or that it is gone. Windows does so by itself, and opens no
/// directory as a file; neither do file systems that know no such thing.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let directory = path.parent().filter(|of| !of.as_os_str().is_empty());
    match File::open(directory.unwrap_or(Path::new("."))).and_then(|open| open.sync_all()) {
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = std::env::temp_dir().join(format!("weft-durable-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (path, fresh) = (dir.join("file"), dir.join("file.new"));
        fs::write(&fresh, "what a kill left").unwrap();
        for (text, readers) in [("one", Readers::Owner), ("two", Readers::Mask)] {
            replace(&path, &fresh, text.as_bytes(), readers).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert!(!fresh.exists());
            #[cfg(unix)]
            if readers == Readers::Owner {
                let mode = std::os::unix::fs::PermissionsExt::mode(
                    &path.metadata().unwrap().permissions(),
                );
                assert_eq!(mode & 0o777, 0o600);
            }
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, &fresh, b"three", Readers::Mask).is_err() && !fresh.exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn no_link_is_followed() {
        let dir = std::env::temp_dir().join(format!("weft-durable-links-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (precious, path, fresh) = (dir.join("precious"), dir.join("file"), dir.join("new"));
        fs::write(&precious, "as it was").unwrap();
        for replace in [replace, replace_soon] {
            for link in [&path, &fresh] {
                let _ = fs::remove_file(link);
                std::os::unix::fs::symlink(&precious, link).unwrap();
            }
            assert!(create(&path, b"lost", Readers::Mask).is_err());
            replace(&path, &fresh, b"written", Readers::Owner).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "written");
            assert!(fs::symlink_metadata(&path).unwrap().is_file() && !fresh.exists());
            assert_eq!(fs::read_to_string(&precious).unwrap(), "as it was");
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
