//! A run of fio itself: the command line for a job, and the report from its JSON.

use super::fio;
use crate::import::ImportError;
use core::time::Duration;
use serde_json::Value;
use std::io;
use weft_bench::agents::measured::MeasuredDirection;
use weft_bench::agents::{MeasuredRun, merged};
use weft_bench::workload::{Buffers, Direction, JobSpec, RunReport};
use weft_block::Geometry;

/// By what fio reaches a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FioAccess {
    /// Its NBD client, by a URL.
    Nbd(String),
    /// Its iSCSI initiator, by a URL.
    Libiscsi(String),
    /// io_uring, on a file or disk of this machine.
    IoUring(String),
    /// Linux' older interface, on a file or disk of this machine.
    Libaio(String),
    /// weft's engine, a library outside of fio, by any URL.
    Weft {
        /// Path of the library.
        library: String,
        /// URL of the device.
        url: String,
    },
}

impl FioAccess {
    /// fio's name of it.
    pub fn name(&self) -> &str {
        match self {
            Self::Nbd(_) => "nbd",
            Self::Libiscsi(_) => "libiscsi",
            Self::IoUring(_) => "io_uring",
            Self::Libaio(_) => "libaio",
            Self::Weft { .. } => "external",
        }
    }

    /// Options that say what to reach.
    fn options(&self) -> Vec<String> {
        match self {
            Self::Nbd(url) => vec![format!("--uri={url}")],
            Self::Libiscsi(url) | Self::Weft { url, .. } => vec![filename(url)],
            // Nothing is created where the disk has gone.
            Self::IoUring(path) | Self::Libaio(path) => {
                vec![filename(path), "--direct=1".into(), "--allow_file_create=0".into()]
            }
        }
    }
}

/// An option that names one file: a colon would separate several.
fn filename(name: &str) -> String {
    format!("--filename={}", name.replace(':', "\\:"))
}

/// fio's arguments for a job.
pub fn arguments(engine: &FioAccess, spec: &JobSpec) -> Vec<String> {
    let mut arguments = Vec::new();
    for (name, value) in spec.options() {
        match name {
            // fio has a thread for each job.
            "threads" => {}
            // It takes the rates of fewer than all directions without a comma at the end.
            "rate" => arguments.push(format!("--rate={}", value.trim_end_matches(','))),
            _ => arguments.push(format!("--{name}={value}")),
        }
    }
    if spec.rw.has(Direction::Write) && spec.buffers == Buffers::default() {
        // Otherwise fio repeats its data, except for a few bytes.
        arguments.push("--refill_buffers=1".into());
    }
    arguments.push(match engine {
        FioAccess::Weft { library, .. } => format!("--ioengine=external:{library}"),
        other => format!("--ioengine={}", other.name()),
    });
    arguments.extend(engine.options());
    // Latencies count from the submission, as those of `weft bench` do; one process can be ended as
    // a whole.
    let rest = ["--thread=1", "--group_reporting=1", "--lat_percentiles=1", "--clat_percentiles=0"];
    arguments.extend(
        rest.into_iter().chain(["--eta=never", "--output-format=json+"]).map(str::to_owned),
    );
    arguments
}

/// Returns fio's measurement, from its `--output-format=json+` with the options of [`arguments`].
///
/// # Errors
/// It is another output, or reports an error.
pub fn report(
    text: &str,
    url: &str,
    geometry: Geometry,
    spec: &JobSpec,
) -> Result<RunReport, ImportError> {
    let wrong = |problem: String| ImportError::wrong(format!("fio on {url}"), problem);
    let start = fio::start(text).ok_or_else(|| wrong("it wrote no JSON".into()))?;
    let json = fio::parse(&text[start..]).map_err(wrong)?;
    let jobs = json["jobs"].as_array().filter(|jobs| !jobs.is_empty());
    let jobs = jobs.ok_or_else(|| wrong("there is no job in its JSON".into()))?;
    if let Some(error) =
        jobs.iter().filter_map(|job| job["error"].as_i64()).find(|error| *error != 0)
    {
        let number = i32::try_from(error.unsigned_abs()).unwrap_or(i32::MAX);
        return Err(wrong(format!("it failed: {}", io::Error::from_raw_os_error(number))));
    }
    let all: Vec<(u32, MeasuredRun)> = (0..).zip(jobs.iter().map(measured)).collect();
    Ok(merged(url, geometry, spec, &all))
}

fn measured(job: &Value) -> MeasuredRun {
    let runtime_ms = job["job_runtime"].as_f64().unwrap_or(0.0);
    // A share of the time of all jobs; casting saturates.
    let cpu = |key: &str| (job[key].as_f64().unwrap_or(0.0) / 100.0 * runtime_ms * 1e6) as u64;
    MeasuredRun {
        directions: [Direction::Read, Direction::Write]
            .map(|direction| part(&job[direction.name()])),
        cpu_ns: [cpu("usr_cpu"), cpu("sys_cpu")],
        context_switches: job["ctx"].as_u64().unwrap_or(0),
        loops: Duration::from_millis(runtime_ms as u64),
        ..MeasuredRun::default()
    }
}

