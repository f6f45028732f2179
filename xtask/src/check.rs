//! `cargo xtask check`: what needs no running program, and the first part of `cargo xtask test`.

use std::time::Duration;

use anyhow::Result;

use crate::{sh, steps::Step};

/// Longer than a build from scratch takes on two cores.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Checks formatting, lints, documentation, licences and sources.
pub fn steps() -> Result<Vec<Step>> {
    let mut fmt = sh::cargo("fmt");
    fmt.args(["--all", "--check"]);
    let mut fuzz_fmt = sh::cargo("fmt");
    fuzz_fmt.args(["--manifest-path", "fuzz/Cargo.toml", "--check"]);
    let mut clippy = sh::cargo("clippy");
    clippy.args(["--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    let mut doc = sh::cargo("doc");
    doc.args(["--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings");
    let steps = [("fmt", fmt), ("fmt-fuzz", fuzz_fmt), ("licences", sh::chore(&["licences"])?), ("clippy", clippy), ("doc", doc)];
    Ok(steps.into_iter().map(|(name, command)| Step { name, command, limit: LIMIT }).collect())
}

/// The structure tests.
pub fn structure() -> Step {
    let mut command = sh::cargo("test");
    command.args(["--workspace", "--test", "structure", "--bin", "xtask", "--locked", "--no-fail-fast", "--", "--show-output"]);
    // A broken rule is found by its message, not by where the test stands.
    command.env("RUST_BACKTRACE", "0");
    Step { name: "structure", command, limit: LIMIT }
}
