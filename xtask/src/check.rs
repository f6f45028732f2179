//! `cargo xtask check`: what needs no running program, and the first part of `cargo xtask test`.

use std::time::Duration;

use anyhow::Result;

use crate::{
    sh,
    steps::{Step, Turn},
    tools,
};

/// Longer than a build from scratch takes on two cores that do something else besides.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// What is checked in seconds: formatting and licences.
pub fn forms() -> Result<Vec<Step>> {
    let mut fmt = sh::cargo("fmt");
    fmt.args(["--all", "--check"]);
    let mut fuzz_fmt = sh::cargo("fmt");
    fuzz_fmt.args(["--manifest-path", "fuzz/Cargo.toml", "--check"]);
    let mut lab_fmt = sh::cargo("fmt");
    lab_fmt.args(["--manifest-path", tools::MANIFEST, "--all", "--check"]);
    let licences = sh::chore(&["licences"])?;
    let steps =
        [("fmt", fmt), ("fmt-fuzz", fuzz_fmt), ("fmt-lab", lab_fmt), ("licences", licences)];
    Ok(steps
        .into_iter()
        .map(|(name, command)| Step { name, command, limit: LIMIT, turn: Turn::Alone })
        .collect())
}

/// What the compiler says: lints and documentation.
pub fn lints() -> Result<Vec<Step>> {
    let mut clippy = sh::cargo("clippy");
    clippy.args(["--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    let mut doc = sh::cargo("doc");
    doc.args(["--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings");
    // With the bugs that the simulator has to find it is built for the long proofs only. Here it
    // uses what clippy has checked of other crates.
    let planted = sh::chore(&["sim", "--planted", "--check", "--as-tests"])?;
    let mut lab_clippy = tools::cargo("clippy");
    lab_clippy.args(["--workspace", "--all-targets", "--", "-D", "warnings"]);
    let mut lab_doc = tools::cargo("doc");
    lab_doc.args(["--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    let steps = [
        ("clippy", clippy),
        ("clippy-lab", lab_clippy),
        ("doc", doc),
        ("doc-lab", lab_doc),
        ("planted-build", planted),
    ];
    Ok(steps
        .into_iter()
        .map(|(name, command)| Step { name, command, limit: LIMIT, turn: Turn::Builds })
        .collect())
}

/// The structure tests.
pub fn structure() -> Step {
    let mut command = sh::cargo("test");
    command.args([
        "--workspace",
        "--test",
        "structure",
        "--bin",
        "xtask",
        "--locked",
        "--no-fail-fast",
        "--",
        "--show-output",
    ]);
    // A broken rule is found by its message, not by where the test stands.
    command.env("RUST_BACKTRACE", "0");
    Step { name: "structure", command, limit: LIMIT, turn: Turn::Tests }
}
