//! A run of an agent, on a thread of its own, so that requests of the study are read during the
//! run.

use crate::exit::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Instant;
use weft_base::lock::Lock;
use weft_bench::agents::{AgentClock, AgentMessage, MeasuredRun, ProcessorWatch};
use weft_bench::workload::{Gate, run_gated};
use weft_bench::{JobSpec, Phase};
use weft_block::{Device, ErrorKind};

/// A run.
pub struct AgentRun {
    stop: Arc<AtomicBool>,
    start: Arc<Lock<Option<Instant>>>,
    answers: Receiver<AgentMessage>,
    thread: Option<JoinHandle<()>>,
}

/// Waits for the study's word.
struct AtWord {
    start: Arc<Lock<Option<Instant>>>,
    answers: Sender<AgentMessage>,
    said_ready: bool,
    started: Option<Instant>,
    watch: Option<ProcessorWatch>,
}

impl Gate for AtWord {
    fn opens(&mut self) -> Option<Instant> {
        if !core::mem::replace(&mut self.said_ready, true) {
            // Nobody listens any more: then the run is being ended, too.
            let _ = self.answers.send(AgentMessage::Ready);
        }
        *self.start.lock()
    }

    fn opened(&mut self, at: Instant) {
        self.started = Some(at);
        self.watch = Some(ProcessorWatch::start());
    }
}

impl AgentRun {
    /// Connects the jobs, which then wait.
    pub fn prepare(device: Device, job: JobSpec, clock: AgentClock) -> Result<Self, Failure> {
        let (answers, received) = mpsc::channel();
        let (stop, start) = (Arc::new(AtomicBool::new(false)), Arc::new(Lock::new(None)));
        let gate = AtWord {
            start: Arc::clone(&start),
            answers: answers.clone(),
            said_ready: false,
            started: None,
            watch: None,
        };
        let stopped = Arc::clone(&stop);
        let work = move || {
            let _ = answers.send(measure(device, &job, &clock, gate, &stopped, &answers));
        };
        let thread = std::thread::Builder::new().name("weft-agent-run".into()).spawn(work);
        let thread = thread.map_err(|e| {
            Failure::of(ErrorKind::NoResources, format!("cannot start a thread: {e}"))
        })?;
        Ok(Self { stop, start, answers: received, thread: Some(thread) })
    }

    /// Starts the jobs at this instant, or at once if it has passed.
    pub fn start(&self, at: Instant) {
        *self.start.lock() = Some(at);
    }

    /// Ends the run early.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Its next answer, if there is one.
    pub fn answer(&self) -> Option<AgentMessage> {
        self.answers.try_recv().ok()
    }

    /// Returns whether the run is over: it sends no further answers.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for AgentRun {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the run itself.
            let _ = thread.join();
        }
    }
}

fn measure(
    device: Device,
    job: &JobSpec,
    clock: &AgentClock,
    mut gate: AtWord,
    stop: &AtomicBool,
    answers: &Sender<AgentMessage>,
) -> AgentMessage {
    let report = run_gated(device, job, &[], &mut gate, stop, &mut |now| {
        if now.phase != Phase::Connecting {
            let measuring = now.phase == Phase::Running && now.elapsed > job.ramp_time;
            let _ = answers.send(AgentMessage::Progress { iops: now.iops.iter().sum(), measuring });
        }
    });
    match report {
        Ok(report) => {
            let processors = gate.watch.and_then(ProcessorWatch::end);
            let measured = MeasuredRun::of(&report, gate.started.map(|at| clock.of(at)));
            AgentMessage::Ended { measured: Box::new(MeasuredRun { processors, ..measured }) }
        }
        Err(error) => AgentMessage::Refused { kind: error.kind().into(), why: error.to_string() },
    }
}
