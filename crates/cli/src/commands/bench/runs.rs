//! Runs jobs: those of a group at the same time, one group after the other.

use crate::connection::ConnectArgs;
use crate::exit::Failure;
use crate::progress::Bar;
use crate::signals::on_interrupt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_bench::workload::{Direction, run_watching};
use weft_bench::{JobSpec, Report};
use weft_block::Device;
use weft_endpoint::source::discovered;
use weft_endpoint::{Control, overwrite};

/// Whether a job changes what its device holds.
fn writes(spec: &JobSpec) -> bool {
    spec.rw.has(Direction::Write) || spec.rw.has(Direction::Trim)
}

/// What all runs have in common.
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

impl Runs<'_> {
    /// Runs everything, or what comes before an interruption; the reports, by group.
    pub fn all(&self, groups: Vec<Vec<(JobSpec, String)>>) -> Result<Vec<Vec<Report>>, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let signalled = Arc::clone(&stop);
        let mut reports = Vec::new();
        for (n, group) in groups.into_iter().enumerate() {
            let devices = self.open(&group)?;
            if n == 0 {
                let signalled = Arc::clone(&signalled);
                // Without the handler a signal ends the run without a report; that is no reason to
                // refuse to run.
                let _ = on_interrupt(move || signalled.store(true, Ordering::Relaxed));
            }
            reports.push(
                self.together(
                    group.into_iter().map(|(spec, _)| spec).zip(devices).collect(),
                    &stop,
                )?,
            );
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(reports)
    }

    /// Opens the devices of a group. Jobs of one name share a device, as a file may be open only
    /// once.
    fn open(&self, group: &[(JobSpec, String)]) -> Result<Vec<Device>, Failure> {
        let mut open: Vec<(&str, Device)> = Vec::new();
        let mut devices = Vec::new();
        for (_, url) in group {
            if let Some((_, device)) = open.iter().find(|(known, _)| known == url) {
                devices.push(Arc::clone(device));
                continue;
            }
            let queues: u32 =
                group.iter().filter(|(_, other)| other == url).map(|(spec, _)| spec.numjobs).sum();
            let mut options =
                self.connect.options(u16::try_from(queues).unwrap_or(u16::MAX), self.control)?;
            discovered::look_up(url, &mut options)?;
            let device = weft_endpoint::open(url, &options)?;
            if !self.destroy_data && group.iter().any(|(spec, other)| other == url && writes(spec))
            {
                overwrite::refuse_data(&device)?;
            }
            open.push((url, Arc::clone(&device)));
            devices.push(device);
        }
        Ok(devices)
    }

    /// Runs jobs at the same time. The progress of the first one is shown.
    fn together(
        &self,
        jobs: Vec<(JobSpec, Device)>,
        stop: &AtomicBool,
    ) -> Result<Vec<Report>, Failure> {
        let mut bar = Bar::new();
        let reports = std::thread::scope(|scope| {
            let mut jobs = jobs.into_iter();
            let first = jobs.next();
            let others: Vec<_> = jobs
                .map(|(spec, device)| {
                    scope.spawn(move || run_watching(device, &spec, &[], stop, &mut |_| ()))
                })
                .collect();
            let show = &mut |progress| bar.show(&progress);
            let first = first.map(|(spec, device)| {
                run_watching(device, &spec, self.watch_pid.as_slice(), stop, show)
            });
            let others = others.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            first.into_iter().chain(others).collect::<Result<Vec<_>, _>>()
        });
        bar.finish();
        Ok(reports?)
    }
}
