//! `cargo xtask windows`: building weft for Windows on Debian, and running the result under Wine.
//!
//! Wine is for correctness only: its times say nothing about Windows.
#![forbid(unsafe_code)]

mod gateway;
mod interop;
mod managed;
mod packaged;
mod server;
mod service;
mod verified;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use lab_windows::{cache::Cache, setup::prepare, toolchain::cargo, wine};
use xtask::{sh, times};

/// Build for Windows, and run the result under Wine
#[derive(Parser)]
#[command(bin_name = "cargo xtask windows", disable_help_subcommand = true)]
struct WindowsArgs {
    #[command(subcommand)]
    task: Task,
}

/// The chores of the Windows build.
#[derive(Subcommand)]
enum Task {
    /// Prepare the toolchain and Wine (once, about two minutes; then instant)
    Setup,
    /// `cargo build` for Windows; output below target/cross/x86_64-pc-windows-gnu
    Build(CargoArgs),
    /// `cargo check` for Windows
    Check(CargoArgs),
    /// `cargo clippy` for Windows
    Clippy(CargoArgs),
    /// With arguments `cargo test` under Wine; without, all that weft promises for Windows
    Test(CargoArgs),
    /// The checks of weft for Windows whose names contain one of these words
    Trials {
        /// Words, as in `service` or `package`
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Build what `test` runs without arguments
    BuildTests,
    /// Run a Windows program under Wine
    #[command(disable_help_flag = true)]
    Run {
        /// The program
        exe: PathBuf,
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// End everything that still runs under Wine
    Stop,
}

/// Arguments that cargo gets as they are.
#[derive(clap::Args)]
struct CargoArgs {
    /// Passed to cargo
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

fn main() -> ExitCode {
    sh::exit(run(&WindowsArgs::parse().task))
}

/// Does one of the chores; the exit status is that of the program that was run.
fn run(task: &Task) -> Result<ExitCode> {
    let cache = Cache::open()?;
    match task {
        Task::Setup => prepare(&cache).map(|()| ExitCode::SUCCESS),
        Task::Build(cargo) => run_cargo(&cache, "build", &cargo.args),
        Task::Check(cargo) => run_cargo(&cache, "check", &cargo.args),
        Task::Clippy(cargo) => run_cargo(&cache, "clippy", &cargo.args),
        Task::BuildTests => {
            prepare(&cache)?;
            interop::build_tests(&cache).map(|()| ExitCode::SUCCESS)
        }
        Task::Test(cargo) if cargo.args.is_empty() => {
            prepare(&cache)?;
            interop::run(&cache).map(|()| ExitCode::SUCCESS)
        }
        Task::Trials { words } => {
            prepare(&cache)?;
            interop::run_trials(&cache, words).map(|()| ExitCode::SUCCESS)
        }
        Task::Test(cargo) => run_cargo(&cache, "test", &cargo.args),
        Task::Run { exe, args } => {
            prepare(&cache)?;
            let mut program = wine::program(&cache, exe);
            times::timed(exe, program.args(args));
            sh::replace(&mut program)
        }
        Task::Stop => wine::stop(&cache).map(|()| ExitCode::SUCCESS),
    }
}

/// Sets up and becomes a cargo command.
fn run_cargo(cache: &Cache, subcommand: &str, args: &[OsString]) -> Result<ExitCode> {
    prepare(cache)?;
    sh::replace(cargo(cache, subcommand)?.args(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_documents_are_understood() {
        let parse = |words: &[String]| {
            WindowsArgs::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(xtask::commands::faults("windows", parse), Vec::<String>::new());
    }
}
