//! `cargo xtask package`: what users download.

mod archive;
mod notices;
pub mod signing;
pub mod windows;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// For whom a package is made.
#[derive(Subcommand)]
pub enum Task {
    /// A zip for Windows: weft.exe with OpenSSL in it, licences and SHA256SUMS
    Windows(windows::WindowsArgs),
}

/// Makes the package.
pub fn run(task: &Task) -> Result<ExitCode> {
    match task {
        Task::Windows(args) => windows::run(args).map(|()| ExitCode::SUCCESS),
    }
}
