//! `cargo xtask aarch64`: compiling weft for 64-bit ARM on Debian for amd64, and running it, the unit
//! tests and the models under qemu-user.
//!
//! The emulated processor orders memory as x86 does, so only the models show what others may do.
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use lab_windows::{cache::Cache, toolchain};
use xtask::{
    built,
    sh::{self, Missing},
};

/// Target triple of the builds.
const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The linker, which is the compiler of C code as well, and the C library.
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const BUILD_PACKAGES: [&str; 2] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"];

/// Runs a program, with the C library of the cross compiler.
const RUNNER: &str = "qemu-aarch64 -L /usr/aarch64-linux-gnu";

/// The crates whose unit tests run: those that compute, and those that share memory.
const TESTED: [&str; 8] = [
    "weft-proto",
    "weft-io",
    "weft-block",
    "weft-group",
    "weft-load",
    "weft-connection",
    "weft-initiator",
    "weft-target",
];

/// Build for 64-bit ARM, and run unit tests under qemu-user
#[derive(Parser)]
#[command(bin_name = "cargo xtask aarch64", disable_help_subcommand = true)]
struct Aarch64Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Compile the program without linking it: half of the time of a build
    Check,
    /// Build the program; output below target/cross/aarch64-unknown-linux-gnu
    Build,
    /// Build and start the program, and run the unit tests of the engines, of I/O and of devices, and
    /// the models of lock-free code
    Test,
}

fn main() -> ExitCode {
    sh::exit(run(&Aarch64Args::parse().task))
}

fn run(task: &Task) -> Result<ExitCode> {
    let cache = prepare()?;
    match task {
        Task::Check => sh::run(&mut program(&cache, "check")?)?,
        Task::Build => sh::run(&mut program(&cache, "build")?)?,
        Task::Test => {
            lab_host::require(&["qemu-user"])?;
            sh::run(program(&cache, "run")?.args(["--", "--version"]))?;
            let mut tests = cargo(&cache, "test");
            tests.args(TESTED.iter().flat_map(|name| ["--package", name]));
            sh::run(tests.arg("--lib"))?;
            let mut models = cargo(&cache, "test");
            models.args(["--package", "weft-io", "--package", "weft-block"]);
            models.args(["--features", "weft-io/loom,weft-block/loom", "--lib", "model::"]);
            sh::run(&mut models)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prepares the cross compiler, and a Rust that can build for it.
fn prepare() -> Result<Cache> {
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        let text = "the build for 64-bit ARM is prepared on Debian 12 for amd64 only";
        return Err(Missing(text.into()).into());
    }
    lab_host::require(&BUILD_PACKAGES)?;
    let cache = Cache::open()?;
    toolchain::prepare(&cache, TARGET)?;
    Ok(cache)
}

/// A cargo command that builds for 64-bit ARM and runs what it built in the emulator.
fn cargo(cache: &Cache, subcommand: &str) -> Command {
    let mut command = toolchain::cargo_for(cache, subcommand, TARGET);
    command
        .arg("--locked")
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .env("CC_aarch64_unknown_linux_gnu", COMPILER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", RUNNER);
    command
}

/// The same, for the program.
fn program(cache: &Cache, subcommand: &str) -> Result<Command> {
    let mut command = cargo(cache, subcommand);
    command.args(["--package", "weft"]).args(built::without_optimization()?);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_documents_are_understood() {
        let parse = |words: &[String]| {
            Aarch64Args::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(xtask::commands::faults("aarch64", parse), Vec::<String>::new());
    }
}
