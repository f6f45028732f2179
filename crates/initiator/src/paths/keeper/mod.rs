//! The driver on the control loop that opens the paths of a device, and opens them again after
//! their loss.

mod comparing;
mod renewal;
mod unflushed;

use super::asking::Asked;
use super::backoff::pause;
use super::opener::PathOpener;
use super::path_group::{Live, PathGroup};
use super::replay::Replayed;
use super::samples::Comparison;
use super::stranded::Stranded;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;
use weft_block::path::PathState;
use weft_block::{AccessState, BlockDevice, Device, Error, Identity, Opening, Presence, Promise};
use weft_connection::limits::PATH_LOOK_S;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, RemoteLoop, Time};

/// What a path does.
pub(super) enum Phase {
    /// It is being opened.
    Connecting(Opening),
    /// It is open, and leads to another target: what that has is compared with what a path has that
    /// is used.
    Comparing(Device, Comparison),
    /// It is open again, but may have lost writes; queues finish what they have under way on other
    /// paths, for the replay of this number.
    Settling(Device, u64),
    /// It is asked who else is registered with it.
    Asking(Device, Asked),
    /// Unflushed writes are looked for there, or written to it again.
    Replaying(Device, Replayed),
    /// It is open.
    Live,
    /// It is opened again at this time.
    Waiting(Time),
    /// It is not opened any more.
    Lost,
}

/// A path that is opened once more.
struct Renewal {
    /// `None`: it was opened.
    opening: Option<Opening>,
    asked: Promise<()>,
}

/// A path, as the keeper sees it.
pub(super) struct Path {
    opener: PathOpener,
    phase: Phase,
    /// It was open before.
    again: bool,
    /// What it leads to was compared with what a path to another target leads to.
    compared: bool,
    /// What it led to when it was last opened.
    identity: Option<Identity>,
    /// Attempts since it was last open.
    attempts: u32,
    /// Since when it is not open.
    down_since: Option<Time>,
    /// The cache epoch of the device when it was last open.
    epoch: Option<u64>,
    /// What the log said last of why it cannot be opened.
    complaint: Option<String>,
    /// It is opened once more, beside what is in use.
    renewal: Option<Renewal>,
}

impl Path {
    pub(super) fn new(opener: PathOpener, phase: Phase, epoch: Option<u64>) -> Self {
        let again = matches!(phase, Phase::Live);
        Self {
            opener,
            phase,
            again,
            // The others are compared with the first one.
            compared: again,
            identity: None,
            epoch,
            attempts: 0,
            down_since: None,
            complaint: None,
            renewal: None,
        }
    }
}

/// Wakes the keeper when an opening has come to something.
struct Bell(RemoteLoop, DriverId);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.wake(self.1);
    }
}

pub(super) struct Keeper {
    group: Arc<PathGroup>,
    id: DriverId,
    paths: Vec<Path>,
    waker: Waker,
    timer: TimerSlot,
    /// No path can be used.
    stranded: Option<Stranded>,
    /// Writing unflushed data again has failed half-way.
    is_unfinished: bool,
    /// How often a device has answered that with an error.
    replay_errors: u32,
    /// The next flush fails because of a loss for which unflushed data is still looked for.
    is_told: bool,
    /// It was said that another device may have taken the place of this one.
    has_warned: bool,
}

impl Keeper {
    pub(super) fn spawn(on: &Handle, group: Arc<PathGroup>, paths: Vec<Path>) {
        let id = on.spawn(|id| {
            group.set_keeper(id);
            let waker = Waker::from(Arc::new(Bell(on.remote(), id)));
            Self {
                group,
                id,
                paths,
                waker,
                timer: TimerSlot::default(),
                stranded: None,
                is_unfinished: false,
                replay_errors: 0,
                is_told: false,
                has_warned: false,
            }
        });
        on.wake(id);
    }

    fn name(&self, path: usize) -> String {
        let url = &self.paths[path].opener.url;
        if self.paths.len() == 1 { url.clone() } else { format!("path {} ({url})", path + 1) }
    }

