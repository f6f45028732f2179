//! The packages for Linux, of one program.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use xtask::{built::FULL, sh};

use super::{
    archive::SUMS,
    deb::{self, Effort},
    image, rpm, staged, tarball,
};

/// How packages end.
const KINDS: [&str; 4] = [".deb", ".rpm", ".tar.gz", ".tar"];

/// The profile of packages.
const PROFILE: &str = "dist";

/// Options of `cargo xtask package linux`.
#[derive(Args)]
pub struct LinuxArgs {
    /// Kinds of package [default: all]
    #[arg(value_enum)]
    kinds: Vec<Kind>,
    /// A program that is built already, instead of one of this tree
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Hardly compress: quicker, and larger
    #[arg(long)]
    fast: bool,
    /// Directory of the packages [default: target/package]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// A kind of package.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Debian and Ubuntu.
    Deb,
    /// Fedora, RHEL and SUSE.
    Rpm,
    /// Any Linux with the GNU C library.
    Tar,
    /// Containers; needs a Debian or Ubuntu.
    Image,
}

/// Builds the program and packs it.
pub fn run(args: &LinuxArgs) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    ensure!(program.is_file(), "there is no {}", program.display());
    let out = args.out.clone().unwrap_or_else(|| sh::target_dir().join("package"));
    fs::create_dir_all(&out)?;
    let all = [Kind::Deb, Kind::Rpm, Kind::Tar, Kind::Image];
    let kinds = if args.kinds.is_empty() { &all[..] } else { &args.kinds };
    let effort = if args.fast { Effort::Little } else { Effort::Full };
    let mut made = Vec::new();
    for kind in kinds {
        made.push(match kind {
            Kind::Deb => deb::pack(&program, &out, effort)?,
            Kind::Rpm => rpm::pack(&program, &out)?,
            Kind::Tar => tarball::pack(&program, &out, effort)?,
            Kind::Image => image::pack(&program, &out)?,
        });
    }
    // Those that were made before are still there.
    let mut all = staged::files(&out)?;
    all.retain(|file| KINDS.iter().any(|kind| file.to_string_lossy().ends_with(kind)));
    ensure!(made.iter().all(|made| all.contains(made)), "a package has gone");
    let names = all.iter().filter_map(|made| made.file_name());
    let sums = sh::output(Command::new("sha256sum").current_dir(&out).arg("--").args(names))?;
    fs::write(out.join(SUMS), &sums)?;
    print!("{sums}");
    Ok(())
}

/// The program of this tree.
fn build() -> Result<PathBuf> {
    let mut cargo = sh::cargo("build");
    cargo.args(["--locked", "--package=weft", "--bin=weft", "--profile", PROFILE]);
    cargo.args(["--features", FULL]);
    hide_paths(&mut cargo);
    sh::run(&mut cargo)?;
    Ok(sh::target_dir().join(PROFILE).join("weft"))
}

/// Keeps paths of this machine out of what cargo builds, so that another one builds the same.
pub fn hide_paths(cargo: &mut Command) {
    let home = std::env::home_dir().unwrap_or_default().join(".cargo");
    let home = std::env::var_os("CARGO_HOME").map_or(home, PathBuf::from);
    let hidden = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let flags = [hidden(&sh::root(), "/weft"), hidden(&home, "/cargo")];
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
}
