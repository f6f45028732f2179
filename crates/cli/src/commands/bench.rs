//! `weft bench`: a workload on any device, in fio's terms.

use super::serve::DiskIo;
use crate::connection::{Address, ConnectArgs};
use crate::exit::Failure;
use crate::progress::Bar;
use clap::{ArgAction, Args, ValueEnum};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_bench::ceiling::Tuning;
use weft_bench::workload::run_watching;
use weft_bench::{JobSpec, Report, Rw, Verify, fio_output};
use weft_block::{ErrorKind, units};
use weft_endpoint::Control;

/// Options of `weft bench`.
#[derive(Args, Debug)]
#[command(mut_arg("url", |url| url.help("Device: ram:1GiB, file:/srv/disk.img, nvme+tcp://HOST[:PORT]/NQN[/NSID], iscsi://[USER@]HOST[:PORT]/IQN/LUN, …")))]
#[command(after_help = "\
Examples:
  weft bench ram:1GiB --rw=randread --bs=4k --iodepth=32 --runtime=5s
  weft bench nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk --rw=randrw --rwmixread=70 --numjobs=4 --runtime=10s
  weft bench -t tcp -a 127.0.0.1 -s 4420 -n nqn.2014-08.org.example:disk --rw=randwrite --size=64m --verify=crc32c
  weft bench iscsi://192.0.2.10/iqn.2026-01.org.example:disk/0 --rw=read --bs=64k --runtime=10s
  weft bench file:./disk.img,size=1GiB --rw=read --bs=64k --output-format=json")]
pub struct BenchArgs {
    #[command(flatten)]
    address: Address,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Measure the bare TCP ceiling of this machine for the same workload instead of a device
    #[arg(long, conflicts_with = "url")]
    ceiling: bool,
    /// A running `weft ceiling` to measure against, instead of one started for it
    #[arg(long, hide = true, requires = "ceiling")]
    ceiling_server: Option<std::net::SocketAddr>,
    /// How the ceiling's connections are used, instead of trying what is best: 1MiB+copy, default+gather, …
    #[arg(long, hide = true, requires = "ceiling")]
    ceiling_tuning: Option<Tuning>,
    /// Process of the target on this machine, whose processor time is to be in the JSON
    #[arg(long, hide = true)]
    watch_pid: Option<u32>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t)]
    output_format: OutputFormat,
    /// File to write the output to
    #[arg(long)]
    output: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// fio's text.
    #[default]
    Normal,
    /// fio's JSON.
    Json,
}

/// What the jobs do; names and meaning are fio's.
#[derive(Args, Debug)]
#[command(next_help_heading = "Workload")]
struct JobArgs {
    /// Name of the job
    #[arg(long, default_value = "weft")]
    name: String,
    /// read, write, randread, randwrite, rw, randrw, trim, randtrim
    #[arg(long, visible_alias = "readwrite", default_value = "read")]
    rw: Rw,
    /// Bytes of each operation
    #[arg(long, default_value = "4k", value_parser = units::parse_size)]
    bs: u64,
    /// Operations that each job keeps in flight
    #[arg(long, default_value_t = 1)]
    iodepth: u32,
    /// Jobs, each with a queue of its own
    #[arg(long, default_value_t = 1)]
    numjobs: u32,
    /// Loops (threads) that the jobs share [default: 1]
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// How long to measure; the region is gone through again and again
    #[arg(long, value_parser = seconds)]
    runtime: Option<Duration>,
    /// How long to run before measuring
    #[arg(long = "ramp_time", alias = "ramp-time", default_value = "0s", value_parser = seconds)]
    ramp_time: Duration,
    /// Reads in 100 operations of the mixed patterns
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    rwmixread: u8,
    /// Where the region begins
    #[arg(long, default_value = "0", value_parser = units::parse_size)]
    offset: u64,
    /// Bytes of the region [default: all of the device]
    #[arg(long, value_parser = units::parse_size)]
    size: Option<u64>,
    /// Operations after which a job ends
    #[arg(long = "number_ios", alias = "number-ios")]
    number_ios: Option<u64>,
    /// Check data: crc32c
    #[arg(long, default_value = "none")]
    verify: Verify,
    /// Read and check what was written [default: 1]
    #[arg(long = "do_verify", alias = "do-verify", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    do_verify: u8,
    /// End at the first bad block
    #[arg(long = "verify_fatal", alias = "verify-fatal", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    verify_fatal: u8,
    /// Seed of the random order
    #[arg(long)]
    randseed: Option<u64>,
    /// Draw each random block anew instead of visiting each once
    #[arg(long, action = ArgAction::SetTrue)]
    norandommap: bool,
    /// Operations per second that each job starts; latency then counts from when one was due
    #[arg(long = "rate_iops", alias = "rate-iops")]
    rate_iops: Option<u32>,
    /// How long before such an operation is due its job stops sleeping: 0 spares the processor, and starts it as much later as the
    /// system takes to wake a thread; 100us starts it on time
    #[arg(long = "rate_spin", alias = "rate-spin", default_value = "0", value_parser = seconds)]
    rate_spin: Duration,
    /// Cores for the loops, in turn, as in 0,2-3
    #[arg(long = "cpus_allowed", alias = "cpus-allowed", value_parser = crate::cpus::parse)]
    cpus_allowed: Option<::std::vec::Vec<usize>>,
    /// Count failed operations and go on
    #[arg(long = "continue_on_error", alias = "continue-on-error", action = ArgAction::SetTrue)]
    continue_on_error: bool,
    /// Never sleep
    #[arg(long, action = ArgAction::SetTrue)]
    poll: bool,
    /// How files are read and written
    #[arg(long, value_enum, default_value_t)]
    disk_io: DiskIo,
}