    /// What a path does next. Returns whether there may be more to do at once.
    fn step(&mut self, on: &Handle, path: usize, live: Option<&Live>) -> bool {
        match &mut self.paths[path].phase {
            Phase::Live => {
                if let Some(live) = live.filter(|live| live.device.presence() != Presence::Gone) {
                    return self.go_on_renewing(on, path, live);
                }
                self.lose(on, path);
                true
            }
            Phase::Connecting(opening) => {
                match Pin::new(opening).poll(&mut Context::from_waker(&self.waker)) {
                    Poll::Pending => self.give_up(on, path),
                    Poll::Ready(Ok(device)) => self.opened(on, path, device),
                    Poll::Ready(Err(e)) => self.failed(on, path, e.to_string(), true),
                }
            }
            Phase::Comparing(..) => self.compare_further(on, path),
            Phase::Settling(_, number) => {
                let number = *number;
                // One at a time: the older write of one path could undo the newer one of another.
                let is_free = !self
                    .paths
                    .iter()
                    .any(|path| matches!(path.phase, Phase::Asking(..) | Phase::Replaying(..)));
                is_free && self.group.is_quiet(number) && self.settled(on, path)
            }
            Phase::Asking(_, asked) => {
                let answer = asked.lock().take();
                answer.is_some_and(|answer| self.answered(on, path, answer))
            }
            Phase::Replaying(_, told) => {
                let outcome = told.lock().take();
                outcome.is_some_and(|outcome| self.replayed(on, path, outcome))
            }
            Phase::Waiting(at) if *at <= on.now() => self.connect(on, path),
            Phase::Waiting(_) => self.give_up(on, path),
            Phase::Lost => false,
        }
    }

    /// The device of a path is over.
    fn lose(&mut self, on: &Handle, path: usize) {
        let name = self.name(path);
        let generation = self.group.paths()[path].0;
        self.group.lose(path, generation);
        if self.group.options.ctrl_loss_timeout != Some(Duration::ZERO) {
            tracing::warn!("{name}: the path is lost; weft connects again");
        }
        self.paths[path].down_since = Some(on.now());
        self.paths[path].attempts = 0;
        self.wait(on, path);
    }

    /// The next attempt is after a pause.
    fn wait(&mut self, on: &Handle, path: usize) -> bool {
        self.renewed(path, Err("the path was lost in the meantime".into()));
        let random = u16::from_le_bytes(self.group.control.identities().random());
        let state = &mut self.paths[path];
        let pause = pause(state.attempts, self.group.options.reconnect_delay, random);
        state.attempts = state.attempts.saturating_add(1);
        state.phase = Phase::Waiting(on.now() + pause);
        self.group.note(path, PathState::Waiting, None);
        self.give_up(on, path)
    }

    fn connect(&mut self, on: &Handle, path: usize) -> bool {
        if self.give_up(on, path) {
            return true;
        }
        match self.paths[path].opener.begin() {
            Ok(opening) => {
                self.group.note(path, PathState::Connecting, None);
                self.paths[path].phase = Phase::Connecting(opening);
                true
            }
            Err(e) => self.failed(on, path, e.to_string(), true),
        }
    }

    fn opened(&mut self, on: &Handle, path: usize, device: Device) -> bool {
        let difference = self.group.base.difference(device.as_ref());
        if let Some(difference) = difference.or_else(|| self.contradiction(path, device.as_ref())) {
            return self.refuse(on, path, &difference);
        }
        match self.begin_comparison(path, device.as_ref()) {
            Ok(Some(comparison)) => {
                self.paths[path].phase = Phase::Comparing(device, comparison);
                true
            }
            Ok(None) => self.accept(on, path, device),
            Err(why) => self.not_compared(on, path, device, &why),
        }
    }

