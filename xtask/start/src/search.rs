//! The directories in which tests look for programs of others.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Directories of this system that hold programs, but are missing from a user's search path.
const SYSTEM_DIRS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The directory of unpacked programs, `${XDG_CACHE_HOME:-~/.cache}/weft-peers`; none without a
/// home directory.
#[must_use]
pub fn peers() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("weft-peers"))
}

/// This process's search path with the directories of this system that it lacks, and the unpacked
/// programs.
#[must_use]
pub fn search_path() -> OsString {
    let own = env::var_os("PATH").unwrap_or_default();
    let peers = peers().map(|dir| dir.join("bin"));
    let further: Vec<PathBuf> = SYSTEM_DIRS.iter().map(PathBuf::from).chain(peers).collect();
    extended(&own, &further, Path::is_dir)
}

fn extended(own: &OsString, further: &[PathBuf], exists: impl Fn(&Path) -> bool) -> OsString {
    let mut dirs: Vec<PathBuf> = env::split_paths(own).collect();
    for dir in further {
        if !dirs.contains(dir) && exists(dir) {
            dirs.push(dir.clone());
        }
    }
    env::join_paths(dirs).unwrap_or_else(|_| own.clone())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn own_directories_come_first() {
        let further = ["/usr/sbin", "/usr/bin", "/gone"].map(PathBuf::from);
        let path =
            extended(&"/home/a/bin:/usr/bin".into(), &further, |dir| dir != Path::new("/gone"));
        assert_eq!(path, "/home/a/bin:/usr/bin:/usr/sbin");
    }
}
