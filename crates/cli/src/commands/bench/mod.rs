//! `weft bench`: runs a workload on any device, with fio's options.

mod imported;
mod job;
mod more;
mod runs;
mod taken;

use crate::args::filename;
use crate::args::pcap::PcapArgs;
use crate::connection::{Address, ConnectArgs};
use crate::process::exit::Failure;
use clap::{Args, ValueEnum};
use imported::{ImportArgs, ReadyJob};
use runs::{Job, MeasuredGroups, Runs, say_left_out};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use taken::JobOptions;
use weft_bench::ceiling::CeilingTuning;
use weft_bench::{JobSpec, RunReport};
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_formats::fio_output;
use weft_io::output;

/// Options of `weft bench`.
#[derive(Args, Debug)]
#[command(mut_arg("url", |url| url.help("Device: ram:1GiB, file:/srv/disk.img, nvme+tcp://HOST[:PORT]/NQN[/NSID], iscsi://[USER@]HOST[:PORT]/IQN/LUN, …")))]
#[command(after_help = "\
Examples:
  weft bench ram:1GiB --rw=randread --bs=4k --iodepth=32 --runtime=5s
  weft bench nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk --rw=randrw --rwmixread=70 --numjobs=4 --runtime=10s
  weft bench -t tcp -a 127.0.0.1 -s 4420 -n nqn.2014-08.org.example:disk --rw=randwrite --size=64m --verify=crc32c
  weft bench iscsi://192.0.2.10/iqn.2026-01.org.example:disk/0 --rw=read --bs=64k --runtime=10s
  weft bench file:./disk.img,size=1GiB --rw=read --bs=64k --output-format=json
  weft bench --filename=./disk.img --size=64m --rw=randrw --rwmixwrite=30 --bssplit=4k/70:64k/30 --numjobs=8 --group_reporting
  weft bench --fio ./mix.fio
  weft bench nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --diskspd '-b4K -r -w30 -t10 -o4 -d60'
  weft bench delay:read=80us,write=20us,ram:1GiB --rw=randread --iodepth=32 --runtime=5s --rate=100m")]
pub struct BenchArgs {
    #[command(flatten)]
    address: Address,
    /// Device: a URL or the path of a file, not split at colons (fio's filename)
    #[arg(long, value_name = "URL", conflicts_with_all = ["url", "traddr", "nqn", "ceiling"])]
    filename: Option<String>,
    #[command(flatten)]
    taken: JobOptions,
    #[command(flatten)]
    import: ImportArgs,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    pcap: PcapArgs,
    /// Measure the bare TCP ceiling of this machine with the same workload, instead of a device;
    /// with --tls a bare TLS stream
    #[arg(long, conflicts_with = "url")]
    ceiling: bool,
    /// A running `weft ceiling` to use, instead of starting one
    #[arg(long, hide = true, requires = "ceiling")]
    ceiling_server: Option<std::net::SocketAddr>,
    /// Tuning of the ceiling's connections, instead of finding the best: 1MiB+copy, default+gather,
    /// …
    #[arg(long, hide = true, requires = "ceiling")]
    ceiling_tuning: Option<CeilingTuning>,
    /// Process ID of the target on this machine, to add its CPU time to the JSON
    #[arg(long, hide = true)]
    watch_pid: Option<u32>,
    /// Write also where a partition table, a file system or the like is recognised
    #[arg(long, conflicts_with = "ceiling")]
    destroy_data: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    output_format: OutputFormat,
    /// File for the output
    #[arg(long)]
    output: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// fio's text output.
    #[default]
    Normal,
    /// fio's JSON output.
    Json,
    /// fio's JSON output with the bins of the latencies.
    #[value(name = "json+")]
    JsonPlus,
}

/// Runs the workload and prints the report.
pub fn run(args: BenchArgs, control: &Control) -> Result<(), Failure> {
    if args.ceiling {
        return ceiling(args);
    }
    let groups = args.groups()?;
    args.pcap.begin(control)?;
    let runs = Runs {
        connect: &args.connect,
        watch_pid: args.watch_pid,
        destroy_data: args.destroy_data,
        control,
    };
    let is_one = matches!(&groups[..], [group] if group.len() == 1);
    let MeasuredGroups { groups: done, failure } = runs.all(groups)?;
    let written = match done.iter().all(Vec::is_empty) {
        true => Ok(()),
        false => write(
            args.output.as_deref(),
            &text(args.output_format, &done, is_one, failure.as_ref()),
        ),
    };
    // What was found does not depend on who reads it.
    let outcome = done.iter().flatten().try_for_each(verdict).and(written);
    let Some(failure) = failure else { return outcome };
    if let Err(e) = outcome {
        e.report();
    }
    Err(failure)
}

