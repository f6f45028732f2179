//! A study at an agent, after the proof: one device, and one run at a time. When the study goes, so
//! does the run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
        mpsc::{Receiver, Sender},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use weft_base::lock::Lock;
use weft_bench::{
    JobSpec, Phase,
    agents::{AgentClock, AgentMessage, MeasuredRun, ProcessorWatch, RunOrder, StudyMessage},
    limits::{AGENT_URL_BYTES_MAX, THREADS_MAX},
    workload::{Gate, run_gated},
};
use weft_block::{Device, ErrorKind};
use weft_endpoint::{Control, existing_data};

use super::{
    channel::{AgentChannel, ChannelLost},
    config::AgentConfig,
};
use crate::{connection::ConnectArgs, limits::AGENT_SILENCE_S, process::exit::Failure};

/// How long to listen before looking after the run again.
const STEP: Duration = Duration::from_millis(20);

/// State that all sessions share.
pub struct Shop {
    pub config: AgentConfig,
    pub connect: ConnectArgs,
    pub control: Control,
    pub clock: AgentClock,
    /// The agent ends.
    pub stop: AtomicBool,
}

/// A device that is open.
struct Opened {
    device: Device,
    write: bool,
    cpus: Vec<usize>,
}

/// A study.
pub struct StudySession {
    shop: Arc<Shop>,
    channel: AgentChannel,
    opened: Option<Opened>,
    running: Option<AgentRun>,
}

fn refused(failure: &Failure) -> AgentMessage {
    let kind = failure.kind().unwrap_or(ErrorKind::Io);
    AgentMessage::Refused { kind: kind.into(), why: failure.to_string() }
}

impl StudySession {
    pub fn new(shop: Arc<Shop>, channel: AgentChannel) -> Self {
        Self { shop, channel, opened: None, running: None }
    }

    /// Serves the study until it goes; says why it did.
    pub fn run(mut self) -> ChannelLost {
        let mut heard = Instant::now();
        loop {
            match self.channel.poll::<StudyMessage>(STEP) {
                Ok(Some(request)) => {
                    if let Err(lost) = self.answer(request) {
                        return lost;
                    }
                    // Opening a device takes as long as it takes.
                    heard = Instant::now();
                }
                Ok(None) if heard.elapsed() > Duration::from_secs(AGENT_SILENCE_S) => {
                    return ChannelLost::Silent;
                }
                Ok(None) if self.shop.stop.load(Relaxed) => return ChannelLost::Closed,
                Ok(None) => {}
                Err(lost) => return lost,
            }
            if let Err(lost) = self.tell() {
                return lost;
            }
        }
    }

    /// Passes on what the run says.
    fn tell(&mut self) -> Result<(), ChannelLost> {
        let Some(running) = &self.running else { return Ok(()) };
        // Asked before its words are taken: what is over says nothing more.
        let over = running.is_over();
        while let Some(answer) = running.answer() {
            self.channel.send(&answer)?;
        }
        if over {
            self.running = None;
        }
        Ok(())
    }

    fn answer(&mut self, request: StudyMessage) -> Result<(), ChannelLost> {
        let answer = match request {
            StudyMessage::Clock { number } => {
                Some(AgentMessage::Time { number, now_ns: self.shop.clock.now_ns() })
            }
            StudyMessage::Open { url, write, destroy_data, threads, queue_size } => Some(
                self.open(&url, write, destroy_data, threads, queue_size)
                    .unwrap_or_else(|failure| refused(&failure)),
            ),
            StudyMessage::Prepare { order } => {
                self.prepare(&order).err().map(|failure| refused(&failure))
            }
            StudyMessage::Start { at_ns } => {
                let at = self.shop.clock.instant(at_ns).unwrap_or_else(Instant::now);
                self.running.iter().for_each(|running| running.start(at));
                None
            }
            StudyMessage::Stop => {
                self.running.iter().for_each(AgentRun::stop);
                None
            }
            StudyMessage::Hello { .. } => {
                Some(refused(&Failure::of(ErrorKind::Protocol, "the proof was given already")))
            }
        };
        answer.map_or(Ok(()), |answer| self.channel.send(&answer))
    }

    fn open(
        &mut self,
        url: &str,
        write: bool,
        destroy_data: bool,
        threads: u32,
        queue_size: Option<u16>,
    ) -> Result<AgentMessage, Failure> {
        (self.running, self.opened) = (None, None);
        let listed =
            (url.len() <= AGENT_URL_BYTES_MAX).then(|| self.shop.config.device(url)).flatten();
        let listed = listed.ok_or_else(|| {
            let text =
                "the device is not listed in the agent's configuration, and it touches no other";
            Failure::of(ErrorKind::PermissionDenied, text)
        })?;
        let allowed = weft_io::cpu::allowed();
        let cpus: Vec<usize> =
            allowed.into_iter().take(threads.clamp(1, THREADS_MAX) as usize).collect();
        let loops = u16::try_from(cpus.len()).unwrap_or(u16::MAX);
        let mut options = self.shop.connect.options(loops, &self.shop.control)?;
        options.queue_size = options.queue_size.max(queue_size.unwrap_or(0).min(1024));
        options.paths.fast_io_fail_timeout.get_or_insert(OUTAGE);
        let device = weft_endpoint::open(&listed.url, &options)?;
        let write = write && listed.write && device.features().write;
        if write && !destroy_data {
            existing_data::refuse_data(&device)?;
        }
        tracing::info!(
            "a study opens {}{}",
            device.url(),
            if write { " and overwrites it" } else { "" }
        );
        let geometry = device.geometry();
        let answer = AgentMessage::Opened {
            block_bytes: geometry.block_bytes,
            blocks: geometry.blocks,
            max_transfer_bytes: geometry.max_transfer_bytes,
            write,
            cpus: cpus.clone(),
        };
        self.opened = Some(Opened { device, write, cpus });
        Ok(answer)
    }

    fn prepare(&mut self, order: &RunOrder) -> Result<(), Failure> {
        self.running = None;
        let Some(opened) = &self.opened else {
            return Err(Failure::of(ErrorKind::Usage, "no device is open"));
        };
        let job = order.job(&opened.cpus)?;
        if RunOrder::writes(&job) && !opened.write {
            let text = "the agent may not write to this device: its configuration does not say write = true, or the study did not ask for it";
            return Err(Failure::of(ErrorKind::PermissionDenied, text));
        }
        self.running = Some(AgentRun::prepare(Arc::clone(&opened.device), job, self.shop.clock)?);
        Ok(())
    }
}

/// How long a device may be without its target; then operations fail instead of waiting.
const OUTAGE: Duration = Duration::from_secs(30);

// A run of an agent, on a thread of its own, so that requests of the study are read during the
// run.

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
            // Nobody receives it: the run is about to end as well.
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
