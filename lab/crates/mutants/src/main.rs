//! `cargo xtask mutants`: whether the tests notice changes of one line. A seed draws the changes. One
//! build, which is never shipped, has all of them, each behind a question to the environment.
#![forbid(unsafe_code)]

mod build;
mod draw;
mod find;
mod programs;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Parser;
use xtask::{
    sh,
    steps::{Limit, run_limited},
};

use self::{
    build::{Built, build, package},
    find::Candidate,
    programs::{Program, Users},
};

/// Longer than any test program takes.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Tries of a program without a mutant. Tests that fail are left out of the next one.
const BASELINES: usize = 3;

/// Change one line at a time, and see whether the tests notice
#[derive(Parser)]
#[command(bin_name = "cargo xtask mutants")]
struct MutantsArgs {
    /// Seed of the choice of lines
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of lines to change
    #[arg(long, default_value_t = 60)]
    count: usize,
    /// Begin with this one of them, where an earlier run ended
    #[arg(long, default_value_t = 1)]
    first: usize,
    /// A file for the table, too
    #[arg(long)]
    output: Option<PathBuf>,
    /// Only draw them, and print what they are
    #[arg(long)]
    draw: bool,
}

fn main() -> ExitCode {
    sh::exit(run(&MutantsArgs::parse()))
}

/// Draws mutants, builds the tests with all of them, and runs for each those of its crate and of
/// that crate's direct users.
fn run(args: &MutantsArgs) -> Result<ExitCode> {
    let sources = lab_edited::sources()?;
    let row = draw::row(&sources, args.seed)?;
    println!("{} candidates", row.len());
    if args.draw {
        let (mut row, mut taken) = (row.into(), Vec::new());
        draw::take(&mut row, &mut taken, args.count);
        taken.iter().for_each(|one| println!("{}", described(one)));
        return Ok(ExitCode::SUCCESS);
    }
    let mut built = build(&sources, row, args.count)?;
    built.mutants.drain(..built.mutants.len().min(args.first.saturating_sub(1)));
    let programs = programs::build(&built.copy)?;
    let users = Users::read(&built.copy)?;
    let logs = sh::target_dir().join("xtask/logs/mutants");
    fs::create_dir_all(&logs)?;
    let mut baseline = Baseline { logs: &logs, known: BTreeMap::new() };
    let mut report = Report::begin(args, &built)?;
    for (number, mutant) in &built.mutants {
        let programs = users.programs(&package(&mutant.path), &programs);
        report.add(mutant, &trial(*number, &programs, &mut baseline)?)?;
    }
    let failing = baseline.failing();
    report.end(&failing)?;
    Ok(if failing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Programs without a mutant. Each is run when it is first needed, as most mutants are caught before
/// the slow ones have their turn.
struct Baseline<'a> {
    logs: &'a Path,
    known: BTreeMap<String, Usual>,
}

/// A program without a mutant.
#[derive(Clone, Default)]
struct Usual {
    /// Its duration; `None`: it fails even without some of its tests, so it says nothing.
    takes: Option<Duration>,
    /// The tests that fail, which say nothing; the others do.
    left_out: Vec<String>,
}

impl Baseline<'_> {
    fn of(&mut self, program: &Program) -> Result<Usual> {
        if let Some(known) = self.known.get(&program.name) {
            return Ok(known.clone());
        }
        let mut usual = Usual::default();
        let log = log(self.logs, 0, program);
        for _ in 0..BASELINES {
            let command = program.command(0, &usual.left_out);
            let ended = run_limited(&program.name, command, Limit::Time(LIMIT), &log)?;
            println!("without a mutant: {}, {:.1} s", program.name, ended.elapsed.as_secs_f64());
            if ended.status.is_some_and(|status| status.success()) {
                usual.takes = Some(ended.elapsed);
                break;
            }
            let output =
                fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
            usual.left_out.extend(failed(&String::from_utf8_lossy(&output)));
        }
        self.known.insert(program.name.clone(), usual.clone());
        Ok(usual)
    }

    /// The programs and tests that say nothing, for people.
    fn failing(&self) -> Vec<String> {
        let failing = self.known.iter().filter_map(|(name, usual)| match usual.takes {
            None => Some(format!("{name}, which fails without a mutant")),
            Some(_) if usual.left_out.is_empty() => None,
            Some(_) => {
                let tests = usual.left_out.join(", ");
                Some(format!("tests of {name} that fail without a mutant: {tests}"))
            }
        });
        failing.collect()
    }
}

/// The names of the tests that failed, in what a program has written.
fn failed(output: &str) -> Vec<String> {
    let name =
        |line: &str| line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned);
    output.lines().filter_map(name).collect()
}

/// Who caught a mutant; `None`: it survived.
fn trial(
    number: usize,
    programs: &[&Program],
    baseline: &mut Baseline<'_>,
) -> Result<Option<String>> {
    for program in programs {
        let usual = baseline.of(program)?;
        let Some(takes) = usual.takes else { continue };
        let log = log(baseline.logs, number, program);
        let limit = program.limit(takes);
        let command = program.command(number, &usual.left_out);
        let ended = run_limited(&program.name, command, Limit::Time(limit), &log)?;
        match ended.status {
            Some(status) if status.success() => fs::remove_file(log)?,
            Some(_) => return Ok(Some(program.name.clone())),
            None => return Ok(Some(format!("{}, which hangs", program.name))),
        }
    }
    Ok(None)
}

fn log(logs: &Path, number: usize, program: &Program) -> PathBuf {
    logs.join(format!("{number}-{}.log", program.name.replace(' ', "-")))
}

/// A mutant as the table and the list have it.
fn described(of: &Candidate) -> String {
    let Candidate { path, line, function, text, changed, .. } = of;
    let change = match changed.as_str() {
        "" => "is left out".to_owned(),
        changed => format!("becomes `{changed}`"),
    };
    format!("`{path}:{line}`, `{function}`: `{text}` {change}").replace('|', "\\|")
}

/// The table as it grows: on standard output, and in a file if one is asked for.
struct Report {
    text: String,
    file: Option<PathBuf>,
    caught: usize,
    survived: usize,
}

impl Report {
    fn begin(args: &MutantsArgs, built: &Built) -> Result<Self> {
        let mut report =
            Self { text: String::new(), file: args.output.clone(), caught: 0, survived: 0 };
        let (count, dropped) = (built.mutants.len(), built.dropped);
        let head = format!(
            "Seed {}: {count} mutants from number {} on; {dropped} more do not compile or are not in the programs of \
             this system.",
            args.seed, args.first
        );
        report.say(&head)?;
        report.say("\n| mutant | caught by |\n|---|---|")?;
        Ok(report)
    }

    fn add(&mut self, mutant: &Candidate, caught: &Option<String>) -> Result<()> {
        let by = match caught {
            Some(name) => name,
            None => "**survived**",
        };
        self.caught += usize::from(caught.is_some());
        self.survived += usize::from(caught.is_none());
        self.say(&format!("| {} | {by} |", described(mutant)))
    }

    fn end(mut self, failing: &[String]) -> Result<()> {
        for what in failing {
            self.say(&format!("\nNot used: {what}."))?;
        }
        let (caught, survived) = (self.caught, self.survived);
        self.say(&format!("\n{caught} caught, {survived} survived."))
    }

    fn say(&mut self, line: &str) -> Result<()> {
        println!("{line}");
        writeln!(self.text, "{line}")?;
        let Some(file) = &self.file else { return Ok(()) };
        fs::write(file, &self.text).with_context(|| format!("cannot write {}", file.display()))
    }
}
