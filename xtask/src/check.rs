//! `cargo xtask check`: what needs no running program.

use anyhow::Result;

use crate::{
    published, sh,
    steps::{Step, Turn},
    tools,
};

/// Returns the checks that take seconds: formatting, licences, and packages for a registry.
pub fn forms() -> Result<Vec<Step>> {
    let mut fmt = sh::cargo("fmt");
    fmt.args(["--all", "--check"]);
    let mut fuzz_fmt = sh::cargo("fmt");
    fuzz_fmt.args(["--manifest-path", "fuzz/Cargo.toml", "--check"]);
    let mut lab_fmt = sh::cargo("fmt");
    lab_fmt.args(["--manifest-path", tools::MANIFEST, "--all", "--check"]);
    let mut python_fmt = sh::cargo("fmt");
    python_fmt.args(["--manifest-path", "bindings/python/Cargo.toml", "--check"]);
    // `cargo xtask long registry` also builds what was packed.
    let mut packages = published::packing();
    packages.arg("--no-verify");
    Ok(vec![
        Step::command("fmt", Turn::Alone, fmt),
        Step::command("fmt-fuzz", Turn::Alone, fuzz_fmt),
        Step::command("fmt-lab", Turn::Alone, lab_fmt),
        Step::command("fmt-python", Turn::Alone, python_fmt),
        Step::command("licences", Turn::Alone, sh::chore(&["licences"])?),
        Step::command("packing", Turn::Alone, packages),
    ])
}

/// Returns the checks by the compiler: lints and documentation.
pub fn lints() -> Result<Vec<Step>> {
    let mut clippy = sh::cargo("clippy");
    clippy.args(["--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    // The tests ask for all features; this is what `cargo build` builds.
    let mut plain = sh::cargo("clippy");
    plain.args(["--workspace", "--locked", "--", "-D", "warnings"]);
    let mut doc = sh::cargo("doc");
    doc.args(["--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings");
    // With the bugs that the simulator has to find it is built for the long proofs only. Here it
    // uses what clippy has checked of other crates.
    let planted = sh::chore(&["sim", "--planted", "--check", "--as-tests"])?;
    let mut lab_clippy = tools::cargo("clippy");
    lab_clippy.args(["--workspace", "--all-targets", "--", "-D", "warnings"]);
    let mut lab_doc = tools::cargo("doc");
    lab_doc.args(["--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    Ok(vec![
        Step::command("clippy", Turn::Builds, clippy),
        Step::command("clippy-plain", Turn::Builds, plain),
        Step::command("clippy-lab", Turn::Builds, lab_clippy),
        Step::command("doc", Turn::Builds, doc),
        Step::command("doc-lab", Turn::Builds, lab_doc),
        Step::command("planted-build", Turn::Builds, planted),
    ])
}

/// The structure tests.
pub fn structure() -> Step {
    let mut command = sh::cargo("test");
    command.args(["--workspace", "--test", "structure", "--locked"]);
    command.args(["--no-fail-fast", "--", "--show-output"]);
    // A broken rule is found by its message, not by where the test stands.
    command.env("RUST_BACKTRACE", "0");
    Step::command("structure", Turn::Tests, command)
}
