//! `cargo xtask sim`: builds the simulator and runs it.

use std::{
    fs,
    process::{Command, ExitCode},
};

use anyhow::Result;
use clap::Args;

use crate::{sh, tools};

/// The first seed that `cargo xtask test` runs behind those that once failed, and how many: about a
/// minute of one core, built as tests are. The commit fixes them, so that whoever runs it sees what
/// its author saw.
pub const TEST_SEEDS: [&str; 2] = ["40000000", "400"];

/// Those that `cargo xtask test --all` runs as well.
pub const MORE_SEEDS: [&str; 2] = ["40000400", "800"];

/// The seeds to run.
#[derive(Args)]
pub struct SimArgs {
    /// Run this seed alone, and print what happens
    #[arg(long)]
    seed: Option<u64>,
    /// Another scene than the seeds have: any, late-writes, shared, restarts, reservations, damage,
    /// mirror, group or stops
    #[arg(long)]
    scene: Option<String>,
    /// Transport of NVMe, instead of the seeds' choice: tcp or rdma
    #[arg(long)]
    transport: Option<String>,
    /// Seeds to run, behind those that once failed
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// The first of them; by default it depends on the time
    #[arg(long)]
    from: Option<u64>,
    /// Threads
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Find each planted bug, and print how many seeds that took
    #[arg(long)]
    planted: bool,
    /// Only have the compiler check it
    #[arg(long)]
    check: bool,
    /// With --planted: only the bug of this name
    #[arg(long)]
    bug: Option<String>,
    /// Build it as tests are: all of it is there when they are built, but it takes longer to run
    #[arg(long)]
    as_tests: bool,
    /// Leave out those that once failed
    #[arg(long)]
    without_kept: bool,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
}

/// Builds the simulator with its profile, and becomes it.
pub fn run(args: &SimArgs) -> Result<ExitCode> {
    if args.check {
        return build("check", args).map(|()| ExitCode::SUCCESS);
    }
    build("build", args)?;
    let name = format!("weft-sim{}", std::env::consts::EXE_SUFFIX);
    let profile = if args.as_tests { "debug" } else { "sim" };
    let mut simulator = Command::new(sh::target_dir().join(profile).join(name));
    simulator.current_dir(sh::root()).args(["--commit", &commit()]);
    match args.seed {
        Some(seed) => simulator.args(["--seed", &seed.to_string()]),
        None => {
            simulator.args(["--count", &args.count.to_string(), "--jobs", &args.jobs.to_string()])
        }
    };
    if args.planted {
        simulator.arg("--planted");
        simulator.args(args.bug.iter().flat_map(|bug| ["--bug", bug]));
    }
    if args.seed.is_none() && !args.without_kept {
        simulator.args(["--seeds", "crates/sim/seeds.txt"]);
    }
    if let Some(scene) = &args.scene {
        simulator.args(["--scene", scene]);
    }
    if let Some(transport) = &args.transport {
        simulator.args(["--transport", transport]);
    }
    if let Some(from) = args.from {
        simulator.args(["--from", &from.to_string()]);
    }
    if args.keep_going {
        simulator.arg("--keep-going");
    }
    sh::replace(&mut simulator)
}

/// Builds or checks the simulator, with planted bugs or without.
fn build(subcommand: &str, args: &SimArgs) -> Result<()> {
    let mut cargo = sh::cargo(subcommand);
    if args.planted {
        // In a copy of the workspace. What both depend on is built once.
        let copy = sh::output(&mut tools::PLANTED.command()?)?;
        cargo.current_dir(copy.trim()).env("CARGO_TARGET_DIR", fs::canonicalize(sh::target_dir())?);
    }
    cargo.args(["--locked", "--quiet"]);
    if args.as_tests {
        // With a test of all packages, so that features are those that tests have.
        cargo.args(["--workspace", "--bin", "weft-sim", "--test", "structure"]);
    } else {
        cargo.args(["--profile", "sim", "-p", "weft-sim"]);
    }
    sh::run(&mut cargo)
}

/// The commit of the workspace, for messages.
fn commit() -> String {
    let told = sh::output(
        Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).current_dir(sh::root()),
    );
    told.map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}
