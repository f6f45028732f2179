//! Runs jobs: those of a group at the same time, one group after the other.
//!
//! All groups are checked before the first one starts, with the devices that they use. If a later
//! one fails all the same, what was measured before is kept.

use crate::args::filename;
use crate::connection::ConnectArgs;
use crate::output::progress::Bar;
use crate::process::exit::{Failure, tell};
use crate::process::signals::{end_soon, has_result};
use std::collections::BTreeSet;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weft_bench::workload::{ExitAll, Gate, check, run_gated};
use weft_bench::{Error, JobSpec, Progress, RunReport};
use weft_block::Device;
use weft_block::file::CreatedFiles;
use weft_endpoint::source::discovered;
use weft_endpoint::{Control, existing_data};

/// A job and the URL of its device.
pub type Job = (JobSpec, String);

/// A device that is open, and its URL.
type Known = (String, Device);

/// Starts a job at once, and ends it with another one of its group.
struct WithOthers<'a>(&'a AtomicBool);

impl Gate for WithOthers<'_> {
    fn opens(&mut self) -> Option<Instant> {
        Some(Instant::now())
    }

    fn opened(&mut self, _: Instant) {}

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs a job, and ends the others of its group with it if it asks for that (`exitall`).
fn run_one(
    (spec, device): (JobSpec, Device),
    watched: &[u32],
    is_over: &AtomicBool,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunReport, Error> {
    let report = run_gated(device, &spec, watched, &mut WithOthers(is_over), stop, progress)?;
    if ends(&report) != ExitAll::No {
        is_over.store(true, Ordering::Relaxed);
    }
    Ok(report)
}

/// What ends with the jobs of a report.
fn ends(report: &RunReport) -> ExitAll {
    let what = report.jobs.iter().map(|job| report.spec.ended_by(job));
    what.max().unwrap_or_default()
}

/// Checks the jobs of all groups that use one of the `devices`, which are those of the jobs
/// `opened`. Adds what is not taken literally with the blocks of a device to `rounded`, once.
fn check_on(
    opened: &[Job],
    devices: &[Device],
    groups: &[Vec<Job>],
    rounded: &mut Vec<String>,
) -> Result<(), Failure> {
    for (spec, url) in groups.iter().flatten() {
        let at = opened.iter().position(|(_, other)| other == url);
        let Some(device) = at.map(|at| &devices[at]) else { continue };
        check(device, spec).map_err(|e| match groups {
            [only] if only.len() == 1 => Failure::from(e),
            _ => Failure::from(e).about(&format!("job {}", spec.name)),
        })?;
        let text = spec.rounded(device.geometry().block_bytes);
        if let Some(text) = text.filter(|text| !rounded.contains(text)) {
            rounded.push(text);
        }
    }
    Ok(())
}

/// Names the options that were left out on standard error. The reports have them as well.
pub fn say_left_out(left_out: &[String]) {
    if !left_out.is_empty() {
        tell(&format!("weft: left out: {}", left_out.join("; ")));
    }
}

/// Settings that all runs share.
pub struct Runs<'a> {
    /// Options of remote devices.
    pub connect: &'a ConnectArgs,
    /// Process whose processor time counts, too.
    pub watch_pid: Option<u32>,
    /// Write also where data is recognised.
    pub destroy_data: bool,
    /// Ends attempts to connect.
    pub control: &'a Control,
}

/// Measurements, also of a run that did not reach its end.
#[derive(Default)]
pub struct MeasuredGroups {
    /// The reports, by group; a group without any did not start.
    pub groups: Vec<Vec<RunReport>>,
    /// The failure that ended the run early.
    pub failure: Option<Failure>,
}

