//! State that the paths of a device share: the open ones, their users, and the messages to the
//! users.

use super::admit::Base;
use super::counters::{Counted, Counters};
use super::options::PathOptions;
use super::ordered::Ordered;
use super::registered::Others;
use super::reserved::Key;
use super::size::Size;
use super::unflushed::Unflushed;
use crate::control::Control;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::path::{PathState, PathStatus};
use weft_block::{AccessState, Device, Pending, Presence, Promise};
use weft_connection::settle::unresolved::UnresolvedWrites;
use weft_io::{DriverId, RemoteLoop};

/// See the module.
pub(super) struct PathGroup {
    pub(super) url: String,
    pub(super) control: Control,
    pub(super) options: PathOptions,
    /// With which it has reserved the device, if it has.
    pub(super) key: Option<Key>,
    pub(super) base: Base,
    /// Writes that were lost and are not completed.
    pub(super) unresolved: UnresolvedWrites,
    /// Writes that are in flight, if the device has a volatile cache.
    pub(super) ordered: Ordered,
    /// Completed writes that no flush covers, if the device has a volatile cache.
    pub(super) log: Option<Arc<Unflushed>>,
    size: Size,
    /// How often unflushed writes were written again, and how often that is under way now.
    replays: AtomicU64,
    gates: AtomicUsize,
    /// How often unflushed writes were lost for good.
    losses: AtomicU64,
    /// Another host was registered with the device once. A target that restarts may have forgotten
    /// it, and it may still write.
    has_others: AtomicBool,
    /// Grows whenever queues have something to look at.
    version: AtomicU64,
    /// No path could be used for so long that operations fail.
    failing: AtomicBool,
    /// No path will ever be used again.
    gone: AtomicBool,
    keeper: OnceLock<DriverId>,
    /// Paths that are to be opened again for their size, and who waits for that.
    renewals: Lock<Vec<(usize, Promise<()>)>>,
    state: Lock<GroupState>,
}

#[derive(Default)]
struct GroupState {
    paths: Vec<Entry>,
    users: Vec<User>,
    /// Name of the next queue.
    names: u64,
}

/// A path, as queues see it.
struct Entry {
    url: String,
    /// Grows with every device that it opens or loses.
    generation: u64,
    /// As queues use it, while it is open.
    live: Option<Live>,
    state: PathState,
    why: Option<String>,
    reconnects: u64,
    /// Of queues that were closed.
    counted: Counted,
    /// Of open queues.
    counters: Vec<Arc<Counters>>,
}

/// An open path.
#[derive(Clone)]
pub(super) struct Live {
    /// What the path opened.
    pub(super) device: Device,
    /// The same, as queues use it.
    pub(super) fitted: Device,
}

/// A queue.
struct User {
    name: u64,
    remote: RemoteLoop,
    owner: DriverId,
    /// The last replay for which it has nothing under way that it would disturb.
    quiet_for: u64,
}

impl PathGroup {
    pub(super) fn new(
        url: String,
        control: Control,
        (options, key): (PathOptions, Option<Key>),
        base: Base,
        urls: Vec<String>,
    ) -> Self {
        let size = Size::new(base.geometry.blocks);
        let entry = |url| Entry {
            url,
            generation: 0,
            live: None,
            state: PathState::Connecting,
            why: None,
            reconnects: 0,
            counted: Counted::default(),
            counters: Vec::new(),
        };
        let state =
            GroupState { paths: urls.into_iter().map(entry).collect(), ..GroupState::default() };
        let log = (base.features.volatile_cache && base.features.write)
            .then(|| Arc::new(Unflushed::new(options.unflushed_bytes)));
        Self {
            log,
            replays: AtomicU64::new(0),
            gates: AtomicUsize::new(0),
            losses: AtomicU64::new(0),
            has_others: AtomicBool::new(false),
            url,
            control,
            options,
            key,
            base,
            unresolved: UnresolvedWrites::default(),
            ordered: Ordered::default(),
            size,
            version: AtomicU64::new(1),
            failing: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            keeper: OnceLock::new(),
            renewals: Lock::default(),
            state: Lock::new(state),
        }
    }

    /// Grows whenever something changes for queues.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Names the driver that opens the paths.
    pub(super) fn set_keeper(&self, keeper: DriverId) {
        let _ = self.keeper.set(keeper);
    }

    pub(super) fn keeper(&self) -> Option<DriverId> {
        self.keeper.get().copied()
    }

