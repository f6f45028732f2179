//! Programs of this machine.

use super::peer::Program;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Directories that `PATH` of an ordinary user lacks.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Returns the path of an installed program.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM.iter().map(PathBuf::from));
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
        format!("{} is not installed: `apt-get install {}`", program.name, program.package)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let program = |name| Program { name, package: "of-it" };
        assert_eq!(missing(&[program("sh")]), None);
        let said = missing(&[program("sh"), program("weft-no-such-program")]);
        assert_eq!(
            said.as_deref(),
            Some("weft-no-such-program is not installed: `apt-get install of-it`")
        );
    }
}
