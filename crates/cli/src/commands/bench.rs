//! `weft bench`: runs a workload on any device, with fio's options.

mod buffers;
mod imported;
mod job;
mod runs;
mod taken;

use crate::connection::{Address, ConnectArgs};
use crate::exit::Failure;
use crate::filename;
use crate::pcap_args::PcapArgs;
use clap::{Args, ValueEnum};
use imported::{ImportArgs, Ready};
use job::JobArgs;
use runs::{Job, Measured, Runs};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use taken::Taken;
use weft_bench::Report;
use weft_bench::ceiling::Tuning;
use weft_bench::workload::Buffers;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_formats::fio_output;

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
    job: JobArgs,
    #[command(flatten)]
    import: ImportArgs,
    #[command(flatten)]
    taken: Taken,
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
    ceiling_tuning: Option<Tuning>,
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
    let Measured { groups: done, failure } = runs.all(groups)?;
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
    groups: &[Vec<Report>],
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

fn ceiling(args: BenchArgs) -> Result<(), Failure> {
    args.taken.say(false, args.job.direct());
    let spec = args.job.spec()?;
    if spec.bssplit.is_some()
        || spec.size_percent.is_some()
        || spec.rate.iter().any(Option::is_some)
        || spec.buffers != Buffers::default()
    {
        let problem = "--ceiling takes one --bs, a --size in bytes, --rate_iops instead of --rate, \
                       and no options for buffers";
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
        let given = || match &self.filename {
            Some(name) => Ok(name.clone()),
            None => self.address.device_url(),
        };
        let Some(imported) = self.import.read()? else {
            let direct = self.job.direct();
            let spec = self.job.clone().spec()?;
            let url = if self.filename.is_some() {
                filename::of_filename(&given()?, spec.size)
            } else {
                given()?
            };
            self.taken.say(filename::is_file(&url), direct);
            return Ok(vec![vec![(spec, filename::with_direct(url, direct))]]);
        };
        let has_device = self.filename.is_some() || !self.address.is_missing();
        let common = if has_device { Some(given()?) } else { None };
        let ready = |Ready { job, target }: Ready| {
            let direct = job.direct();
            let mut spec = job.spec()?;
            // There each job is a thread or a process.
            spec.threads = spec
                .numjobs
                .min(std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32));
            let Some(name) = common.clone().or(target) else {
                let text = format!(
                    "job {} names no file or device; give one in front, as in weft bench URL …",
                    spec.name
                );
                return Err(Failure::of(ErrorKind::Usage, text));
            };
            let url = filename::with_direct(filename::of_filename(&name, spec.size), direct);
            Ok((spec, url))
        };
        imported.into_iter().map(|group| group.into_iter().map(ready).collect()).collect()
    }
}

/// Writes the report to a file or to standard output, where it goes as well if the file cannot be
/// written.
fn write(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    let print = || std::io::stdout().write_all(text.as_bytes());
    let Some(path) = path else { return Ok(print()?) };
    let Err(e) = std::fs::write(path, text) else { return Ok(()) };
    let instead = match print() {
        Ok(()) => "the report is on standard output instead",
        Err(_) => "the report is lost",
    };
    let text = format!("cannot write {}: {e}; {instead}", path.display());
    Err(weft_block::Error::io(text, e).into())
}

/// Returns the exit status for failed operations, bad blocks and an interrupted run.
fn verdict(report: &Report) -> Result<(), Failure> {
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
    if report.stopped {
        return Err(Failure::new(
            Failure::INTERRUPTED,
            "interrupted; the report above covers the time until then",
        ));
    }
    Ok(())
}
