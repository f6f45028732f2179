//! Files and disks as sources, with the block size that hosts know them by. With another size they
//! do not find their partitions, so a disk whose size weft does not have, or that is not known, is
//! left out.

use std::fs::Metadata;
use std::path::Path;
use weft_block::grammar;
use weft_io::file_system;

/// Block sizes that weft serves.
const BLOCK_BYTES: [u64; 2] = [512, 4096];

/// The kind of a path's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A file, and the block size of its inode, where that is known.
    File(Option<u64>),
    /// A disk, which has a block size of its own.
    Disk,
    /// It is not on this machine, or neither.
    Unknown,
}

/// Looks at a path. One below `/dev` that does not exist here counts as a disk.
pub fn place(path: &str) -> SourceKind {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            SourceKind::File(file_system::inode_block_bytes(Path::new(path)))
        }
        Ok(metadata) if is_disk(&metadata) => SourceKind::Disk,
        Ok(_) => SourceKind::Unknown,
        Err(_) if path.starts_with("/dev/") && !path.starts_with("/dev/shm/") => SourceKind::Disk,
        Err(_) => SourceKind::Unknown,
    }
}

#[cfg(unix)]
fn is_disk(metadata: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_block_device(&metadata.file_type())
}

#[cfg(not(unix))]
fn is_disk(_: &Metadata) -> bool {
    false
}

/// The URL of a file or disk.
pub fn of_path(path: &str) -> Result<String, String> {
    let refused = || format!("\"{path}\" is not the path of a file or disk");
    if !path.starts_with('/') || path.contains(char::is_control) {
        return Err(refused());
    }
    let url = grammar::closed(path);
    if grammar::path(&url) == Some(path) { Ok(url) } else { Err(refused()) }
}

/// A source with a block size.
pub fn with_block(url: &str, bytes: u64) -> Result<String, String> {
    match BLOCK_BYTES.contains(&bytes) {
        true => Ok(format!("{url},block={bytes}")),
        false => Err(format!("it has blocks of {bytes} bytes: weft has blocks of 512 and 4096")),
    }
}

/// A file or disk with a block size; `None`: the disk's own.
pub fn with_path(path: &str, block_bytes: Option<u64>) -> Result<String, String> {
    let url = of_path(path)?;
    block_bytes.map_or_else(|| Ok(url.clone()), |bytes| with_block(&url, bytes))
}

/// Memory with a size and a block size, of which 512 is the default.
pub fn memory(scheme: &str, bytes: u64, block_bytes: u64) -> Result<String, String> {
    let url = format!("{scheme}:{}", weft_block::units::format_size(bytes));
    if block_bytes == BLOCK_BYTES[0] { Ok(url) } else { with_block(&url, block_bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_paths() {
        for path in ["/srv/a.img", "/srv/a,b", "/srv/odd,size=1", "/srv/odd,", "/srv/a:b"] {
            let url = with_path(path, Some(4096)).unwrap();
            let (main, options) = grammar::options(&url);
            assert_eq!((main, &options[..]), (path, &[("block", "4096")][..]), "{url}");
            assert_eq!(grammar::path(&of_path(path).unwrap()), Some(path));
        }
        for path in ["", "a.img", "ram:1GiB", "/a\nb"] {
            assert!(of_path(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn only_block_sizes_of_weft_are_carried_over() {
        for bytes in [512, 4096] {
            assert_eq!(with_path("/a", Some(bytes)).unwrap(), format!("/a,block={bytes}"));
        }
        for bytes in [0, 520, 1024, 2048, 8192] {
            let why = with_path("/a", Some(bytes)).unwrap_err();
            assert!(why.contains(&format!("blocks of {bytes} bytes")), "{why}");
            assert!(memory("ram", 1 << 20, bytes).is_err());
        }
        assert_eq!(with_path("/dev/a", None).unwrap(), "/dev/a");
        assert_eq!(memory("ram", 1 << 20, 512).unwrap(), "ram:1MiB");
        assert_eq!(memory("null", 1 << 20, 4096).unwrap(), "null:1MiB,block=4096");
    }

    #[test]
    fn a_path_is_a_file_a_disk_or_unknown() {
        let file = std::env::temp_dir().join(format!("weft-import-place-{}", std::process::id()));
        std::fs::write(&file, "x").unwrap();
        let found = place(file.to_str().unwrap());
        assert_eq!(found, SourceKind::File(file_system::inode_block_bytes(&file)));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(place(file.to_str().unwrap()), SourceKind::Unknown);
        assert_eq!(place(std::env::temp_dir().to_str().unwrap()), SourceKind::Unknown);
        assert_eq!(place("/dev/weft-import-no-such-disk"), SourceKind::Disk);
        assert_eq!(place("/dev/shm/weft-import-no-such-file"), SourceKind::Unknown);
    }
}