    /// A path leads to another device.
    fn refuse(&mut self, on: &Handle, path: usize, difference: &str) -> bool {
        let why = format!(
            "what is there is another device: {difference}; it is not used. Check the target's configuration"
        );
        self.failed(on, path, why, false)
    }

    /// A path leads to the device, as far as is known.
    fn accept(&mut self, on: &Handle, path: usize, device: Device) -> bool {
        if self.may_have_lost_writes(device.as_ref()) {
            if !is_reached(device.as_ref()) {
                let why = "the target refuses commands on this path at present, so unflushed writes cannot be written again";
                return self.failed(on, path, why.to_owned(), true);
            }
            self.paths[path].phase = Phase::Settling(device, self.group.close_gate());
            return true;
        }
        self.admit(on, path, device);
        true
    }

    fn admit(&mut self, on: &Handle, path: usize, device: Device) {
        let name = self.name(path);
        let state = &mut self.paths[path];
        (state.epoch, state.identity) = (device.cache_epoch(), Some(device.identity()));
        let again = core::mem::replace(&mut state.again, true);
        match state.down_since.take() {
            Some(since) => {
                let seconds = (on.now() - since).as_secs_f32();
                tracing::warn!("{name}: connected again after {seconds:.1} s");
                if self.group.base.is_nameless() && !core::mem::replace(&mut self.has_warned, true)
                {
                    tracing::warn!(
                        "{name}: it has no lasting name; if another one of the same size has taken its place, that is not noticed"
                    );
                }
            }
            None => tracing::info!("{name}: connected"),
        }
        (state.phase, state.attempts, state.complaint) = (Phase::Live, 0, None);
        self.group.admit(path, device, again);
        self.renewed(path, Ok(()));
    }

    /// A path could not be opened. The log says so when the reason is new.
    fn failed(&mut self, on: &Handle, path: usize, why: String, passing: bool) -> bool {
        self.renewed(path, Err(why.clone()));
        let name = self.name(path);
        let state = &mut self.paths[path];
        state.down_since.get_or_insert(on.now());
        if state.complaint.as_ref() != Some(&why) {
            if passing {
                tracing::warn!("{name}: cannot connect: {why}; weft keeps trying");
            } else {
                tracing::error!("{name}: {why}");
            }
            state.complaint = Some(why.clone());
        }
        self.group.note(path, PathState::Waiting, Some(why));
        self.wait(on, path)
    }

    /// Gives up a path whose time limit has passed.
    fn give_up(&mut self, on: &Handle, path: usize) -> bool {
        let Some(limit) = self.group.options.ctrl_loss_timeout else { return false };
        let Some(since) = self.paths[path].down_since else { return false };
        if on.now() < since + limit {
            return false;
        }
        let why =
            self.paths[path].complaint.clone().unwrap_or_else(|| "the connection was lost".into());
        let name = self.name(path);
        tracing::error!(
            "{name}: the path is given up after {} s (--ctrl-loss-tmo): {why}",
            limit.as_secs_f32()
        );
        self.paths[path].phase = Phase::Lost;
        self.group.note(path, PathState::Lost, Some(why));
        true
    }

    /// Whether a path takes operations.
    fn is_usable(live: Option<&Live>) -> bool {
        live.is_some_and(|live| {
            live.device.presence() == Presence::Here && is_reached(live.device.as_ref())
        })
    }

    /// Whether any path takes operations.
    fn has_usable_path(&self) -> bool {
        self.group.paths().iter().any(|(_, live)| Self::is_usable(live.as_ref()))
    }

