//! Hosts that open the mirror: its owner, which runs the workloads and is killed, and strangers,
//! who must not get it.

use crate::config::Config;
use crate::every_run::{control, loops};
use crate::journal::SimJournal;
use crate::oracle::Oracle;
use crate::store::BlockStore;
use crate::workload::{self, Shared, SharedWorkload, WorkloadPlan};
use core::cell::RefCell;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use weft_block::mirror::{HotLimit, LegSource, MirrorUrl};
use weft_block::path::{PathState, PathStatus};
use weft_block::{Device, Opening, Presence};
use weft_endpoint::ConnectOptions;
use weft_endpoint::identity::Identities;
use weft_endpoint::mirror::{Opener, begin_as};
use weft_io::sim::{HostId, LoopId, Rng, World};
use weft_io::{LoopConfig, Time};

/// Pause before the mirror is opened again that could not be opened.
const REOPEN: Duration = Duration::from_millis(500);

/// What makes the generator of a process's clock from its seed.
const CLOCK: u64 = 0x6a75_6d70_735f_636c;

/// What makes the generator of the size of a process's hot set from its seed.
const HOT: u64 = 0x686f_745f_7365_7473;

/// How often a loop that has little to do turns in a second at most.
const TURNS_MAX: u64 = 15_000;

/// What there is to open, and how.
#[derive(Clone)]
pub(super) struct What {
    /// The URLs of the legs.
    pub legs: Vec<String>,
    /// The state file.
    pub state: Option<Arc<BlockStore>>,
    pub options: ConnectOptions,
}

impl What {
    fn open(&self, world: &World, on: LoopId, host: &str, force: bool, seed: u64) -> Opening {
        let force = if force { "force=on," } else { "" };
        let url = format!("mirror:{force}{}", self.legs.join(","));
        let control = control(world, on, Identities::seeded(seed));
        let options = ConnectOptions { control, ..self.options.clone() };
        let state = self.state.clone().map(|store| LegSource {
            url: "state".into(),
            is_remote: false,
            open: Box::new(move |_| Ok(Opening::ready(Ok(Arc::clone(&store) as Device)))),
        });
        let opener = Opener { host: host.to_owned(), time: clock(world, seed), hot: hot(seed) };
        let parsed = MirrorUrl::parse(&url).map(|parsed| parsed.expect("the URL of a mirror"));
        let opening = parsed.and_then(|parsed| begin_as(&url, &parsed, state, opener, &options));
        opening.unwrap_or_else(|e| Opening::ready(Err(e)))
    }
}

/// What the wall clock of a host says when it opens the mirror, in seconds since 1970. In half of
/// the cases it has jumped since it was looked at last, back or forth: labels and claims store it,
/// and nothing may depend on it. Drawn from a generator of its own, so that it changes nothing of
/// the rest.
fn clock(world: &World, seed: u64) -> u64 {
    let mut rng = Rng::new(seed ^ CLOCK);
    match rng.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 | 3 => rng.magnitude(1 << 40),
        _ => world.now().since_epoch().as_secs(),
    }
}

/// The most regions that are marked at a time: so few that most first writes to a region evict
/// another one, perhaps one in which a write is under way. Drawn as the clock is.
fn hot(seed: u64) -> HotLimit {
    HotLimit::Regions(*Rng::new(seed ^ HOT).pick(&[1, 1, 1, 2, 3]))
}

enum Doing {
    /// No process runs.
    Down,
    Waiting(Time),
    Opening(Pin<Box<Opening>>),
    Open(Device),
    Closed,
}

/// The owner of the mirror.
pub(super) struct Owner {
    pub host: HostId,
    what: What,
    loops: Vec<LoopId>,
    io_loops: usize,
    pub workloads: Vec<Shared>,
    doing: Doing,
    rng: Rng,
    /// The next start has to be forced.
    pub needs_force: bool,
    /// Somebody else has taken the mirror.
    pub is_superseded: bool,
    /// Why the mirror could not be opened, since it was closed last.
    pub refusal: Option<String>,
    /// Devices opened so far.
    pub opened: u64,
    /// While the mirror waits for its legs: when that was looked at, and how often its loop had
    /// turned then.
    waiting: Option<(Time, u64)>,
}

