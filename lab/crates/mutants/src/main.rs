//! `cargo xtask mutants`: whether the tests notice changes of one line. A seed draws the changes. One
//! build, which is never shipped, has all of them, each behind a question to the environment.
#![forbid(unsafe_code)]

mod build;
mod draw;
mod find;
mod programs;
#[cfg(test)]
mod tests;
mod trials;

use std::{fmt::Write as _, fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use xtask::sh;

use self::{
    build::{Built, build},
    find::Candidate,
    trials::{Tests, Verdict},
};

/// Change one line at a time, and see whether the tests notice
#[derive(Parser)]
#[command(bin_name = "cargo xtask mutants")]
struct MutantsArgs {
    /// Seed of the choice of lines; may be repeated
    #[arg(long, default_values_t = [1])]
    seed: Vec<u64>,
    /// Number of lines to change, for each seed
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

/// Draws mutants, builds the tests with all of them, and runs for each the tests that reach it.
fn run(args: &MutantsArgs) -> Result<ExitCode> {
    let sources = lab_edited::sources()?;
    let (rows, count) = (draw::rows(&sources, &args.seed)?, args.count * args.seed.len());
    println!("{} candidates of each seed", rows.len() / args.seed.len());
    if args.draw {
        let (mut rows, mut taken) = (rows.into(), Vec::new());
        draw::take(&mut rows, &mut taken, count);
        taken.iter().for_each(|one| println!("{}", described(one)));
        return Ok(ExitCode::SUCCESS);
    }
    let mut built = build(&sources, rows, count)?;
    built.mutants.drain(..built.mutants.len().min(args.first.saturating_sub(1)));
    let programs = programs::build(&built.copy)?;
    let logs = sh::target_dir().join("xtask/logs/mutants");
    fs::create_dir_all(&logs)?;
    let tests = Tests::read(&programs, logs)?;
    let mut report = Report::begin(args, &built, &tests)?;
    for (number, mutant) in &built.mutants {
        report.add(mutant, &tests.trial(*number)?)?;
    }
    report.end(&tests.failing)?;
    Ok(if tests.failing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
    fn begin(args: &MutantsArgs, built: &Built, tests: &Tests) -> Result<Self> {
        let mut report =
            Self { text: String::new(), file: args.output.clone(), caught: 0, survived: 0 };
        let (count, dropped) = (built.mutants.len(), built.dropped);
        let seeds: Vec<String> = args.seed.iter().map(u64::to_string).collect();
        let head = format!(
            "Seed {}: {count} mutants from number {} on; {dropped} more do not compile or are not in the programs of \
             this system. {} tests.",
            seeds.join(" and "),
            args.first,
            tests.len()
        );
        report.say(&head)?;
        report.say("\n| mutant | caught by |\n|---|---|")?;
        Ok(report)
    }

    fn add(&mut self, mutant: &Candidate, verdict: &Verdict) -> Result<()> {
        let by = match verdict {
            Verdict::Caught(by) => {
                self.caught += 1;
                by.clone()
            }
            Verdict::Survived(tests) => {
                self.survived += 1;
                format!("**survived**, reached by {tests} tests")
            }
        };
        self.say(&format!("| {} | {by} |", described(mutant)))
    }

    fn end(mut self, failing: &[String]) -> Result<()> {
        for what in failing {
            self.say(&format!("\nNot used, as it fails without a mutant: {what}."))?;
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
