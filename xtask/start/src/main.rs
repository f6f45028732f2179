//! `cargo xtask`: prints what a test run is about to do, builds `xtask`, and becomes it.
//!
//! It has no dependencies, so that its first line appears while the rest is still to be built.
#![forbid(unsafe_code)]

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use plan::{Known, Run};

fn main() -> ExitCode {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let target = root.join(target);
    if let Some(run) = Run::of(&args) {
        println!("{}", plan::announcement(run, &Known::read(&target)));
    }
    let program = target.join("debug").join(format!("xtask{}", env::consts::EXE_SUFFIX));
    if !program.exists() {
        println!("building cargo xtask first, about half a minute");
    }
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--package", "xtask", "--bin", "xtask"]);
    build.current_dir(&root);
    // They are of this package, and build scripts that ask for them would run again.
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_package(name)) {
        build.env_remove(name);
    }
    match build.status() {
        Ok(status) if status.success() => become_program(&program, &args),
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: cannot start cargo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether cargo has set a variable for the package whose program it runs.
fn is_of_package(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        name.starts_with("CARGO_PKG_")
            || ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "OUT_DIR"].contains(&name)
    })
}

/// Replaces this process, so that signals and the exit status are the program's own.
#[cfg(unix)]
fn become_program(program: &Path, args: &[OsString]) -> ExitCode {
    use std::os::unix::process::CommandExt;
    let error = command(program, args).exec();
    eprintln!("error: cannot start {}: {error}", program.display());
    ExitCode::FAILURE
}

#[cfg(not(unix))]
fn become_program(program: &Path, args: &[OsString]) -> ExitCode {
    match command(program, args).status() {
        Ok(status) => ExitCode::from(status.code().map_or(1, |code| code as u8)),
        Err(error) => {
            eprintln!("error: cannot start {}: {error}", program.display());
            ExitCode::FAILURE
        }
    }
}

fn command(program: &Path, args: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_remove("CARGO_MANIFEST_DIR").env("PATH", plan::search_path());
    command
}
