//! A study at an agent, after the proof: one device, and one run at a time. When the study goes, so
//! does the run.

use super::channel::{AgentChannel, ChannelLost};
use super::config::AgentConfig;
use super::running::AgentRun;
use crate::connection::ConnectArgs;
use crate::exit::Failure;
use crate::limits::AGENT_SILENCE_S;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use weft_bench::agents::{AgentClock, AgentMessage, RunOrder, StudyMessage};
use weft_bench::limits::{AGENT_URL_BYTES_MAX, THREADS_MAX};
use weft_block::{Device, ErrorKind};
use weft_endpoint::{Control, overwrite};

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
            overwrite::refuse_data(&device)?;
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
