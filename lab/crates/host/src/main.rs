//! `cargo xtask setup`: lists, installs or unpacks the programs of others that tests need.
#![forbid(unsafe_code)]

mod beforehand;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use beforehand::Build;

/// List the programs of others that tests need, install or unpack them
#[derive(Parser)]
#[command(bin_name = "cargo xtask setup")]
struct SetupArgs {
    /// Install them with apt, as root; without this and without --unpack nothing is changed
    #[arg(long)]
    yes: bool,
    /// Build the test programs in the meantime
    #[arg(long, requires = "yes")]
    build: bool,
    /// Unpack those that most tests use to a cache directory, without root
    #[arg(long, conflicts_with = "yes")]
    unpack: bool,
}

fn main() -> ExitCode {
    let args = SetupArgs::parse();
    xtask::sh::exit(run(&args).map(|()| ExitCode::SUCCESS))
}

fn run(args: &SetupArgs) -> Result<()> {
    let _building = args.build.then(Build::start).transpose()?;
    lab_host::run(args.yes, args.unpack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_the_documents_are_known() {
        let parse = |words: &[String]| {
            SetupArgs::try_parse_from(words).map(drop).map_err(|e| e.to_string())
        };
        let faults = xtask::commands::faults("setup", parse);
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
