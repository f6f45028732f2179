//! Loop devices on a file. The kernel reads the size of the file when the device is set up, and
//! later only on request.

use crate::kernel_file;
use rustix::ioctl::{self, NoArg};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `LOOP_SET_CAPACITY`.
const SET_CAPACITY: ioctl::Opcode = 0x4c07;

/// The kernel's list of block devices.
const DEVICES: &str = "/sys/block";

/// Makes the loop devices on a file read its size again. Must not be called on an event loop that
/// serves the file: the kernel asks that loop for the size.
///
/// # Errors
/// The last error of a device. All devices are tried.
pub fn renew_capacity(file: &Path) -> io::Result<()> {
    // Makes the kernel ask for the size.
    std::fs::metadata(file)?;
    let tried: Vec<_> =
        devices_of(Path::new(DEVICES), file).iter().map(|name| renew(name)).collect();
    tried.into_iter().rfind(Result::is_err).unwrap_or(Ok(()))
}

fn renew(name: &str) -> io::Result<()> {
    let device = kernel_file::open(&format!("/dev/{name}"))?;
    // SAFETY: this call has no argument.
    unsafe { ioctl::ioctl(&device, NoArg::<SET_CAPACITY>::new()) }.map_err(Into::into)
}

/// The names of the loop devices on a file.
fn devices_of(devices: &Path, file: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(devices).into_iter().flatten().flatten();
    let is_of = |name: &OsStr| {
        let backing = std::fs::read(devices.join(name).join("loop/backing_file"));
        backing.is_ok_and(|path| path.trim_ascii_end() == file.as_os_str().as_bytes())
    };
    let names = entries.map(|entry| entry.file_name()).filter(|name| is_of(name));
    names.filter_map(|name| name.into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_their_file() {
        let root = std::env::temp_dir().join(format!("weft-loops-{}", std::process::id()));
        for (name, file) in [("loop0", "/mnt/a/disk\n"), ("loop1", "/mnt/b/disk\n")] {
            std::fs::create_dir_all(root.join(name).join("loop")).unwrap();
            std::fs::write(root.join(name).join("loop/backing_file"), file).unwrap();
        }
        std::fs::create_dir_all(root.join("sda")).unwrap();
        assert_eq!(devices_of(&root, Path::new("/mnt/b/disk")), ["loop1"]);
        assert!(devices_of(&root, Path::new("/mnt/c/disk")).is_empty());
        std::fs::remove_dir_all(root).unwrap();
    }
}
