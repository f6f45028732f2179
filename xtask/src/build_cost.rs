//! `cargo xtask build-cost`: what a cold build of the program costs, as a ratio to that of an
//! earlier commit.
//!
//! Both are built in turn, each into an empty directory. Processor time is compared, as it depends
//! less on what else the machine does than elapsed time.

use std::{path::Path, process::Command, process::ExitCode, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{sh, times};

/// What to compare.
#[derive(Args)]
pub struct BuildCostArgs {
    /// The commit that this tree is compared with
    #[arg(default_value = "67c263a5")]
    commit: String,
    /// The profile that both are built with
    #[arg(long, default_value = "release")]
    profile: String,
}

/// What a build cost, and what came of it.
struct Cost {
    cpu: Duration,
    bytes: u64,
}

/// Builds the commit and this tree.
pub fn run(args: &BuildCostArgs) -> Result<ExitCode> {
    let directory = tempfile::Builder::new().prefix("weft-build-cost").tempdir_in(sh::target_dir());
    let directory = directory.context("cannot make a temporary directory")?;
    let sources = directory.path().join("sources");
    let mut add = git(&["worktree", "add", "--quiet", "--detach"]);
    sh::run(add.arg(&sources).arg(&args.commit))?;
    let before = build(&sources, &directory.path().join("before"), &args.profile);
    sh::run(git(&["worktree", "remove", "--force"]).arg(&sources))?;
    let before = before?;
    let now = build(&sh::root(), &directory.path().join("now"), &args.profile)?;
    for (name, cost) in [(args.commit.as_str(), &before), ("this tree", &now)] {
        println!(
            "{name:<12} {:>6.1} s of processor, {:>6.1} MB",
            cost.cpu.as_secs_f64(),
            cost.bytes as f64 / 1e6
        );
    }
    ensure!(!before.cpu.is_zero(), "the system does not tell processor time");
    println!("ratio {:.2}", now.cpu.as_secs_f64() / before.cpu.as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

fn git(args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(args).current_dir(sh::root());
    command
}

/// Builds the program of `sources` into the empty directory `into`. What has to be downloaded is
/// there before it begins.
fn build(sources: &Path, into: &Path, profile: &str) -> Result<Cost> {
    sh::run(sh::cargo("fetch").args(["--quiet", "--locked"]).current_dir(sources))?;
    let mut command = sh::cargo("build");
    command
        .args(["--quiet", "--locked", "--package", "weft", "--profile", profile, "--target-dir"])
        .arg(into);
    let before = times::cpu_of_children();
    sh::run(command.current_dir(sources))?;
    let cpu = times::cpu_of_children() - before;
    let program = into.join(profile).join(format!("weft{}", std::env::consts::EXE_SUFFIX));
    let bytes =
        program.metadata().with_context(|| format!("cannot find {}", program.display()))?.len();
    Ok(Cost { cpu, bytes })
}
