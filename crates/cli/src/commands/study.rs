//! `weft study`: what the fabric costs on this machine.

use super::child::Spawned;
use crate::connection::ConnectArgs;
use crate::exit::Failure;
use crate::progress::Bar;
use clap::Args;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_bench::results::{Lane as LaneFacts, Results};
use weft_bench::study::{Lane, StudySpec, run as run_study};
use weft_bench::{report, table};
use weft_block::{ErrorKind, units};
use weft_endpoint::limits::IN_CAPSULE_BYTES;

/// The device of a study that names none.
const SOURCE: &str = "ram:1GiB";

/// Region of the ceiling's server where the device is larger: memory of this machine, after all.
const CEILING_BYTES_MAX: u64 = 1 << 30;

/// Options of `weft study`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft study
      a RAM disk, locally and over NVMe/TCP, in under three minutes
  weft study --quick
      the same in under 30 seconds
  weft study --source file:/srv/disk.img,size=4GiB
      a file; ALL OF IT IS WRITTEN TO
  weft study --target nvme+tcp://array.example/nqn.2014-08.org.example:scratch
      somebody else's target; ITS NAMESPACE IS WRITTEN TO")]
pub struct StudyArgs {
    /// Shorter, with fewer rounds: under 30 seconds
    #[arg(long)]
    quick: bool,
    /// Device to measure locally and over NVMe/TCP; all of it is written to
    #[arg(long, default_value = SOURCE, conflicts_with = "target")]
    source: String,
    /// Somebody else's target, instead of ours; its namespace is written to
    #[arg(long)]
    target: Option<String>,
    /// How long it may take in all [default: 150s, or 22s with --quick]
    #[arg(long, value_parser = units::parse_duration)]
    budget: Option<Duration>,
    /// Directory for report.html and results.json
    #[arg(long, default_value = ".")]
    output_dir: PathBuf,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The cores of the two ends: the first two that this process may use; none where there is but one.
struct Cores {
    target: Option<usize>,
    initiator: Option<usize>,
}

impl Cores {
    fn choose() -> Self {
        match weft_io::cpu::allowed()[..] {
            [target, initiator, ..] => Self { target: Some(target), initiator: Some(initiator) },
            _ => Self { target: None, initiator: None },
        }
    }
}

/// What a study runs on; the processes end with it.
struct Stage {
    lanes: Vec<Lane>,
    ceiling: Spawned,
    _target: Option<Spawned>,
}

/// Runs the study, prints the table, writes the report.
pub fn run(args: StudyArgs) -> Result<(), Failure> {
    writable(&args.output_dir)?;
    let cores = Cores::choose();
    let stage = args.set_up(&cores)?;
    let stop = Arc::new(AtomicBool::new(false));
    let signalled = Arc::clone(&stop);
    // Without the handler a signal ends the study without a report, which is no reason not to run.
    let _ = ctrlc::set_handler(move || signalled.store(true, Ordering::Relaxed));
    let ceiling = stage.ceiling.url.parse().map_err(|_| Failure::of(ErrorKind::Io, "the ceiling's server has no address"))?;
    let spec = StudySpec {
        quick: args.quick,
        budget: args.budget,
        lanes: stage.lanes,
        ceiling: Some(ceiling),
        ceiling_cpu: cores.initiator,
        in_capsule_bytes: IN_CAPSULE_BYTES,
        stop,
    };
    let mut bar = Bar::new();
    let results = run_study(spec, &mut |p| bar.set("study", p.fraction, Some(p.eta), &format!("{}, {}", p.name, p.what)))?;
    bar.finish();
    args.publish(&results)
}

impl StudyArgs {
    /// Starts the processes and opens the lanes.
    fn set_up(&self, cores: &Cores) -> Result<Stage, Failure> {
        let options = self.connect.options(1)?;
        let mut lanes = Vec::new();
        let mut target = None;
        let url = match &self.target {
            Some(url) => url.clone(),
            None => {
                let source = unlocked(&self.source);
                lanes.push(Lane {
                    name: LaneFacts::LOCAL.into(),
                    title: "The device itself, in the same process".into(),
                    url: self.source.clone(),
                    device: weft_endpoint::open(&source, &options)?,
                    target_pid: None,
                    initiator_cpu: cores.initiator.map(|cpu| cpu as u32),
                    target_cpu: None,
                });
                let spawned = serve(&source, cores)?;
                let url = spawned.url.clone();
                target = Some(spawned);
                url
            }
        };
        let device = weft_endpoint::open(&url, &options)?;
        let bytes = device.geometry().bytes().min(CEILING_BYTES_MAX);
        lanes.push(Lane {
            name: "nvme+tcp".into(),
            title: if target.is_some() { "NVMe/TCP over the loopback".into() } else { "NVMe/TCP".into() },
            url,
            device,
            target_pid: target.as_ref().map(Spawned::pid),
            initiator_cpu: cores.initiator.map(|cpu| cpu as u32),
            target_cpu: cores.target.filter(|_| target.is_some()).map(|cpu| cpu as u32),
        });
        Ok(Stage { lanes, ceiling: ceiling(bytes, cores)?, _target: target })
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

/// The measured ends hold a file twice: in this process and in the target. That is what `lock=off` is for.
fn unlocked(source: &str) -> String {
    let is_file = source.starts_with("file:") || !source.contains(':');
    if is_file { format!("{source},lock=off") } else { source.to_owned() }
}

fn serve(source: &str, cores: &Cores) -> Result<Spawned, Failure> {
    let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid::Uuid::new_v4());
    let mut args = vec!["serve", source, "--until-eof", "--threads", "1", "--listen", "nvme+tcp://127.0.0.1:0", "--nqn", &nqn];
    let cpu = cores.target.map(|cpu| cpu.to_string());
    if let Some(cpu) = &cpu {
        args.extend(["--cpus_allowed", cpu]);
    }
    Spawned::start(&args)
}

fn ceiling(bytes: u64, cores: &Cores) -> Result<Spawned, Failure> {
    let memory = bytes.to_string();
    let mut args = vec!["ceiling", "--memory", &memory];
    let cpu = cores.target.map(|cpu| cpu.to_string());
    if let Some(cpu) = &cpu {
        args.extend(["--cpu", cpu]);
    }
    Spawned::start(&args)
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
