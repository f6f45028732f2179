//! The reservations of one namespace that several gateways serve: the state is in a store that all
//! of them reach, and each keeps a copy in force.
//!
//! An operation reads the state, leads it to the next one, replaces it by compare-and-set, puts it
//! in force here, and tells the other gateways. It is answered when all of them have it in force,
//! and when no gateway's devices have commands any more that it aborts. So whatever a host is told
//! of the state, also by a refusal or a report, holds at all gateways.
//!
//! Nothing that another gateway waits for waits for another gateway: what others have changed is
//! read on threads of its own, and no lock is held while others are told.

use super::pending::{Answer, Done, Pending};
use super::record::Record;
use super::step::Step;
use super::store::SharedStore;
use super::table::Common;
use crate::limits::{RESERVATION_CONFLICTS_MAX, RESERVATION_FAILURES_MAX, RESERVATION_RETRY_MS};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use uuid::Uuid;
use weft_block::{Error, ErrorKind};
use weft_proto::reservation::{Changes, Refusal, Reservations};

/// See the module.
pub(super) struct InGroup {
    uuid: Uuid,
    shared: Arc<Reservations>,
    store: Arc<dyn SharedStore>,
    common: Arc<Common>,
    installed: Mutex<Installed>,
    operations: Mutex<Queue<(Option<Step>, Answer)>>,
    readings: Mutex<Queue<Done>>,
}

/// What is in force here.
#[derive(Default)]
struct Installed {
    /// The number of the record; `None`: nothing was read yet.
    number: Option<u64>,
    /// Commands that the last change aborted are still in devices.
    newest: Weak<Pending>,
}

/// What waits, in order.
struct Queue<T> {
    waiting: VecDeque<T>,
    /// A job for it waits for a thread, or has one.
    has_job: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), has_job: false }
    }
}

impl<T> Queue<T> {
    /// Whether a job is to be begun.
    fn push(&mut self, what: T) -> bool {
        self.waiting.push_back(what);
        !core::mem::replace(&mut self.has_job, true)
    }

    /// Whether another job is to be begun after one.
    fn is_left(&mut self) -> bool {
        self.has_job = !self.waiting.is_empty();
        self.has_job
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the attempts of one operation.
struct Attempts<'a> {
    of: &'a InGroup,
    failures: u32,
    conflicts: u32,
}

impl<'a> Attempts<'a> {
    fn new(of: &'a InGroup) -> Self {
        Self { of, failures: 0, conflicts: 0 }
    }

    /// The cluster could not be asked. What was asked of it may have been done all the same.
    fn failed(&mut self, e: &Error) -> Result<(), Refusal> {
        self.failures += 1;
        tracing::warn!(
            "namespace {}: its reservations cannot be shared with other gateways now: {e}",
            self.of.uuid
        );
        if self.failures >= RESERVATION_FAILURES_MAX {
            return Err(Refusal::NotStored);
        }
        self.of.pause();
        Ok(())
    }

    /// Another gateway was first.
    fn conflict(&mut self) -> Result<(), Refusal> {
        self.conflicts += 1;
        if self.conflicts < RESERVATION_CONFLICTS_MAX { Ok(()) } else { Err(Refusal::NotStored) }
    }
}

impl InGroup {
    pub fn new(
        uuid: Uuid,
        shared: Arc<Reservations>,
        store: Arc<dyn SharedStore>,
        common: Arc<Common>,
    ) -> Self {
        let (operations, readings) = (Mutex::default(), Mutex::default());
        Self { uuid, shared, store, common, installed: Mutex::default(), operations, readings }
    }

    /// Reads the state for the first time. Waits for the store.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn load(&self) -> Result<(), Error> {
        let mut attempts = Attempts::new(self);
        while lock(&self.installed).number.is_none() {
            match self.read() {
                Ok((_, record)) => drop(self.install(&record)),
                Err(e) => attempts.failed(&e).map_err(|_| e)?,
            }
        }
        Ok(())
    }

