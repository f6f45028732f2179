//! `cargo xtask package`: what users download.

mod archive;
mod bom;
pub mod deb;
mod image;
mod linux;
mod notices;
mod pages;
mod rpm;
pub mod signing;
mod staged;
mod tarball;
pub mod windows;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// For whom a package is made.
#[derive(Subcommand)]
pub enum Task {
    /// A zip for Windows: weft.exe with OpenSSL in it, licences and SHA256SUMS
    Windows(windows::WindowsArgs),
    /// A .deb, an .rpm, a tar and an image for Linux: the program with its pages, units and licences
    Linux(linux::LinuxArgs),
}

/// Makes the package.
pub fn run(task: &Task) -> Result<ExitCode> {
    match task {
        Task::Windows(args) => windows::run(args)?,
        Task::Linux(args) => linux::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
