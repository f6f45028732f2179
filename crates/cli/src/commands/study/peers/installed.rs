//! Programs of this machine.

use super::peer::Program;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Environment variable with the directory in which SPDK was built or installed.
const SPDK_DIR: &str = "SPDK_DIR";

/// Directories that `PATH` of an ordinary user lacks.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Returns the path of an installed program.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let spdk = std::env::var_os(SPDK_DIR).map(PathBuf::from);
    let spdk = spdk.iter().flat_map(|place| ["build/bin", "bin"].map(|below| place.join(below)));
    let directories = std::env::split_paths(&path).chain(SYSTEM.iter().map(PathBuf::from));
    let directories = spdk.chain(directories);
    // The target has a current directory of its own.
    let directories = directories.filter(|directory| directory.is_absolute());
    let can_run = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    directories.map(|directory| directory.join(program)).find(can_run)
}

/// Names the first of the programs that is not installed, and its package.
pub fn missing(programs: &[Program]) -> Option<String> {
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
        let program = |name| Program { name, package: Some("of-it") };
        assert_eq!(missing(&[program("sh")]), None);
        let said = missing(&[program("sh"), program("weft-no-such-program")]);
        assert_eq!(
            said.as_deref(),
            Some("weft-no-such-program is not installed: `apt-get install of-it`")
        );
    }
}
