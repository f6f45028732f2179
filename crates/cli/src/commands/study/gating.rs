//! `weft study gate`: a study judged by an earlier one.

use super::reading::{cannot_write, results};
use crate::process::exit::{Failure, printed};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use weft_bench::gate::{self, Rule};
use weft_io::output;

/// Options of `weft study gate`.
#[derive(Args, Debug)]
pub struct GateArgs {
    /// The results.json of the study to judge
    results: PathBuf,
    /// The results.json of the study that it is judged by
    #[arg(long, value_name = "BASE")]
    baseline: PathBuf,
    /// Part by which a relation or a count may be worse, from 0% to 99%
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = part)]
    lose: f64,
    /// Lanes to judge [default: all but those without a network and those to targets of other
    /// projects]
    #[arg(long, value_delimiter = ',', value_name = "LANES")]
    lanes: Vec<String>,
    /// Judge by counts only: bytes on the wire and bytes copied, and system calls of operations one
    /// at a time
    #[arg(long)]
    counts_only: bool,
    /// Fail also where the verdict is "unclear", and for figures that only the baseline has
    #[arg(long)]
    strict: bool,
    /// Append the outcome in Markdown to this file
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Write the outcome as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl GateArgs {
    /// Judges, prints and writes the outcome, and fails where the study does.
    pub fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let (before, after) = (results(&self.baseline)?, results(&self.results)?);
        let rule = Rule {
            lose: self.lose,
            lanes: self.lanes.clone(),
            counts_only: self.counts_only,
            strict: self.strict,
        };
        let outcome = gate::judge(&before, &after, &rule)?;
        if let Some(path) = &self.summary {
            output::append(path, gate::markdown(&outcome)).map_err(|e| cannot_write(path, e))?;
        }
        if let Some(path) = &self.junit {
            output::write(path, gate::junit(&outcome)).map_err(|e| cannot_write(path, e))?;
        }
        // A reader that has read enough changes no verdict.
        printed(write!(out, "{}", gate::text(&outcome)))?;
        if outcome.fails() {
            let message = format!(
                "{} is worse than {} allows; the lines above say where",
                self.results.display(),
                self.baseline.display()
            );
            return Err(Failure::new(Failure::WORSE, message));
        }
        Ok(())
    }
}

/// Parses a percentage as a part.
fn part(text: &str) -> Result<f64, String> {
    let percent =
        text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match percent {
        Some(percent) if (0.0..=99.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("write a percentage from 0% to 99%, as in 5%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_are_percentages() {
        assert_eq!((part("5%"), part("2.5 %"), part("0%")), (Ok(0.05), Ok(0.025), Ok(0.0)));
        for wrong in ["5", "0.05", "", "%", "-1%", "100%", "nan%", "inf%"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }
}
