//! Stores of the targets: blocks in memory behind a cache that a power failure empties, outside
//! every process of the simulation.
//!
//! An operation takes effect when its time has come, which the seed decides for each. It does so
//! even if the process that submitted it has died in the meantime, because a disk executes its
//! operations; that is how old writes come to be executed late. Two processes may serve one store.

mod content;
mod queue;

use crate::config::Config;
use content::Content;
use core::time::Duration;
use queue::StoreQueue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_block::{
    Atomicity, BlockDevice, BlockQueue, Error, Features, Geometry, Identity, OpKind, Status,
    StatusKind,
};
use weft_io::sim::Rng;
use weft_io::{DriverId, Handle, RemoteLoop, Time};

/// Blocks that no workload has.
const SPARE_BLOCKS: u64 = 64;

/// Behaviour of a store.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Minimum and maximum time of an operation.
    pub delay: (Duration, Duration),
    /// One in `n` operations takes up to [`Behaviour::hold`] longer (0: none).
    pub hold_one_in: u32,
    /// At least.
    pub hold_least: Duration,
    /// See [`Behaviour::hold_one_in`].
    pub hold: Duration,
    /// One in `n` operations fails; a write that fails may have been done in part (0: none).
    pub error_one_in: u32,
    /// One in `n` requests to cancel is heeded (0: none).
    pub cancel_one_in: u32,
}

impl Behaviour {
    /// A store that does everything at once and right.
    pub const SOUND: Self = Self {
        delay: (Duration::from_micros(20), Duration::from_micros(200)),
        hold_one_in: 0,
        hold_least: Duration::ZERO,
        hold: Duration::ZERO,
        error_one_in: 0,
        cancel_one_in: 1,
    };
}

/// Blocks that targets serve.
pub struct BlockStore {
    block_bytes: u32,
    uuid: Uuid,
    volatile: bool,
    compare: bool,
    tells: bool,
    locked: bool,
    state: Arc<Lock<State>>,
}

/// What a write does once its time has come.
struct Pending {
    lba: u64,
    blocks: u32,
    kind: OpKind,
    data: Vec<u8>,
    /// Flushes: what had been written when they were submitted.
    mark: u64,
    fails: bool,
    /// Whose it is; 0 where that does not matter.
    client: u64,
}

struct State {
    rng: Rng,
    behaviour: Behaviour,
    /// Some writes are answered after others that were executed later: where one host's own writes
    /// overlap, their order is not that of the answers.
    answers_late: bool,
    blocks: u64,
    /// How often the size changed.
    sizes: u64,
    content: Content,
    /// Blocks that cannot be read until they are written.
    bad: BTreeSet<u64>,
    /// By time and number.
    pending: BTreeMap<(Time, u64), Pending>,
    /// How those ended whose submitter waits for it.
    ended: BTreeMap<u64, Status>,
    next: u64,
    /// The first operation since the last start of a process.
    first_of_start: u64,
    /// Power failures.
    failures: u64,
    /// From this block on, a power failure may leave the first sectors of a write alone.
    torn: Option<(u64, Rng)>,
    /// Drivers to wake when the size changes.
    owners: Vec<(RemoteLoop, DriverId)>,
}

impl BlockStore {
    /// The store of a run, whose blocks are all zeroes.
    pub fn new(seed: u64, config: &Config) -> Arc<Self> {
        Self::of(seed, config, u64::from(config.blocks()) + SPARE_BLOCKS)
    }

    /// A store of `blocks` blocks.
    pub fn of(seed: u64, config: &Config, blocks: u64) -> Arc<Self> {
        let Config { block_bytes, volatile, compare, locked, .. } = *config;
        let tells = config.tells_starts();
        let mut rng = Rng::new(seed);
        let mut uuid = [0; 16];
        rng.fill(&mut uuid);
        let state = State {
            rng,
            behaviour: Behaviour::SOUND,
            answers_late: config.overlap && config.initiators == 1,
            blocks,
            sizes: 0,
            content: Content::new(block_bytes as usize, blocks as usize, volatile),
            bad: BTreeSet::new(),
            pending: BTreeMap::new(),
            ended: BTreeMap::new(),
            next: 0,
            first_of_start: 0,
            failures: 0,
            torn: None,
            owners: Vec::new(),
        };
        let uuid = uuid::Builder::from_random_bytes(uuid).into_uuid();
        Arc::new(Self {
            block_bytes,
            uuid,
            volatile,
            compare,
            tells,
            locked,
            state: Arc::new(Lock::new(state)),
        })
    }

