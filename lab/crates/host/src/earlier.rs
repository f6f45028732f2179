//! The program of an earlier version, from which upgrades are tried.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result};

use xtask::sh;

/// The commit of that version.
pub const COMMIT: &str = "805204564e31";

/// The variable that names the program to tests.
pub const VARIABLE: &str = "WEFT_EARLIER";

/// The program, built from a checkout of its own in the target directory.
///
/// # Errors
/// The history lacks the commit, or it cannot be built.
pub fn program() -> Result<PathBuf> {
    let place = sh::target_dir().join("earlier");
    let (tree, target) = (place.join("tree"), place.join("target"));
    if !tree.exists() {
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet", "--shared", "--no-checkout"]).arg(sh::root()).arg(&tree);
        sh::run(&mut clone)?;
    }
    let mut checkout = Command::new("git");
    checkout.args(["checkout", "--quiet", "--force", COMMIT]).current_dir(&tree);
    sh::run(&mut checkout).with_context(|| format!("the history has no commit {COMMIT}"))?;
    let mut build = sh::cargo("build");
    build.args(["--quiet", "--release", "--locked", "--package", "weft"]);
    sh::run(build.current_dir(&tree).env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join("release/weft"))
}
