//! Programs of this machine.

use super::peer::PeerProgram;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Environment variable with the directory in which SPDK was built or installed.
const SPDK_DIR: &str = "SPDK_DIR";

/// Directories that `PATH` of an ordinary user lacks.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Directories with programs, in the order in which they are searched. The target has a current
/// directory of its own, so relative ones do not count.
fn directories() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let spdk = std::env::var_os(SPDK_DIR).map(PathBuf::from);
    let spdk = spdk.iter().flat_map(|place| ["build/bin", "bin"].map(|below| place.join(below)));
    let all = spdk.chain(std::env::split_paths(&path)).chain(SYSTEM.iter().map(PathBuf::from));
    all.filter(|directory| directory.is_absolute()).collect()
}

/// The value of `PATH` for a process that starts such programs by name.
pub fn path() -> OsString {
    std::env::join_paths(directories()).unwrap_or_default()
}

/// Returns the path of an installed program.
pub fn find(program: &str) -> Option<PathBuf> {
    let can_run = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    directories().into_iter().map(|directory| directory.join(program)).find(can_run)
}

/// Names the first of the programs that is not installed, and its package.
pub fn missing(programs: &[PeerProgram]) -> Option<String> {
    programs.iter().find(|program| find(program.name).is_none()).map(|program| {
        let name = program.name;
        match program.package {
            Some(package) => format!("{name} is not installed: `apt-get install {package}`"),
            None => format!(
                "{name} is not installed: build SPDK, and set {SPDK_DIR} to its absolute directory"
            ),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let program = |name| PeerProgram { name, package: Some("of-it") };
        assert_eq!(missing(&[program("sh")]), None);
        let said = missing(&[program("sh"), program("weft-no-such-program")]);
        assert_eq!(
            said.as_deref(),
            Some("weft-no-such-program is not installed: `apt-get install of-it`")
        );
    }
}
