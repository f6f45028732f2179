//! Location of the record of a disk. The record exists as long as the kernel has the disk, and so
//! only until the next boot.

use std::env;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The directory of root, and of a service that has one there.
const OF_SYSTEM: &str = "/run/weft";

/// May write: group and others.
const OTHERS_WRITE: u32 = 0o022;

/// The file for the disk of this number, in a directory that is there if it can be: that of the
/// records of `weft connect`.
pub(super) fn of_disk(number: u32) -> PathBuf {
    let of = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let given = of("WEFT_RUNTIME_DIR")
        .or_else(|| of("XDG_RUNTIME_DIR").map(|directory| directory.join("weft")));
    let own = || {
        let user = of("USER").and_then(|user| user.file_name().map(ToOwned::to_owned));
        let user = user.unwrap_or_default();
        let of_user = env::temp_dir().join(format!("weft-{}", user.to_string_lossy()));
        let places = [PathBuf::from(OF_SYSTEM), of_user];
        places.into_iter().find(|place| make(place)).unwrap_or_else(|| OF_SYSTEM.into())
    };
    let directory = given.unwrap_or_else(own);
    // If it cannot be, the file cannot, and that is said.
    let _ = make(&directory);
    directory.join(format!("ublk{number}.disk"))
}

/// Makes a directory if it is not there; whether only this user can make files in it.
fn make(directory: &Path) -> bool {
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    let user = weft_io::ublk::user();
    std::fs::symlink_metadata(directory).is_ok_and(|found| {
        let is_own = found.uid() == user && found.mode() & OTHERS_WRITE == 0;
        found.is_dir() && (is_own || user == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_directory_that_others_can_write_to_is_not_taken() {
        let root = env::temp_dir().join(format!("weft-place-{}", std::process::id()));
        let own = root.join("own");
        assert!(make(&own));
        assert_eq!(own.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
        // Root has what it finds.
        assert_eq!(make(&own), weft_io::ublk::user() == 0);
        symlink(&own, root.join("link")).unwrap();
        assert!(!make(&root.join("link")));
        std::fs::remove_dir_all(root).unwrap();
    }
}
