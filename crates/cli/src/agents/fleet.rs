//! All agents of a study: they run the same at the same instant, and what they measured becomes one
//! report.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, Receiver, Sender},
    },
    time::{Duration, Instant},
};

use weft_base::lock::Lock;
use weft_bench::{
    Error, JobSpec, Phase, Progress, RunReport,
    agents::{AgentClock, MeasuredRun, least, merged},
    limits::PROGRESS_EVERY,
    results,
    study::{Generator, Purpose},
};
use weft_block::{ErrorKind, Geometry};

use super::{
    connection::{OpenedDevice, ProvenAgent, lost},
    work::{Over, RunOrder, SharedRun, WorkerEvent, idle, work},
};
use crate::process::exit::{Failure, tell};

/// Least time between the word to start and the start.
const LEAD: Duration = Duration::from_millis(20);

/// The start lies so many times the longest uncertainty of a clock in the future: a message takes
/// about twice that.
const LEAD_TRIPS: u32 = 8;

/// An agent, also one that is lost.
struct Member {
    agent: Option<ProvenAgent>,
    /// The device, as the study names it.
    asked: String,
    facts: results::Agent,
}

/// The agents.
pub struct Fleet {
    members: RefCell<Vec<Member>>,
    clock: AgentClock,
    began: Instant,
    notes: RefCell<Vec<String>>,
    /// Greatest distance between two starts of a run on our clock, ns.
    apart_ns: Cell<i64>,
}

/// The first agents of a fleet, as the generator of a lane.
pub struct Crew {
    pub fleet: Rc<Fleet>,
    pub machines: usize,
    /// The device, for messages and reports.
    pub url: String,
    pub geometry: Geometry,
}

/// A worker, as its run sees it.
struct Worker {
    number: usize,
    start: Sender<Option<i64>>,
    ready: bool,
    outcome: Option<Over>,
}

impl Fleet {
    /// A fleet of these agents and the devices that they opened; `asked` is the device of each, as
    /// the study names it, and `urls` the same for people.
    pub fn new(
        clock: AgentClock,
        agents: Vec<(ProvenAgent, OpenedDevice)>,
        asked: Vec<String>,
        urls: Vec<String>,
    ) -> Self {
        let member =
            |(((agent, opened), asked), url): (((ProvenAgent, OpenedDevice), String), String)| {
                let facts = results::Agent {
                    name: agent.name.clone(),
                    fingerprint: agent.fingerprint.clone(),
                    url,
                    weft: agent.weft.clone(),
                    machine: agent.machine.clone(),
                    cpus: opened.cpus,
                    clock_offset_ns: agent.offset.ns as f64,
                    clock_uncertainty_ns: agent.offset.uncertainty_ns as f64,
                    late_ns: 0.0,
                    lost: None,
                };
                Member { agent: Some(agent), asked, facts }
            };
        let members = agents.into_iter().zip(asked).zip(urls).map(member).collect();
        let (notes, apart_ns) = (RefCell::default(), Cell::new(0));
        Self { members: RefCell::new(members), clock, began: Instant::now(), notes, apart_ns }
    }

    /// Adds what is known of the agents to the results.
    pub fn add_to(&self, results: &mut results::Results) {
        results.agents = self.members.borrow().iter().map(|member| member.facts.clone()).collect();
        let worst =
            results.agents.iter().map(|agent| agent.clock_uncertainty_ns).fold(0.0, f64::max);
        let apart = self.apart_ns.get() as f64;
        let known = format!("known to ±{:.3} ms or better when runs began", worst / 1e6);
        let mut notes = self.notes.take();
        notes.push(match results.agents.len() {
            1 => format!("The load came from another machine, whose clock was {known}."),
            count => format!(
                "The load came from {count} machines. Their clocks were {known}; by these clocks, none began more than {:.3} ms after another.",
                apart / 1e6
            ),
        });
        notes.extend(core::mem::take(&mut results.notes));
        results.notes = notes;
    }

