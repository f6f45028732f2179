//! `weft study`: measures the cost of the fabric on this machine.

mod stage;

use crate::connection::ConnectArgs;
use crate::exit::Failure;
use crate::progress::Bar;
use clap::{Args, ValueEnum};
use stage::{Cores, LaneName, Stage};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_bench::results::{Results, Suite};
use weft_bench::study::{StudySpec, run as run_study};
use weft_bench::{report, table};
use weft_block::{ErrorKind, units};
use weft_endpoint::Control;
use weft_endpoint::limits::IN_CAPSULE_BYTES;

/// Options of `weft study`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft study
      a RAM disk and a modelled flash device, each locally and over NVMe/TCP, in about three minutes
  weft study --quick
      the same in about 30 seconds, for a first look
  weft study --source file:/srv/disk.img,size=4GiB
      a file; weft OVERWRITES ALL OF IT
  weft study --lanes local,nvme+tcp,iscsi,nbd
      the same device over three protocols
  weft study --lanes flash,nvme+tcp,iscsi
      a modelled flash device only: a read takes 80 us, a write 20 us
  weft study --suite null --quick
      iSCSI and NVMe/TCP on a null device: 256 jobs at depth 1, in ten seconds
  weft study --suite null --lanes nvme+tcp,nvme+rdma --address 10.0.0.1
      RDMA against TCP, on the RDMA device that has this address
  weft study --target nvme+tcp://array.example/nqn.2014-08.org.example:scratch
      an existing target; weft OVERWRITES ITS NAMESPACE")]
pub struct StudyArgs {
    /// Shorter, with fewer rounds: about 30 seconds
    #[arg(long)]
    quick: bool,
    /// Measurements to run
    #[arg(long, value_enum, default_value_t)]
    suite: SuiteName,
    /// Paths to the device, measured in turn [default: local,flash,nvme+tcp; with --source: local,nvme+tcp; null suite:
    /// iscsi,nvme+tcp]
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "target")]
    lanes: Vec<LaneName>,
    /// Device to measure; weft overwrites it [default: ram:1GiB; null suite: null:250GiB]
    #[arg(long, conflicts_with = "target")]
    source: Option<String>,
    /// Address of this machine at which the lanes' targets listen; for nvme+rdma that of an RDMA device [default: 127.0.0.1]
    #[arg(long, value_name = "IP", conflicts_with = "target")]
    address: Option<std::net::IpAddr>,
    /// Existing target to measure, instead of weft's; weft overwrites the namespace
    #[arg(long)]
    target: Option<String>,
    /// Total time [default: 180s, with --quick 30s; null suite: 45s, with --quick 8s]
    #[arg(long, value_parser = units::parse_duration)]
    budget: Option<Duration>,
    /// Directory for report.html and results.json
    #[arg(long, default_value = ".")]
    output_dir: PathBuf,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// `--suite`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum SuiteName {
    /// Thirteen patterns, and latencies at queue depth 1
    #[default]
    Patterns,
    /// iSCSI and NVMe/TCP on a null device, 256 jobs at depth 1
    Null,
}

/// Runs the study, prints the table and writes the report.
pub fn run(args: StudyArgs, control: &Control) -> Result<(), Failure> {
    writable(&args.output_dir)?;
    let cores = Cores::choose();
    let stage = Stage::set_up(&args, &cores, control)?;
    let stop = Arc::new(AtomicBool::new(false));
    let signalled = Arc::clone(&stop);
    // Without the handler a signal ends the study without a report; that is no reason to refuse to run.
    let _ = ctrlc::set_handler(move || signalled.store(true, Ordering::Relaxed));
    let ceiling = stage.ceiling.url().parse().map_err(|_| Failure::of(ErrorKind::Io, "the ceiling's server has no address"))?;
    let spec = StudySpec {
        suite: args.suite(),
        quick: args.quick,
        budget: args.budget,
        lanes: stage.lanes,
        ceiling: Some(ceiling),
        ceiling_pid: Some(stage.ceiling.pid()),
        ceiling_cpu: cores.initiator,
        in_capsule_bytes: IN_CAPSULE_BYTES,
        stop,
    };
    let stopped = Arc::clone(&spec.stop);
    let mut bar = Bar::new();
    let results = run_study(spec, &mut |p| bar.set("study", p.fraction, Some(p.eta), &format!("{}, {}", p.name, p.what)))?;
    bar.finish();
    args.publish(&results)?;
    if stopped.load(Ordering::Relaxed) {
        return Err(Failure::new(Failure::INTERRUPTED, "interrupted; the report covers the time until then"));
    }
    Ok(())
}

impl StudyArgs {
    fn suite(&self) -> Suite {
        match self.suite {
            SuiteName::Patterns => Suite::Patterns,
            SuiteName::Null => Suite::Null,
        }
    }

    fn publish(&self, results: &Results) -> Result<(), Failure> {
        let (page, data) = (self.output_dir.join("report.html"), self.output_dir.join("results.json"));
        let json = serde_json::to_string_pretty(results).map_err(|e| Failure::of(ErrorKind::Io, e.to_string()))?;
        write(&page, &report::html(results))?;
        write(&data, &format!("{json}\n"))?;
        let mut out = std::io::stdout().lock();
        let width = if out.is_terminal() { terminal_width() } else { None };
        writeln!(out, "{}", table::render(results, width))?;
        writeln!(out, "Report: {}\nData:   {}", page.display(), data.display())?;
        Ok(())
    }
}

/// Checks before the measurement that the results can be written.
fn writable(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::metadata(dir))
        .and_then(|facts| if facts.permissions().readonly() { Err(std::io::ErrorKind::PermissionDenied.into()) } else { Ok(()) })
        .map_err(|e| cannot_write(dir, e))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| cannot_write(path, e))
}

fn cannot_write(path: &Path, error: std::io::Error) -> Failure {
    weft_block::Error::io(format!("cannot write {}: {error}; choose another directory with --output-dir", path.display()), error)
        .into()
}

/// Width of the terminal in columns, if known.
fn terminal_width() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}
