//! One gateway's part in the reservations of one namespace. No I/O, no clock, no thread.
//!
//! An operation reads the state, leads it to the next one, replaces it by compare-and-set, puts it
//! in force here, and notifies the other gateways. It is answered when all of them have it in
//! force, and when no gateway's devices have commands that it aborts. So everything that a host
//! learns of the state, also by a refusal or a report, holds at all gateways.
//!
//! Nothing that another gateway waits for waits for another gateway: what others have changed is
//! read in a [lane](Lane) of its own.

use super::order::{LaneOutcome, NumberedChange, ReservationOrder, StoreLane};
use super::record::ReservationRecord;
use crate::limits::{RESERVATION_CONFLICTS_MAX, RESERVATION_FAILURES_MAX};
use core::mem::take;
use std::collections::{BTreeSet, VecDeque};
use uuid::Uuid;
use weft_proto::nvme::types::{Id128, Nqn};
use weft_proto::reservation::{
    Changes, Registrant, ReservationRefusal, ReservationRequest, ReservationState,
};

/// See the module. `A` stands for whoever waits for an answer to an operation, `D` for a gateway
/// that waits until a change is in force.
#[derive(Debug)]
pub struct SharedNamespace<A, D> {
    /// What is in force here, by the number of its record; `None`: nothing was read yet.
    installed: Option<(u64, ReservationState)>,
    /// Others may act by an older state.
    is_ahead: bool,
    loading: Option<Attempts>,
    operation: Option<Operation<A>>,
    operations: VecDeque<Operation<A>>,
    /// Those for whom the object is read now.
    reading: Option<Vec<D>>,
    /// Those for whom it is read again: it may have been read already when they came.
    readings: Vec<D>,
    /// Changes whose aborted commands may be in devices.
    aborting: BTreeSet<u64>,
    /// Those that wait for all such changes up to one.
    waiting: Vec<(u64, Waiting<A, D>)>,
    orders: VecDeque<ReservationOrder<A, D>>,
}

/// An operation, and how far it has come.
#[derive(Debug)]
struct Operation<A> {
    /// `None`: what is stored is to be in force everywhere.
    step: Option<ReservationStep>,
    /// By what its change is known in the record.
    token: Uuid,
    /// Who is answered.
    by: Option<A>,
    attempts: Attempts,
    /// What is being stored.
    replacing: Option<ReservationRecord>,
    /// How it ended. From then on others are told.
    outcome: Option<Result<(), ReservationRefusal>>,
    /// The number of what others are being told.
    telling: Option<u64>,
}

#[derive(Debug)]
enum Waiting<A, D> {
    Operation(A, Result<(), ReservationRefusal>),
    Gateway(D),
}

/// The attempts of one operation.
#[derive(Debug, Default)]
struct Attempts {
    failures: u32,
    conflicts: u32,
}

impl Attempts {
    /// The store could not be asked. What was asked of it may have been done all the same. Whether
    /// it is asked again.
    fn failed(&mut self) -> bool {
        self.failures += 1;
        self.failures < RESERVATION_FAILURES_MAX
    }

    /// Another gateway was first. Whether it is tried again.
    fn conflict(&mut self) -> bool {
        self.conflicts += 1;
        self.conflicts < RESERVATION_CONFLICTS_MAX
    }
}

impl<A, D> Default for SharedNamespace<A, D> {
    fn default() -> Self {
        Self {
            installed: None,
            is_ahead: false,
            loading: None,
            operation: None,
            operations: VecDeque::new(),
            reading: None,
            readings: Vec::new(),
            aborting: BTreeSet::new(),
            waiting: Vec::new(),
            orders: VecDeque::new(),
        }
    }
}

impl<A, D> SharedNamespace<A, D> {
    /// Returns the next order. To be called until it returns `None`, after every input.
    #[expect(clippy::should_implement_trait, reason = "more may come after the last one")]
    pub fn next(&mut self) -> Option<ReservationOrder<A, D>> {
        self.orders.pop_front()
    }

    /// Reads the state, unless something is in force already: [`ReservationOrder::Loaded`].
    pub fn load(&mut self) {
        if self.installed.is_some() {
            self.orders.push_back(ReservationOrder::Loaded(Ok(())));
        } else if self.loading.is_none() {
            self.loading = Some(Attempts::default());
            self.orders.push_back(ReservationOrder::Read(StoreLane::Load));
        }
    }

    /// Executes an operation, or only makes sure that what is stored is in force everywhere:
    /// [`ReservationOrder::Answer`]. The token is one that no other operation has.
    pub fn execute(&mut self, step: Option<ReservationStep>, token: Uuid, by: A) {
        self.operations.push_back(Operation {
            step,
            token,
            by: Some(by),
            attempts: Attempts::default(),
            replacing: None,
            outcome: None,
            telling: None,
        });
        self.begin_operation();
    }

