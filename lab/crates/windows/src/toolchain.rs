//! A Rust that can build for Windows and for other processors: Debian's newer compiler, kept
//! private, with a `std` of our own making.
//!
//! Debian ships a recent compiler (`rustc-web`) and the standard library's source, but no `std` for
//! these. The packages conflict with other Rusts, so they are unpacked and not installed; `std`
//! is then compiled once and put where that compiler looks for it, which makes every later build an
//! ordinary one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use xtask::sh;

use super::cache::Cache;

/// Target triple of the builds.
pub const TARGET: &str = "x86_64-pc-windows-gnu";

/// What Debian's compiler is linked against.
const LIBRARIES: [&str; 8] =
    ["gcc", "libc6-dev", "libedit2", "libffi8", "libxml2", "libz3-4", "libzstd1", "zlib1g"];

/// Starts the unpacked programs with the libraries that were unpacked beside them.
const LAUNCHER: &str = r#"#!/bin/sh
LD_LIBRARY_PATH=@rust@/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "@rust@/bin/${0##*/}" "$@"
"#;

/// Compiles `panic_abort` so that it aborts itself, which cargo cannot say for a single crate.
const WRAPPER: &str = r#"#!/bin/sh
case " $* " in *" --crate-name panic_abort "*) set -- "$@" -Cpanic=abort ;; esac
exec "$@"
"#;

/// The package that drags `std` through cargo.
const MANIFEST: &str = "[package]\nname = \"stdlib\"\nedition = \"2024\"\n\
    [profile.release]\ndebug = \"line-tables-only\"\n[workspace]\n";

/// Unpacks the compiler and the library source into the cache.
fn unpack(cache: &Cache) -> Result<()> {
    lab_host::require(&LIBRARIES)?;
    eprintln!("unpacking the toolchain that builds for other systems");
    let root = cache.path("rust");
    remove(&root)?;
    cache.forget("std-")?;
    lab_host::debian::unpack(
        &root,
        &["rustc-web", "rust-web-src", "rust-web-clippy", "libstd-rust-web-dev"],
    )?;
    let std = lab_host::debian::dependency("libstd-rust-web-dev", "libstd-rust-web-")?;
    let llvm = lab_host::debian::dependency(&std, "libllvm")?;
    lab_host::debian::unpack(&root, &[&std, &llvm])?;
    launchers(cache)
}

/// Puts the commands that start the unpacked programs into the cache's `bin`.
fn launchers(cache: &Cache) -> Result<()> {
    let bin = cache.path("bin");
    remove(&bin)?;
    fs::create_dir_all(&bin)?;
    let rust = cache.path("rust/usr");
    let rust = rust.to_str().context("the cache's path is not UTF-8")?;
    let launcher = LAUNCHER.replace("@rust@", rust);
    for tool in ["rustc", "rustdoc", "cargo-clippy", "clippy-driver"] {
        sh::script(&bin.join(tool), &launcher)?;
    }
    Ok(())
}

/// Prepares what is missing of the compiler and of `std` for a target.
pub fn prepare(cache: &Cache, target: &str) -> Result<()> {
    cache.once("toolchain", || unpack(cache))?;
    cache.once(&format!("std-{target}"), || build_std(cache, target))
}

/// Compiles `std` for a target and puts it into the unpacked toolchain.
fn build_std(cache: &Cache, target: &str) -> Result<()> {
    eprintln!("building std for {target} (about a minute)");
    let work = cache.path("std");
    let library = cache.path("rust/usr/lib/rustlib").join(target).join("lib");
    remove(&work)?;
    remove(&library)?;
    fs::create_dir_all(work.join("src"))?;
    fs::create_dir_all(&library)?;
    fs::write(work.join("src/lib.rs"), "#![no_std]\n")?;
    fs::write(work.join("Cargo.toml"), MANIFEST)?;
    sh::script(&work.join("wrap"), WRAPPER)?;
    sh::run(&mut std_build(cache, target, &work))?;
    let built = work.join("out").join(target).join("release/deps");
    for file in fs::read_dir(built)? {
        let file = file?;
        let name = file.file_name();
        let text = name.to_string_lossy();
        if text.ends_with(".rlib") && !text.starts_with("libstdlib-") {
            fs::copy(file.path(), library.join(&name))?;
        }
    }
    remove(&work)
}

/// The cargo command that compiles `std`; the bitcode serves builds with link-time optimization.
fn std_build(cache: &Cache, target: &str, work: &Path) -> Command {
    let mut cargo = sh::cargo("build");
    cargo
        .current_dir(work)
        .args(["--quiet", "--release", "--target", target, "--target-dir", "out"])
        .arg("-Zbuild-std=std,panic_unwind,panic_abort,proc_macro,test")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-Cembed-bitcode=yes")
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", cache.path("bin/rustc"))
        .env("RUSTC_WRAPPER", work.join("wrap"));
    cargo
}

/// Removes a directory that may not exist.
fn remove(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// A cargo command that builds for Windows and runs what it built under Wine.
pub fn cargo(cache: &Cache, subcommand: &str) -> Result<Command> {
    let runner = sh::line(&sh::chore(&["windows", "run"])?);
    let mut command = cargo_for(cache, subcommand, TARGET);
    command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", runner);
    Ok(command)
}

/// A cargo command that builds for a target with this compiler.
pub fn cargo_for(cache: &Cache, subcommand: &str, target: &str) -> Command {
    let mut command = if subcommand == "clippy" {
        let mut clippy = Command::new(cache.path("bin/cargo-clippy"));
        clippy.arg("clippy").current_dir(sh::root());
        clippy
    } else {
        sh::cargo(subcommand)
    };
    command
        .args(["--target", target, "--target-dir"])
        .arg(target_dir())
        .env("RUSTC", cache.path("bin/rustc"))
        .env("RUSTDOC", cache.path("bin/rustdoc"));
    command
}

/// Target directory of all builds with this compiler. Derive macros and build scripts are the same
/// for all targets, so that they are built once; another compiler would build them again.
fn target_dir() -> PathBuf {
    sh::target_dir().join("cross")
}

/// The program that a profile builds for Windows.
pub fn built(profile: &str) -> PathBuf {
    target_dir().join(TARGET).join(profile).join("weft.exe")
}
