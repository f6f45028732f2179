//! `weft study`: what the fabric costs on this machine.

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
      a file; ALL OF IT IS WRITTEN TO
  weft study --lanes local,nvme+tcp,iscsi,nbd
      the same device over three protocols, side by side
  weft study --lanes flash,nvme+tcp,iscsi
      a modelled flash device only: a read takes 80 us, a write 20 us
  weft study --suite null --quick
      iSCSI against NVMe/TCP on a device that does nothing: 256 jobs at depth 1, in ten seconds
  weft study --target nvme+tcp://array.example/nqn.2014-08.org.example:scratch
      somebody else's target; ITS NAMESPACE IS WRITTEN TO")]
pub struct StudyArgs {
    /// Shorter, with fewer rounds: about 30 seconds
    #[arg(long)]
    quick: bool,
    /// What to run
    #[arg(long, value_enum, default_value_t)]
    suite: SuiteName,
    /// Ways to the device, to be measured side by side [default: local,flash,nvme+tcp; with --source: local,nvme+tcp; of the null suite:
    /// iscsi,nvme+tcp]
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "target")]
    lanes: Vec<LaneName>,
    /// Device to measure; all of it is written to [default: ram:1GiB; of the null suite: null:250GiB]
    #[arg(long, conflicts_with = "target")]
    source: Option<String>,
    /// Somebody else's target, instead of ours; its namespace is written to
    #[arg(long)]
    target: Option<String>,
    /// How long it may take in all [default: 180s, or 30s with --quick; of the null suite: 45s, or 8s]
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
    /// Thirteen patterns and the latencies at queue depth 1
    #[default]
    Patterns,
    /// 256 jobs at depth 1 on a device that does nothing: iSCSI against NVMe/TCP
    Null,
}

/// Runs the study, prints the table, writes the report.
pub fn run(args: StudyArgs, control: &Control) -> Result<(), Failure> {
    writable(&args.output_dir)?;
    let cores = Cores::choose();
    let stage = Stage::set_up(&args, &cores, control)?;
    let stop = Arc::new(AtomicBool::new(false));
    let signalled = Arc::clone(&stop);
    // Without the handler a signal ends the study without a report, which is no reason not to run.
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
        return Err(Failure::new(Failure::INTERRUPTED, "interrupted; the report has what was measured until then"));
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

/// Finds out before the measurement, not after it, whether its results can be kept.
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
    weft_block::Error::io(format!("cannot write {}: {error}; name another place with --output-dir", path.display()), error).into()
}

/// Columns of the terminal, where it says so.
fn terminal_width() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}