    /// Another gateway has changed the state: [`ReservationOrder::Done`].
    pub fn follow(&mut self, by: D) {
        self.readings.push(by);
        self.begin_reading();
    }

    /// No device here has commands that the change of this number has aborted.
    pub fn aborted(&mut self, number: u64) {
        self.aborting.remove(&number);
        let first = self.aborting.first().copied().unwrap_or(u64::MAX);
        for (_, waiting) in self.waiting.extract_if(.., |(number, _)| *number < first) {
            self.orders.push_back(waiting.order());
        }
    }

    /// A request for a lane has ended.
    pub fn ended(&mut self, lane: StoreLane, ended: LaneOutcome) {
        match lane {
            StoreLane::Load => self.load_ended(ended),
            StoreLane::Operations => self.operation_ended(ended),
            StoreLane::Readings => self.reading_ended(ended),
        }
    }

    /// The namespace is no longer served here, so nothing has to be put in force. Returns the
    /// gateways that wait for that.
    pub fn abandon(&mut self) -> Vec<D> {
        let mut all = self.reading.take().unwrap_or_default();
        all.append(&mut self.readings);
        all
    }

    fn load_ended(&mut self, ended: LaneOutcome) {
        // What was read otherwise is as good.
        let Some(attempts) = &mut self.loading else { return };
        match ended {
            LaneOutcome::Read(_, record) => self.install(&record),
            LaneOutcome::Failed(_) if attempts.failed() => {
                self.orders.push_back(ReservationOrder::Pause(StoreLane::Load))
            }
            LaneOutcome::Failed(why) => {
                self.loading = None;
                self.orders.push_back(ReservationOrder::Loaded(Err(why)));
            }
            _ => self.orders.push_back(ReservationOrder::Read(StoreLane::Load)),
        }
    }

    fn begin_operation(&mut self) {
        if self.operation.is_none() {
            self.operation = self.operations.pop_front();
            self.go_on();
        }
    }

    /// Asks for what the operation needs next.
    fn go_on(&mut self) {
        let Some(operation) = &mut self.operation else { return };
        if operation.outcome.is_none() {
            self.orders.push_back(ReservationOrder::Read(StoreLane::Operations));
        } else if self.is_ahead {
            operation.telling = self.installed.as_ref().map(|(number, _)| *number);
            self.orders.push_back(ReservationOrder::Tell);
        } else {
            self.told();
        }
    }

    fn operation_ended(&mut self, ended: LaneOutcome) {
        let Some(operation) = &mut self.operation else { return };
        match ended {
            LaneOutcome::Read(generation, record) => self.read(generation, &record),
            LaneOutcome::Replaced => {
                if let Some(next) = operation.replacing.take() {
                    self.install(&next);
                }
                self.came_to(Ok(()));
            }
            LaneOutcome::Conflict if operation.attempts.conflict() => self.go_on(),
            LaneOutcome::Announced => {
                let telling = operation.telling;
                // What has come in force meanwhile is for another time.
                if self.installed.as_ref().map(|(number, _)| *number) == telling {
                    self.is_ahead = false;
                    self.orders.push_back(ReservationOrder::Settled);
                }
                self.told();
            }
            LaneOutcome::Failed(_) if operation.attempts.failed() => {
                self.orders.push_back(ReservationOrder::Pause(StoreLane::Operations));
            }
            LaneOutcome::Conflict | LaneOutcome::Failed(_) => self.give_up(),
            LaneOutcome::Paused => self.go_on(),
        }
    }

    /// What is stored has been read for the operation.
    fn read(&mut self, generation: u64, record: &ReservationRecord) {
        let Some(operation) = &mut self.operation else { return };
        if self.installed.as_ref().is_some_and(|(number, _)| *number > record.number) {
            // Meanwhile a newer one has come in force. One that stays behind is none of this
            // group's.
            return if operation.attempts.conflict() { self.go_on() } else { self.give_up() };
        }
        let mut state = record.state.clone();
        let next = match &operation.step {
            // A gateway may have stored a change and ended before it told anybody: what nobody
            // acts by yet will be in force sooner or later, so nobody is told what was before it.
            None => None,
            // An attempt that failed was executed all the same.
            Some(_) if record.has(operation.token) => None,
            Some(step) => {
                Some(step.apply(&mut state).map(|it| record.after(state, operation.token, it)))
            }
        };
        operation.replacing = next.as_ref().and_then(|next| next.as_ref().ok().cloned());
        self.install(record);
        match next {
            None => self.came_to(Ok(())),
            Some(Err(refusal)) => self.came_to(Err(refusal)),
            Some(Ok(next)) => {
                self.orders.push_back(ReservationOrder::Replace { before: generation, next });
            }
        }
    }

