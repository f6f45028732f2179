//! `weft study pack`: results without what says whose they are.

use super::reading::{cannot_write, results};
use crate::process::exit::Failure;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use weft_bench::pack::pack;
use weft_io::output;

/// Options of `weft study pack`.
#[derive(Args, Debug)]
pub struct PackArgs {
    /// The results.json of the study
    results: PathBuf,
    /// File for the results without names, addresses, serial numbers, paths and secrets
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Names of lanes, suites and workloads that stay
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    keep: Vec<String>,
}

impl PackArgs {
    /// Writes the packed results, and lists what they lack.
    pub fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let packed = pack(results(&self.results)?, &self.keep)?;
        let json = packed.results.to_json()?;
        output::write(&self.output, format!("{json}\n"))
            .map_err(|e| cannot_write(&self.output, e))?;
        writeln!(out, "{:<14}{:<32}{:>6}", "removed", "from", "times")?;
        for it in &packed.removed {
            writeln!(out, "{:<14}{:<32}{:>6}", it.kind, it.place, it.count)?;
        }
        writeln!(out, "Written: {}. Read it before you give it away.", self.output.display())?;
        Ok(())
    }
}
