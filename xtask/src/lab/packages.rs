//! Debian packages for the guest: unpacked into the cache, never installed on this machine.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use super::cache::Cache;
use crate::{debian, sh};

/// Libraries that are never taken from a package: the guest runs with this machine's C library,
/// so that programs built here find the version they need, and the others are whole interpreters.
const NOT_TAKEN: &[&str] = &["libc6", "libgcc-s1", "libstdc++6", "libperl", "libpython", "libpam-"];

/// One unpacked package.
#[derive(Debug)]
pub(super) struct Package {
    /// The root of the package's own files, all of which the guest gets.
    pub(super) files: PathBuf,
    /// The root of the libraries that it depends on, of which the guest gets the needed ones.
    pub(super) libraries: PathBuf,
}

/// Unpacks the named packages, and the libraries that they depend on, where that is not done yet.
pub(super) fn fetch(cache: &Cache, names: &BTreeSet<String>) -> Result<Vec<Package>> {
    names
        .iter()
        .map(|name| {
            let root = cache.entry(&format!("packages/{name}"), |at| unpack(name, at))?;
            Ok(Package { files: root.join("files"), libraries: root.join("libraries") })
        })
        .collect()
}

fn unpack(name: &str, at: &Path) -> Result<()> {
    eprintln!("lab: unpacking {name}");
    let (files, libraries) = (at.join("files"), at.join("libraries"));
    fs::create_dir(&files)?;
    fs::create_dir(&libraries)?;
    with_fresh_lists(|| {
        let needed = libraries_of(name)?;
        debian::unpack(&files, &[name])?;
        let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
        if needed.is_empty() { Ok(()) } else { debian::unpack(&libraries, &needed) }
    })
}

/// The library packages in a package's closure of dependencies, as apt would install them on an
/// empty system.
fn libraries_of(name: &str) -> Result<Vec<String>> {
    let plan = sh::output(
        Command::new("apt-get")
            .args(["-s", "-o", "Dir::State::status=/dev/null", "--no-install-recommends"])
            .args(["install", name]),
    )
    .with_context(|| format!("apt knows no way to install {name}"))?;
    Ok(plan
        .lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next())
        .filter(|package| package.starts_with("lib") && *package != name)
        .filter(|package| !NOT_TAKEN.iter().any(|prefix| package.starts_with(prefix)))
        .map(str::to_owned)
        .collect())
}

/// Does something that depends on apt's package lists; when it fails, once more with fresh ones.
pub(super) fn with_fresh_lists<T>(act: impl Fn() -> Result<T>) -> Result<T> {
    act().or_else(|error| {
        eprintln!("lab: {error:#}; trying again with fresh package lists");
        let updated = Command::new("apt-get")
            .args(["-qq", "update"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if updated {
            act()
        } else {
            Err(sh::Missing(format!("{error:#}; run `apt-get update` as root")).into())
        }
    })
}