    /// Says something once.
    fn note(&self, text: String) {
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&text) {
            tell(&format!("weft: {text}"));
            notes.push(text);
        }
    }

    /// Notes how a worker ended; what it measured, if it did.
    fn take(&self, member: &mut Member, over: Over) -> Option<Result<MeasuredRun, Failure>> {
        match over {
            Over::Measured(measured) => Some(Ok(*measured)),
            Over::Idle => None,
            Over::Refused(failure) => {
                self.note(format!("{failure}."));
                Some(Err(failure))
            }
            Over::Lost(why) => {
                member.agent = None;
                let after = self.began.elapsed().as_secs();
                let failure = lost(&member.facts.name, &why);
                let text =
                    format!("The agent {} was lost after {after} s: {why}.", member.facts.name);
                member.facts.lost = Some(text.clone());
                self.note(format!("{text} The others went on without it."));
                Some(Err(failure))
            }
        }
    }

    /// Notes when the machines began.
    fn compare_starts(&self, members: &mut [Member], at_ns: i64, all: &[(u32, MeasuredRun)]) {
        let mut starts = Vec::new();
        for (number, measured) in all {
            let member = &mut members[*number as usize];
            let (Some(agent), Some(started)) = (&member.agent, measured.started_ns) else {
                continue;
            };
            member.facts.clock_uncertainty_ns =
                member.facts.clock_uncertainty_ns.max(agent.offset.uncertainty_ns as f64);
            member.facts.late_ns = member
                .facts
                .late_ns
                .max(started.saturating_sub(agent.offset.to_theirs(at_ns)) as f64);
            starts.push(agent.offset.to_ours(started));
        }
        if let (Some(first), Some(last)) = (starts.iter().min(), starts.iter().max()) {
            self.apart_ns.set(self.apart_ns.get().max(last.saturating_sub(*first)));
        }
    }
}

/// Which of the first agents take part: all, or to fill the first that is there of each device.
fn taking_part(members: &[Member], machines: usize, purpose: Purpose) -> Vec<usize> {
    let there: Vec<usize> =
        (0..machines.min(members.len())).filter(|at| members[*at].agent.is_some()).collect();
    let first = |at: &usize| {
        !there
            .iter()
            .take_while(|other| *other != at)
            .any(|other| members[*other].asked == members[*at].asked)
    };
    there.iter().copied().filter(|at| purpose == Purpose::Load || first(at)).collect()
}

