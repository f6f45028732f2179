//! The work of a study with one agent during a run, on a thread of its own.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use weft_base::lock::Lock;
pub use weft_bench::agents::RunOrder;
use weft_bench::{
    agents::{AgentMessage, MeasuredRun, StudyMessage},
    limits::AGENT_CLOCK_TRIPS,
};

use super::{
    channel::ChannelLost,
    connection::{ProvenAgent, failure},
};
use crate::{
    limits::{AGENT_OPEN_S, AGENT_SILENCE_S},
    process::exit::Failure,
};

/// How long to listen before looking whether the study was stopped.
const STEP: Duration = Duration::from_millis(50);

/// How often the agent hears that the study is still there.
const PING_EVERY: Duration = Duration::from_secs(1);

/// The number of a question whose answer only says that the agent is there.
const PING: u64 = 0;

/// State that all workers of a run share.
pub struct SharedRun<'a> {
    pub order: RunOrder,
    pub stop: &'a AtomicBool,
    /// Everybody is done.
    pub over: AtomicBool,
    /// IOPS of each, and whether it measures already.
    pub rates: Lock<Vec<(f64, bool)>>,
}

/// An event of a worker, for its run.
pub enum WorkerEvent {
    /// Its jobs are connected.
    Ready,
    /// It is over.
    Over(Over),
}

/// The end of a run for an agent.
pub enum Over {
    /// With a result.
    Measured(Box<MeasuredRun>),
    /// With nothing, as the study was stopped.
    Idle,
    /// The agent is there and did not do it.
    Refused(Failure),
    /// The agent is gone.
    Lost(ChannelLost),
}

/// Why a worker ends before its result.
enum NoResult {
    Lost(ChannelLost),
    Refused(AgentMessage),
    Stopped,
}

impl From<ChannelLost> for NoResult {
    fn from(lost: ChannelLost) -> Self {
        Self::Lost(lost)
    }
}

/// A conversation that does not fall silent.
struct Talk<'a> {
    agent: &'a mut ProvenAgent,
    heard: Instant,
    pinged: Instant,
    stopped: bool,
}

impl<'a> Talk<'a> {
    fn new(agent: &'a mut ProvenAgent) -> Self {
        Self { agent, heard: Instant::now(), pinged: Instant::now(), stopped: false }
    }

    /// Listens for a while; passes the user's wish to stop on, once.
    fn step(
        &mut self,
        shared: &SharedRun<'_>,
        wait: Duration,
    ) -> Result<Option<AgentMessage>, ChannelLost> {
        if shared.stop.load(Relaxed) && !self.stopped {
            self.stopped = true;
            self.agent.channel.send(&StudyMessage::Stop)?;
        }
        if self.pinged.elapsed() >= PING_EVERY {
            self.pinged = Instant::now();
            self.agent.channel.send(&StudyMessage::Clock { number: PING })?;
        }
        let answer = self.agent.channel.poll(wait)?;
        if answer.is_some() {
            self.heard = Instant::now();
        } else if self.heard.elapsed() > Duration::from_secs(AGENT_SILENCE_S) {
            return Err(ChannelLost::Silent);
        }
        Ok(answer)
    }
}

/// Runs the order on one agent. `ready` is called when its jobs are connected; then `start` gives
/// the instant, on our clock, or nothing.
pub fn work(
    agent: &mut ProvenAgent,
    number: usize,
    shared: &SharedRun<'_>,
    ready: impl FnOnce(),
    start: &Receiver<Option<i64>>,
) -> Over {
    let name = agent.name.clone();
    match converse(agent, number, shared, ready, start) {
        Ok(measured) => Over::Measured(measured),
        Err(NoResult::Stopped) => Over::Idle,
        Err(NoResult::Refused(answer)) => Over::Refused(failure(&name, answer)),
        Err(NoResult::Lost(why)) => Over::Lost(why),
    }
}

fn converse(
    agent: &mut ProvenAgent,
    number: usize,
    shared: &SharedRun<'_>,
    ready: impl FnOnce(),
    start: &Receiver<Option<i64>>,
) -> Result<Box<MeasuredRun>, NoResult> {
    agent.compare((AGENT_CLOCK_TRIPS / 8).max(1))?;
    agent.channel.send(&StudyMessage::Prepare { order: shared.order.clone() })?;
    let mut talk = Talk::new(agent);
    connect(&mut talk, shared)?;
    ready();
    let Some(at_ns) = word(&mut talk, shared, start)? else {
        talk.agent.channel.send(&StudyMessage::Stop)?;
        return finish(&mut talk, number, shared).and(Err(NoResult::Stopped));
    };
    let at_ns = talk.agent.offset.to_theirs(at_ns);
    talk.agent.channel.send(&StudyMessage::Start { at_ns })?;
    finish(&mut talk, number, shared)
}

/// Until its jobs are connected.
fn connect(talk: &mut Talk<'_>, shared: &SharedRun<'_>) -> Result<(), NoResult> {
    let until = Instant::now() + Duration::from_secs(AGENT_OPEN_S);
    while Instant::now() < until {
        match talk.step(shared, STEP)? {
            Some(AgentMessage::Ready) => return Ok(()),
            Some(AgentMessage::Ended { .. }) => return Err(NoResult::Stopped),
            Some(refused @ AgentMessage::Refused { .. }) => return Err(NoResult::Refused(refused)),
            _ => {}
        }
    }
    Err(ChannelLost::Silent.into())
}

/// Until the others are connected, too: the instant of the start, or none.
fn word(
    talk: &mut Talk<'_>,
    shared: &SharedRun<'_>,
    start: &Receiver<Option<i64>>,
) -> Result<Option<i64>, NoResult> {
    loop {
        match start.recv_timeout(STEP) {
            Ok(word) => return Ok(word),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // What ends a run before its start was asked for, or is a failure.
        match talk.step(shared, Duration::from_millis(1))? {
            Some(AgentMessage::Ended { .. }) => return Err(NoResult::Stopped),
            Some(refused @ AgentMessage::Refused { .. }) => return Err(NoResult::Refused(refused)),
            _ => {}
        }
    }
}

/// Until its result is there.
fn finish(
    talk: &mut Talk<'_>,
    number: usize,
    shared: &SharedRun<'_>,
) -> Result<Box<MeasuredRun>, NoResult> {
    let run = shared.order.run.map(|run| {
        shared.order.ramp.saturating_add(run).saturating_add(Duration::from_secs(AGENT_OPEN_S))
    });
    let until = run.and_then(|run| Instant::now().checked_add(run));
    while until.is_none_or(|until| Instant::now() < until) {
        match talk.step(shared, STEP)? {
            Some(AgentMessage::Ended { measured }) => return Ok(measured),
            Some(AgentMessage::Progress { iops, measuring }) => {
                let mut rates = shared.rates.lock();
                if let Some(rate) = rates.get_mut(number) {
                    *rate = (if iops.is_finite() { iops } else { 0.0 }, measuring);
                }
            }
            Some(refused @ AgentMessage::Refused { .. }) => return Err(NoResult::Refused(refused)),
            _ => {}
        }
    }
    Err(ChannelLost::Silent.into())
}

/// Keeps the connection to an agent that has nothing to do. The loss of the agent is noticed when
/// it is needed.
pub fn idle(agent: &mut ProvenAgent, shared: &SharedRun<'_>) {
    let mut talk = Talk::new(agent);
    // The user's wish to stop is for those that run.
    talk.stopped = true;
    while !shared.over.load(Relaxed) {
        if talk.step(shared, STEP).is_err() {
            return;
        }
    }
}
