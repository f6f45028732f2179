//! The project's chores: `cargo xtask <chore>`.
//!
//! Everything that is done to the sources besides building them is a subcommand here, so that a
//! fresh clone needs Rust and a C compiler and nothing to remember.
#![forbid(unsafe_code)]

mod check;
mod count;
mod debian;
mod edited;
mod excerpt;
mod fuzz;
#[cfg(target_os = "linux")]
mod lab;
mod licences;
mod long;
mod machine;
mod method;
mod mutants;
mod package;
mod planted;
mod race;
mod setup;
mod sh;
mod sim;
mod spdx;
mod steps;
mod test;
mod times;
mod windows;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

/// Development tasks of weft.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

/// The subcommands.
#[derive(Subcommand)]
enum Chore {
    /// Run all tests, and first set up what they need
    Test(test::TestArgs),
    /// Check formatting, lints, documentation, licences and structure
    Check,
    /// Install the programs that the crates' tests start
    Setup,
    /// Check the sources and licences of all dependencies
    Licences,
    /// Build and run the fuzz targets
    Fuzz {
        /// Subcommand
        #[command(subcommand)]
        task: fuzz::Task,
    },
    /// Run the Linux kernel's NVMe/TCP and iSCSI in a virtual machine
    #[cfg(target_os = "linux")]
    Lab(Box<lab::LabArgs>),
    /// Needs Linux
    #[cfg(not(target_os = "linux"))]
    #[command(disable_help_flag = true)]
    Lab {
        /// As on Linux
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run the proofs that take too long for every run, and write docs/long.md
    Long(long::LongArgs),
    /// Run studies whose truth is known, keep their data, and print what they show
    Method(method::MethodArgs),
    /// Change one line at a time, and see whether the tests notice
    Mutants(mutants::MutantsArgs),
    /// Make a package that users download
    Package {
        /// Subcommand
        #[command(subcommand)]
        task: package::Task,
    },
    /// Measure weft, the bare TCP ceiling of this machine and the installed peers
    Race(Box<race::RaceArgs>),
    /// Run a test program and report the time of each test; cargo calls this
    #[command(hide = true)]
    RunTest {
        /// The program
        program: PathBuf,
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the whole stack on virtual time, with faults that a seed chooses
    Sim(sim::SimArgs),
    /// Build for Windows, and run the result under Wine
    Windows {
        /// Subcommand
        #[command(subcommand)]
        task: windows::Task,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Test(args) => test::run(&args),
        Chore::Check => test::check(),
        Chore::Setup => setup::run().map(|()| ExitCode::SUCCESS),
        Chore::Licences => licences::run().map(|()| ExitCode::SUCCESS),
        Chore::Fuzz { task } => fuzz::run(&task),
        #[cfg(target_os = "linux")]
        Chore::Lab(args) => lab::run(*args),
        #[cfg(not(target_os = "linux"))]
        Chore::Lab { args } => {
            Err(sh::Missing(format!("`lab {}` needs Linux on x86-64", args.join(" "))).into())
        }
        Chore::Long(args) => long::run(&args),
        Chore::Method(args) => method::run(&args),
        Chore::Mutants(args) => mutants::run(&args),
        Chore::Package { task } => package::run(&task),
        Chore::Race(args) => race::run(&args),
        Chore::RunTest { program, args } => test::run_program(&program, &args),
        Chore::Sim(args) => sim::run(&args),
        Chore::Windows { task } => windows::run(&task),
    };
    outcome.unwrap_or_else(|error| fail(&error))
}

/// Reports the error. If this machine lacks something, the exit status is a special one.
fn fail(error: &anyhow::Error) -> ExitCode {
    if let Some(missing) = error.chain().find_map(|cause| cause.downcast_ref::<sh::Missing>()) {
        println!("skipped: {missing}");
        return ExitCode::from(sh::SKIPPED);
    }
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
