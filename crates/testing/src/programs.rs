//! Programs of other projects that tests start: where they are, and which are missing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names further directories with programs, as `PATH` does. They are searched last.
pub const PEERS: &str = "WEFT_PEERS";

/// Directories with programs that the `PATH` of an ordinary user lacks.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The directories that are searched, in order.
fn directories() -> Vec<PathBuf> {
    let of = |name| std::env::var_os(name).unwrap_or_default();
    let (own, peers) = (of("PATH"), of(PEERS));
    let system = if cfg!(unix) { &SYSTEM[..] } else { &[] };
    std::env::split_paths(&own)
        .chain(system.iter().map(PathBuf::from))
        .chain(std::env::split_paths(&peers))
        .filter(|directory| directory.is_absolute())
        .collect()
}

/// A value of `PATH` with which a child process finds the same programs.
///
/// # Panics
/// If the name of a directory contains the character between two names.
#[must_use]
pub fn path() -> OsString {
    std::env::join_paths(directories()).expect("directories that PATH can name")
}

/// Returns the path of a program.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    directories().into_iter().map(|directory| directory.join(&name)).find(|path| can_run(path))
}

#[cfg(unix)]
fn can_run(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn can_run(path: &Path) -> bool {
    path.is_file()
}

/// Returns a command that starts a program by its path. If it is missing, starting it fails.
#[must_use]
pub fn command(program: &str) -> Command {
    let mut command = Command::new(find(program).unwrap_or_else(|| program.into()));
    command.env("PATH", path());
    command
}

/// Returns a sentence that names those of the programs that are missing, if any.
///
/// # Panics
/// If a program is missing and `CI` is set: nothing may be skipped there.
fn missing(programs: &[&str]) -> Option<String> {
    let mut missing: Vec<&str> =
        programs.iter().copied().filter(|program| find(program).is_none()).collect();
    missing.dedup();
    let [verb, all] = if missing.len() == 1 { ["is", "it"] } else { ["are", "them"] };
    let text = format!("{} {verb} missing; `cargo xtask setup` installs {all}", missing.join(", "));
    let is_strict = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(missing.is_empty() || !is_strict, "{text}");
    (!missing.is_empty()).then_some(text)
}

/// Checks that the programs are there. If not, the calling test counts as skipped.
#[must_use]
pub fn have(programs: &[&str]) -> bool {
    missing(programs).map(crate::skip).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn programs_are_started_by_their_paths() {
        let shell = find("sh").unwrap();
        assert!(shell.is_absolute() && shell.ends_with("sh"), "{}", shell.display());
        assert_eq!(command("sh").get_program(), shell);
        let directories = directories();
        assert!(SYSTEM.iter().all(|system| directories.contains(&PathBuf::from(system))));
        assert_eq!(std::env::split_paths(&path()).collect::<Vec<_>>(), directories);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(find("weft-no-such-program"), None);
        if std::env::var_os("CI").is_none_or(|value| value.is_empty()) {
            let text = missing(&["weft-no-such-program", "weft-nor-this-one"]).unwrap();
            assert!(text.starts_with("weft-no-such-program, weft-nor-this-one are missing"));
        }
        assert_eq!(missing(&[]), None);
    }
}
