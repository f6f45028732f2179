//! Debian packages for the guest: unpacked into the cache, never installed on this machine.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use xtask::sh;

use super::cache::Cache;

/// Libraries that are never taken from a package: the guest runs with this machine's C library,
/// so that programs built here find the version they need, and the others are whole interpreters.
const NOT_TAKEN: &[&str] = &["libc6", "libgcc-s1", "libstdc++6", "libperl", "libpython", "libpam-"];

/// The entries of packages in the cache, and those of the libraries that packages depend on.
const FILES: &str = "files";
const LIBRARIES: &str = "libraries";

/// Unpacked packages.
#[derive(Debug)]
pub(super) struct Packages {
    /// The root of each package's own files, all of which the guest gets.
    pub(super) files: Vec<PathBuf>,
    /// The roots of libraries that packages depend on, of which the guest gets the needed ones.
    pub(super) libraries: Vec<PathBuf>,
}

/// Unpacks those of the named packages that the cache lacks, and the libraries that they depend on.
///
/// apt is asked once for all of them: it takes seconds to read its lists, each time that it starts.
pub(super) fn fetch(cache: &Cache, names: &BTreeSet<String>) -> Result<Packages> {
    let missing: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !cache.has(&format!("{FILES}/{name}")))
        .collect();
    if !missing.is_empty() {
        eprintln!("lab: unpacking {}", missing.join(" "));
        with_fresh_lists(|| unpack(cache, &missing))?;
    }
    let files = names.iter().map(|name| cache.root().join(FILES).join(name)).collect();
    let mut libraries = Vec::new();
    if let Ok(entries) = fs::read_dir(cache.root().join(LIBRARIES)) {
        for entry in entries {
            libraries.push(entry?.path());
        }
    }
    // Where two have a library of the same name, the choice must not depend on the directory.
    libraries.sort();
    Ok(Packages { files, libraries })
}

/// Downloads packages with their libraries at once, and unpacks each to an entry of its own: the
/// libraries first, as a package that is there counts as whole.
fn unpack(cache: &Cache, names: &[&str]) -> Result<()> {
    let needed = libraries_of(names)?;
    let lacking: Vec<&str> = needed
        .iter()
        .map(String::as_str)
        .filter(|name| !cache.has(&format!("{LIBRARIES}/{name}")))
        .collect();
    let wanted: BTreeSet<&str> = names.iter().chain(&lacking).copied().collect();
    let debs = lab_host::debian::download(&wanted.into_iter().collect::<Vec<_>>())?;
    for (entry, names) in [(LIBRARIES, lacking.as_slice()), (FILES, names)] {
        for name in names {
            cache.entry(&format!("{entry}/{name}"), |at| debs.unpack(name, at))?;
        }
    }
    Ok(())
}

/// The library packages in the packages' closure of dependencies, as apt would install them on an
/// empty system: also those that are named themselves, as guests without these may need them.
fn libraries_of(names: &[&str]) -> Result<Vec<String>> {
    let plan = sh::output(
        Command::new("apt-get")
            .args(["-s", "-o", "Dir::State::status=/dev/null", "--no-install-recommends"])
            .arg("install")
            .args(names),
    )
    .with_context(|| format!("apt knows no way to install {}", names.join(" ")))?;
    Ok(libraries_in(&plan))
}

/// The libraries among the packages that apt plans to install.
fn libraries_in(plan: &str) -> Vec<String> {
    plan.lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next())
        .filter(|package| package.starts_with("lib"))
        .filter(|package| !NOT_TAKEN.iter().any(|prefix| package.starts_with(prefix)))
        .map(str::to_owned)
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_of_the_plan_that_the_guest_may_have() {
        let plan = "Reading package lists...\nInst libc6 (2.36 Debian:12 [amd64])\n\
            Inst libnvme1 (1.3 Debian:12 [amd64])\nInst libaio1 (0.3 Debian:12 [amd64])\n\
            Inst fio (3.33 Debian:12 [amd64])\nConf libnvme1 (1.3 Debian:12 [amd64])\n";
        assert_eq!(libraries_in(plan), ["libnvme1", "libaio1"]);
    }
}
