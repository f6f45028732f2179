//! A directory as a zip file. Two of the same files are the same, byte by byte.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, ensure};
use xtask::sh;

/// The file with the sums of all others.
pub const SUMS: &str = "SHA256SUMS";

/// Writes the sums of all files of a directory into [`SUMS`], as `sha256sum --check` reads them.
pub fn write_sums(directory: &Path) -> Result<()> {
    let names = names(directory)?.into_iter().filter(|name| name != SUMS);
    let mut command = Command::new("sha256sum");
    // In text mode, so that the lines are the same on every system.
    let sums = sh::output(command.current_dir(directory).arg("--").args(names))?;
    fs::write(directory.join(SUMS), sums)?;
    Ok(())
}

/// Puts a directory, with its name, into `DIRECTORY.zip` next to it.
pub fn zip(directory: &Path) -> Result<PathBuf> {
    lab_host::require(&["zip", "unzip"])?;
    let (parent, name) = split(directory)?;
    let made = format!("{name}.zip");
    let archive = parent.join(&made);
    if archive.exists() {
        fs::remove_file(&archive)?;
    }
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(commit_seconds()?);
    let files = names(directory)?;
    for file in &files {
        fs::File::options().append(true).open(directory.join(file))?.set_modified(time)?;
    }
    // Without owners and times of this machine; its directory is not an entry.
    let mut command = Command::new("zip");
    command.env("TZ", "UTC").current_dir(&parent).args(["-q", "-X", "-9", &made]);
    sh::run(command.args(files.iter().map(|file| format!("{name}/{file}"))))?;
    sh::run(Command::new("unzip").args(["-q", "-t"]).arg(&archive))?;
    Ok(archive)
}

/// Where a directory is, and its name.
fn split(directory: &Path) -> Result<(PathBuf, String)> {
    let name = directory.file_name().and_then(|name| name.to_str());
    let name = name.context("the name of the package is not UTF-8")?;
    Ok((directory.parent().unwrap_or(Path::new(".")).to_path_buf(), name.to_owned()))
}

/// The names of the files in a directory, in order, and their sums last.
fn names(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        ensure!(entry.file_type()?.is_file(), "{} is not a file", entry.path().display());
        let name = entry.file_name().into_string();
        names.push(name.map_err(|name| anyhow::anyhow!("{name:?} is not UTF-8"))?);
    }
    names.sort_by_key(|name| (name == SUMS, name.clone()));
    Ok(names)
}

/// When the commit was made that is packed, in seconds since 1970. A tree without git has a time of
/// its own.
pub fn commit_seconds() -> Result<u64> {
    let mut git = Command::new("git");
    git.current_dir(sh::root()).args(["log", "-1", "--format=%ct"]);
    let said = git.output().ok().filter(|output| output.status.success());
    let Some(said) = said else {
        return Ok(Duration::from_hours(24 * 3653).as_secs());
    };
    String::from_utf8(said.stdout)?.trim().parse().context("git tells no time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_of_all_other_files() {
        let scratch = tempfile::tempdir().unwrap();
        for (name, text) in [("b", "abc"), ("a", "")] {
            fs::write(scratch.path().join(name), text).unwrap();
        }
        write_sums(scratch.path()).unwrap();
        // Again, with the file that there is now.
        write_sums(scratch.path()).unwrap();
        let sums = fs::read_to_string(scratch.path().join(SUMS)).unwrap();
        let lines: Vec<_> = sums.lines().collect();
        assert_eq!(
            lines,
            [
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b",
            ]
        );
        assert_eq!(names(scratch.path()).unwrap(), ["a", "b", SUMS]);
    }
}