    /// Executes an operation, or only makes sure that what is stored is in force everywhere;
    /// answers sooner or later.
    pub fn execute(self: &Arc<Self>, operation: Option<Step>, answer: Answer) {
        let is_first = lock(&self.operations).push((operation, answer));
        if is_first {
            self.begin_operation();
        }
    }

    fn begin_operation(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.common.operating.run(Box::new(move || this.next_operation()));
    }

    /// One operation; other namespaces may come before the next one.
    fn next_operation(self: &Arc<Self>) {
        let next = lock(&self.operations).waiting.pop_front();
        if let Some((operation, answer)) = next {
            self.operate(operation.as_ref(), answer);
        }
        let is_left = lock(&self.operations).is_left();
        if is_left {
            self.begin_operation();
        }
    }

    fn operate(&self, operation: Option<&Step>, answer: Answer) {
        let mut attempts = Attempts::new(self);
        let outcome = match operation {
            Some(operation) => self.change(operation, &mut attempts),
            None => self.refresh(&mut attempts),
        };
        if outcome == Err(Refusal::NotStored) {
            return answer(Err(Refusal::NotStored));
        }
        // Also a refusal says something of the state: that another host is kept out already, for
        // example.
        match self.tell(&mut attempts) {
            Err(refusal) => answer(Err(refusal)),
            Ok(()) => self.pending().attach(Box::new(move || answer(outcome))),
        }
    }

    /// Leads the stored state to the next one, and puts it in force here.
    fn change(&self, step: &Step, attempts: &mut Attempts<'_>) -> Result<(), Refusal> {
        let token = Uuid::new_v4();
        loop {
            let (generation, record) = self.read_newest(attempts)?;
            drop(self.install(&record));
            // An attempt that failed was executed all the same.
            if record.has(token) {
                return Ok(());
            }
            let mut state = record.state.clone();
            let changes = step.apply(&mut state)?;
            let next = record.after(state, token, changes);
            let replaced = self.store.version().and_then(|version| {
                self.store.replace(
                    self.uuid,
                    generation,
                    &next.encode(self.uuid, self.store.life(), version),
                )
            });
            match replaced {
                Ok(Some(_)) => {
                    drop(self.install(&next));
                    return Ok(());
                }
                Ok(None) => attempts.conflict()?,
                Err(e) => attempts.failed(&e)?,
            }
        }
    }

    /// Puts in force here what is stored. A gateway may have stored a change and ended before it
    /// told anybody: what nobody acts by yet will be in force sooner or later, so nobody is told
    /// what was before it.
    fn refresh(&self, attempts: &mut Attempts<'_>) -> Result<(), Refusal> {
        let (_, record) = self.read_newest(attempts)?;
        drop(self.install(&record));
        Ok(())
    }

    /// What is stored, and its generation there, when it is not older than what is in force here.
    fn read_newest(&self, attempts: &mut Attempts<'_>) -> Result<(u64, Record), Refusal> {
        loop {
            match self.read() {
                // Meanwhile a newer one has come in force. One that stays behind is none of this
                // group's.
                Ok((_, record)) if lock(&self.installed).number > Some(record.number) => {
                    attempts.conflict()?
                }
                Ok(read) => return Ok(read),
                Err(e) => attempts.failed(&e)?,
            }
        }
    }

    /// Has what is in force here put in force at all other gateways. Nothing that others wait for
    /// may wait for this: they may be telling this gateway, too.
    fn tell(&self, attempts: &mut Attempts<'_>) -> Result<(), Refusal> {
        while self.shared.is_ahead() {
            let number = lock(&self.installed).number;
            match self.store.tell(self.uuid) {
                Ok(()) => {
                    // What has come in force meanwhile is for another time.
                    let installed = lock(&self.installed);
                    if installed.number == number {
                        self.shared.set_ahead(false);
                    }
                    break;
                }
                Err(e) => attempts.failed(&e)?,
            }
        }
        Ok(())
    }