impl Runs<'_> {
    /// Checks all groups, then runs them, until an interruption or a failure.
    ///
    /// # Errors
    /// A group cannot run: none was started.
    pub fn all(&self, groups: Vec<Vec<Job>>) -> Result<MeasuredGroups, Failure> {
        let mut kept = self.check(&groups)?;
        let stop = Arc::new(AtomicBool::new(false));
        let signalled = Arc::clone(&stop);
        // Without the handler a signal ends the run without a report; that is no reason to refuse
        // to run.
        let _ = end_soon(move || signalled.store(true, Ordering::Relaxed));
        let mut measured = MeasuredGroups::default();
        for group in groups {
            let known = core::mem::take(&mut kept);
            let (reports, failure) = match self.open(&group, from_ref(&group), None, known, &stop) {
                Ok(devices) => self.together(
                    group.into_iter().map(|(spec, _)| spec).zip(devices).collect(),
                    &stop,
                ),
                Err(failure) => (Vec::new(), Some(failure)),
            };
            let is_last = reports.iter().any(|report| ends(report) == ExitAll::All);
            measured.groups.push(reports);
            measured.failure = failure;
            if is_last || measured.failure.is_some() || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        has_result();
        Ok(measured)
    }

    /// Checks all jobs with their devices, each of which is opened once. Returns those of the first
    /// group, which stay open for its run: some servers end with their first connection. Files that
    /// were created are removed if a group cannot run.
    fn check(&self, groups: &[Vec<Job>]) -> Result<Vec<Known>, Failure> {
        let created = Arc::new(CreatedFiles::default());
        let mut rounded = Vec::new();
        let kept = self.check_all(groups, &created, &mut rounded);
        match &kept {
            Ok(_) => say_left_out(&rounded),
            Err(_) => created.remove(),
        }
        kept
    }

    /// Does that. Files of the first group are closed before those of others are opened, as a file
    /// may be open only once.
    fn check_all(
        &self,
        groups: &[Vec<Job>],
        created: &Arc<CreatedFiles>,
        rounded: &mut Vec<String>,
    ) -> Result<Vec<Known>, Failure> {
        let mut kept: Vec<Known> = Vec::new();
        let mut checked: BTreeSet<&str> = BTreeSet::new();
        // A signal still ends the process at once.
        let never = AtomicBool::new(false);
        for (n, group) in groups.iter().enumerate() {
            let is_new = |(_, url): &&Job| !checked.contains(url.as_str());
            let new: Vec<Job> = group.iter().filter(is_new).cloned().collect();
            checked.extend(group.iter().map(|(_, url)| url.as_str()));
            let devices = self.open(&new, groups, Some(created), Vec::new(), &never)?;
            check_on(&new, &devices, groups, rounded)?;
            if n == 0 {
                kept = new.into_iter().map(|(_, url)| url).zip(devices).collect();
                kept.retain(|(url, _)| groups.len() == 1 || !filename::is_file(url));
            }
        }
        Ok(kept)
    }

    /// Opens the devices of a group that are not among the `known` ones. Jobs of one name share a
    /// device, as a file may be open only once. Data on it is refused if a job of `all` groups
    /// would write there.
    ///
    /// # Errors
    /// A device cannot be opened, or `stop` was set in the meantime.
    fn open(
        &self,
        group: &[Job],
        all: &[Vec<Job>],
        created: Option<&Arc<CreatedFiles>>,
        mut known: Vec<Known>,
        stop: &AtomicBool,
    ) -> Result<Vec<Device>, Failure> {
        let mut devices = Vec::new();
        for (_, url) in group {
            if let Some((_, device)) = known.iter().find(|(other, _)| other == url) {
                devices.push(Arc::clone(device));
                continue;
            }
            let queues: u32 =
                group.iter().filter(|(_, other)| other == url).map(|(spec, _)| spec.numjobs).sum();
            let mut options =
                self.connect.options(u16::try_from(queues).unwrap_or(u16::MAX), self.control)?;
            options.created = created.cloned();
            discovered::look_up(url, &mut options)?;
            let Some(device) = weft_endpoint::open_unless(url, &options, stop)? else {
                let text = "interrupted before the devices of all groups were open";
                return Err(Failure::new(Failure::INTERRUPTED, text));
            };
            let writes = |(spec, other): &Job| other == url && spec.writes();
            if !self.destroy_data && all.iter().flatten().any(writes) {
                existing_data::refuse_data(&device)?;
            }
            known.push((url.clone(), Arc::clone(&device)));
            devices.push(device);
        }
        Ok(devices)
    }

    /// Runs jobs at the same time; the reports, and the first failure of a job that has none. The
    /// progress of the first job is shown.
    fn together(
        &self,
        jobs: Vec<(JobSpec, Device)>,
        stop: &AtomicBool,
    ) -> (Vec<RunReport>, Option<Failure>) {
        let mut bar = Bar::new();
        let is_over = &AtomicBool::new(false);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let mut jobs = jobs.into_iter();
            let first = jobs.next();
            let others: Vec<_> = jobs
                .map(|job| scope.spawn(move || run_one(job, &[], is_over, stop, &mut |_| ())))
                .collect();
            let show = &mut |progress| bar.show(&progress);
            let first =
                first.map(|job| run_one(job, self.watch_pid.as_slice(), is_over, stop, show));
            let others = others.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            first.into_iter().chain(others).collect()
        });
        bar.finish();
        let (mut reports, mut failure) = (Vec::new(), None);
        for outcome in outcomes {
            match outcome {
                Ok(report) => reports.push(report),
                Err(e) => _ = failure.get_or_insert(Failure::from(e)),
            }
        }
        (reports, failure)
    }
}
