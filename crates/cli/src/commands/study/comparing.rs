//! `weft study compare`, `gate`, `pack`, `publish`, `render` and `schema`: what can be done with results.

use super::gating::GateArgs;
use super::packing::PackArgs;
use super::publishing::Publishing;
use super::reading::{Measurement, file, results};
use super::site::PublishArgs;
use crate::exit::Failure;
use clap::Subcommand;
use std::io::Write;
use std::path::{Path, PathBuf};
use weft_bench::compare::{Comparison, compare};
use weft_bench::results::JSON_SCHEMA;
use weft_block::ErrorKind;
use weft_formats::import::measured::compared;

/// Commands on results.
#[derive(Subcommand, Debug)]
pub enum StudyCommand {
    /// Compare two studies: what changed in relation to bare TCP and to the device without a
    /// network, and whether it is more than noise
    #[command(after_help = "\
Examples:
  weft study compare before/results.json after/results.json
      the same suite before and after a change, or on two systems
  weft study compare monday/results.json friday/results.json
      two days: relations can be compared although the machine is faster on one of them
  weft study compare before.json after.json
      two runs of fio, DISKSPD or vdbench: what changed, without a verdict, as one run has no interval")]
    Compare {
        /// The results.json of the earlier study, or results of fio, DISKSPD or vdbench
        before: PathBuf,
        /// That of the later study, or run of the same tool
        after: PathBuf,
    },
    /// Judge a study by an earlier one, for CI
    ///
    /// It fails where a relation of two lanes or a count is worse by more than a given part.
    #[command(after_help = "\
Examples:
  weft study gate after/results.json --baseline before/results.json --lose 5%
      exit status 14 where a relation of two lanes is worse by more than 5 %, with all of the 95 %
      interval of its change
  weft study gate results.json --baseline baseline.json --counts-only --junit gate.xml
      by bytes on the wire and bytes copied, which do not depend on the load of the machine
  weft study gate results.json --baseline baseline.json --lanes nvme+tcp --summary $GITHUB_STEP_SUMMARY
      one lane, with a table in the summary of a job")]
    Gate(GateArgs),
    /// Remove names, addresses and secrets from results
    ///
    /// Replaces all text that is not known to be harmless: names of hosts and users, addresses, serial
    /// numbers, paths, NQNs and IQNs, also in commands, URLs and notes.
    #[command(after_help = "\
Examples:
  weft study pack results.json -o packed.json
      results that can be given away, and a list of what was removed
  weft study pack results.json -o packed.json --keep kernel,spdk-6
      the same; these two lanes of the user keep their names")]
    Pack(PackArgs),
    /// Make a site of many studies
    ///
    /// It has an index and the report of each study, needs no scripts, and works with any web server
    /// or none.
    #[command(after_help = "\
Examples:
  weft study publish site results/*.json
      site/index.html, by machine, system, network and version
  weft study publish site results/*.json more/results.json
      the same site with a further study")]
    Publish(PublishArgs),
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
            Self::Compare { before, after } => write!(out, "{}", both(before, after)?.render())?,
            Self::Gate(gate) => gate.run(&mut out)?,
            Self::Pack(pack) => pack.run(&mut out)?,
            Self::Publish(publish) => publish.run(&mut out)?,
            Self::Render { results: path, publishing } => {
                let page = publishing.prepare()?.report(&results(path)?)?;
                writeln!(out, "Report: {}", page.display())?;
            }
            Self::Schema => write!(out, "{JSON_SCHEMA}")?,
        }
        Ok(())
    }
}

/// Compares two files, which are of studies or of the same other tool.
fn both(before: &Path, after: &Path) -> Result<Comparison, Failure> {
    match (file(before)?, file(after)?) {
        (Measurement::Study(before), Measurement::Study(after)) => Ok(compare(&before, &after)),
        (Measurement::Tool(one, before), Measurement::Tool(other, after))
            if is_same(&one, &other) =>
        {
            let failed = |why| Failure::of(ErrorKind::Usage, why);
            compared(&one, &before, &after).map_err(failed)
        }
        _ => {
            let text = "one file is of another tool than the other; `weft study --import NAME=FILE` puts results of other tools beside weft's own";
            Err(Failure::of(ErrorKind::Usage, text.to_owned()))
        }
    }
}

/// Whether two names of tools, which may have a version, are of the same one.
fn is_same(one: &str, other: &str) -> bool {
    let tool = |name: &str| name.split([' ', '-']).next().unwrap_or_default().to_owned();
    tool(one) == tool(other)
}