fn part(direction: &Value) -> MeasuredDirection {
    let bins = direction["lat_ns"]["bins"].as_object();
    let bins = bins
        .into_iter()
        .flatten()
        .filter_map(|(ns, count)| Some((ns.parse().ok()?, count.as_u64()?)));
    MeasuredDirection {
        ios: direction["total_ios"].as_u64().unwrap_or(0),
        bytes: direction["io_bytes"].as_u64().unwrap_or(0),
        runtime: Duration::from_millis(direction["runtime"].as_u64().unwrap_or(0)),
        latencies: bins.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_bench::workload::Rw;
    use weft_block::Atomicity;

    fn geometry() -> Geometry {
        Geometry {
            block_bytes: 512,
            blocks: 8,
            padding_bytes: 0,
            optimal_blocks: 1,
            max_transfer_bytes: 4096,
            atomic: Atomicity::ONE_BLOCK,
        }
    }

    #[test]
    fn a_job_has_the_options_that_fio_knows() {
        let spec = JobSpec {
            rw: Rw::RandRw,
            threads: 2,
            rate: [None, Some(4096), None],
            ..JobSpec::default()
        };
        let all = arguments(&FioAccess::IoUring("/dev/disk/by-path/pci-0:1".into()), &spec);
        for one in [
            "--rw=randrw",
            "--rate=,4096",
            "--refill_buffers=1",
            "--ioengine=io_uring",
            "--filename=/dev/disk/by-path/pci-0\\:1",
            "--direct=1",
        ] {
            assert!(all.iter().any(|it| it == one), "{one}: {all:?}");
        }
        assert!(!all.iter().any(|it| it.starts_with("--threads")), "{all:?}");
        let nbd = arguments(&FioAccess::Nbd("nbd://h:1/d".into()), &JobSpec::default());
        assert!(
            nbd.contains(&"--uri=nbd://h:1/d".into()) && nbd.contains(&"--ioengine=nbd".into()),
            "{nbd:?}"
        );
        assert!(!nbd.iter().any(|it| it.contains("buffers")), "it only reads: {nbd:?}");
        let iscsi = arguments(&FioAccess::Libiscsi("iscsi://h:1/t/0".into()), &JobSpec::default())
            .join(" ");
        assert!(iscsi.contains("--ioengine=libiscsi --filename=iscsi\\://h\\:1/t/0"), "{iscsi}");
        let weft = FioAccess::Weft { library: "/l/weft.so".into(), url: "nvme+tcp://h/n".into() };
        let weft = arguments(&weft, &JobSpec::default()).join(" ");
        assert!(weft.contains("external:/l/weft.so --filename=nvme+tcp\\://h/n"), "{weft}");
        let buffers = Buffers { zero: true, ..Buffers::default() };
        let zeroes = arguments(
            &FioAccess::Nbd("nbd://h:1/d".into()),
            &JobSpec { rw: Rw::Write, buffers, ..JobSpec::default() },
        );
        let given = zeroes.iter().filter(|it| it.contains("buffers"));
        assert_eq!(given.collect::<Vec<_>>(), ["--zero_buffers=1"]);
    }

    #[test]
    fn what_fio_writes_becomes_a_report() {
        let text = r#"fio: note
            {"jobs": [{"error": 0, "job_runtime": 2000, "usr_cpu": 10.0, "sys_cpu": 25.0, "ctx": 7,
              "read": {"io_bytes": 12288, "total_ios": 3, "runtime": 1000, "lat_ns": {"bins": {"1000": 2, "9000": 1}}},
              "write": {"io_bytes": 0, "total_ios": 0, "runtime": 0}}]} fio: more"#;
        let report = report(text, "u", geometry(), &JobSpec::default()).unwrap();
        let all = report.all();
        assert_eq!((all.ios, all.bytes, all.iops_mean(), all.total.count()), (3, 12288, 3.0, 3));
        assert!(
            (all.total.percentile_ns(50.0) as f64 - 1000.0).abs() < 20.0,
            "{}",
            all.total.percentile_ns(50.0)
        );
        assert_eq!(
            (report.process.user.as_millis(), report.process.system.as_millis()),
            (200, 500)
        );
    }

    #[test]
    fn failures_are_told() {
        let said = |text: &str| {
            report(text, "u", geometry(), &JobSpec::default()).unwrap_err().to_string()
        };
        assert!(said("").contains("fio on u: it wrote no JSON"));
        assert!(said("{}").contains("no job"));
        assert!(said("{\"jobs\": [").contains("EOF"));
        assert!(said(r#"{"jobs": [{"error": 5}]}"#).contains("it failed: "));
    }
}