    /// The operation was executed, or is refused. Also a refusal says something of the state: that
    /// another host is kept out already, for example. So others are told in any case.
    fn came_to(&mut self, outcome: Result<(), ReservationRefusal>) {
        let Some(operation) = &mut self.operation else { return };
        operation.outcome = Some(outcome);
        self.go_on();
    }

    /// All gateways have in force what the operation is answered by.
    fn told(&mut self) {
        if let Some(Operation { by: Some(by), outcome: Some(outcome), .. }) = self.operation.take()
        {
            self.hold(Waiting::Operation(by, outcome));
        }
        self.begin_operation();
    }

    /// The operation failed, and its host may try it again.
    fn give_up(&mut self) {
        let by = self.operation.take().and_then(|operation| operation.by);
        self.orders
            .extend(by.map(|by| ReservationOrder::Answer(by, Err(ReservationRefusal::NotStored))));
        self.begin_operation();
    }

    /// Reads once for all who wait now.
    fn begin_reading(&mut self) {
        if self.reading.is_none() && !self.readings.is_empty() {
            self.reading = Some(take(&mut self.readings));
            self.orders.push_back(ReservationOrder::Read(StoreLane::Readings));
        }
    }

    fn reading_ended(&mut self, ended: LaneOutcome) {
        match ended {
            LaneOutcome::Read(_, record) => {
                self.install(&record);
                let read = self.reading.take().unwrap_or_default();
                read.into_iter().for_each(|by| self.hold(Waiting::Gateway(by)));
            }
            // It is asked for again for as long as the namespace is served: nobody is told that it
            // is in force before it is.
            LaneOutcome::Failed(_) => {
                return self.orders.push_back(ReservationOrder::Pause(StoreLane::Readings));
            }
            _ => {
                let mut again = self.reading.take().unwrap_or_default();
                again.append(&mut self.readings);
                self.readings = again;
            }
        }
        self.begin_reading();
    }

    /// Puts a record in force, unless a newer one is.
    fn install(&mut self, record: &ReservationRecord) {
        let changes = match &self.installed {
            Some((number, _)) if *number >= record.number => return,
            Some((number, before)) => record.changes_since(*number, before),
            None => Changes::default(),
        };
        let (number, state) = (record.number, record.state.clone());
        // Of what was never changed everybody knows.
        self.is_ahead = number > 0;
        self.installed = Some((number, state.clone()));
        self.aborting.insert(number);
        let is_ahead = self.is_ahead;
        self.orders.push_back(ReservationOrder::Install(NumberedChange {
            number,
            state,
            changes,
            is_ahead,
        }));
        if self.loading.take().is_some() {
            self.orders.push_back(ReservationOrder::Loaded(Ok(())));
        }
    }

    /// Lets somebody wait until no device here has commands any more that a change up to now has
    /// aborted.
    fn hold(&mut self, waiting: Waiting<A, D>) {
        match self.aborting.last() {
            Some(number) => self.waiting.push((*number, waiting)),
            None => self.orders.push_back(waiting.order()),
        }
    }
}

impl<A, D> Waiting<A, D> {
    fn order(self) -> ReservationOrder<A, D> {
        match self {
            Self::Operation(by, outcome) => ReservationOrder::Answer(by, outcome),
            Self::Gateway(by) => ReservationOrder::Done(by),
        }
    }
}

// Steps from one state of a namespace to the next.

/// One change of a state.
#[derive(Clone, Debug, PartialEq)]
pub enum ReservationStep {
    /// A command of a host, or initiator.
    Operation {
        /// The command.
        operation: ReservationRequest,
        /// The name that the host has proved.
        proven: Option<Nqn>,
    },
    /// Whoever is registered with this host identifier has proved nothing.
    Forget(Id128),
}

impl ReservationStep {
    /// Leads a state to the next one. If it is refused, the state is invalid.
    ///
    /// # Errors
    /// Why it is not executed.
    pub fn apply(&self, state: &mut ReservationState) -> Result<Changes, ReservationRefusal> {
        match self {
            Self::Forget(id) => {
                state.set_proven(&Registrant::Host(*id), None);
                Ok(Changes::default())
            }
            Self::Operation { operation, proven } => {
                let is_anothers =
                    |name: &Nqn| state.proven(&operation.by).is_some_and(|owner| owner != name);
                // Another gateway, or queue, was first.
                if proven.as_ref().is_some_and(is_anothers) {
                    return Err(ReservationRefusal::Conflict);
                }
                let changes = state.apply(operation)?;
                if proven.is_some() {
                    state.set_proven(&operation.by, proven.as_ref());
                }
                Ok(changes)
            }
        }
    }
}
