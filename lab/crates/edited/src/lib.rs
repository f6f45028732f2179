//! A copy of the workspace below the target directory, with changes: for builds that are never
//! shipped.
#![forbid(unsafe_code)]

mod edit;
mod page;
mod splice;
mod versions;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use xtask::sh;

pub use edit::Edit;
pub use page::apply;
pub use splice::{Splice, splice};

/// Texts of files, by their paths from the root of the workspace.
pub type Texts = BTreeMap<String, String>;

/// What belongs to no copy: what was built or downloaded, and what cargo does not build here.
const LEFT_OUT: [&str; 3] = ["target", ".git", "fuzz"];

/// The Rust sources of all crates, without their tests' own programs.
pub fn sources() -> Result<Texts> {
    let mut paths = BTreeSet::new();
    list(&sh::root(), Path::new("crates"), &mut paths)?;
    let is_source = |path: &&String| path.ends_with(".rs") && path.contains("/src/");
    let read = |path: &String| {
        let text = fs::read_to_string(sh::root().join(path));
        text.map(|text| (path.clone(), text)).with_context(|| format!("cannot read {path}"))
    };
    paths.iter().filter(is_source).map(read).collect()
}

/// The target directory of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// In the target directory of the workspace, so that dependencies are built once. The copy's
    /// crates have versions of their own.
    Shared,
    /// In the copy: what tests expect of versions is true.
    Own,
}

/// Makes the copy of this name, or brings it up to date, and returns its root. A file is written
/// only if it differs, so that what was built of it before is built again only where it must be.
pub fn copy(name: &str, changed: &Texts, target: Target) -> Result<PathBuf> {
    let (root, to) = (sh::root(), sh::target_dir().join(name));
    let mut wanted: BTreeSet<String> = changed.keys().cloned().collect();
    list(&root, Path::new(""), &mut wanted)?;
    for path in &wanted {
        let bytes = match changed.get(path) {
            Some(text) => text.clone().into_bytes(),
            None => fs::read(root.join(path)).with_context(|| format!("cannot read {path}"))?,
        };
        let bytes = match target {
            Target::Shared => versions::of_copy(name, path, bytes)?,
            Target::Own => bytes,
        };
        write(&to.join(path), &bytes)?;
    }
    let mut present = BTreeSet::new();
    list(&to, Path::new(""), &mut present)?;
    for path in present.difference(&wanted) {
        fs::remove_file(to.join(path)).with_context(|| format!("cannot remove {path}"))?;
    }
    Ok(to)
}

/// Cargo in a copy.
pub fn cargo(subcommand: &str, copy: &Path, target: Target) -> Result<Command> {
    let directory = match target {
        Target::Shared => fs::canonicalize(sh::target_dir())?,
        Target::Own => copy.join("target"),
    };
    let mut command = sh::cargo(subcommand);
    command.current_dir(copy).env("CARGO_TARGET_DIR", directory);
    Ok(command)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file has a directory")?)?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Adds the paths of all files below a directory, from the root and with slashes.
fn list(root: &Path, directory: &Path, found: &mut BTreeSet<String>) -> Result<()> {
    let shown = root.join(directory);
    let entries = fs::read_dir(&shown).with_context(|| format!("cannot read {shown:?}"))?;
    for entry in entries {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if !LEFT_OUT.iter().any(|name| path == Path::new(name)) {
                list(root, &path, found)?;
            }
        } else {
            found.insert(path.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}