/// The output: a report that is the only one, or all groups of them. JSON says which group failed.
fn text(
    format: OutputFormat,
    groups: &[Vec<RunReport>],
    is_one: bool,
    failure: Option<&Failure>,
) -> String {
    let bins = format == OutputFormat::JsonPlus;
    let mut json = match groups {
        _ if format == OutputFormat::Normal => {
            return groups.iter().flatten().map(fio_output::normal).collect();
        }
        [group] if is_one && bins => fio_output::json_plus(&group[0]),
        [group] if is_one => fio_output::json(&group[0]),
        groups => fio_output::json_of_groups(groups, bins),
    };
    if let Some(failure) = failure {
        let group = groups.len().saturating_sub(1);
        json["weft"]["failed"] = json!({ "groupid": group, "error": failure.to_string() });
    }
    format!("{json:#}\n")
}

/// Options of a workload that the ceiling has, too.
const OF_CEILING: [&str; 15] = [
    "name",
    "rw",
    "bs",
    "iodepth",
    "numjobs",
    "threads",
    "rwmixread",
    "rate_iops",
    "size",
    "runtime",
    "ramp_time",
    "time_based",
    "cpus_allowed",
    "randseed",
    "norandommap",
];

fn ceiling(args: BenchArgs) -> Result<(), Failure> {
    let mut jobs = args.taken.jobs()?;
    let ReadyJob { job, left_out, .. } = jobs.swap_remove(0);
    say_left_out(&left_out);
    let spec = job.spec()?;
    let other = spec.options().into_iter().find(|(name, _)| !OF_CEILING.contains(name));
    let differ = spec.rate_iops.iter().any(|rate| *rate != spec.rate_iops[0]);
    if other.is_some() || spec.size_percent.is_some() || spec.steps.skip != 0 || differ {
        let name = other.map_or("--size, --rw and --rate_iops of this form".into(), |(name, _)| {
            format!("--{name}")
        });
        let problem = format!("--ceiling measures a stream of bytes: {name} means nothing to it");
        return Err(Failure::of(ErrorKind::Usage, problem));
    }
    let (server, pid) = (args.ceiling_server, args.watch_pid);
    let keys = args.connect.tls()?.psk.map(|keys| (keys, args.connect.tls_options()));
    let is_secure = keys.is_some();
    let against = super::ceiling::Against { server, pid, tuning: args.ceiling_tuning, keys };
    let report = super::ceiling::measure(&spec, against)?;
    let text = match args.output_format {
        OutputFormat::Normal => super::ceiling::text(&spec, &report, is_secure),
        OutputFormat::Json | OutputFormat::JsonPlus => {
            format!("{:#}\n", super::ceiling::json(&report))
        }
    };
    write(args.output.as_deref(), &text)
}

impl BenchArgs {
    /// What runs: the jobs of the file or line that was given, or the one that the options
    /// describe. A device that is given is used by all.
    fn groups(&self) -> Result<Vec<Vec<Job>>, Failure> {
        let given = match (&self.filename, self.taken.value("directory")) {
            (Some(name), Some(directory)) => Some(format!("{directory}/{name}")),
            (Some(name), None) => Some(name.clone()),
            (None, _) if self.address.is_missing() => None,
            (None, _) => Some(self.address.device_url()?),
        };
        let imported = self.import.read()?;
        let is_imported = imported.is_some();
        let jobs = match imported {
            Some(groups) => groups,
            None => vec![self.taken.jobs()?],
        };
        let mut groups = Vec::new();
        for group in jobs {
            let on_device = |ready| self.on_device(ready, given.as_deref(), is_imported);
            groups.push(group.into_iter().map(on_device).collect::<Result<Vec<_>, _>>()?);
        }
        let groups = with_urls(groups);
        let mut left_out: Vec<String> = Vec::new();
        for text in groups.iter().flatten().flat_map(|(spec, _)| &spec.left_out) {
            if !left_out.contains(text) {
                left_out.push(text.clone());
            }
        }
        say_left_out(&left_out);
        Ok(groups)
    }

