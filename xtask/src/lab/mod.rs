//! `cargo xtask lab`: the Linux kernel's own NVMe/TCP host and target in a throw-away virtual
//! machine.
//!
//! Nothing of this machine's kernel is used, so it works in containers and without KVM: Debian's
//! kernel package boots under qemu from an initramfs that is made for each run and holds just the
//! modules, packages and programs that the scripts ask for. `docs/contributing/lab.md` is the
//! manual.

mod cache;
mod counts;
mod disk;
mod files;
mod guest;
mod head;
mod host;
mod image;
mod kernel;
mod libraries;
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
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::Result;
use clap::{Args, Subcommand};

use cache::Cache;
use host::{host_ready, prepare};
use plan::Plan;
use vm::Machine;

pub use plan::Options;
pub use suite::CaseResult;
pub use vm::Outcome;

/// Arguments of `cargo xtask lab`.
#[derive(Debug, Args)]
pub struct LabArgs {
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

/// Does what `cargo xtask lab` was told; the exit code of `run` is that of the script.
///
/// # Errors
/// [`crate::sh::Missing`] when this machine cannot run the lab; anything else is a fault of the lab
/// itself or of what a script asks for.
pub fn run(args: LabArgs) -> Result<ExitCode> {
    match args.command {
        Command::Setup { refresh } => setup(refresh),
        Command::Run(run) => run_script(&run),
        Command::Test(test) => suite::run(&test),
        Command::Replay(replay) => replay::run(&replay).map(|()| ExitCode::SUCCESS),
        Command::Shell { options } => {
            let plan = Plan::new(&[], &options, &[])?;
            vm::shell(&plan, &prepare(&plan)?)
        }
    }
}

/// The cases that only `cargo xtask long` runs, and what each says of itself.
///
/// # Errors
/// If a case's head cannot be read.
pub fn long_cases() -> Result<Vec<(PathBuf, String)>> {
    suite::long_cases()
}

/// Runs one script in a fresh virtual machine and gathers what it writes.
///
/// # Errors
/// As [`run`]; a script that fails is no error but an [`Outcome`].
pub fn run_case(script: &Path, options: &Options) -> Result<CaseResult> {
    let start = Instant::now();
    let mut output = Vec::new();
    let outcome = run_alone(script, options, &[], &mut output)?;
    let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(CaseResult { name, outcome, output, elapsed: start.elapsed() })
}

fn run_script(run: &RunArgs) -> Result<ExitCode> {
    let outcome = run_alone(&run.script, &run.options, &run.args, &mut std::io::stdout().lock())?;
    if let Some(explanation) = outcome.explanation() {
        eprintln!("lab: {explanation}");
    }
    Ok(ExitCode::from(outcome.exit_status()))
}

fn run_alone(
    script: &Path,
    options: &Options,
    args: &[String],
    sink: &mut dyn Write,
) -> Result<Outcome> {
    let plan = Plan::new(&[script.to_owned()], options, args)?;
    let (outcome, _) = Machine::boot(&plan, &prepare(&plan)?)?.run(&plan.cases[0], sink)?;
    Ok(outcome)
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
