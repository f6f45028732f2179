//! State shared by jobs: the signal to start and to stop across threads, and the measurement of a
//! loop among its own jobs.

use super::job_report::JobReport;
use super::noise::Noise;
use super::plan::Plan;
use super::report::RunLoopReport;
use core::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use weft_io::counters::Snapshot;
use weft_io::cpu_usage::{self, Usage};
use weft_io::{Handle, Time};

/// What a job tells the runner.
pub(super) enum Event {
    /// Its queue has answered once: connections stand.
    Ready,
    /// It has ended.
    Done(Box<JobReport>),
    /// The last job of a loop has ended what is measured.
    Loop(Box<LoopEnd>),
}

/// What a loop measured.
pub(super) struct LoopEnd {
    pub thread: u32,
    pub report: RunLoopReport,
    /// Processor time at the beginning and at the end: of this whole process, and of those that are
    /// watched.
    pub processes: [[Usage; 2]; 2],
}

/// Across threads; written now and then, never for each operation by more than one.
pub(super) struct SharedRun {
    pub plan: Plan,
    /// Material of the payloads of all jobs.
    pub noise: Noise,
    /// All jobs are connected: each starts when it sees this.
    pub go: AtomicBool,
    pub stop: AtomicBool,
    /// The rates of all jobs together have settled.
    pub settled: AtomicBool,
    /// Another process whose processor time interests.
    pub watched: Arc<[u32]>,
    /// Progress of each job, for the progress line.
    pub progress: Box<[JobProgress]>,
}

/// What a job has done so far. On cache lines of its own, since its loop writes it in every turn.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct JobProgress {
    /// Operations and bytes, by direction.
    counts: [[AtomicU64; 2]; 3],
    pub failed: AtomicU64,
    /// Units that are checked after the writing; 0 until then. The counts then begin again.
    pub to_verify: AtomicU64,
}

impl JobProgress {
    pub fn set(&self, counts: [(u64, u64); 3]) {
        for (to, (ios, bytes)) in self.counts.iter().zip(counts) {
            to[0].store(ios, Relaxed);
            to[1].store(bytes, Relaxed);
        }
    }

    pub fn counts(&self) -> [(u64, u64); 3] {
        core::array::from_fn(|i| (self.counts[i][0].load(Relaxed), self.counts[i][1].load(Relaxed)))
    }
}

impl SharedRun {
    pub fn new(plan: Plan, watched: &[u32]) -> Self {
        let progress = (0..plan.spec.numjobs).map(|_| JobProgress::default()).collect();
        Self {
            plan,
            noise: Noise::draw(),
            go: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            watched: watched.into(),
            progress,
        }
    }
}

/// A loop's own measurement, shared by its jobs.
pub(super) struct LoopState {
    pub thread: u32,
    pub cpu: Option<usize>,
    pub jobs: u32,
    pub watched: Arc<[u32]>,
    /// Jobs that have not yet ended what is measured.
    measuring: Cell<u32>,
    /// Jobs that have not yet ended altogether.
    alive: Cell<u32>,
    begin: Cell<Option<Mark>>,
}

#[derive(Clone, Copy)]
struct Mark {
    at: Time,
    counters: Snapshot,
    thread: Usage,
    /// This process, and those that are watched.
    processes: [Usage; 2],
}

impl Mark {
    fn now(on: &Handle, watched: &[u32]) -> Self {
        // A process that is gone used nothing; its lane has failed in other ways.
        let watched = watched.iter().filter_map(|pid| cpu_usage::of_process(*pid).ok());
        let watched = watched.fold(Usage::default(), |sum, one| sum.plus(&one));
        let (thread, process) = (cpu_usage::thread(), cpu_usage::process());
        Self {
            at: on.clock(),
            counters: on.counters().snapshot(),
            thread,
            processes: [process, watched],
        }
    }
}

impl LoopState {
    pub fn new(thread: u32, cpu: Option<usize>, jobs: u32, watched: Arc<[u32]>) -> Self {
        Self {
            thread,
            cpu,
            jobs,
            watched,
            measuring: Cell::new(jobs),
            alive: Cell::new(jobs),
            begin: Cell::new(None),
        }
    }

    /// A job begins to measure: the first one marks the beginning.
    pub fn begin(&self, on: &Handle) {
        if self.begin.get().is_none() {
            self.begin.set(Some(Mark::now(on, &self.watched)));
        }
    }

    /// A job ends what it measures: after the last one there is a report.
    pub fn end(&self, on: &Handle) -> Option<Event> {
        self.measuring.set(self.measuring.get() - 1);
        if self.measuring.get() > 0 {
            return None;
        }
        let end = Mark::now(on, &self.watched);
        let begin = self.begin.get().unwrap_or(end);
        let report = RunLoopReport {
            cpu: self.cpu,
            jobs: self.jobs,
            time: end.at - begin.at,
            thread: end.thread.since(&begin.thread),
            counters: end.counters.since(&begin.counters),
            machine: None,
        };
        Some(Event::Loop(Box::new(LoopEnd {
            thread: self.thread,
            report,
            processes: [begin.processes, end.processes],
        })))
    }

    /// A job is over: after the last one the loop ends.
    pub fn leave(&self, on: &Handle) {
        self.alive.set(self.alive.get() - 1);
        if self.alive.get() == 0 {
            on.stop();
        }
    }
}
