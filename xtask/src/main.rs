//! The project's chores: `cargo xtask <chore>`.
//!
//! Everything that is done to the sources, except building them, is a subcommand here, so that a
//! fresh clone needs Rust and a C compiler and nothing to remember. What few people need, or few
//! runs, is a tool of the lab (`lab/crates`), which is built when it is used.
#![forbid(unsafe_code)]

mod check;
mod programs;
mod sim;
mod test;

use std::{env, process::ExitCode};

use clap::{Parser, Subcommand};
use xtask::{built, published, sh, steps, times, tools};

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
    /// Run the tests of the product, or all tests; this installs nothing
    Test(test::TestArgs),
    /// Check formatting, lints, documentation, licences and structure
    Check,
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
        Chore::Sim(args) => sim::run(&args),
    })
}
