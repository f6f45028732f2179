//! Files in `/proc`, `/sys` and `/dev`, by which a process asks the kernel for something. Nobody but
//! root can make or replace them, so a path is enough.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

/// Directories of these files.
const PLACES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Directories there in which everybody can make files.
const OTHERS: [&str; 2] = ["/dev/shm", "/dev/mqueue"];

/// Opens one to read and to write.
///
/// # Errors
/// The path leads elsewhere; otherwise the error of opening it.
pub fn open(path: &str) -> io::Result<File> {
    check(path)?;
    File::options().read(true).write(true).open(path)
}

/// Opens a disk there for reading and excludes other users: a mounted one, or one of a volume, is
/// busy.
///
/// # Errors
/// Those of [`open`].
#[cfg(target_os = "linux")]
pub fn open_alone(path: &str) -> io::Result<File> {
    check(path)?;
    let mut options = File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_EXCL);
    options.read(true).open(path)
}

/// Writes a text to one, in one call.
///
/// # Errors
/// Those of [`open`], and those by which the kernel refuses the text.
pub fn write(path: &str, text: &str) -> io::Result<()> {
    check(path)?;
    io::Write::write_all(&mut File::options().write(true).open(path)?, text.as_bytes())
}

fn check(path: &str) -> io::Result<()> {
    let path = Path::new(path);
    let is_plain =
        path.components().all(|of| matches!(of, Component::RootDir | Component::Normal(_)));
    let is_in = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
    if is_plain && is_in(&PLACES) && !is_in(&OTHERS) {
        return Ok(());
    }
    let text = format!("{} is not a file of the kernel", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_files_are_written() {
        for path in ["/proc/self/oom_score_adj", "/sys/block/sda/device/timeout", "/dev/ublkc0"] {
            check(path).unwrap();
        }
        for path in ["/tmp/file", "/dev/shm/file", "/proc/../tmp/file", "proc/file", "/device", ""]
        {
            let refused = write(path, "").unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{path}");
        }
    }
}
