//! This machine: its Debian packages, the programs of other projects that tests start, and its
//! description.
//!
//! Only `cargo xtask setup` installs anything: a step that lacks a package is skipped and names that
//! command.
#![forbid(unsafe_code)]

pub mod debian;
pub mod earlier;
pub mod machine;

mod peers;

use anyhow::{Result, ensure};
use xtask::{
    packages::{PACKAGES, Package, Use},
    sh,
};

/// Unpacked only, never installed: its installation would start a server.
const PROMETHEUS: &str = "prometheus";

/// Lists the missing packages, installs them, or unpacks some of them.
///
/// # Errors
/// If apt fails, or [`sh::Missing`] if this machine cannot do it.
pub fn run(yes: bool, unpack: bool) -> Result<()> {
    let missing: Vec<&Package> = PACKAGES.iter().filter(|package| !is_there(package)).collect();
    let names = |packages: &[&Package]| packages.iter().map(|it| it.name).collect::<Vec<_>>();
    if yes {
        debian::install(&names(&missing))?;
        return if sh::have("promtool") { Ok(()) } else { peers::unpack(&[PROMETHEUS]) };
    }
    let quick: Vec<&Package> =
        missing.iter().copied().filter(|package| package.used == Use::Quick).collect();
    if unpack {
        if !quick.is_empty() {
            peers::unpack(&names(&quick))?;
        }
        println!("ready: {}", peers::directory()?.display());
        return Ok(());
    }
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    println!("missing packages of Debian, and the programs in them:");
    for package in &missing {
        println!("  {:<26} {}", package.name, package.program);
    }
    println!("\ncargo xtask setup --yes installs them with apt, as root");
    if !quick.is_empty() {
        println!(
            "cargo xtask setup --unpack unpacks {} to {}, without root",
            names(&quick).join(" "),
            peers::directory()?.display()
        );
    }
    Ok(())
}

/// Insists on packages that a step needs.
///
/// # Errors
/// [`sh::Missing`], with the command that installs them.
pub fn require(packages: &[&str]) -> Result<()> {
    for name in packages {
        ensure!(
            PACKAGES.iter().any(|package| package.name == *name),
            "the table of `cargo xtask setup` lacks the package {name}"
        );
    }
    let wanted = PACKAGES.iter().filter(|package| packages.contains(&package.name));
    let missing: Vec<&str> =
        wanted.filter(|package| !is_there(package)).map(|package| package.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(" ");
    Err(sh::Missing(format!("{missing} missing; `cargo xtask setup --yes` installs it")).into())
}

/// Returns true if the program of a package is installed, or the package itself if it has no
/// program. A system without dpkg cannot check the latter and counts it as installed.
fn is_there(package: &Package) -> bool {
    match package.program {
        "" => !sh::have("dpkg-query") || debian::installed(package.name),
        program => sh::have(program),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_may_ask_only_for_packages_that_setup_installs() {
        let error = require(&["no-such-package"]).unwrap_err();
        assert!(error.to_string().contains("lacks the package no-such-package"), "{error}");
    }
}