    fn pause(&self) {
        self.common.threads.pause(Duration::from_millis(RESERVATION_RETRY_MS));
    }

    /// What is kept for as long as some device here has commands that were aborted.
    fn pending(&self) -> Arc<Pending> {
        lock(&self.installed).pending()
    }

    /// What is stored, and its generation there.
    fn read(&self) -> Result<(u64, Record), Error> {
        let Some((generation, bytes)) = self.store.read(self.uuid)? else {
            return Ok((0, Record::default()));
        };
        match Record::decode(&bytes, self.uuid, self.store.life()) {
            Ok(record) => Ok((generation, record)),
            Err(reason) => {
                let text = format!(
                    "what the group stores of the reservations of the namespace {} is damaged: {reason}",
                    self.uuid
                );
                Err(Error::new(ErrorKind::Io, text))
            }
        }
    }

    /// Puts a record in force, unless a newer one is, and tells the exports. What is returned is
    /// kept until no device here has commands any more that this change, or one before, has
    /// aborted.
    fn install(&self, record: &Record) -> Arc<Pending> {
        let mut installed = lock(&self.installed);
        if installed.number.is_some_and(|number| number >= record.number) {
            return installed.pending();
        }
        let changes = match installed.number {
            None => Changes::default(),
            Some(number) => self.shared.look(|before| record.changes_since(number, before)),
        };
        let pending = Arc::new(Pending::default());
        let before = core::mem::replace(&mut installed.newest, Arc::downgrade(&pending)).upgrade();
        if let Some(before) = &before {
            before.precede(&pending);
        }
        // Of what was never changed everybody knows.
        self.shared.set_ahead(record.number > 0);
        self.shared.install(record.state.clone(), &changes);
        installed.number = Some(record.number);
        self.common.tell(self.uuid, &changes, &pending);
        drop(installed);
        // Whoever waits for it may ask something of this.
        drop(before);
        pending
    }

    /// Another gateway has changed the state: reads it and puts it in force, then calls `done`.
    pub fn follow(self: &Arc<Self>, done: Done) {
        let is_first = lock(&self.readings).push(done);
        if is_first {
            self.begin_reading();
        }
    }

    fn begin_reading(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        self.common.reading.run(Box::new(move || {
            if let Some(this) = this.upgrade() {
                this.next_reading();
            }
        }));
    }

    /// Reads once for all who wait now. What cannot be read is asked for again for as long as the
    /// namespace is served: nobody is told that it is in force before it is.
    fn next_reading(self: &Arc<Self>) {
        let told = core::mem::take(&mut lock(&self.readings).waiting);
        match self.read() {
            Ok((_, record)) => {
                let pending = self.install(&record);
                told.into_iter().for_each(|done| pending.attach(done));
            }
            Err(e) => {
                tracing::warn!(
                    "namespace {}: what another gateway has changed in its reservations cannot be read now: {e}",
                    self.uuid
                );
                self.pause();
                let mut readings = lock(&self.readings);
                told.into_iter().rev().for_each(|done| readings.waiting.push_front(done));
            }
        }
        let is_left = lock(&self.readings).is_left();
        if is_left {
            self.begin_reading();
        }
    }
}

impl Installed {
    fn pending(&mut self) -> Arc<Pending> {
        self.newest.upgrade().unwrap_or_else(|| {
            let fresh = Arc::new(Pending::default());
            self.newest = Arc::downgrade(&fresh);
            fresh
        })
    }
}

impl Drop for InGroup {
    /// Nobody serves the namespace here any more, so nothing has to be put in force.
    fn drop(&mut self) {
        let readings = self.readings.get_mut().unwrap_or_else(PoisonError::into_inner);
        readings.waiting.drain(..).for_each(|done| done());
    }
}

#[cfg(test)]
mod tests;
