//! The programs of the workspace, for those who measure them, pack them or ask them.

use std::{env::consts::EXE_SUFFIX, fs, path::PathBuf, process::Command, sync::OnceLock};

use anyhow::{Context, Result};

use crate::sh;

/// The feature of packages and of measured programs: all that a build can leave out.
pub const FULL: &str = "full";

/// Runs a cargo command that builds, and returns the programs that it built, with the names of
/// their targets.
///
/// # Errors
/// If they do not build.
pub fn executables(cargo: &mut Command) -> Result<Vec<(String, PathBuf)>> {
    let messages = sh::output(cargo.args(["--message-format", "json-render-diagnostics"]))?;
    let executable = |line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let path = PathBuf::from(message["executable"].as_str()?);
        Some((message["target"]["name"].as_str()?.to_owned(), path))
    };
    Ok(messages.lines().filter_map(executable).collect())
}

/// The release build of weft with all that a build can leave out, built first. All steps use this
/// one, so that it is built once.
///
/// # Errors
/// If it does not build.
pub fn release_build() -> Result<PathBuf> {
    let mut cargo = sh::cargo("build");
    cargo.args(["--release", "--quiet", "--locked", "--package", "weft", "--features", FULL]);
    sh::run(&mut cargo)?;
    Ok(sh::target_dir().join("release").join(format!("weft{EXE_SUFFIX}")))
}

/// Arguments by which cargo optimizes none of weft's crates, for builds of which little is run: that
/// takes less time than the optimization.
///
/// # Errors
/// If the manifest cannot be read.
pub fn without_optimization() -> Result<Vec<String>> {
    let path = sh::root().join("Cargo.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let table = text.split("[profile.dev.package]").nth(1).unwrap_or_default();
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split_once(".opt-level")).map(|(name, _)| name);
    let ours = names.filter(|name| name.starts_with("weft-"));
    let settings = ours.map(|name| format!("profile.dev.package.{name}.opt-level=0"));
    Ok(settings.flat_map(|setting| ["--config".to_owned(), setting]).collect())
}

/// Returns the debug build of `weft` or `xtask`. Both are built once for all tests of a program.
///
/// # Panics
/// If they do not build.
pub fn debug_build(name: &str) -> &'static PathBuf {
    static PROGRAMS: OnceLock<Vec<(String, PathBuf)>> = OnceLock::new();
    let mut programs = PROGRAMS.get_or_init(build).iter();
    let found = programs.find(|(target, _)| target == name);
    &found.expect("cargo names the program that it built").1
}

fn build() -> Vec<(String, PathBuf)> {
    let mut cargo = sh::cargo("build");
    // With a test of all packages, so that features are those of the tests' run and nothing is
    // built twice. The harness of tests has RUSTC_BOOTSTRAP, for another value of which cargo builds
    // again.
    cargo.args(["--workspace", "--bin", "weft", "--bin", "xtask", "--test", "structure"]);
    executables(cargo.env_remove("RUSTC_BOOTSTRAP")).expect("the programs build")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_move_data_are_named() {
        let settings = without_optimization().unwrap();
        assert!(settings.contains(&"profile.dev.package.weft-io.opt-level=0".to_owned()));
        assert!(settings.iter().all(|it| it == "--config" || it.contains(".weft-")));
    }
}