impl Owner {
    pub fn new(
        world: &mut World,
        config: &Config,
        what: What,
        oracle: &Rc<RefCell<Oracle>>,
        journal: &SimJournal,
        mut rng: Rng,
    ) -> Self {
        let per_queue = config.blocks_per_queue() * config.units();
        let all = per_queue * config.queues as u32;
        let workloads = (0..config.queues).map(|q| {
            let plan = WorkloadPlan {
                name: format!("owner/{q}"),
                host: 0,
                overlap: false,
                first: u64::from(per_queue) * q as u64,
                slots: config.slots,
                slot_units: config.slot_blocks * config.units(),
                flushes: (0, all),
                is_cached: config.volatile,
                think: config.think,
                is_taken_over: false,
                may_fail: true,
            };
            SharedWorkload::new(plan, config.operations, rng.fork(), oracle, journal)
        });
        let workloads = workloads.collect();
        let host = world.host("10.0.1.1");
        let (loops, doing) = (Vec::new(), Doing::Down);
        Self {
            host,
            what,
            loops,
            io_loops: config.queues,
            workloads,
            doing,
            rng,
            needs_force: false,
            is_superseded: false,
            refusal: None,
            opened: 0,
            waiting: None,
        }
    }

    /// Starts the process.
    pub fn start(&mut self, world: &mut World, journal: &SimJournal) {
        self.loops = loops(world, self.host, 1 + self.io_loops);
        journal.tell("owner", format_args!("starts"));
        self.doing = Doing::Waiting(world.now());
    }

    /// The process ends without ceremony.
    pub fn kill(&mut self, world: &mut World, journal: &SimJournal) {
        journal.tell("owner", format_args!("is killed"));
        world.kill(self.host);
        self.doing = Doing::Down;
        self.loops.clear();
        self.workloads.iter().for_each(|it| it.borrow_mut().forget());
    }

    pub fn is_down(&self) -> bool {
        matches!(self.doing, Doing::Down)
    }

    /// The mirror, while it is open.
    pub fn device(&self) -> Option<&Device> {
        if let Doing::Open(device) = &self.doing { Some(device) } else { None }
    }

    /// Its legs.
    pub fn legs(&self) -> Vec<PathStatus> {
        self.device().map(|device| device.paths()).unwrap_or_default()
    }

    /// Returns whether the mirror is open, with all legs in sync.
    pub fn is_whole(&self) -> bool {
        let legs = self.legs();
        !legs.is_empty() && legs.iter().all(|leg| leg.state == PathState::Live)
    }

    /// Returns whether it is opening the mirror by force, or is about to: nothing must go wrong
    /// then, as what is not here is lost.
    pub fn is_forcing(&self) -> bool {
        self.needs_force && matches!(self.doing, Doing::Waiting(_) | Doing::Opening(_))
    }

    /// Returns whether an operation that writes is under way.
    pub fn is_writing(&self) -> bool {
        self.workloads.iter().any(|it| it.borrow().is_writing())
    }

    /// Operations that have ended.
    pub fn ended(&self) -> u64 {
        self.workloads.iter().map(|it| it.borrow().ended).sum()
    }

    /// Writes that were acknowledged.
    pub fn written(&self) -> u64 {
        self.workloads.iter().map(|it| it.borrow().written).sum()
    }

