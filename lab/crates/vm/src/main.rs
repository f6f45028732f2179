//! `cargo xtask lab`: the Linux kernel's own NVMe/TCP host and target in a throw-away virtual
//! machine.
//!
//! Nothing of this machine's kernel is used, so it works in containers and without KVM: Debian's
//! kernel package boots under qemu from an initramfs that is made for each run and holds just the
//! modules, packages and programs that the scripts ask for. `docs/contributing/lab.md` is the
//! manual.
#![forbid(unsafe_code)]

mod accelerator;
mod cache;
mod counts;
mod disk;
mod files;
mod guest;
mod host;
mod image;
mod kernel;
mod migration;
mod monitor;
mod output;
mod packages;
mod plan;
mod program;
mod replay;
mod suite;
mod system;
mod vm;

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use xtask::sh;

use cache::Cache;
use host::{host_ready, prepare};
use plan::{Options, Plan};
use vm::Machine;

/// Run the Linux kernel's NVMe/TCP and iSCSI in a virtual machine
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask lab", disable_help_subcommand = true)]
struct LabArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what the host needs and fetch the guest's kernel and packages
    Setup {
        /// Drop the cache first, for a newer kernel and newer packages
        #[arg(long)]
        refresh: bool,
    },
    /// Run a script as root in a fresh virtual machine and exit with its status
    Run(RunArgs),
    /// Run the cases of lab/cases and print a table
    Test(suite::TestArgs),
    /// List the long cases, which run only when they are named: name, tab, what it shows
    List,
    /// List a log of dm-log-writes, or carry it out; cases call this
    Replay(replay::ReplayArgs),
    /// Look around: a root shell in the virtual machine (leave it with `exit`)
    Shell {
        #[command(flatten)]
        options: Options,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The script; its first lines may say what it needs (`# lab: modules=… pkgs=… files=…`)
    script: PathBuf,
    #[command(flatten)]
    options: Options,
    /// Arguments of the script
    #[arg(last = true)]
    args: Vec<String>,
}

fn main() -> ExitCode {
    sh::exit(run(LabArgs::parse()))
}

/// Executes a subcommand; the exit code of `run` is that of the script.
///
/// # Errors
/// [`sh::Missing`] when this machine cannot run the lab; anything else is a fault of the lab itself
/// or of what a script asks for.
fn run(args: LabArgs) -> Result<ExitCode> {
    match args.command {
        Command::Setup { refresh } => setup(refresh),
        Command::Run(run) => run_script(&run),
        Command::Test(test) => suite::run(&test),
        Command::List => suite::list_long().map(|()| ExitCode::SUCCESS),
        Command::Replay(replay) => replay::run(&replay).map(|()| ExitCode::SUCCESS),
        Command::Shell { options } => {
            let plan = Plan::new(&[], &options, &[])?;
            vm::shell(&plan, &prepare(&plan)?)
        }
    }
}

fn run_script(run: &RunArgs) -> Result<ExitCode> {
    let plan = Plan::new(std::slice::from_ref(&run.script), &run.options, &run.args)?;
    let sink = &mut std::io::stdout().lock();
    let (outcome, _) = Machine::boot(&plan, &prepare(&plan)?)?.run(&plan.cases[0], sink)?;
    if let Some(explanation) = outcome.explanation() {
        eprintln!("lab: {explanation}");
    }
    Ok(ExitCode::from(outcome.exit_status()))
}

fn setup(refresh: bool) -> Result<ExitCode> {
    let start = Instant::now();
    host_ready()?;
    let cache = Cache::open()?;
    if refresh {
        cache.clear()?;
    }
    let (mut kernels, mut wanted) = (BTreeMap::new(), BTreeSet::new());
    for script in suite::all_scripts()? {
        let series = plan::kernel_of(&script)?;
        if let Entry::Vacant(entry) = kernels.entry(series) {
            entry.insert(kernel::fetch(&cache, series)?);
        }
        wanted.extend(plan::packages_of(&script)?);
    }
    packages::fetch(&cache, &wanted)?;
    let releases: Vec<&str> = kernels.values().map(kernel::Kernel::release).collect();
    println!(
        "ready in {:.1} s: Linux {}, cache {}",
        start.elapsed().as_secs_f64(),
        releases.join(" and "),
        cache.root().display()
    );
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_documents_are_understood() {
        let parse = |words: &[String]| {
            LabArgs::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(xtask::commands::faults("lab", parse), Vec::<String>::new());
    }
}