    /// Whether operations wait, fail, or have nothing to wait for any more.
    fn judge(&mut self, on: &Handle) {
        if self.has_usable_path() {
            if let Some(stranded) = self.stranded.take().filter(Stranded::is_told) {
                let seconds = (on.now() - stranded.since()).as_secs_f32();
                tracing::warn!("{}: a path can be used again after {seconds:.1} s", self.group.url);
            }
            return self.group.set_failing(false);
        }
        let since = self.stranded.get_or_insert_with(|| Stranded::new(on.now())).since();
        let limit = self.group.options.fast_io_fail_timeout;
        if limit.is_some_and(|limit| on.now() >= since + limit) {
            if self.group.presence() == Presence::Here {
                tracing::error!(
                    "{}: no path can be used; operations fail (--fast_io_fail_tmo)",
                    self.group.url
                );
            }
            self.group.set_failing(true);
        }
        self.report_stranded(on);
        if self.paths.iter().all(|path| matches!(path.phase, Phase::Lost))
            && self.group.presence() != Presence::Gone
        {
            tracing::error!("{}: the device is lost: all paths were given up", self.group.url);
            self.group.set_gone();
        }
    }

    /// Reports from time to time that operations wait although paths are open. Of paths that are
    /// not the log tells when they are lost and cannot be opened.
    fn report_stranded(&mut self, on: &Handle) {
        let refused = |(path, (_, live)): (usize, (u64, Option<Live>))| {
            let why = live?.device.access_state().refusal().unwrap_or("disabled at the target");
            Some(if self.paths.len() == 1 {
                format!("the only path is {why}")
            } else {
                format!("{} is {why}", self.name(path))
            })
        };
        let refused: Vec<String> =
            self.group.paths().into_iter().enumerate().filter_map(refused).collect();
        let Some(stranded) = &mut self.stranded else { return };
        if stranded.report(on.now(), !refused.is_empty()) {
            let seconds = (on.now() - stranded.since()).as_secs();
            let verb = if self.group.presence() == Presence::Here { "wait" } else { "fail" };
            tracing::warn!(
                "{}: no path has been usable for {seconds} s, so operations {verb}: {}",
                self.group.url,
                refused.join("; ")
            );
        }
    }

    /// When there is something to do, whatever happens.
    fn next_look(&self, on: &Handle) -> Option<Time> {
        let limits = &self.group.options;
        let of_path = |path: &Path| {
            let retry = if let Phase::Waiting(at) = path.phase { Some(at) } else { None };
            let running = matches!(
                path.phase,
                Phase::Waiting(_) | Phase::Connecting(_) | Phase::Comparing(..)
            );
            let end = limits
                .ctrl_loss_timeout
                .zip(path.down_since)
                .map(|(limit, since)| since + limit)
                .filter(|_| running);
            // Queues tell of a loss; without any the path is looked at.
            let look = matches!(path.phase, Phase::Live) && !self.group.has_users();
            let look = look.then(|| on.now() + Duration::from_secs(PATH_LOOK_S));
            [retry, end, look].into_iter().flatten().min()
        };
        let stranded = self.stranded.as_ref();
        let failing = stranded
            .zip(limits.fast_io_fail_timeout)
            .map(|(stranded, limit)| stranded.since() + limit);
        let failing = failing.filter(|at| *at > on.now());
        let has_open = self.paths.iter().any(|path| matches!(path.phase, Phase::Live));
        let report = stranded.filter(|_| has_open).map(Stranded::next);
        self.paths.iter().filter_map(of_path).chain(failing).chain(report).min()
    }
}

impl Driver for Keeper {
    fn work(&mut self, on: &Handle) -> Activity {
        self.begin_renewals();
        for path in 0..self.paths.len() {
            loop {
                let live = self.group.paths()[path].1.clone();
                if !self.step(on, path, live.as_ref()) {
                    break;
                }
            }
        }
        self.judge(on);
        if let Some(at) = self.next_look(on) {
            self.timer.arm(on, self.id, at);
        }
        Activity::Idle
    }
}

/// Whether a path reaches the data.
pub(super) fn is_reached(device: &dyn BlockDevice) -> bool {
    matches!(device.access_state(), AccessState::Optimized | AccessState::NonOptimized)
}

/// Begins to open all paths; used by [`super::begin`].
pub(super) fn begin_all(openers: &[PathOpener]) -> Result<Vec<Opening>, Error> {
    openers.iter().map(PathOpener::begin).collect()
}