    /// Has all queues look at what has changed, and the keeper.
    pub(super) fn bump(&self) {
        self.tell_queues();
        if let Some(keeper) = self.keeper() {
            self.control.wake(keeper);
        }
    }

    /// Has all queues look at what has changed.
    pub(super) fn tell_queues(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        for user in &self.state.lock().users {
            user.remote.wake(user.owner);
        }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.size.get()
    }

    /// A path has so many blocks now.
    pub(super) fn resize(&self, blocks: u64) {
        if self.size.set(blocks) {
            self.tell_queues();
        }
    }

    /// The paths are being asked for their sizes, until [`Self::settle_size`].
    pub(super) fn hold_size(&self) {
        self.size.hold();
    }

    /// The paths were asked, and have these sizes in blocks.
    pub(super) fn settle_size(&self, sizes: &[u64]) {
        if self.size.settle(sizes) {
            self.tell_queues();
        }
    }

    /// Has a path opened once more, beside what is in use, and used from then on if the device has
    /// another size.
    pub(super) fn renew(&self, path: usize) -> Pending<()> {
        let (promise, renewed) = Pending::promised();
        self.renewals.lock().push((path, promise));
        if let Some(keeper) = self.keeper() {
            self.control.wake(keeper);
        }
        renewed
    }

    /// The paths that are to be opened once more.
    pub(super) fn take_renewals(&self) -> Vec<(usize, Promise<()>)> {
        core::mem::take(&mut *self.renewals.lock())
    }

    pub(super) fn presence(&self) -> Presence {
        if self.gone.load(Ordering::Acquire) {
            return Presence::Gone;
        }
        if self.failing.load(Ordering::Acquire) { Presence::Away } else { Presence::Here }
    }

    /// Whether operations that no path takes fail.
    pub(super) fn set_failing(&self, failing: bool) {
        if self.failing.swap(failing, Ordering::AcqRel) != failing {
            self.tell_queues();
        }
    }

    /// No path will ever be used again.
    pub(super) fn set_gone(&self) {
        if !self.gone.swap(true, Ordering::AcqRel) {
            self.tell_queues();
        }
    }

    /// A new queue, which wakes `owner`; returns its name.
    pub(super) fn enter(&self, remote: RemoteLoop, owner: DriverId) -> u64 {
        let state = &mut *self.state.lock();
        state.names += 1;
        let quiet_for = self.replays.load(Ordering::Acquire);
        state.users.push(User { name: state.names, remote, owner, quiet_for });
        state.names
    }

    /// A queue was closed.
    pub(super) fn leave(&self, name: u64) {
        let is_last = {
            let users = &mut self.state.lock().users;
            users.retain(|user| user.name != name);
            users.is_empty()
        };
        // From now on the keeper looks after the paths.
        if let Some(keeper) = self.keeper().filter(|_| is_last) {
            self.control.wake(keeper);
        }
    }

    pub(super) fn has_users(&self) -> bool {
        !self.state.lock().users.is_empty()
    }

    /// Unflushed writes will be written again: queues send nothing until [`PathGroup::open_gate`].
    /// Returns the number of this replay.
    pub(super) fn close_gate(&self) -> u64 {
        self.gates.fetch_add(1, Ordering::AcqRel);
        let number = self.replays.fetch_add(1, Ordering::AcqRel) + 1;
        self.tell_queues();
        number
    }

    /// See [`PathGroup::close_gate`].
    pub(super) fn open_gate(&self) {
        self.gates.fetch_sub(1, Ordering::AcqRel);
        self.tell_queues();
    }

    /// Whether nobody else writes to the data, so that what is not flushed can be written again.
    pub(super) fn is_only_writer(&self) -> bool {
        self.options.only_writer
    }

    /// What a device has said of those registered with it.
    pub(super) fn note_others(&self, others: Others) {
        if others != Others::None {
            self.has_others.store(true, Ordering::Release);
        }
    }

    /// Whether nobody else writes to the data as far as is known, so that it depends on who is
    /// registered with the device now.
    pub(super) fn may_be_only_writer(&self) -> bool {
        self.options.only_writer_if_alone && !self.has_others.load(Ordering::Acquire)
    }

    /// Whether queues may send.
    pub(super) fn is_gated(&self) -> bool {
        self.gates.load(Ordering::Acquire) > 0
    }

    pub(super) fn replays(&self) -> u64 {
        self.replays.load(Ordering::Acquire)
    }

