//! `cargo xtask package`: what users download.
#![forbid(unsafe_code)]

mod archive;
mod bom;
mod deb;
mod image;
mod library;
mod linux;
mod notices;
mod pages;
mod python;
mod release;
mod rpm;
mod staged;
mod tarball;
mod windows;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::sh;

/// Make a package that users download
#[derive(Parser)]
#[command(bin_name = "cargo xtask package", disable_help_subcommand = true)]
struct PackageArgs {
    #[command(subcommand)]
    task: Task,
}

/// For whom a package is made.
#[derive(Subcommand)]
enum Task {
    /// A zip for Windows: weft.exe with OpenSSL in it, licences and SHA256SUMS
    Windows(windows::WindowsArgs),
    /// A .deb, an .rpm, a tar and an image for Linux: the program with its pages, units and licences
    Linux(linux::LinuxArgs),
    /// libweft1 and libweft-dev for Debian and Ubuntu: the library for programs in C
    Library(library::LibraryArgs),
    /// The wheel for Python, from 3.9 on
    Python(python::PythonArgs),
    /// The page of a release of these packages, with their sums and the parts of the programs
    Release(release::ReleaseArgs),
}

fn main() -> ExitCode {
    sh::exit(run(&PackageArgs::parse().task))
}

/// Makes the package.
fn run(task: &Task) -> Result<ExitCode> {
    match task {
        Task::Windows(args) => windows::run(args)?,
        Task::Linux(args) => linux::run(args)?,
        Task::Library(args) => library::run(args)?,
        Task::Python(args) => python::run(args)?,
        Task::Release(args) => release::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_documents_are_understood() {
        let parse = |words: &[String]| {
            PackageArgs::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(xtask::commands::faults("package", parse), Vec::<String>::new());
    }
}