/// fio's times: a bare number is seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(number) => Duration::try_from_secs_f64(number).map_err(|e| e.to_string()),
        Err(_) => units::parse_duration(text).map_err(|e| e.to_string()),
    }
}

impl JobArgs {
    fn spec(self) -> Result<JobSpec, Failure> {
        let bs_bytes = u32::try_from(self.bs)
            .map_err(|_| Failure::of(ErrorKind::Usage, format!("--bs={} is too large; 1MiB is the most", self.bs)))?;
        Ok(JobSpec {
            name: self.name,
            rw: self.rw,
            bs_bytes,
            iodepth: self.iodepth,
            numjobs: self.numjobs,
            threads: self.threads,
            time_based: self.runtime.is_some() && self.number_ios.is_none() && self.verify == Verify::None,
            runtime: self.runtime,
            ramp_time: self.ramp_time,
            rwmixread: self.rwmixread,
            offset: self.offset,
            offset_increment: 0,
            size: self.size,
            number_ios: self.number_ios,
            verify: self.verify,
            do_verify: self.do_verify != 0,
            verify_fatal: self.verify_fatal != 0,
            randseed: self.randseed,
            norandommap: self.norandommap,
            rate_iops: self.rate_iops,
            rate_spin: self.rate_spin,
            cpus_allowed: self.cpus_allowed.unwrap_or_default(),
            continue_on_error: self.continue_on_error,
            poll: self.poll,
            disk: self.disk_io.into(),
        })
    }
}

/// Runs the workload and prints its report.
pub fn run(args: BenchArgs, control: &Control) -> Result<(), Failure> {
    let spec = args.job.spec()?;
    if args.ceiling {
        let (server, pid) = (args.ceiling_server, args.watch_pid);
        let report = super::ceiling::measure(&spec, super::ceiling::Against { server, pid, tuning: args.ceiling_tuning })?;
        let text = match args.output_format {
            OutputFormat::Normal => super::ceiling::text(&spec, &report),
            OutputFormat::Json => format!("{:#}\n", super::ceiling::json(&report)),
        };
        return write(args.output.as_deref(), &text);
    }
    let url = args.address.device_url()?;
    let options = args.connect.options(u16::try_from(spec.numjobs).unwrap_or(u16::MAX), control)?;
    let device = weft_endpoint::open(&url, &options)?;
    let stop = Arc::new(AtomicBool::new(false));
    let signalled = Arc::clone(&stop);
    // Without the handler a signal ends the run without a report, which is no reason not to run.
    let _ = ctrlc::set_handler(move || signalled.store(true, Ordering::Relaxed));
    let mut bar = Bar::new();
    let report = run_watching(device, &spec, args.watch_pid, &stop, &mut |progress| bar.show(&progress))?;
    bar.finish();
    let text = match args.output_format {
        OutputFormat::Normal => fio_output::normal(&report),
        OutputFormat::Json => format!("{:#}\n", fio_output::json(&report)),
    };
    write(args.output.as_deref(), &text)?;
    verdict(&report)
}

/// Writes the report to a file or to standard output.
fn write(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    match path {
        Some(path) => std::fs::write(path, text).map_err(|e| {
            weft_block::Error::io(format!("cannot write {}: {e}; choose another --output", path.display()), e).into()
        }),
        None => Ok(std::io::stdout().write_all(text.as_bytes())?),
    }
}

/// Failed operations and bad blocks end in statuses of their own.
fn verdict(report: &Report) -> Result<(), Failure> {
    let bad: u64 = report.jobs.iter().filter_map(|job| job.verify.as_ref()).map(|verify| verify.bad_blocks()).sum();
    if bad > 0 {
        return Err(Failure::new(
            Failure::VERIFICATION,
            format!("verification found {bad} blocks with wrong data; see the report above"),
        ));
    }
    let failed: u64 = report.jobs.iter().map(|job| job.failed()).sum();
    if failed > 0 {
        return Err(Failure::new(Failure::OPERATIONS, format!("{failed} operations failed; see the report above")));
    }
    Ok(())
}
