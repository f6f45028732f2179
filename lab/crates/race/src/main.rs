//! `cargo xtask race`: weft compared with the bare TCP ceiling of the machine and with its peers.
//! `docs/performance/method.md` is the manual.
#![forbid(unsafe_code)]

mod contestant;
mod gates;
mod point;
mod process;
mod report;
mod results;
mod rounds;
mod sample;
mod section;
mod setting;
mod statistics;
mod table;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, ensure};
use clap::Parser;
use serde_json::json;
use xtask::sh::{self, Missing};

use contestant::{Ceiling, Contestant, Custom, Weft};
use point::{POINTS, Point};
use results::Results;
use rounds::Race;
use setting::Setting;
use table::Section;

/// Measure weft, the bare TCP ceiling of this machine and the installed peers
#[derive(Parser)]
#[command(bin_name = "cargo xtask race")]
struct RaceArgs {
    /// Everything below, and the points
    #[arg(long)]
    all: bool,
    /// Counts that noise cannot touch, against their limits: the gates of continuous integration
    #[arg(long)]
    gates: bool,
    /// Write what `--gates` compares the engines' instructions, and the program's size, with
    #[arg(long)]
    renew_baseline: bool,
    /// Memory of a target: idle connections, and 1,000 at depth 128
    #[arg(long)]
    memory: bool,
    /// A thousand connections of which ten are busy
    #[arg(long)]
    connections: bool,
    /// An honest reader next to 300 peers that hold on to the target's memory, by each protocol
    #[arg(long)]
    hostile: bool,
    /// Processor time when idle and at 1,000 operations per second; adaptive waiting against
    /// polling
    #[arg(long)]
    idle: bool,
    /// A file through O_DIRECT, compared with fio
    #[arg(long)]
    file: bool,
    /// Cost of TLS, compared with a bare TLS stream
    #[arg(long)]
    tls: bool,
    /// A mirror, a stripe and a gateway compared with one leg, 64 KiB through iSCSI and NBD, and
    /// mirrors of 2 GiB and of 1 TiB
    #[arg(long)]
    layers: bool,
    /// Tiny runs that only show that everything works; says nothing about speed
    #[arg(long)]
    small: bool,
    /// Only the points whose names contain this
    #[arg(long)]
    points: Option<String>,
    /// Rounds over each point [default: 5]
    #[arg(long)]
    rounds: Option<u32>,
    /// Seconds of each measurement [default: 1]
    #[arg(long)]
    runtime: Option<f64>,
    /// Another peer: NAME=COMMAND, which is run with RW, BS, IODEPTH, … in its environment and
    /// prints fio's JSON or a number
    #[arg(long)]
    peer: Vec<String>,
    /// No peers but those given with --peer
    #[arg(long)]
    no_peers: bool,
    /// File for the results [default: race.json below the target directory]
    #[arg(long)]
    output: Option<PathBuf>,
    /// Write all kept results of this commit as a document [default name:
    /// docs/performance/results.md]
    #[arg(long, num_args = 0..=1, default_missing_value = "docs/performance/results.md")]
    markdown: Option<PathBuf>,
}

/// A part of the race that is asked for by name.
type Measure = fn(&Setting) -> Result<Section>;

impl RaceArgs {
    /// The parts beside the points that were asked for.
    fn sections(&self) -> Vec<(&'static str, Measure)> {
        let all: [(bool, &str, Measure); 7] = [
            (self.connections, "connections", section::connections::run),
            (self.memory, "memory", section::memory::run),
            (self.hostile, "hostile", section::hostile::run),
            (self.idle, "idle", section::idle::run),
            (self.file, "file", section::file::run),
            (self.tls, "TLS", section::tls::run),
            (self.layers, "layers", section::layers::run),
        ];
        all.into_iter()
            .filter(|(asked, ..)| *asked || self.all)
            .map(|(_, name, measure)| (name, measure))
            .collect()
    }
}

