//! Starts the loops, reports progress, and collects the reports of the jobs.

use super::direction::Direction;
use super::job::Job;
use super::job_report::JobReport;
use super::job_spec::{ExitAll, JobSpec};
use super::plan::Plan;
use super::queues::Queues;
use super::report::{RunLoopReport, RunReport};
use super::shared::{Event, JobProgress, LoopState, SharedRun};
use crate::error::Error;
use crate::limits::{GATE_EVERY, PROGRESS_EVERY};
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weft_block::BlockDevice;
use weft_io::cpu_usage::Usage;
use weft_io::{DriverId, Handle, LoopConfig, RemoteLoop, event_loop, limits};

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Opening queues and connections.
    Connecting,
    /// Running without measuring (`ramp_time`).
    Ramp,
    /// Measuring.
    Running,
    /// Verifying.
    Verifying,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// Time since the jobs started.
    pub elapsed: Duration,
    /// The completed fraction, 0 to 1: of verifying in that phase, otherwise of everything before
    /// it.
    pub fraction: f64,
    /// Estimated remaining time of the same; `None` if unknown.
    pub eta: Option<Duration>,
    /// Operations per second since the last report, by [`Direction::index`].
    pub iops: [f64; 3],
    /// Bytes per second since the last report.
    pub bytes_per_second: [f64; 3],
    /// Operations that failed so far.
    pub failed: u64,
}

