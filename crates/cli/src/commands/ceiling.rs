//! `weft ceiling`: the server of the bare TCP ceiling. The study starts it; it ends when its
//! standard input closes.

use super::internal::child::{Spawned, wait_for_end_of_input};
use crate::process::exit::Failure;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_bench::ceiling::{
    self, CeilingMemory, CeilingReport, CeilingSpec, CeilingTuning, Secure, serve,
};
use weft_bench::{Direction, JobSpec};
use weft_block::{ErrorKind, units};
use weft_endpoint::TlsPsk;
use weft_endpoint::limits::IN_CAPSULE_BYTES;
use weft_io::cpu_usage::Usage;
use weft_proto::nvme::types::Nqn;
use weft_server::psk;
use weft_tls::TlsAcceptor;

/// Options of `weft ceiling`.
#[derive(Args, Debug)]
pub struct CeilingArgs {
    /// Bytes of the region from which reads are served
    #[arg(long, default_value = "1GiB", value_parser = units::parse_size)]
    memory: u64,
    /// Core to run on
    #[arg(long)]
    cpu: Option<usize>,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Speak TLS
    #[arg(long)]
    tls: bool,
    /// Pre-shared keys for --tls
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_key_file: Option<PathBuf>,
    /// Keyring of Linux with the TLS PSKs
    #[arg(long, value_name = "NAME", requires = "tls", conflicts_with = "tls_key_file")]
    keyring: Option<String>,
    /// Keep the records of TLS in user space
    #[arg(long)]
    no_kernel_tls: bool,
}

/// Serves until standard input closes.
pub fn run(args: &CeilingArgs) -> Result<(), Failure> {
    if let Some(cpu) = args.cpu {
        weft_io::cpu::pin_thread(cpu)?;
    }
    let keys = || psk::required(args.tls_key_file.as_deref(), args.keyring.as_deref());
    let secure = args
        .tls
        .then(|| {
            let keys = if args.no_kernel_tls { keys()?.in_user_space() } else { keys()? };
            Ok::<_, Failure>(accepting(keys.server()?))
        })
        .transpose()?;
    let listener = TcpListener::bind(args.listen)?;
    let memory = CeilingMemory::new(args.memory as usize)?;
    writeln!(std::io::stdout(), "listening on {}", listener.local_addr()?)?;
    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&stop);
    std::thread::spawn(move || {
        wait_for_end_of_input();
        ended.store(true, Ordering::Relaxed);
    });
    Ok(serve(listener, &memory, secure, &stop)?)
}

fn accepting(server: TlsAcceptor) -> Secure {
    Secure::new(move |stream| {
        server.wrap(stream).map(|(stream, _)| stream).map_err(std::io::Error::other)
    })
}

/// What encrypts the client's connections. The subsystem that keys are asked for is that of
/// discovery, as the ceiling has none.
fn connecting(keys: &TlsPsk) -> Result<Secure, Failure> {
    let name = |name| Nqn::new(name).map_err(|e| Failure::of(ErrorKind::Usage, e.to_string()));
    let bound = keys.bound(&name(CEILING_HOST)?, &name(Nqn::DISCOVERY)?)?;
    let client =
        bound.client().cloned().ok_or_else(|| Failure::of(ErrorKind::Usage, "TLS needs a key"))?;
    Ok(Secure::new(move |stream| {
        client.wrap(stream).map(|(stream, _)| stream).map_err(std::io::Error::other)
    }))
}

/// The host NQN under which the ceiling's client offers a key.
const CEILING_HOST: &str = "nqn.2026-01.org.weft:ceiling";

/// Size of the region for reads, if the workload gives no size.
const REGION_BYTES: u64 = 512 << 20;

/// Default measurement time.
const RUNTIME: Duration = Duration::from_secs(2);

/// Default ramp time.
const RAMP: Duration = Duration::from_millis(200);

/// The server and the settings for measuring the ceiling.
pub struct Against {
    /// A running server; if none, one is started, on a core that the workload does not use.
    pub server: Option<SocketAddr>,
    /// Process ID of a running server.
    pub pid: Option<u32>,
    /// Tuning of the connections; if none, the best one is found by trying.
    pub tuning: Option<CeilingTuning>,
    /// The keys, to measure a bare TLS stream, and the options for a server that is started.
    pub keys: Option<(TlsPsk, Vec<String>)>,
}

