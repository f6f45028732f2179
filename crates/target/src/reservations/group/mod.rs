//! The reservations of one namespace that several gateways serve: runs the engine of
//! `weft_group::reservations`, puts its decisions in force, and asks the store on its behalf.
//!
//! Whoever has something for the engine does what follows from it, unless another thread is at it:
//! then that one does both. So nothing is locked while exports are notified and answers are given,
//! and they may ask for more. Answers of the store are an exception: such an answer may put a
//! change in force, and a loop that only asks for something, perhaps with a lock of its export,
//! does not do that for another thread.

use super::common::Common;
use super::pending::{Answer, Done, PendingChange};
use super::store::{Asked, Got, GroupStore, Object};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use uuid::Uuid;
use weft_base::lock::{Condition, Lock};
use weft_block::{Error, ErrorKind};
use weft_connection::refusals::Refusals;
use weft_group::reservations::{
    LaneOutcome, NumberedChange, ReservationOrder, ReservationRecord, ReservationStep,
    SharedNamespace, StoreLane,
};
use weft_proto::reservation::Reservations;

/// What the store did not do, for the log.
static FAILED: Refusals = Refusals::new();

/// Told once whether the state was read.
pub(super) type Loaded = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// See the module.
pub(super) struct InGroup {
    uuid: Uuid,
    shared: Arc<Reservations>,
    store: Arc<dyn GroupStore>,
    common: Arc<Common>,
    is_loaded: AtomicBool,
    inner: Lock<EngineState>,
    /// Nobody takes inputs any more.
    idle: Condition,
}

#[derive(Default)]
struct EngineState {
    engine: SharedNamespace<Answer, Done>,
    inputs: VecDeque<Input>,
    /// The thread that takes the inputs.
    busy: Option<ThreadId>,
    loading: Vec<Loaded>,
}

/// What the engine is told.
enum Input {
    Load,
    Execute(Option<ReservationStep>, Uuid, Answer),
    Follow(Done),
    Ended(StoreLane, LaneOutcome),
    Aborted(u64),
}

impl InGroup {
    pub(super) fn new(
        uuid: Uuid,
        shared: Arc<Reservations>,
        store: Arc<dyn GroupStore>,
        common: Arc<Common>,
    ) -> Self {
        let (is_loaded, inner, idle) =
            (AtomicBool::new(false), Lock::default(), Condition::default());
        Self { uuid, shared, store, common, is_loaded, inner, idle }
    }

