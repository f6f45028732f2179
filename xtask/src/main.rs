//! The project's chores: `cargo xtask <chore>`.
//!
//! Everything that is done to the sources besides building them is a subcommand here, so that a
//! fresh clone needs Rust and a C compiler and nothing to remember. What few people need, or few
//! runs, is a tool of the lab (`lab/crates`), which is built when it is used.
#![forbid(unsafe_code)]

mod check;
mod setup;
mod sim;
mod test;

use std::{env, ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use xtask::{debian, sh, steps, times, tools};

/// Development tasks of weft.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true, after_help = tools::listed())]
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
    /// Run a test program and report the time of each test; cargo calls this
    #[command(hide = true, disable_help_flag = true)]
    RunTest {
        /// The program
        program: PathBuf,
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the whole stack on virtual time, with faults that a seed chooses
    Sim(sim::SimArgs),
}

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    if let Some(tool) = words.next().and_then(|name| tools::named(&name)) {
        return sh::exit(tool.run(words));
    }
    sh::exit(match Cli::parse().chore {
        Chore::Test(args) => test::run(&args),
        Chore::Check => test::check(),
        Chore::Setup => setup::run().map(|()| ExitCode::SUCCESS),
        Chore::RunTest { program, args } => test::run_program(&program, &args),
        Chore::Sim(args) => sim::run(&args),
    })
}