/// `weft bench --ceiling`: transfers the bytes of the workload over bare TCP, with server and
/// client on one core each.
pub fn measure(job: &JobSpec, against: Against) -> Result<CeilingReport, Failure> {
    let mut own = None;
    let (to, server_pid) = match against.server {
        Some(server) => (server, against.pid),
        None => {
            let own =
                own.insert(start(job, against.keys.as_ref().map_or(&[], |(_, options)| options))?);
            let to = own
                .url()
                .parse()
                .map_err(|_| Failure::of(ErrorKind::Io, "the ceiling's server has no address"))?;
            (to, Some(own.pid()))
        }
    };
    let reads = job.rw.has(Direction::Read);
    let spec = CeilingSpec {
        rwmixread: if job.rw.is_mixed() { job.rwmixread } else { u8::from(reads) * 100 },
        bytes: job.bs_bytes,
        random: job.rw.is_random(),
        iodepth: job.iodepth * job.numjobs,
        connections: job.numjobs,
        in_capsule_bytes: IN_CAPSULE_BYTES,
        ramp_time: if job.ramp_time.is_zero() { RAMP } else { job.ramp_time },
        runtime: job.runtime.unwrap_or(RUNTIME),
        cpu: job.cpus_allowed.first().copied(),
        tuning: against.tuning.unwrap_or_default(),
        rate_iops: job.rate_iops[0],
        server_pid,
        secure: against.keys.as_ref().map(|(keys, _)| connecting(keys)).transpose()?,
    };
    Ok(if against.tuning.is_some() {
        ceiling::run(to, &spec)?
    } else {
        ceiling::run_best(to, &spec)?
    })
}

fn start(job: &JobSpec, options: &[String]) -> Result<Spawned, Failure> {
    let taken = job.cpus_allowed.first().copied();
    let free = weft_io::cpu::allowed()
        .into_iter()
        .find(|&cpu| Some(cpu) != taken)
        .map(|cpu| cpu.to_string());
    let memory = job.size.unwrap_or(REGION_BYTES).to_string();
    let mut args = vec!["ceiling", "--memory", &memory];
    if let Some(cpu) = &free {
        args.extend(["--cpu", cpu]);
    }
    args.extend(options.iter().map(String::as_str));
    Spawned::start(&args)
}

/// The report as text.
pub fn text(job: &JobSpec, report: &CeilingReport, is_secure: bool) -> String {
    let ios = report.ios.iter().sum::<u64>().max(1) as f64;
    let micros = |percent: f64| report.latency.percentile_ns(percent) as f64 / 1e3;
    let [client, server] =
        [report.system_calls, report.server_system_calls].map(|calls| calls as f64 / ios);
    let bare = if is_secure { "TLS" } else { "TCP" };
    format!(
        "ceiling (bare {bare}): IOPS={:.0}, {} in flight, {} bytes each, {}\n  latency (usec): mean={:.2}, 50th={:.2}, 99th={:.2}\n  \
         system calls per operation, empty ones apart: client {client:.4}, server {server:.4}\n",
        report.iops(),
        job.iodepth * job.numjobs,
        job.bs_bytes,
        report.tuning,
        report.latency.mean_ns() / 1e3,
        micros(50.0),
        micros(99.0),
    )
}

/// The report as JSON.
pub fn json(report: &CeilingReport) -> Value {
    let ios = report.ios.iter().sum::<u64>();
    let per_io = |calls: u64| calls as f64 / ios.max(1) as f64;
    let cpu = |usage: &Usage| {
        let us = |time: Duration| time.as_secs_f64() * 1e6 / ios.max(1) as f64;
        json!({ "user": us(usage.user), "system": us(usage.system) })
    };
    json!({
        "ios": ios,
        "iops": report.iops(),
        "runtime_s": report.runtime.as_secs_f64(),
        "tuning": report.tuning.to_string(),
        "lat_ns": {
            "mean": report.latency.mean_ns(),
            "p50": report.latency.percentile_ns(50.0),
            "p99": report.latency.percentile_ns(99.0),
            "p999": report.latency.percentile_ns(99.9),
        },
        "client": { "cpu_us_per_io": cpu(&report.thread), "system_calls_per_io": per_io(report.system_calls) },
        "server": {
            "cpu_us_per_io": report.server.as_ref().map(cpu),
            "system_calls_per_io": per_io(report.server_system_calls),
        },
    })
}