    /// Returns whether a state is in force.
    pub(super) fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Acquire)
    }

    /// Reads the state for the first time.
    pub(super) fn load(self: &Arc<Self>, loaded: Loaded) {
        self.inner.lock().loading.push(loaded);
        self.put(Input::Load);
    }

    /// Executes an operation, or only makes sure that what is stored is in force everywhere;
    /// answers sooner or later.
    pub(super) fn execute(self: &Arc<Self>, step: Option<ReservationStep>, answer: Answer) {
        self.put(Input::Execute(step, self.store.token(), answer));
    }

    /// Another gateway has changed the state: reads it and puts it in force, then calls `done`.
    pub(super) fn follow(self: &Arc<Self>, done: Done) {
        self.put(Input::Follow(done));
    }

    fn put(self: &Arc<Self>, input: Input) {
        let (mut inner, me) = (self.inner.lock(), thread::current().id());
        if matches!(input, Input::Ended(..)) {
            let is_anothers = |inner: &mut EngineState| inner.busy.is_some_and(|busy| busy != me);
            inner = self.idle.wait_while(inner, is_anothers);
        }
        inner.inputs.push_back(input);
        if inner.busy.is_some() {
            return;
        }
        inner.busy = Some(me);
        while let Some(input) = inner.inputs.pop_front() {
            input.tell(&mut inner.engine);
            while let Some(order) = inner.engine.next() {
                drop(inner);
                self.carry_out(order);
                inner = self.inner.lock();
            }
        }
        inner.busy = None;
        drop(inner);
        self.idle.notify_all();
    }

    fn carry_out(self: &Arc<Self>, order: ReservationOrder<Answer, Done>) {
        match order {
            ReservationOrder::Read(lane) => self.ask(lane, Asked::Read),
            ReservationOrder::Replace { before, next } => {
                let object = Object { record: next, namespace: self.uuid, life: self.store.life() };
                self.ask(StoreLane::Operations, Asked::Replace(before, object));
            }
            ReservationOrder::Tell => self.ask(StoreLane::Operations, Asked::Tell),
            ReservationOrder::Pause(lane) => self.ask(lane, Asked::Pause),
            ReservationOrder::Install(change) => self.install(change),
            ReservationOrder::Settled => self.shared.set_ahead(false),
            ReservationOrder::Loaded(outcome) => {
                let all = core::mem::take(&mut self.inner.lock().loading);
                for loaded in all {
                    loaded(outcome.clone().map_err(|why| Error::new(ErrorKind::Io, why)));
                }
            }
            ReservationOrder::Answer(answer, outcome) => answer(outcome),
            ReservationOrder::Done(done) => done(),
        }
    }

    fn ask(self: &Arc<Self>, lane: StoreLane, asked: Asked) {
        let (strong, weak) = (Arc::clone(self), Arc::downgrade(self));
        // What others have changed is nobody's business when the namespace is served no more.
        let strong = (lane != StoreLane::Readings).then_some(strong);
        let done = move |got| {
            if let Some(this) = strong.or_else(|| weak.upgrade()) {
                this.put(Input::Ended(lane, this.ended(lane, got)));
            }
        };
        self.store.ask(self.uuid, lane, asked, Box::new(done));
    }

    /// What the engine is told of how something ended.
    fn ended(&self, lane: StoreLane, got: Result<Got, Error>) -> LaneOutcome {
        let ended = got.map_err(|e| e.to_string()).and_then(|got| self.understood(got));
        ended.unwrap_or_else(|why| {
            let failed = match lane {
                StoreLane::Readings => {
                    "what another gateway has changed in its reservations cannot be read now"
                }
                StoreLane::Load | StoreLane::Operations => {
                    "its reservations cannot be shared with other gateways now"
                }
            };
            FAILED.log_now(|| format!("namespace {}: {failed}: {why}", self.uuid));
            LaneOutcome::Failed(why)
        })
    }

    fn understood(&self, got: Got) -> Result<LaneOutcome, String> {
        Ok(match got {
            Got::Object(None) => LaneOutcome::Read(0, ReservationRecord::default()),
            Got::Object(Some((generation, text))) => {
                let record = ReservationRecord::decode(&text, self.uuid, self.store.life());
                let record = record.map_err(|reason| {
                    format!(
                        "what the group stores of the reservations of the namespace {} is damaged: {reason}",
                        self.uuid
                    )
                })?;
                LaneOutcome::Read(generation, record)
            }
            Got::Replaced(Some(_)) => LaneOutcome::Replaced,
            Got::Replaced(None) => LaneOutcome::Conflict,
            Got::Announced => LaneOutcome::Announced,
            Got::Paused => LaneOutcome::Paused,
        })
    }

    /// Puts a change in force, and tells the exports.
    fn install(self: &Arc<Self>, change: NumberedChange) {
        let NumberedChange { number, state, changes, is_ahead } = change;
        let pending = Arc::new(PendingChange::default());
        let this = Arc::clone(self);
        pending.attach(Box::new(move || this.put(Input::Aborted(number))));
        self.shared.set_ahead(is_ahead);
        self.shared.install(state, &changes);
        self.is_loaded.store(true, Ordering::Release);
        self.common.tell(self.uuid, &changes, &pending);
    }
}

impl Input {
    fn tell(self, engine: &mut SharedNamespace<Answer, Done>) {
        match self {
            Self::Load => engine.load(),
            Self::Execute(step, token, answer) => engine.execute(step, token, answer),
            Self::Follow(done) => engine.follow(done),
            Self::Ended(lane, ended) => engine.ended(lane, ended),
            Self::Aborted(number) => engine.aborted(number),
        }
    }
}

impl Drop for InGroup {
    /// Nobody serves the namespace here any more, so nothing has to be put in force.
    fn drop(&mut self) {
        let inner = self.inner.get_mut();
        inner.engine.abandon().into_iter().for_each(|done| done());
    }
}

#[cfg(test)]
mod tests;
