//! `cargo xtask method`: whether studies keep what their intervals promise, shown by studies whose
//! truth is known.
//!
//! The data are kept below `docs/study/method`, one file a trial; runs of the same `crates/bench`
//! add to each other.
#![forbid(unsafe_code)]

mod record;
mod trials;
mod verdict;

use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use clap::Parser;
use xtask::{built, sh};

use record::Record;
use trials::{TRIALS, Trial};

/// Run studies whose truth is known, keep their data, and print what they show
#[derive(Parser)]
#[command(bin_name = "cargo xtask method")]
struct MethodArgs {
    /// Trials; without any, the table of what is kept
    trials: Vec<String>,
    /// Print the names of all trials
    #[arg(long)]
    list: bool,
    /// Studies to add to each [default: until it has as many as it asks for]
    #[arg(long)]
    count: Option<usize>,
}

fn main() -> ExitCode {
    sh::exit(run(&MethodArgs::parse()))
}

/// Runs studies, keeps their relations, and prints the table.
fn run(args: &MethodArgs) -> Result<ExitCode> {
    if args.list {
        TRIALS
            .iter()
            .for_each(|trial| println!("{:<8} {} × {}", trial.name, trial.count, trial.about));
        return Ok(ExitCode::SUCCESS);
    }
    let find = |name: &String| TRIALS.iter().find(|trial| trial.name == *name);
    let asked: Vec<&Trial> = args
        .trials
        .iter()
        .map(|name| {
            find(name).with_context(|| {
                format!("there is no trial {name}; `cargo xtask method --list` names them")
            })
        })
        .collect::<Result<_>>()?;
    if !asked.is_empty() {
        built::release_build()?;
    }
    for trial in asked {
        let mut record = Record::open(trial.name)?;
        let more = args.count.unwrap_or_else(|| trial.count.saturating_sub(record.studies.len()));
        for number in 1..=more {
            let _busy = if trial.busy { Some(Busy::start()?) } else { None };
            let study = trial.study()?;
            println!("{} {number} of {more}: {}", trial.name, verdict::of_study(trial, &study));
            record.add(study)?;
        }
    }
    print!("{}", verdict::table()?);
    Ok(ExitCode::SUCCESS)
}

/// A program that never waits, for as long as this lives.
struct Busy(Child);

impl Busy {
    fn start() -> Result<Self> {
        let child =
            Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
        Ok(Self(child.context("cannot start a busy loop")?))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It ends by the signal; if it has ended already there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_documents_are_understood() {
        let parse = |words: &[String]| {
            MethodArgs::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(xtask::commands::faults("method", parse), Vec::<String>::new());
    }
}