/// Runs the jobs of `spec` on `device`. Calls `progress` a few times per second, on the calling
/// thread.
///
/// # Errors
/// An invalid option, a device that cannot open its queues, a lack of memory or threads. Failed
/// operations are not an error of the run: the report lists them.
pub fn run(
    device: Arc<dyn BlockDevice>,
    spec: &JobSpec,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunReport, Error> {
    run_until(device, spec, &AtomicBool::new(false), progress)
}

/// Like [`run`], but ends early once `stop` is true, with a report of what was measured so far.
///
/// # Errors
/// Those of [`run`].
pub fn run_until(
    device: Arc<dyn BlockDevice>,
    spec: &JobSpec,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunReport, Error> {
    run_watching(device, spec, &[], stop, progress)
}

/// Decides when the jobs of a run start, once all of them are connected.
pub trait Gate {
    /// When to start; none if that is not known yet: it is asked again every [`GATE_EVERY`].
    fn opens(&mut self) -> Option<Instant>;

    /// They were started.
    fn opened(&mut self, at: Instant);

    /// Returns whether the jobs end now, although they have not done everything: because others
    /// did.
    fn is_over(&self) -> bool {
        false
    }
}

/// Starts the jobs at once.
struct Open;

impl Gate for Open {
    fn opens(&mut self) -> Option<Instant> {
        Some(Instant::now())
    }

    fn opened(&mut self, _: Instant) {}
}

/// Like [`run_until`], and also measures the CPU time of another process, for example the target,
/// over the same time.
///
/// # Errors
/// Those of [`run`].
pub fn run_watching(
    device: Arc<dyn BlockDevice>,
    spec: &JobSpec,
    watched: &[u32],
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunReport, Error> {
    run_gated(device, spec, watched, &mut Open, stop, progress)
}

/// Like [`run_watching`], but the jobs start when `gate` says so.
///
/// # Errors
/// Those of [`run`].
pub fn run_gated(
    device: Arc<dyn BlockDevice>,
    spec: &JobSpec,
    watched: &[u32],
    gate: &mut dyn Gate,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunReport, Error> {
    let started = SystemTime::now();
    let (device, plan) = Plan::on(device, spec, run_name(started))?;
    let mut runner = Runner::start(&device, plan, watched)?;
    let collected = runner.collect(gate, stop, progress);
    runner.shut_down(collected.is_err())?;
    let (jobs, loops, [process, other]) = collected?;
    let rounded = spec.rounded(device.geometry().block_bytes);
    let mut spec = spec.clone();
    spec.left_out.extend(rounded);
    Ok(RunReport {
        url: device.url().to_owned(),
        geometry: device.geometry(),
        spec,
        started,
        jobs,
        loops,
        process,
        watched: (!watched.is_empty()).then_some(other),
        stopped: stop.load(Relaxed),
    })
}

/// A number that no other run has: when it began, and the process.
fn run_name(started: SystemTime) -> u64 {
    let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_nanos() as u64).rotate_left(17) ^ u64::from(std::process::id())
}

struct Runner {
    shared: Arc<SharedRun>,
    loops: Vec<OneLoop>,
    events: Receiver<Event>,
    view: View,
}

struct OneLoop {
    remote: RemoteLoop,
    thread: JoinHandle<std::io::Result<()>>,
    jobs: Vec<DriverId>,
}

/// What was collected: jobs, loops, and the processor time of this process and of those that are
/// watched.
type Collected = (Vec<JobReport>, Vec<RunLoopReport>, [Usage; 2]);

impl Runner {
    /// Starts all loops with their jobs, which connect and then wait.
    fn start(device: &Arc<dyn BlockDevice>, plan: Plan, watched: &[u32]) -> Result<Self, Error> {
        let shared = Arc::new(SharedRun::new(plan, watched));
        let (give, events) = mpsc::channel();
        let mut runner = Self { shared, loops: Vec::new(), events, view: View::default() };
        for thread in 0..runner.shared.plan.threads {
            match start_loop(device, &runner.shared, thread, &give) {
                Ok(started) => runner.loops.push(started),
                Err(error) => {
                    runner.shut_down(true)?;
                    return Err(error);
                }
            }
        }
        Ok(runner)
    }

    /// Wakes all jobs.
    fn wake(&self) {
        for one in &self.loops {
            let jobs = one.jobs.clone();
            one.remote.post(move |on| jobs.iter().for_each(|&job| on.wake(job)));
        }
    }

    fn collect(
        &mut self,
        gate: &mut dyn Gate,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Collected, Error> {
        let mut jobs = Vec::new();
        let mut loops = vec![RunLoopReport::default(); self.loops.len()];
        let (mut begin, mut end): (Option<[Usage; 2]>, Option<[Usage; 2]>) = (None, None);
        let mut is_over = false;
        let mut ready = 0;
        let mut last_report = Instant::now();
        while jobs.len() < self.shared.plan.spec.numjobs as usize {
            let connected = ready == self.shared.plan.spec.numjobs;
            let wait = if connected && self.view.started.is_none() {
                self.try_gate(gate)
            } else {
                PROGRESS_EVERY
            };
            match self.events.recv_timeout(wait) {
                Ok(Event::Ready) => ready += 1,
                Ok(Event::Done(report)) => {
                    is_over |= self.shared.plan.spec.ended_by(&report) != ExitAll::No;
                    jobs.push(*report);
                }
                Ok(Event::Loop(ended)) => {
                    loops[ended.thread as usize] = ended.report;
                    let [first, last] = ended.processes;
                    // Of loops that overlap, the first to begin and the last to end.
                    begin =
                        Some(begin.filter(|b| b[0].total() < first[0].total()).unwrap_or(first));
                    end = Some(end.filter(|e| e[0].total() > last[0].total()).unwrap_or(last));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Thread("its jobs did not report".into()));
                }
            }
            let ends = stop.load(Relaxed) || is_over || gate.is_over();
            if ends && !self.shared.stop.swap(true, Relaxed) {
                self.wake();
            }
            if last_report.elapsed() >= PROGRESS_EVERY {
                last_report = Instant::now();
                progress(self.view.update(&self.shared));
            }
        }
        jobs.sort_by_key(|job| job.index);
        let (begin, end) = (begin.unwrap_or_default(), end.unwrap_or_default());
        Ok((jobs, loops, [0, 1].map(|i| end[i].since(&begin[i]))))
    }

    /// All jobs are connected: starts them if it is time. Returns how long to wait before it is
    /// worth asking again.
    fn try_gate(&mut self, gate: &mut dyn Gate) -> Duration {
        let Some(left) = gate.opens().map(|at| at.saturating_duration_since(Instant::now())) else {
            return GATE_EVERY;
        };
        if !left.is_zero() {
            return left.min(PROGRESS_EVERY);
        }
        self.shared.go.store(true, Relaxed);
        let now = Instant::now();
        self.view.started = Some(now);
        self.wake();
        gate.opened(now);
        PROGRESS_EVERY
    }

    /// Joins the threads. When jobs are still there, `stop` makes their loops end without them.
    fn shut_down(&mut self, stop: bool) -> Result<(), Error> {
        for one in &self.loops {
            if stop {
                one.remote.post(|on| on.stop());
            }
        }
        for one in self.loops.drain(..) {
            match one.thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(cause)) => return Err(Error::io("the event loop's poller failed", cause)),
                Err(panic) => return Err(Error::Thread(panic_text(&*panic))),
            }
        }
        Ok(())
    }
}

fn panic_text(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

fn start_loop(
    device: &Arc<dyn BlockDevice>,
    shared: &Arc<SharedRun>,
    thread: u32,
    give: &Sender<Event>,
) -> Result<OneLoop, Error> {
    let spec = &shared.plan.spec;
    let cpu = spec.cpus_allowed.get(thread as usize % spec.cpus_allowed.len().max(1)).copied();
    let jobs: Vec<u32> = shared.plan.jobs_of(thread).collect();
    let config = LoopConfig {
        name: format!("weft-bench-{thread}"),
        spin: if spec.poll { Duration::MAX } else { LoopConfig::default().spin },
        pool_bytes: limits::POOL_BYTES_DEFAULT
            + shared.plan.payload_bytes(jobs.len() as u32) as usize,
        cpu,
        disk: spec.disk,
        ..LoopConfig::default()
    };
    let (device, shared, give) = (Arc::clone(device), Arc::clone(shared), give.clone());
    let setup = move |on: &Handle| {
        let state =
            Rc::new(LoopState::new(thread, cpu, jobs.len() as u32, Arc::clone(&shared.watched)));
        let mut queues = Queues::new(&*device, shared.plan.queues_of(thread), jobs.len());
        let open = |&index: &u32| {
            on.try_spawn(|id| Job::new(id, on, queues.open(on, id)?, index, &shared, &state, &give))
        };
        let opened = jobs.iter().map(open).collect::<Result<Vec<_>, _>>();
        if opened.is_err() {
            on.stop();
        }
        opened
    };
    let (opened, remote, handle) = event_loop::spawn(config, setup).map_err(|cause| {
        let at = cpu.map(|cpu| format!(" on core {cpu} (cpus_allowed)")).unwrap_or_default();
        Error::io(format!("cannot start a loop{at}"), cause)
    })?;
    match opened {
        Ok(jobs) => Ok(OneLoop { remote, thread: handle, jobs }),
        Err(error) => {
            let _ = handle.join();
            Err(error)
        }
    }
}

/// What the progress line knows.
#[derive(Default)]
struct View {
    started: Option<Instant>,
    last: Option<(Instant, [(u64, u64); 3])>,
    /// When the verifying was first seen.
    verifying: Option<Instant>,
}

impl View {
    fn update(&mut self, shared: &SharedRun) -> Progress {
        let now = Instant::now();
        let counts = shared.progress.iter().map(|job| job.counts()).fold([(0, 0); 3], add);
        let (before, since) =
            self.last.map_or(([(0, 0); 3], None), |(at, counts)| (counts, Some(now - at)));
        self.last = Some((now, counts));
        let rate = |now: u64, before: u64| {
            since.map_or(0.0, |s| now.saturating_sub(before) as f64 / s.as_secs_f64().max(1e-9))
        };
        let elapsed = self.started.map(|started| now - started).unwrap_or_default();
        let phase = self.phase(shared, elapsed);
        let fraction = fraction(shared, phase, elapsed, &counts);
        let so_far = match phase {
            Phase::Verifying => now - *self.verifying.get_or_insert(now),
            _ => elapsed,
        };
        Progress {
            phase,
            elapsed,
            fraction,
            eta: (fraction > 0.0).then(|| so_far.mul_f64((1.0 - fraction) / fraction)),
            iops: core::array::from_fn(|i| rate(counts[i].0, before[i].0)),
            bytes_per_second: core::array::from_fn(|i| rate(counts[i].1, before[i].1)),
            failed: shared.progress.iter().map(|job| job.failed.load(Relaxed)).sum(),
        }
    }

    fn phase(&self, shared: &SharedRun, elapsed: Duration) -> Phase {
        if self.started.is_none() {
            Phase::Connecting
        } else if shared.progress.iter().any(|job| job.to_verify.load(Relaxed) > 0) {
            Phase::Verifying
        } else if elapsed < shared.plan.spec.ramp_time {
            Phase::Ramp
        } else {
            Phase::Running
        }
    }
}

fn add(sum: [(u64, u64); 3], one: [(u64, u64); 3]) -> [(u64, u64); 3] {
    core::array::from_fn(|i| (sum[i].0 + one[i].0, sum[i].1 + one[i].1))
}

/// How much is done: by time where time ends the run, by operations where their number does, by the
/// larger where both may.
fn fraction(shared: &SharedRun, phase: Phase, elapsed: Duration, counts: &[(u64, u64); 3]) -> f64 {
    if phase == Phase::Verifying {
        let of = |job: &JobProgress| {
            (job.to_verify.load(Relaxed), job.counts()[Direction::Read.index()].0)
        };
        let jobs = shared.progress.iter().map(of).filter(|(all, _)| *all > 0);
        let (all, done) = jobs.fold((0, 0), |(all, done), (a, d)| (all + a, done + d.min(a)));
        return done as f64 / all.max(1) as f64;
    }
    let plan = &shared.plan;
    let by_time = plan.spec.runtime.map_or(0.0, |runtime| {
        elapsed.as_secs_f64() / (plan.spec.ramp_time + runtime).as_secs_f64()
    });
    let shares = || (0..plan.spec.numjobs).map(|job| plan.share(job));
    let part = |limit: Option<u64>, done: u64| {
        limit.map_or(0.0, |limit| done as f64 / limit.max(1) as f64)
    };
    let sum = |of: fn(&(u64, u64)) -> u64| counts.iter().map(of).sum::<u64>();
    let by_ios = part(shares().map(|share| share.limit).sum(), sum(|count| count.0));
    let bytes = shares().map(|share| share.unit_limit.map(|units| units * plan.unit_bytes)).sum();
    let by_count = by_ios.max(part(bytes, sum(|count| count.1)));
    by_time.max(by_count).min(1.0)
}
