//! Where the record of a disk is: as long as the kernel has the disk, and so only until it starts
//! again.

use std::env;
use std::path::PathBuf;

/// The file for the disk of this number, in a directory that is there if it can be.
pub(super) fn of_disk(number: u32) -> PathBuf {
    let of = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = of("WEFT_RUNTIME_DIR")
        .or_else(|| of("XDG_RUNTIME_DIR").map(|directory| directory.join("weft")))
        .unwrap_or_else(|| PathBuf::from("/run/weft"));
    // If it cannot be, the file cannot, and that is said.
    let _ = std::fs::create_dir_all(&directory);
    directory.join(format!("ublk{number}.disk"))
}
