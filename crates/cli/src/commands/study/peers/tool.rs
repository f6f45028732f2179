//! A load generator that runs once for each slice, and prints at its end what it did.

use super::super::program::{RunningProgram, Waited};
use super::super::watched::WatchedProcesses;
use super::installed::find;
use super::load::LoadDevice;
use super::spdk::RUNTIME;
use crate::limits::{FIO_LATE_S, FIO_SLICE_S};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weft_bench::agents::measured::MeasuredDirection;
use weft_bench::agents::{MeasuredRun, merged};
use weft_bench::study::{Generator, Purpose};
use weft_bench::{Direction, Error, JobSpec, Progress, RunReport};
use weft_block::{ErrorKind, Geometry};
use weft_io::cpu_usage;
use weft_server::programs;

/// A program that puts load on a device, as fast as it can.
pub struct Tool {
    /// Its name, for people.
    pub name: &'static str,
    /// The program.
    pub program: &'static str,
    /// Arguments for a workload of whole seconds on the device of a URL with a size of blocks.
    pub arguments: fn(&str, u32, &JobSpec) -> Vec<String>,
    /// Returns what it did, from its output.
    pub read: fn(&str) -> Option<ToolResult>,
    /// Returns why it cannot run a workload, as a whole sentence.
    pub cannot: fn(&JobSpec) -> Option<String>,
    /// It uses its cores even while it waits.
    pub polls: bool,
}

/// The result of a program.
#[derive(Debug, PartialEq)]
pub struct ToolResult {
    /// Operations per second.
    pub iops: f64,
    /// Latencies in ns, and the number of operations that had them; empty if it reports none.
    pub latencies: Vec<(u64, u64)>,
}

/// A [`Tool`] on a device.
struct OnDevice {
    tool: &'static Tool,
    url: String,
    geometry: Geometry,
    twin: String,
    target: WatchedProcesses,
    /// A directory for files of the program; it is removed at the end.
    directory: PathBuf,
}

impl Tool {
    /// Returns the generator for a device.
    ///
    /// # Errors
    /// There can be no directory for its files.
    pub fn on(
        &'static self,
        subject: &LoadDevice<'_>,
    ) -> Result<Rc<dyn Generator>, std::io::Error> {
        let directory = std::env::temp_dir().join(format!("weft-peer-{}", uuid::Uuid::new_v4()));
        DirBuilder::new().mode(0o700).create(&directory)?;
        Ok(Rc::new(OnDevice {
            tool: self,
            url: subject.url.to_owned(),
            geometry: subject.geometry,
            twin: subject.twin.to_owned(),
            target: WatchedProcesses::new(subject.pids, subject.polls),
            directory,
        }))
    }
}

/// The time of a slice, in the whole seconds that such programs take.
pub fn seconds(spec: &JobSpec) -> u64 {
    spec.runtime.unwrap_or_default().as_secs_f64().ceil().max(1.0) as u64
}

/// Returns whether a workload is of one job, of one direction, and without a limit of its rate.
pub fn is_plain(spec: &JobSpec) -> bool {
    let is_rated = spec.rate.iter().any(Option::is_some);
    spec.numjobs == 1 && !is_rated && !spec.rw.is_mixed()
}

impl OnDevice {
    fn arguments(&self, spec: &JobSpec) -> Vec<String> {
        (self.tool.arguments)(&self.url, self.geometry.block_bytes, spec)
    }

    /// Runs it to its end. Returns its output and its processor time; none if the study is stopped.
    fn output(
        &self,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<(String, cpu_usage::Usage)>, String> {
        let path = find(self.tool.program).unwrap_or_else(|| self.tool.program.into());
        let mut command = programs::system(&path.to_string_lossy());
        command.args(self.arguments(spec)).env(RUNTIME, &self.directory);
        let mut running = RunningProgram::start_on(command, &spec.cpus_allowed)
            .map_err(|e| format!("cannot be started: {e}"))?;
        let most = Duration::from_secs(seconds(spec) + FIO_LATE_S);
        match running.wait(most, stop, progress) {
            Waited::Over => {}
            Waited::Stopped => return Ok(None),
            Waited::Late => return Err(format!("did not end within {FIO_LATE_S} s of its time")),
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

    /// What a run measured.
    fn measured(&self, spec: &JobSpec, found: ToolResult, used: cpu_usage::Usage) -> MeasuredRun {
        let runtime = Duration::from_secs(seconds(spec));
        let counted: u64 = found.latencies.iter().map(|(_, count)| count).sum();
        let ios = match counted {
            0 => (found.iops * runtime.as_secs_f64()) as u64,
            counted => counted,
        };
        let bytes = ios * u64::from(spec.bs_bytes);
        let part = MeasuredDirection { ios, bytes, runtime, latencies: found.latencies };
        let (own, other) = (part, MeasuredDirection::default());
        let is_read = spec.rw.has(Direction::Read);
        // While it starts it does not measure, and while it measures it uses all of its cores.
        let all = (used.user + used.system).as_secs_f64();
        let most = runtime.as_secs_f64() * spec.cpus_allowed.len().max(1) as f64;
        let share = if self.tool.polls && all > most { most / all } else { 1.0 };
        let nanos = |time: Duration| (time.as_nanos() as f64 * share) as u64;
        MeasuredRun {
            directions: if is_read { [own, other] } else { [other, own] },
            cpu_ns: [nanos(used.user), nanos(used.system)],
            loops: runtime,
            ..MeasuredRun::default()
        }
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Generator for OnDevice {
    fn title(&self) -> &str {
        self.tool.name
    }

    fn run(
        &self,
        _: Purpose,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RunReport, Error> {
        let failed = |why: String| {
            let text = format!("{} on {} {why}", self.tool.name, self.url);
            weft_block::Error::new(ErrorKind::Io, text)
        };
        let watching = self.target.start();
        let Some((output, used)) = self.output(spec, stop, progress).map_err(failed)? else {
            let mut report = merged(&self.url, self.geometry, spec, &[]);
            report.stopped = true;
            return Ok(report);
        };
        let watched = watching.end(Duration::from_secs(seconds(spec)), Duration::ZERO);
        let found = (self.tool.read)(&output).filter(|found| found.iops > 0.0);
        let found = found.ok_or_else(|| failed("reported no rate".to_owned()))?;
        let measured = self.measured(spec, found, used);
        let report = merged(&self.url, self.geometry, spec, &[(0, measured)]);
        Ok(RunReport { watched, ..report })
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
        (self.tool.cannot)(spec)
    }

    fn twin(&self) -> Option<&str> {
        Some(&self.twin)
    }

    fn command(&self, spec: &JobSpec) -> Option<String> {
        Some(format!("{} {}", self.tool.program, self.arguments(spec).join(" ")))
    }
}
