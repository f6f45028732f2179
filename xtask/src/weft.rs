//! The program `weft`, for tests that ask it or pack it.

use std::{path::PathBuf, sync::OnceLock};

use crate::sh;

/// The debug build of weft, built first, and once for all tests of a program.
///
/// # Panics
/// If it does not build.
pub fn debug_build() -> &'static PathBuf {
    static WEFT: OnceLock<PathBuf> = OnceLock::new();
    WEFT.get_or_init(build)
}

fn build() -> PathBuf {
    let mut cargo = sh::cargo("build");
    // With a test of all packages, so that features are those of the tests' run and nothing is
    // built twice. The harness of tests has RUSTC_BOOTSTRAP, for another value of which cargo builds
    // again.
    cargo.args(["--workspace", "--bin", "weft", "--test", "structure", "--message-format"]);
    cargo.arg("json-render-diagnostics").env_remove("RUSTC_BOOTSTRAP");
    let messages = sh::output(&mut cargo).expect("weft builds");
    let executable = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_weft = message["target"]["name"] == "weft";
        message["executable"].as_str().filter(|_| is_weft).map(PathBuf::from)
    });
    executable.expect("cargo names the program that it built")
}
