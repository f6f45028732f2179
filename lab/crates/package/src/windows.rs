//! The package for Windows: a zip with a program that needs nothing but Windows.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use lab_windows::{
    cache::Cache,
    setup::prepare,
    toolchain::{TARGET, built, cargo},
};
use xtask::{VERSION, built::FULL, sh};

use super::{archive, notices, signing::SigningArgs};

/// All of it, and OpenSSL in the program, so that TLS needs no other file.
pub(super) const FEATURES: [&str; 2] = [FULL, "vendored-openssl"];

/// The profile of packages.
const PROFILE: &str = "dist";

/// Options of `cargo xtask package windows`.
#[derive(Args)]
pub struct WindowsArgs {
    /// A program that is built already, without OpenSSL in it, instead of one of this tree
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Directory of the package [default: target/package]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    #[command(flatten)]
    signing: SigningArgs,
}

/// Builds the program and packs it.
pub fn run(args: &WindowsArgs) -> Result<()> {
    // Before a build of many minutes.
    args.signing.check()?;
    let cache = Cache::open()?;
    prepare(&cache)?;
    let out = args.out.clone().unwrap_or_else(|| sh::target_dir().join("package"));
    let archive = match &args.program {
        Some(program) => pack(&cache, program, &[], &args.signing, &out)?,
        None => pack(&cache, &build(&cache)?, &FEATURES, &args.signing, &out)?,
    };
    print!("{}", sh::output(Command::new("sha256sum").arg(&archive))?);
    Ok(())
}

/// The program of this tree.
fn build(cache: &Cache) -> Result<PathBuf> {
    lab_host::require(&["perl", "make"])?;
    let mut build = cargo(cache, "build")?;
    build.args(["--locked", "--package=weft", "--bin=weft", "--profile", PROFILE]);
    sh::run(build.arg(format!("--features={}", FEATURES.join(","))))?;
    Ok(built(PROFILE))
}

/// Packs a program that was built with some features; where the zip is.
fn pack(
    cache: &Cache,
    program: &Path,
    features: &[&str],
    signing: &SigningArgs,
    out: &Path,
) -> Result<PathBuf> {
    let name = format!("weft-{VERSION}-windows-x86_64");
    let directory = out.join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let packed = directory.join("weft.exe");
    fs::copy(program, &packed).with_context(|| format!("no {}", program.display()))?;
    needs_only_windows(&packed)?;
    if !signing.sign(&packed)? {
        eprintln!("weft.exe is not signed: name a key with --sign-key to have that done");
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(sh::root().join(licence), directory.join(licence))?;
    }
    let doc = Path::new("/usr/share/doc");
    let rust = cache.path("rust/usr/share/doc/rust-web-src/copyright");
    let others = [
        ("the standard library of Rust", rust.as_path()),
        ("the C library and start-up code of MinGW-w64", &doc.join("mingw-w64-common/copyright")),
        ("the runtime library of GCC", &doc.join("gcc-mingw-w64-x86-64/copyright")),
    ];
    let text = notices::of_program(&notices::metadata(TARGET, features)?, &others)?;
    fs::write(directory.join("LICENCES.txt"), text.replace('\n', "\r\n"))?;
    archive::write_sums(&directory)?;
    archive::zip(&directory)
}

/// Libraries that the compiler brings are on no other machine.
fn needs_only_windows(program: &Path) -> Result<()> {
    let said = sh::output(Command::new("x86_64-w64-mingw32-objdump").arg("-p").arg(program))?;
    let foreign: Vec<&str> = imported(&said).filter(|name| name.starts_with("lib")).collect();
    ensure!(
        foreign.is_empty(),
        "weft.exe needs {}, which Windows does not have",
        foreign.join(", ")
    );
    Ok(())
}

/// The libraries that a program imports, by what objdump says of it.
fn imported(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.trim().strip_prefix("DLL Name: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_read() {
        let said = "a\n\tDLL Name: KERNEL32.dll\n\tvma:  Hint\n\tDLL Name: libgcc_s_seh-1.dll\n";
        assert_eq!(imported(said).collect::<Vec<_>>(), ["KERNEL32.dll", "libgcc_s_seh-1.dll"]);
    }
}
