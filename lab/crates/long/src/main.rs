//! `cargo xtask long`: the proofs that take too long for every run, one after the other, and their
//! record in `docs/long.md`.
#![forbid(unsafe_code)]

mod proofs;
mod record;
mod run;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use xtask::{count::Count, sh};

use record::Record;
use run::Outcome;

/// Run the proofs that take too long for every run, and write docs/long.md
#[derive(Parser)]
#[command(bin_name = "cargo xtask long")]
struct LongArgs {
    /// Only these; the page keeps its text on the others
    proofs: Vec<String>,
    /// Print the names of all proofs
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    sh::exit(run(&LongArgs::parse()))
}

/// Runs the proofs and writes down what they said.
fn run(args: &LongArgs) -> Result<ExitCode> {
    let mut proofs = proofs::all()?;
    if args.list {
        proofs.iter().for_each(|proof| println!("{:<24} {}", proof.name, proof.about));
        return Ok(ExitCode::SUCCESS);
    }
    for name in &args.proofs {
        ensure!(
            proofs.iter().any(|proof| proof.name == *name),
            "there is no proof {name}; `cargo xtask long --list` names them"
        );
    }
    let names: Vec<String> = proofs.iter().map(|proof| proof.name.clone()).collect();
    if !args.proofs.is_empty() {
        proofs.retain(|proof| args.proofs.contains(&proof.name));
    }
    let (mut count, mut record) = (Count::default(), Record::begin()?);
    for mut proof in proofs {
        println!("{}: {}", proof.name, proof.about);
        let report = run::run(&mut proof)?;
        println!(
            "{}: {} after {:.0} s\n",
            proof.name,
            report.outcome.word(),
            report.elapsed.as_secs_f64()
        );
        match report.outcome {
            Outcome::Passed => count.passed += 1,
            Outcome::Failed => count.failed += 1,
            Outcome::Skipped => count.skipped += 1,
        }
        record.add(&proof, &report);
        // At once, as the rest may be interrupted.
        record.write(&names)?;
    }
    println!("written: docs/long.md");
    println!("{count}");
    Ok(if count.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_documents_are_understood() {
        let parse = |words: &[String]| {
            LongArgs::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(xtask::commands::faults("long", parse), Vec::<String>::new());
    }
}