/// Waits until each is connected or cannot be, and says when they start. Then waits until all are
/// done; gives the instant of the start.
fn conduct(
    workers: &mut [Worker],
    events: &Receiver<(usize, WorkerEvent)>,
    shared: &SharedRun<'_>,
    at: impl FnOnce() -> i64,
    progress: &mut dyn FnMut(),
) -> Option<i64> {
    let (mut at, mut started) = (Some(at), None);
    let mut told = Instant::now();
    while workers.iter().any(|worker| worker.outcome.is_none()) {
        match events.recv_timeout(PROGRESS_EVERY) {
            Ok((number, event)) => {
                let Some(worker) = workers.iter_mut().find(|worker| worker.number == number) else {
                    continue;
                };
                match event {
                    WorkerEvent::Ready => worker.ready = true,
                    WorkerEvent::Over(over) => worker.outcome = Some(over),
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        let decided = workers.iter().all(|worker| worker.ready || worker.outcome.is_some());
        if let Some(at) = at.take_if(|_| decided) {
            let word = (!shared.stop.load(Relaxed)).then(at);
            started = word;
            // Whoever is gone meanwhile has an outcome.
            for worker in &*workers {
                let _ = worker.start.send(word);
            }
        }
        if told.elapsed() >= PROGRESS_EVERY {
            told = Instant::now();
            progress();
        }
    }
    started
}

/// How each ended that took part, and when they were to start.
type Ends = (Vec<(usize, Over)>, Option<i64>);

impl Crew {
    /// Has the chosen ones run it, each by a thread of ours; the others hear that the study is
    /// still there.
    fn together(
        &self,
        members: &mut [Member],
        chosen: &[usize],
        shared: &SharedRun<'_>,
        spec: &JobSpec,
        progress: &mut dyn FnMut(Progress),
    ) -> Ends {
        let (begun, clock) = (Instant::now(), self.fleet.clock);
        let uncertainty = members
            .iter()
            .filter_map(|member| Some(member.agent.as_ref()?.offset.uncertainty_ns))
            .max();
        let lead =
            LEAD + Duration::from_nanos(uncertainty.unwrap_or(0).unsigned_abs()) * LEAD_TRIPS;
        let (give, events) = mpsc::channel();
        let (mut workers, mut started) = (Vec::new(), None);
        std::thread::scope(|scope| {
            for (number, member) in members.iter_mut().enumerate() {
                let give = give.clone();
                let Some(agent) = &mut member.agent else { continue };
                if !chosen.contains(&number) {
                    scope.spawn(move || idle(agent, shared));
                    continue;
                }
                let (start, word) = mpsc::channel();
                workers.push(Worker { number, start, ready: false, outcome: None });
                scope.spawn(move || {
                    // The run listens until all are over.
                    let ready = || drop(give.send((number, WorkerEvent::Ready)));
                    let over = work(agent, number, shared, ready, &word);
                    let _ = give.send((number, WorkerEvent::Over(over)));
                });
            }
            drop(give);
            let at = || clock.now_ns().saturating_add(i64::try_from(lead.as_nanos()).unwrap_or(0));
            started = conduct(&mut workers, &events, shared, at, &mut || {
                progress(seen(shared, spec, begun))
            });
            shared.over.store(true, Relaxed);
        });
        (
            workers
                .into_iter()
                .filter_map(|worker| Some((worker.number, worker.outcome?)))
                .collect(),
            started,
        )
    }
}

impl Generator for Crew {
    fn title(&self) -> &str {
        "the agents"
    }

    fn run(
        &self,
        purpose: Purpose,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RunReport, Error> {
        let mut members = self.fleet.members.borrow_mut();
        let chosen = taking_part(&members, self.machines, purpose);
        if chosen.is_empty() {
            let text = format!("all machines of {} are lost", self.url);
            return Err(weft_block::Error::new(ErrorKind::Refused, text).into());
        }
        let rates = Lock::new(vec![(0.0, false); members.len()]);
        let shared =
            SharedRun { order: RunOrder::of(spec), stop, over: AtomicBool::new(false), rates };
        let (ends, started) = self.together(&mut members, &chosen, &shared, spec, progress);
        let (mut all, mut failed) = (Vec::new(), None);
        for (number, over) in ends {
            match self.fleet.take(&mut members[number], over) {
                Some(Ok(measured)) => {
                    all.push((u32::try_from(number).unwrap_or(u32::MAX), measured))
                }
                Some(Err(failure)) => failed = failed.or(Some(failure)),
                None => {}
            }
        }
        if let Some(at_ns) = started {
            self.fleet.compare_starts(&mut members, at_ns, &all);
        }
        if let (Some(failure), true) = (failed, all.is_empty()) {
            return Err(weft_block::Error::new(
                failure.kind().unwrap_or(ErrorKind::Io),
                failure.to_string(),
            )
            .into());
        }
        let all = if purpose == Purpose::Fill { least(all) } else { all };
        let mut report = merged(&self.url, self.geometry, spec, &all);
        report.stopped |= stop.load(Relaxed);
        Ok(report)
    }

    fn names(&self) -> Vec<String> {
        self.fleet
            .members
            .borrow()
            .iter()
            .take(self.machines)
            .map(|member| member.facts.name.clone())
            .collect()
    }
}

/// The progress of all together.
fn seen(shared: &SharedRun<'_>, spec: &JobSpec, begun: Instant) -> Progress {
    let rates = shared.rates.lock();
    let measuring = rates.iter().any(|(_, measuring)| *measuring);
    let iops = rates.iter().map(|(iops, _)| iops).sum();
    // The study counts what comes after the warm-up.
    let elapsed = if measuring {
        begun.elapsed().max(spec.ramp_time + Duration::from_millis(1))
    } else {
        Duration::ZERO
    };
    Progress {
        phase: if measuring { Phase::Running } else { Phase::Ramp },
        elapsed,
        fraction: 0.0,
        eta: None,
        iops: [iops, 0.0, 0.0],
        bytes_per_second: [0.0; 3],
        failed: 0,
    }
}