    /// Behaves so from now on. Operations that it has keep their time.
    pub fn behave(&self, behaviour: Behaviour) {
        self.state.lock().behaviour = behaviour;
    }

    /// A block can no longer be read, until it is written.
    pub fn spoil(&self, lba: u64) {
        self.state.lock().bad.insert(lba);
    }

    /// From this block on, a power failure may leave the first sectors of a write alone, as drawn
    /// by a generator of its own.
    pub fn tears_from(&self, lba: u64, rng: Rng) {
        self.state.lock().torn = Some((lba, rng));
    }

    /// Returns whether a process cannot start yet: it is locked until everything is executed that
    /// the process before has asked for.
    pub fn keeps_out(&self, now: Time) -> bool {
        let mut state = self.state.lock();
        state.advance(now);
        self.locked && !state.pending.is_empty()
    }

    /// Grows.
    pub fn grow(&self, by: u64) {
        let mut state = self.state.lock();
        state.blocks += by;
        state.sizes += 1;
        let blocks = state.blocks as usize;
        state.content.grow(blocks);
        for (remote, owner) in &state.owners {
            let owner = *owner;
            remote.post(move |on| on.wake(owner));
        }
    }

    /// The power fails: what is pending is done or not, and of what was written since the last
    /// flush each block is kept or not.
    pub fn power_fails(&self) {
        let mut guard = self.state.lock();
        guard.failures += 1;
        let State { rng, pending, content, ended, owners, torn, .. } = &mut *guard;
        for ((_, _), op) in core::mem::take(pending) {
            if op.kind.is_write() && rng.one_in(2) {
                content.apply(&op, rng);
            } else if let Some((_, rng)) = torn.as_mut().filter(|(first, _)| op.lba >= *first) {
                content.tear(&op, rng);
            }
        }
        content.power_fails(rng);
        ended.clear();
        owners.clear();
    }

    /// The process that serves has started: what it is asked from now on it has been asked itself.
    pub fn note_start(&self) {
        let mut state = self.state.lock();
        state.first_of_start = state.next + 1;
    }

    /// The block of a write to these ones that it has been asked for since the last start, and has
    /// not executed yet.
    pub fn held_write(&self, blocks: core::ops::Range<u64>, now: Time) -> Option<u64> {
        self.held_write_of(blocks, now, |_| true)
    }

    /// The same of clients that count.
    pub fn held_write_of(
        &self,
        blocks: core::ops::Range<u64>,
        now: Time,
        counts: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let mut state = self.state.lock();
        state.advance(now);
        let first = state.first_of_start;
        let is_held = |number: u64, op: &Pending| {
            number >= first && op.kind.is_write() && blocks.contains(&op.lba) && counts(op.client)
        };
        state.pending.iter().find(|((_, number), op)| is_held(*number, op)).map(|(_, op)| op.lba)
    }

    /// The name of the oldest write to these blocks that is not executed yet.
    pub fn oldest_write(&self, blocks: core::ops::Range<u64>, now: Time) -> Option<u64> {
        let mut state = self.state.lock();
        state.advance(now);
        let is_there = |op: &Pending| op.kind.is_write() && blocks.contains(&op.lba);
        let names = state.pending.iter().filter(|(_, op)| is_there(op)).map(|((_, name), _)| *name);
        names.min()
    }

    /// Returns whether everything is executed that any process has asked for.
    pub fn is_idle(&self, now: Time) -> bool {
        let mut state = self.state.lock();
        state.advance(now);
        state.pending.is_empty()
    }

    /// Returns whether a client has writes that are not executed yet.
    pub fn has_writes_of(&self, client: u64, now: Time) -> bool {
        let mut state = self.state.lock();
        state.advance(now);
        state.pending.values().any(|op| op.client == client && op.kind.is_write())
    }

