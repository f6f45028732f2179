//! `weft ceiling`: the server half of the bare TCP ceiling. The study starts it; it ends when its standard input closes.

use super::child::{Spawned, wait_for_end_of_input};
use crate::exit::Failure;
use clap::Args;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_bench::ceiling::{self, CeilingSpec, Memory, serve};
use weft_bench::{Direction, JobSpec};
use weft_block::{ErrorKind, units};
use weft_endpoint::limits::IN_CAPSULE_BYTES;

/// Options of `weft ceiling`.
#[derive(Args, Debug)]
pub struct CeilingArgs {
    /// Bytes of the region that reads are served from
    #[arg(long, default_value = "1GiB", value_parser = units::parse_size)]
    memory: u64,
    /// Core to run on
    #[arg(long)]
    cpu: Option<usize>,
}

/// Serves until standard input closes.
pub fn run(args: &CeilingArgs) -> Result<(), Failure> {
    if let Some(cpu) = args.cpu {
        weft_io::cpu::pin_thread(cpu)?;
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let memory = Memory::new(args.memory as usize);
    writeln!(std::io::stdout(), "listening on {}", listener.local_addr()?)?;
    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&stop);
    std::thread::spawn(move || {
        wait_for_end_of_input();
        ended.store(true, Ordering::Relaxed);
    });
    Ok(serve(listener, &memory, &stop)?)
}

/// Region that reads come from where a workload names no size.
const REGION_BYTES: u64 = 512 << 20;

/// How long to measure where a workload does not say.
const RUNTIME: Duration = Duration::from_secs(2);

/// `weft bench --ceiling`: the workload's bytes back and forth over bare TCP, server and client on a core each. `server_cpu` is the
/// server's.
pub fn measure(job: &JobSpec, server_cpu: Option<usize>) -> Result<(), Failure> {
    let memory = job.size.unwrap_or(REGION_BYTES).to_string();
    let mut args = vec!["ceiling", "--memory", &memory];
    let cpu = server_cpu.map(|cpu| cpu.to_string());
    if let Some(cpu) = &cpu {
        args.extend(["--cpu", cpu]);
    }
    let server = Spawned::start(&args)?;
    let to = server.url.parse().map_err(|_| Failure::of(ErrorKind::Io, "the ceiling's server has no address"))?;
    let reads = job.rw.has(Direction::Read);
    let spec = CeilingSpec {
        rwmixread: if job.rw.is_mixed() { job.rwmixread } else { u8::from(reads) * 100 },
        bytes: job.bs_bytes,
        random: job.rw.is_random(),
        iodepth: job.iodepth,
        connections: job.numjobs,
        in_capsule_bytes: IN_CAPSULE_BYTES,
        ramp_time: job.ramp_time.max(Duration::from_millis(200)),
        runtime: job.runtime.unwrap_or(RUNTIME),
        cpu: job.cpus_allowed.first().copied(),
    };
    let report = ceiling::run(to, &spec)?;
    let ios: u64 = report.ios.iter().sum();
    let calls = report.system_calls as f64 / ios.max(1) as f64;
    let micros = |percent: f64| report.latency.percentile_ns(percent) as f64 / 1e3;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ceiling (bare TCP): IOPS={:.0}, {} in flight, {} bytes each", report.iops(), spec.iodepth, spec.bytes)?;
    writeln!(
        out,
        "  latency (usec): mean={:.2}, 50th={:.2}, 99th={:.2}",
        report.latency.mean_ns() / 1e3,
        micros(50.0),
        micros(99.0)
    )?;
    Ok(writeln!(out, "  system calls of the client: {calls:.4} per operation, empty ones apart")?)
}
