//! `weft study compare`, `render` and `schema`: what can be done with results.

use super::publishing::Publishing;
use crate::exit::Failure;
use clap::Subcommand;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use weft_bench::compare::{compare, read};
use weft_bench::results::{JSON_SCHEMA, Results};
use weft_block::ErrorKind;

/// Maximum bytes of a file of results.
const RESULTS_BYTES_MAX: u64 = 256 << 20;

/// What can be done with results.
#[derive(Subcommand, Debug)]
pub enum StudyCommand {
    /// Compare two studies: what changed in relation to bare TCP and to the device without a
    /// network, and whether it is more than noise
    #[command(after_help = "\
Examples:
  weft study compare before/results.json after/results.json
      the same suite before and after a change, or on two systems
  weft study compare monday/results.json friday/results.json
      two days: relations can be compared although the machine is faster on one of them")]
    Compare {
        /// The results.json of the earlier study
        before: PathBuf,
        /// That of the later study
        after: PathBuf,
    },
    /// Write the report of a study again
    #[command(after_help = "\
Examples:
  weft study render results.json --output-dir report --also markdown,png
      report.html, report.md and the charts of an earlier study")]
    Render {
        /// The results.json of the study
        results: PathBuf,
        #[command(flatten)]
        publishing: Publishing,
    },
    /// Print the JSON schema of results.json
    #[command(after_help = "\
Examples:
  weft study schema > results.schema.json
      a schema with which programs check what they read")]
    Schema,
}

impl StudyCommand {
    pub fn run(&self) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        match self {
            Self::Compare { before, after } => {
                write!(out, "{}", compare(&results(before)?, &results(after)?).render())?
            }
            Self::Render { results: path, publishing } => {
                let page = publishing.prepare()?.report(&results(path)?)?;
                writeln!(out, "Report: {}", page.display())?;
            }
            Self::Schema => write!(out, "{JSON_SCHEMA}")?,
        }
        Ok(())
    }
}

fn results(path: &Path) -> Result<Results, Failure> {
    let place = path.display().to_string();
    let mut text = String::new();
    let file = std::fs::File::open(path)
        .map_err(|error| weft_block::Error::io(format!("cannot read {place}: {error}"), error))?;
    let length = file.take(RESULTS_BYTES_MAX).read_to_string(&mut text);
    length
        .map_err(|error| weft_block::Error::io(format!("cannot read {place}: {error}"), error))?;
    if text.len() as u64 == RESULTS_BYTES_MAX {
        return Err(Failure::of(
            ErrorKind::Usage,
            format!("{place} is no results.json: it is too long"),
        ));
    }
    Ok(read(&place, &text)?)
}
