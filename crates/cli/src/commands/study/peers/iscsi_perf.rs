//! `iscsi-perf` of libiscsi: reads over iSCSI. It reports a rate and no latencies.

use super::super::program::Running;
use super::super::watched::Watched;
use super::installed::find;
use super::load::{Load, Subject};
use super::peer::{Program, words};
use crate::limits::{FIO_LATE_S, FIO_SLICE_S};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use weft_bench::agents::measured::Part;
use weft_bench::agents::{Measured, merged};
use weft_bench::study::{Generator, Purpose};
use weft_bench::suite::Through;
use weft_bench::{Direction, Error, JobSpec, Phase, Progress, Report};
use weft_block::{ErrorKind, Geometry};
use weft_io::cpu_usage;
use weft_server::programs;

pub const LOAD: Load = Load {
    name: "iscsi-perf",
    program: Program { name: "iscsi-perf", package: "libiscsi-bin" },
    reaches: |through| through == Through::Iscsi,
    on: |subject| Ok(Rc::new(IscsiPerf::new(subject))),
};

/// `iscsi-perf` on a device.
struct IscsiPerf {
    url: String,
    geometry: Geometry,
    twin: String,
    target: Watched,
}

impl IscsiPerf {
    fn new(subject: &Subject<'_>) -> Self {
        Self {
            url: subject.url.to_owned(),
            geometry: subject.geometry,
            twin: subject.twin.to_owned(),
            target: Watched::new(subject.pids),
        }
    }

    fn arguments(&self, spec: &JobSpec) -> Vec<String> {
        let blocks = spec.bs_bytes / self.geometry.block_bytes.max(1);
        let (depth, blocks, time) =
            (spec.iodepth.to_string(), blocks.to_string(), seconds(spec).to_string());
        let mut arguments = words(&["-m", &depth, "-b", &blocks, "-t", &time]);
        if spec.rw.is_random() {
            arguments.push("-r".to_owned());
        }
        arguments.push(self.url.clone());
        arguments
    }

    /// Runs it to its end. Returns its output and its processor time; none if the study is stopped.
    fn output(
        &self,
        spec: &JobSpec,
        stop: &AtomicBool,
        wait: &mut dyn FnMut(),
    ) -> Result<Option<(String, cpu_usage::Usage)>, String> {
        let path = find(LOAD.name).unwrap_or_else(|| LOAD.name.into());
        let mut command = programs::system(&path.to_string_lossy());
        command.args(self.arguments(spec));
        let mut running = Running::start_on(command, &spec.cpus_allowed)
            .map_err(|e| format!("cannot be started: {e}"))?;
        let most = Duration::from_secs(seconds(spec) + FIO_LATE_S);
        let begun = Instant::now();
        while !running.is_over() {
            if stop.load(Relaxed) {
                return Ok(None);
            }
            if begun.elapsed() > most {
                return Err(format!("did not end within {FIO_LATE_S} s of its time"));
            }
            wait();
        }
        let used = running.used();
        match running.end() {
            Ok((status, output, _)) if status.success() => Ok(Some((output, used))),
            Ok((status, _, said)) => {
                Err(format!("failed: {}", said.unwrap_or_else(|| status.to_string())))
            }
            Err(e) => Err(format!("failed: {e}")),
        }
    }
}

/// Its time, in the whole seconds that it takes.
fn seconds(spec: &JobSpec) -> u64 {
    spec.runtime.unwrap_or_default().as_secs_f64().ceil().max(1.0) as u64
}

/// The mean rate of a run.
fn iops(output: &str) -> Option<u64> {
    let last = output.rsplit("iops average ").next().filter(|rest| rest.len() < output.len())?;
    last.split_ascii_whitespace().next()?.parse().ok().filter(|iops| *iops > 0)
}

impl Generator for IscsiPerf {
    fn title(&self) -> &str {
        LOAD.name
    }

    fn run(
        &self,
        _: Purpose,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Report, Error> {
        let failed = |why: String| {
            weft_block::Error::new(ErrorKind::Io, format!("iscsi-perf on {} {why}", self.url))
        };
        let (begun, watching) = (Instant::now(), self.target.start());
        let mut wait = || {
            progress(Progress {
                phase: Phase::Ramp,
                elapsed: begun.elapsed(),
                fraction: 0.0,
                eta: None,
                iops: [0.0; 3],
                bytes_per_second: [0.0; 3],
                failed: 0,
            });
        };
        let Some((output, used)) = self.output(spec, stop, &mut wait).map_err(failed)? else {
            let mut report = merged(&self.url, self.geometry, spec, &[]);
            report.stopped = true;
            return Ok(report);
        };
        let iops = iops(&output).ok_or_else(|| failed("reported no rate".to_owned()))?;
        let runtime = Duration::from_secs(seconds(spec));
        let ios = iops * seconds(spec);
        let bytes = ios * u64::from(spec.bs_bytes);
        let reads = Part { ios, bytes, runtime, latencies: Vec::new() };
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let measured = Measured {
            directions: [reads, Part::default()],
            cpu_ns: [nanos(used.user), nanos(used.system)],
            loops: runtime,
            ..Measured::default()
        };
        let report = merged(&self.url, self.geometry, spec, &[(0, measured)]);
        Ok(Report { watched: watching.end(runtime, Duration::ZERO), ..report })
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn is_here(&self) -> bool {
        true
    }

    fn shortest(&self) -> Duration {
        Duration::from_secs(FIO_SLICE_S)
    }

    fn cannot(&self, spec: &JobSpec) -> Option<String> {
        let is_rated = spec.rate.iter().any(Option::is_some);
        let reads = spec.rw.has(Direction::Read) && !spec.rw.has(Direction::Write);
        let suits = reads && spec.numjobs == 1 && !is_rated;
        (!suits).then(|| {
            "iscsi-perf reads as fast as it can, as one job: it has no row for other workloads."
                .to_owned()
        })
    }

    fn twin(&self) -> Option<&str> {
        Some(&self.twin)
    }

    fn command(&self, spec: &JobSpec) -> Option<String> {
        Some(format!("{} {}", LOAD.name, self.arguments(spec).join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_rate_is_read() {
        let text = "connected to iscsi://h/t/1\n\r00:00:01 - lba 53066, iops current 41075 (160 MB/s), \
                    iops average 41075 (160 MB/s), in_flight 32, busy 0        \riops average 41323 (161 MB/s)   \n\nfinished.\n";
        assert_eq!(iops(text), Some(41323));
        for wrong in ["", "iops average ", "iops average x", "iops average 0 (0 MB/s)", "41323"] {
            assert_eq!(iops(wrong), None, "{wrong}");
        }
    }
}