    /// Drops the requests of a client that are not executed yet, with an answer to it.
    pub fn drop_writes_of(&self, client: u64, now: Time) {
        let mut state = self.state.lock();
        state.advance(now);
        let State { pending, ended, .. } = &mut *state;
        for ((_, number), _) in pending.extract_if(.., |_, op| op.client == client) {
            if let Some(ended) = ended.get_mut(&number) {
                *ended = Status::new(StatusKind::Path);
            }
        }
    }

    /// A queue of one of several clients.
    pub fn open_queue_of(&self, client: u64, on: &Handle, owner: DriverId) -> Box<dyn BlockQueue> {
        let mut state = self.state.lock();
        state.owners.push((on.remote(), owner));
        let (sizes, block_bytes) = (state.sizes, self.block_bytes as usize);
        Box::new(StoreQueue::new(
            Arc::clone(&self.state),
            client,
            block_bytes,
            on.clone(),
            owner,
            sizes,
        ))
    }

    /// Puts this there, as if it had always been there.
    pub fn put(&self, lba: u64, bytes: &[u8]) {
        self.state.lock().content.put(lba, bytes);
    }

    /// The number of blocks.
    pub fn blocks(&self) -> u64 {
        self.state.lock().blocks
    }

    /// Returns the present contents of a block, with everything executed that is due.
    pub fn peek(&self, lba: u64, now: Time) -> Vec<u8> {
        self.peek_all(lba..lba + 1, now)
    }

    /// The same of several blocks.
    pub fn peek_all(&self, blocks: core::ops::Range<u64>, now: Time) -> Vec<u8> {
        let mut state = self.state.lock();
        state.advance(now);
        let mut all = vec![0; (blocks.end - blocks.start) as usize * self.block_bytes as usize];
        all.chunks_mut(self.block_bytes as usize)
            .zip(blocks)
            .for_each(|(block, lba)| state.content.read(lba, block));
        all
    }
}

impl State {
    /// Executes what is due.
    fn advance(&mut self, now: Time) {
        while let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, number), op) = entry.remove_entry();
            let status = self.content.apply(&op, &mut self.rng);
            if op.kind.is_write() && status.is_success() {
                self.bad.retain(|lba| !(op.lba..op.lba + u64::from(op.blocks)).contains(lba));
            }
            if let Some(ended) = self.ended.get_mut(&number) {
                *ended = status;
            }
        }
    }

    /// How much later than it is executed a write is answered.
    fn lag(&self, number: u64) -> Duration {
        if self.answers_late && number.is_multiple_of(2) {
            self.behaviour.delay.1 * 100
        } else {
            Duration::ZERO
        }
    }

    fn draw_delay(&mut self) -> Duration {
        let Behaviour { delay: (least, most), hold_one_in, hold_least, hold, .. } =
            self.behaviour.clone();
        let some = |rng: &mut Rng, span: Duration| {
            Duration::from_nanos(rng.within(0, span.as_nanos() as u64))
        };
        let more = if self.rng.one_in(hold_one_in) {
            hold_least + some(&mut self.rng, hold - hold_least)
        } else {
            Duration::ZERO
        };
        least + some(&mut self.rng, most.saturating_sub(least)) + more
    }

    /// The status of an operation that the store does not take.
    fn refusal(&self, lba: u64, blocks: u32) -> Option<StatusKind> {
        (lba + u64::from(blocks) > self.blocks).then_some(StatusKind::OutOfRange)
    }
}

impl BlockDevice for BlockStore {
    fn url(&self) -> &str {
        if self.locked { "store:" } else { "store:,lock=off" }
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            block_bytes: self.block_bytes,
            blocks: self.blocks(),
            padding_bytes: 0,
            optimal_blocks: 1,
            max_transfer_bytes: 64 << 10,
            atomic: Atomicity::ONE_BLOCK,
        }
    }

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        Ok(weft_block::SizeAnswer::Now)
    }

    fn features(&self) -> Features {
        let (volatile_cache, compare) = (self.volatile, self.compare);
        Features { write: true, volatile_cache, write_zeroes: true, compare, ..Features::default() }
    }

    fn identity(&self) -> Identity {
        Identity { uuid: Some(self.uuid), model: Some("simulated".into()), ..Identity::default() }
    }

    fn cache_epoch(&self) -> Option<u64> {
        self.tells.then(|| self.state.lock().failures)
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(self.open_queue_of(0, on, owner))
    }
}
