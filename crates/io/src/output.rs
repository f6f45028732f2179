//! Files that a command writes where its user says: reports, pages of logs, results.
//!
//! They are made, or written over, as by a redirection of the shell; `/dev/stdout` and pipes work.
//! But root follows no link of another user, and shortens no file of one that has another name.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// Makes a file with these bytes, or replaces what is in one.
///
/// # Errors
/// The error of opening or writing it; `PermissionDenied` if another user has led the path
/// elsewhere.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = system::open(path)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(bytes.as_ref())
}

/// Appends these bytes to a file, which need not exist.
///
/// # Errors
/// As [`write()`].
pub fn append(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = system::open(path)?;
    if file.metadata()?.is_file() {
        file.seek(SeekFrom::End(0))?;
    }
    file.write_all(bytes.as_ref())
}

#[cfg(unix)]
mod system {
    use crate::private_files::check_directory;
    use std::fs::{self, File};
    use std::io;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    use std::path::Path;

    pub fn open(path: &Path) -> io::Result<File> {
        let with = |flags| {
            let mut options = File::options();
            options.create(true).truncate(false).write(true).custom_flags(flags).open(path)
        };
        let file = match with(libc::O_NOFOLLOW) {
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => {
                check_link(path)?;
                with(0)
            }
            other => other,
        }?;
        let found = file.metadata()?;
        if found.is_file() && found.nlink() > 1 && !is_trusted(found.uid()) {
            return refused("it belongs to another user, and has another name, too");
        }
        if found.is_file() && found.nlink() > 1 && others_can_link(path)? {
            return refused("it has another name, too, and other users can make names next to it");
        }
        Ok(file)
    }

    /// Refuses a link that another user has made, or could make another one of now.
    fn check_link(path: &Path) -> io::Result<()> {
        if !is_trusted(fs::symlink_metadata(path)?.uid()) {
            return refused("it is a symbolic link of another user, which is not followed");
        }
        check_directory(path.parent().unwrap_or(path))
    }

    /// Returns whether other users can make names in the directory of a path, including names of
    /// files that they cannot write to.
    fn others_can_link(path: &Path) -> io::Result<bool> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let found = fs::metadata(directory.unwrap_or(Path::new(".")))?;
        Ok(!is_trusted(found.uid()) || found.mode() & 0o022 != 0)
    }

    fn is_trusted(user: u32) -> bool {
        user == 0 || user == rustix::process::geteuid().as_raw()
    }

    fn refused<T>(why: &str) -> io::Result<T> {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub fn open(path: &Path) -> io::Result<File> {
        File::options().create(true).truncate(false).write(true).open(path)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    /// A user that owns nothing here.
    const NOBODY: u32 = 65_534;

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        let dir = std::env::temp_dir().join(format!("weft-output-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        let (file, link) = (dir.join("file"), dir.join("link"));
        write(&file, "longer than the next one").unwrap();
        write(&file, "short").unwrap();
        symlink(&file, &link).unwrap();
        append(&link, " and more").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "short and more");
        write(&link, "by the link").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "by the link");
        write(Path::new("/dev/null"), "nothing").unwrap();
        if !rustix::process::geteuid().is_root() {
            fs::remove_dir_all(dir).unwrap();
            return weft_testing::skip("only root can give a link to another user");
        }
        let is_refused = |path: &Path| {
            let kind = write(path, "lost").err().map(|e| e.kind());
            assert_eq!(fs::read_to_string(&file).unwrap(), "by the link");
            kind == Some(io::ErrorKind::PermissionDenied)
        };
        lchown(&link, Some(NOBODY), None).unwrap();
        assert!(is_refused(&link));
        lchown(&link, Some(0), None).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
        assert!(is_refused(&link), "others can put another link there");
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        chown(&file, Some(NOBODY), None).unwrap();
        fs::hard_link(&file, dir.join("other")).unwrap();
        assert!(is_refused(&file));
        fs::remove_dir_all(dir).unwrap();
    }
}
