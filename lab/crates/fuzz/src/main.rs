//! `cargo xtask fuzz`: libFuzzer on stable Rust.
//!
//! A fuzz target is a module in `fuzz/fuzz_targets`, and all are one program, which is linked once.
//! The compiler puts in the coverage counters that steer libFuzzer when it is told to run LLVM's own
//! pass for them; that needs neither a nightly compiler nor another tool. The address sanitizer
//! would need both, and finds nothing where unsafe code is forbidden.
#![forbid(unsafe_code)]

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, ExitCode},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use xtask::{sh, times};

/// Compiler flags that add counters at every branch and comparison.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The program of all targets, its source, and what names a target in its environment.
const PROGRAM: &str = "weft-fuzz";
const SOURCE: &str = "main";
const TARGET: &str = "WEFT_FUZZ_TARGET";

/// Maximum seconds for an input; a slower one is a finding.
const INPUT_LIMIT_S: u32 = 10;

/// Maximum memory for an input, MiB; more is a finding.
const MEMORY_LIMIT_MIB: u32 = 1024;

/// Lines of a failed target's output that are shown.
const LINES_SHOWN: usize = 60;

/// Build and run the fuzz targets
#[derive(Parser)]
#[command(bin_name = "cargo xtask fuzz", disable_help_subcommand = true)]
struct FuzzArgs {
    #[command(subcommand)]
    task: Task,
}

/// The subcommands of `fuzz`.
#[derive(Subcommand)]
enum Task {
    /// List the targets
    List,
    /// Build all targets
    Build,
    /// Run one target; new interesting inputs are collected below the target directory
    Run {
        /// The target
        target: String,
        /// Duration
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// Arguments for libFuzzer, or inputs to run once
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run every target for a short time
    Smoke {
        /// Duration of each
        #[arg(long, default_value_t = 5)]
        seconds: u32,
    },
    /// Copy collected inputs that cover something new to `fuzz/corpus`
    Keep {
        /// The target
        target: String,
    },
}

fn main() -> ExitCode {
    sh::exit(run(&FuzzArgs::parse().task))
}

/// Executes a subcommand.
fn run(task: &Task) -> Result<ExitCode> {
    match task {
        Task::List => targets()?.iter().for_each(|target| println!("{target}")),
        Task::Build => build()?,
        Task::Run { target, seconds, args } => {
            build()?;
            fuzz(target, *seconds, args, None)?;
        }
        Task::Smoke { seconds } => return smoke(*seconds),
        Task::Keep { target } => {
            build()?;
            let (kept, gathered) = (kept(target), gathered(target));
            fs::create_dir_all(&kept)?;
            sh::run(program(target)?.arg("-set_cover_merge=1").args([&kept, &gathered]))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds and runs all targets, one per CPU at a time; a finding in one does not stop the others.
fn smoke(seconds: u32) -> Result<ExitCode> {
    build()?;
    let targets = targets()?;
    let (next, findings) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let start = Instant::now();
            let result = fuzz_to_log(target, seconds);
            let word = if result.is_ok() { "ok" } else { "FAILED" };
            println!("{}", times::line(target, word, start.elapsed()));
            findings.lock().expect("no thread panics").extend(result.err());
        }
    };
    thread::scope(|scope| {
        (0..sh::cores()).for_each(|_| drop(scope.spawn(work)));
    });
    let findings = findings.into_inner()?;
    findings.iter().for_each(|finding| println!("\n{finding:#}"));
    let (failed, verdict) = (findings.len(), if findings.is_empty() { "ok" } else { "FAILED" });
    println!(
        "test result: {verdict}. {} passed; {failed} failed; 0 ignored",
        targets.len() - failed
    );
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Runs a built target with its output in a file; a failure carries what the program said last.
fn fuzz_to_log(target: &str, seconds: u32) -> Result<()> {
    let log = target_dir().join(format!("{target}.log"));
    let file = fs::File::create(&log)?;
    fuzz(target, seconds, &[], Some(&file)).map_err(|error| {
        let said = fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().collect();
        error.context(lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n"))
    })
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(sh::root().join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    ensure!(!names.is_empty(), "fuzz/fuzz_targets is empty");
    names.retain(|name| name != SOURCE);
    names.sort();
    Ok(names)
}

/// Builds the targets with counters. Naming the target triple keeps the counters out of build
/// scripts.
fn build() -> Result<()> {
    if !sh::have("c++") && !sh::have("g++") {
        lab_host::require(&["g++"])?;
    }
    let mut cargo = sh::cargo("build");
    cargo
        .args(["--release", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--target", &machine()?, "--target-dir"])
        .arg(target_dir())
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", COVERAGE);
    sh::run(&mut cargo)
}

/// Runs a built target, starting from its corpus.
fn fuzz(target: &str, seconds: u32, args: &[String], log: Option<&fs::File>) -> Result<()> {
    let (kept, gathered) = (kept(target), gathered(target));
    let findings = sh::root().join("fuzz/artifacts").join(target);
    for directory in [&kept, &gathered, &findings] {
        fs::create_dir_all(directory)?;
    }
    let mut command = program(target)?;
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_LIMIT_S}"))
        .arg(format!("-rss_limit_mb={MEMORY_LIMIT_MIB}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .arg("-print_final_stats=1");
    if args.iter().any(|arg| !arg.starts_with('-')) {
        command.args(args);
    } else {
        command.args(args).args([&gathered, &kept]);
    }
    if let Some(log) = log {
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
    }
    sh::run(&mut command).with_context(|| {
        format!("{target} found something; `cargo xtask fuzz run {target} -- FILE` repeats it")
    })
}

/// The program, for a target.
fn program(target: &str) -> Result<Command> {
    let is_known = targets()?.iter().any(|known| known == target);
    ensure!(is_known, "there is no fuzz target {target}: see `cargo xtask fuzz list`");
    let mut command = Command::new(target_dir().join(machine()?).join("release").join(PROGRAM));
    command.env(TARGET, target);
    Ok(command)
}

/// The inputs in the repository.
fn kept(target: &str) -> PathBuf {
    sh::root().join("fuzz/corpus").join(target)
}

/// The inputs that runs on this machine have found.
fn gathered(target: &str) -> PathBuf {
    target_dir().join("corpus").join(target)
}

fn target_dir() -> PathBuf {
    sh::target_dir().join("fuzz")
}

/// This machine's target triple.
fn machine() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = sh::output(Command::new(rustc).arg("-vV"))?;
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc does not say what machine it runs on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_documents_are_understood() {
        let parse = |words: &[String]| {
            FuzzArgs::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(xtask::commands::faults("fuzz", parse), Vec::<String>::new());
    }
}