    /// A queue has nothing under way that would disturb a replay, and has taken in all that had
    /// completed before.
    pub(super) fn report_quiet(&self, name: u64, replay: u64) {
        let is_news = {
            let state = &mut *self.state.lock();
            let user =
                state.users.iter_mut().find(|user| user.name == name && user.quiet_for < replay);
            user.map(|user| user.quiet_for = replay).is_some()
        };
        if let Some(keeper) = self.keeper().filter(|_| is_news) {
            self.control.wake(keeper);
        }
    }

    pub(super) fn is_quiet(&self, replay: u64) -> bool {
        self.state.lock().users.iter().all(|user| user.quiet_for >= replay)
    }

    /// Completed writes were lost: the next flush of each queue fails.
    pub(super) fn lose_writes(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
        self.tell_queues();
    }

    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// The loops on which there are queues.
    fn loops(&self) -> Vec<RemoteLoop> {
        let mut loops: Vec<RemoteLoop> = Vec::new();
        for user in &self.state.lock().users {
            if !loops.iter().any(|one| one.is_same_loop(&user.remote)) {
                loops.push(user.remote.clone());
            }
        }
        loops
    }

    /// A path is open: its device is used from now on.
    pub(super) fn admit(&self, path: usize, device: Device, again: bool) {
        let blocks = device.geometry().blocks;
        let fitted = self.base.fit(Arc::clone(&device), &self.loops());
        {
            let entry = &mut self.state.lock().paths[path];
            entry.generation += 1;
            entry.live = Some(Live { device, fitted });
            entry.state = PathState::Live;
            entry.why = None;
            entry.reconnects += u64::from(again);
        }
        self.resize(blocks);
        self.bump();
    }

    /// The device of a path is over, unless another one has taken its place already.
    pub(super) fn lose(&self, path: usize, generation: u64) {
        let closed = {
            let entry = &mut self.state.lock().paths[path];
            if entry.generation != generation || entry.live.is_none() {
                return;
            }
            entry.generation += 1;
            entry.state = PathState::Waiting;
            entry.live.take()
        };
        self.bump();
        drop(closed);
    }

    /// What a path does now, for people.
    pub(super) fn note(&self, path: usize, state: PathState, why: Option<String>) {
        let entry = &mut self.state.lock().paths[path];
        entry.state = state;
        if why.is_some() {
            entry.why = why;
        }
    }

    /// The generation and device of each path.
    pub(super) fn paths(&self) -> Vec<(u64, Option<Live>)> {
        self.state.lock().paths.iter().map(|entry| (entry.generation, entry.live.clone())).collect()
    }

    /// Closes all paths: nobody uses the device any more.
    pub(super) fn close(&self) {
        let closed: Vec<_> =
            self.state.lock().paths.iter_mut().map(|entry| entry.live.take()).collect();
        drop(closed);
    }

    /// New counters of a path, for one queue.
    pub(super) fn counters(&self, path: usize) -> Arc<Counters> {
        let counters = Arc::<Counters>::default();
        self.state.lock().paths[path].counters.push(Arc::clone(&counters));
        counters
    }

    /// A queue counts no more.
    pub(super) fn return_counters(&self, path: usize, counters: &Arc<Counters>) {
        let entry = &mut self.state.lock().paths[path];
        entry.counters.retain(|other| !Arc::ptr_eq(other, counters));
        entry.counted = entry.counted.plus(counters.read());
    }

    /// What is known of the paths.
    pub(super) fn report(&self) -> Vec<PathStatus> {
        let report = |entry: &Entry| {
            let counted = entry
                .counters
                .iter()
                .fold(entry.counted, |sum, counters| sum.plus(counters.read()));
            let access = entry.live.as_ref().map(|live| live.device.access_state());
            let why = match entry.state {
                PathState::Live => access.and_then(AccessState::refusal).map(str::to_owned),
                _ => entry.why.clone(),
            };
            PathStatus {
                url: entry.url.clone(),
                state: entry.state,
                access: access.unwrap_or(AccessState::Inaccessible),
                operations: counted.operations,
                bytes: counted.bytes,
                errors: counted.errors,
                retries: counted.retries,
                reconnects: entry.reconnects,
                latency: (counted.latency_ns > 0).then(|| Duration::from_nanos(counted.latency_ns)),
                why,
                epoch: entry.live.as_ref().and_then(|live| live.device.cache_epoch()),
            }
        };
        self.state.lock().paths.iter().map(report).collect()
    }
}