    /// Goes on: opens, by force only while nothing goes wrong, and starts workloads.
    pub fn look_after(&mut self, world: &mut World, journal: &SimJournal, is_calm: bool) {
        match &mut self.doing {
            Doing::Waiting(until) if *until <= world.now() && (is_calm || !self.needs_force) => {
                let (force, seed) = (self.needs_force, self.rng.bits());
                journal.tell(
                    "owner",
                    format_args!("opens the mirror{}", if force { " by force" } else { "" }),
                );
                let opening = self.what.open(world, self.loops[0], "owner", force, seed);
                self.doing = Doing::Opening(Box::pin(opening));
            }
            Doing::Opening(opening) => {
                match opening.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(device)) => {
                        (self.opened, self.needs_force) = (self.opened + 1, false);
                        journal.tell("owner", format_args!("has the mirror"));
                        self.run(world, device, journal);
                    }
                    Poll::Ready(Err(e)) => {
                        journal.tell("owner", format_args!("cannot open the mirror: {e}"));
                        // Two starts that came no further than one label each: somebody has to
                        // choose.
                        self.needs_force |= e.to_string().contains("apart from each other");
                        self.refusal = Some(e.to_string());
                        self.doing = Doing::Waiting(world.now() + REOPEN);
                    }
                }
            }
            Doing::Open(device) => {
                if device.presence() == Presence::Gone {
                    if self.is_superseded {
                        return;
                    }
                    return journal.violation("the mirror of its only owner has ended".into());
                }
                let is_idle = self.workloads.iter().all(|it| !it.borrow().running);
                if is_idle && self.workloads.iter().any(|it| it.borrow().left > 0) {
                    let device = device.clone();
                    self.run(world, device, journal);
                }
            }
            _ => {}
        }
    }

    /// Checks that its loop sleeps while the mirror waits for its legs.
    pub fn check_sleep(&mut self, world: &World, journal: &SimJournal) {
        let is_away = self.device().is_some_and(|device| device.presence() == Presence::Away);
        if !is_away {
            self.waiting = None;
            return;
        }
        let (now, turns) = (world.now(), world.handle(self.loops[0]).counters().snapshot().turns);
        let (since, before) = *self.waiting.get_or_insert((now, turns));
        if now - since < Duration::from_secs(1) {
            return;
        }
        if turns - before > TURNS_MAX {
            journal.violation(format!(
                "the mirror waits for its legs, and its loop turned {} times in a second",
                turns - before
            ));
        }
        self.waiting = Some((now, turns));
    }

    fn run(&mut self, world: &World, device: Device, journal: &SimJournal) {
        for (id, workload) in self.loops[1..].iter().zip(&self.workloads) {
            if workload.borrow().left == 0 {
                continue;
            }
            if let Err(e) = workload::start(&world.handle(*id), device.as_ref(), workload) {
                journal.violation(format!("the mirror gives no queue: {e}"));
            }
        }
        self.doing = Doing::Open(device);
    }

    /// Returns whether all workloads are done.
    pub fn is_over(&self) -> bool {
        self.workloads.iter().all(|it| it.borrow().is_over() && !it.borrow().running)
    }

    /// Lets go of the mirror.
    pub fn close(&mut self) {
        self.doing = Doing::Closed;
    }

    /// Opens the mirror again that it has let go of.
    pub fn reopen(&mut self, world: &World, force: bool) {
        (self.needs_force, self.refusal) = (force, None);
        self.doing = Doing::Waiting(world.now());
    }

    /// The keep alive timeout with which the mirror is opened from now on.
    pub fn set_keep_alive(&mut self, millis: u32) {
        self.what.options.keep_alive_ms = millis;
    }

    /// Drivers and memory on its loops.
    pub fn left(&self, world: &World) -> (usize, usize) {
        let loops = || self.loops.iter().map(|&id| world.handle(id));
        (loops().map(|on| on.live_drivers()).sum(), loops().map(|on| on.pool().taken_bytes()).sum())
    }

    pub fn loops(&self) -> &[LoopId] {
        &self.loops
    }
}

/// Somebody else who opens the mirror while its owner has it.
pub(super) struct Stranger {
    host: HostId,
    opening: Option<Pin<Box<Opening>>>,
    /// It takes the mirror by force, and may have it.
    is_allowed: bool,
    device: Option<Device>,
}

impl Stranger {
    pub fn new(world: &mut World) -> Self {
        Self { host: world.host("10.0.3.1"), opening: None, is_allowed: false, device: None }
    }

    /// Opens the mirror, without its state file.
    pub fn begin(&mut self, world: &mut World, what: &What, seed: u64) {
        let on = world.add_loop(self.host, &LoopConfig::default());
        let what = What { state: None, ..what.clone() };
        self.opening = Some(Box::pin(what.open(world, on, "stranger", false, seed)));
    }

    /// Takes the mirror by force.
    pub fn take(&mut self, world: &mut World, what: &What, seed: u64) {
        let on = world.add_loop(self.host, &LoopConfig::default());
        self.is_allowed = true;
        let what = What { state: None, ..what.clone() };
        self.opening = Some(Box::pin(what.open(world, on, "stranger", true, seed)));
    }

    /// Returns whether it has the mirror that it has taken.
    pub fn has_mirror(&self) -> bool {
        self.device.is_some()
    }

    /// Closes the mirror.
    pub fn let_go(&mut self) {
        self.device = None;
    }

    /// It gives up, with its process.
    pub fn stop(&mut self, world: &mut World) {
        if self.opening.take().is_some() {
            world.kill(self.host);
        }
    }

    /// Checks the outcome of opening the mirror.
    pub fn look_after(&mut self, world: &mut World, journal: &SimJournal) {
        let Some(opening) = &mut self.opening else { return };
        let Poll::Ready(outcome) = opening.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            return;
        };
        match outcome {
            Ok(device) if self.is_allowed => {
                journal.tell("stranger", format_args!("has the mirror"));
                (self.opening, self.device) = (None, Some(device));
                return;
            }
            Ok(_) => journal.violation("a second owner got the mirror".into()),
            Err(e) => journal.tell("stranger", format_args!("is refused: {e}")),
        }
        self.stop(world);
    }
}
