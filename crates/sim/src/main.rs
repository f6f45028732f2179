//! `cargo xtask sim` runs this program.
#![forbid(unsafe_code)]

mod campaign;
mod planted;

use clap::Parser;
use std::process::ExitCode;
use weft_sim::wanted::Wanted;

/// Runs seeds of the whole-stack simulator
#[derive(Parser)]
struct Cli {
    /// Run this seed alone, and print what happens
    #[arg(long)]
    seed: Option<u64>,
    /// Another scene than the seeds have
    #[arg(long)]
    scene: Option<weft_sim::scene::Scene>,
    /// Transport of NVMe, instead of the seeds' choice
    #[arg(long)]
    transport: Option<weft_sim::wanted::Transport>,
    /// Seeds to run
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// The first of them; by default it depends on the time
    #[arg(long)]
    from: Option<u64>,
    /// Threads
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Commit of what is tested, for messages
    #[arg(long, default_value = "unknown")]
    commit: String,
    /// A file of seeds to run first: a number, perhaps a scene and a transport, and a comment a
    /// line
    #[arg(long)]
    seeds: Option<std::path::PathBuf>,
    /// Find each planted bug, and print a table; the program has to be built with them
    #[arg(long)]
    planted: bool,
    /// With --planted: only the bug of this name
    #[arg(long)]
    bug: Option<String>,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
}

impl Cli {
    fn wanted(&self) -> Wanted {
        Wanted { scene: self.scene, transport: self.transport }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.planted {
        return planted::all(&cli);
    }
    match cli.seed {
        Some(seed) => campaign::replay((seed, cli.wanted()), &cli.commit),
        None => campaign::all(&cli),
    }
}