fn main() -> ExitCode {
    sh::exit(run(&RaceArgs::parse()))
}

/// Races.
///
/// # Errors
/// [`Missing`] where the race cannot run at all; what fails, by name.
fn run(args: &RaceArgs) -> Result<ExitCode> {
    let setting = Setting::new(args.small, args.runtime, args.rounds)?;
    if args.renew_baseline {
        gates::renew(&setting)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.gates {
        return Ok(if gates::run(&setting)? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let chosen = args.sections();
    if args.small && chosen.is_empty() {
        return small(args, setting);
    }
    let mut results = Results::open(args.output.as_deref())?;
    let keep = |results: &mut Results, section: Section| {
        section.tables.iter().for_each(|table| println!("{}", table.text()));
        if args.small { Ok(()) } else { results.keep(&section) }
    };
    if args.all || chosen.is_empty() {
        keep(&mut results, points(args, setting.clone())?)?;
    }
    for (name, section) in chosen {
        eprintln!("{name}");
        match section(&setting) {
            Ok(section) => keep(&mut results, section)?,
            Err(error) if args.all && error.is::<Missing>() => {
                eprintln!("{name} is not measured: {error}")
            }
            Err(error) => return Err(error.context(name)),
        }
    }
    if let Some(path) = &args.markdown {
        results.document(path)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The chosen points.
fn chosen(args: &RaceArgs) -> Result<Vec<Point>> {
    let filter = args.points.as_deref().unwrap_or_default();
    let points: Vec<Point> =
        POINTS.into_iter().filter(|point| point.name.contains(filter)).collect();
    ensure!(
        !points.is_empty(),
        "no point's name contains {filter:?}: {}",
        POINTS.map(|point| point.name).join(", ")
    );
    Ok(points)
}

/// The race itself, ready to go; and who is missing.
fn race(args: &RaceArgs, setting: Setting) -> Result<(Race, Vec<String>)> {
    let ceiling = Ceiling::start(&setting)?;
    let mut all: Vec<Box<dyn Contestant>> =
        vec![Box::new(Weft::start(&setting, "ram")?), Box::new(Weft::start(&setting, "null")?)];
    let (found, missing) =
        if args.no_peers { Default::default() } else { contestant::peers(&setting) };
    all.extend(found);
    for peer in &args.peer {
        all.push(Box::new(Custom::parse(peer)?));
    }
    Ok((Race::new(setting, ceiling, all), missing))
}

fn points(args: &RaceArgs, setting: Setting) -> Result<Section> {
    let points = chosen(args)?;
    let (mut race, missing) = race(args, setting)?;
    missing.iter().for_each(|line| eprintln!("{line}"));
    let all = race.run(&points)?;
    let names = race.names();
    let mut tables = report::tables(&names, &all);
    tables[0].notes.extend(missing);
    let data =
        json!({ "points": all.iter().map(|measured| measured.json(&names)).collect::<Vec<_>>() });
    Ok(Section { name: "points", tables, data })
}

/// The small form: everybody at every point, and whether what they say can be true.
fn small(args: &RaceArgs, setting: Setting) -> Result<ExitCode> {
    let points = chosen(args)?;
    let (mut race, missing) = race(args, setting)?;
    missing.iter().for_each(|line| println!("note: {line}"));
    let all = race.run(&points)?;
    let names = race.names();
    report::tables(&names, &all).iter().for_each(|table| println!("{}", table.text()));
    let faults = report::faults(&names, &all);
    faults.iter().for_each(|fault| println!("FAULT: {fault}"));
    let rows = all.len() * names.len();
    println!("{} passed, {} failed, 0 skipped", rows - faults.len().min(rows), faults.len());
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_documents_are_understood() {
        let parse = |words: &[String]| {
            RaceArgs::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(xtask::commands::faults("race", parse), Vec::<String>::new());
    }
}
