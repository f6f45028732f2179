//! Building weft for Windows on Debian, and running the result under Wine.
//!
//! Wine is for correctness only: its times say nothing about Windows.

mod cache;
mod gateway;
mod interop;
mod managed;
mod server;
mod toolchain;
mod wine;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use cache::Cache;
use clap::Subcommand;
use toolchain::{TARGET, cargo};

use crate::{
    debian,
    sh::{self, Missing},
    times,
};

/// The chores of the Windows build.
#[derive(Subcommand)]
pub enum Task {
    /// Prepare the toolchain and Wine (once, about two minutes; then instant)
    Setup,
    /// `cargo build` for Windows; output below target/windows
    Build(CargoArgs),
    /// `cargo check` for Windows
    Check(CargoArgs),
    /// `cargo clippy` for Windows
    Clippy(CargoArgs),
    /// With arguments `cargo test` under Wine; without, all that weft promises for Windows
    Test(CargoArgs),
    /// Build what `test` runs without arguments
    BuildTests,
    /// Run a Windows program under Wine
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
pub struct CargoArgs {
    /// Passed to cargo
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Does one of the chores; the exit status is that of the program that was run.
pub fn run(task: &Task) -> Result<ExitCode> {
    let cache = Cache::open()?;
    match task {
        Task::Setup => setup(&cache).map(|()| ExitCode::SUCCESS),
        Task::Build(cargo) => run_cargo(&cache, "build", &cargo.args),
        Task::Check(cargo) => run_cargo(&cache, "check", &cargo.args),
        Task::Clippy(cargo) => run_cargo(&cache, "clippy", &cargo.args),
        Task::BuildTests => {
            setup(&cache)?;
            interop::build_tests(&cache).map(|()| ExitCode::SUCCESS)
        }
        Task::Test(cargo) if cargo.args.is_empty() => {
            setup(&cache)?;
            interop::run(&cache).map(|()| ExitCode::SUCCESS)
        }
        Task::Test(cargo) => run_cargo(&cache, "test", &cargo.args),
        Task::Run { exe, args } => {
            setup(&cache)?;
            let mut program = wine::program(&cache, exe);
            times::timed(exe, program.args(args));
            sh::replace(&mut program)
        }
        Task::Stop => wine::stop(&cache).map(|()| ExitCode::SUCCESS),
    }
}

/// Prepares what is missing of the toolchain and of Wine.
fn setup(cache: &Cache) -> Result<()> {
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        return Err(
            Missing("the Windows build is prepared on Debian 12 for amd64 only".into()).into()
        );
    }
    cache.once("toolchain", || toolchain::unpack(cache))?;
    if !Path::new(wine::WINE).exists() || !sh::have("x86_64-w64-mingw32-gcc") {
        debian::install(&["gcc-mingw-w64-x86-64", "wine64"])?;
    }
    cache.once(&format!("std-{TARGET}"), || toolchain::build_std(cache))?;
    cache.once("prefix", || wine::create_prefix(cache))
}

/// Sets up and becomes a cargo command.
fn run_cargo(cache: &Cache, subcommand: &str, args: &[OsString]) -> Result<ExitCode> {
    setup(cache)?;
    sh::replace(cargo(cache, subcommand)?.args(args))
}