    /// A job and its device: the one that is `given`, or its own.
    fn on_device(
        &self,
        ready: ReadyJob,
        given: Option<&str>,
        is_imported: bool,
    ) -> Result<OnDevice, Failure> {
        let ReadyJob { job, target, left_out } = ready;
        let (direct, creates_file) = (job.direct(), job.creates_file());
        let mut spec = job.spec()?;
        spec.left_out = left_out;
        spec.whole_blocks = direct != Some(true);
        if is_imported {
            // There each job is a thread or a process.
            spec.threads = spec
                .numjobs
                .min(std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32));
        }
        let usage = |text: String| Failure::of(ErrorKind::Usage, text);
        let is_null = target.as_deref().is_some_and(|target| target.starts_with("null:"));
        let name = match (given, target) {
            (Some(_), Some(_)) if is_null => {
                let text = format!("job {} has ioengine=null; omit the device", spec.name);
                return Err(usage(text));
            }
            (Some(given), _) => given.to_owned(),
            (None, Some(target)) => target,
            (None, None) if is_imported => {
                let text = format!(
                    "job {} names no file or device; give one in front, as in weft bench URL …",
                    spec.name
                );
                return Err(usage(text));
            }
            // The error says which options name a device.
            (None, None) => self.address.device_url()?,
        };
        // A device that is given in front is a URL or a file as everywhere in weft.
        let is_filename = is_imported || self.filename.is_some() || given.is_none();
        let bytes = spec.file_bytes().filter(|_| creates_file && is_filename);
        Ok(OnDevice { spec, name, is_filename, bytes, direct })
    }
}

/// A job and what it uses.
struct OnDevice {
    spec: JobSpec,
    /// A path or a URL.
    name: String,
    /// Whether that is fio's `filename`.
    is_filename: bool,
    /// Bytes that the job needs if a file of this name is to be created.
    bytes: Option<u64>,
    direct: Option<bool>,
}

/// Jobs with the URLs of their devices. A file that several jobs create has room for each of them.
fn with_urls(groups: Vec<Vec<OnDevice>>) -> Vec<Vec<Job>> {
    let mut rooms: BTreeMap<String, Option<u64>> = BTreeMap::new();
    for job in groups.iter().flatten() {
        let room = rooms.entry(job.name.clone()).or_default();
        *room = (*room).max(job.bytes);
    }
    let with_url = |job: OnDevice| {
        let OnDevice { mut spec, name, is_filename, direct, .. } = job;
        let room = rooms.get(&name).copied().flatten();
        let url = if is_filename { filename::of_filename(&name, room) } else { name };
        if direct == Some(false) && !filename::is_file(&url) {
            spec.left_out.push("direct=0 (only files use the page cache)".to_owned());
        }
        (spec, filename::with_direct(url, direct))
    };
    groups.into_iter().map(|group| group.into_iter().map(with_url).collect()).collect()
}

/// Writes the report to a file or to standard output, where it goes as well if the file cannot be
/// written.
fn write(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    let print = || std::io::stdout().write_all(text.as_bytes());
    let Some(path) = path else { return Ok(print()?) };
    let Err(e) = output::write(path, text) else { return Ok(()) };
    let instead = match print() {
        Ok(()) => "the report is on standard output instead",
        Err(_) => "the report is lost",
    };
    let text = format!("cannot write {}: {e}; {instead}", path.display());
    Err(weft_block::Error::io(text, e).into())
}

/// Returns the exit status for failed operations, bad blocks and an interrupted run.
fn verdict(report: &RunReport) -> Result<(), Failure> {
    let bad: u64 = report
        .jobs
        .iter()
        .filter_map(|job| job.verify.as_ref())
        .map(|verify| verify.bad_blocks())
        .sum();
    if bad > 0 {
        return Err(Failure::new(
            Failure::VERIFICATION,
            format!("verification found {bad} blocks with wrong data; see the report above"),
        ));
    }
    let failed: u64 = report.jobs.iter().map(|job| job.failed()).sum();
    if failed > 0 {
        return Err(Failure::new(
            Failure::OPERATIONS,
            format!("{failed} operations failed; see the report above"),
        ));
    }
    if report.jobs.iter().any(|job| job.broken.is_some()) {
        return Err(Failure::new(
            Failure::OPERATIONS,
            "a job ended early, as it did not keep a limit of its own; see the report above",
        ));
    }
    if report.stopped {
        return Err(Failure::new(
            Failure::INTERRUPTED,
            "interrupted; the report above covers the time until then",
        ));
    }
    Ok(())
}
