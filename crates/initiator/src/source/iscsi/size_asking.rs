//! Asks a target for the size of a disk. Sessions that are in use do that; where none is, one is
//! brought to the control loop for it.

use super::device_state::DeviceState;
use super::table::{Table, Unit};
use crate::control::{Control, Done};
use std::sync::Arc;
use weft_block::{BlockQueue, DeviceChange, Error, ErrorKind};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Time};

/// Asks, and waits for the answer: at most for the time limit of commands.
///
/// # Errors
/// The target does not tell its size.
pub(super) fn ask(control: &Control, shared: &Arc<DeviceState>, unit: Unit) -> Result<(), Error> {
    let (shared, number) = (Arc::clone(shared), shared.ask_size());
    let asked = control.begin(move |on, done| {
        let id = on.spawn(|id| {
            shared.size.enter(on.remote(), id);
            let (until, timer) = (on.now() + shared.limit, TimerSlot::default());
            let on = on.clone();
            Asking { on, shared, unit, number, queue: None, until, done: Some(done), id, timer }
        });
        on.wake(id);
    });
    asked?.wait()
}

/// The driver of a question.
struct Asking {
    on: Handle,
    shared: Arc<DeviceState>,
    unit: Unit,
    number: u64,
    /// Of the session that was brought here.
    queue: Option<Box<dyn BlockQueue>>,
    until: Time,
    done: Option<Done<()>>,
    id: DriverId,
    timer: TimerSlot,
}

impl Asking {
    /// Brings a session here where none is in use. Returns why there will be no answer, if so.
    fn problem(&mut self) -> Option<String> {
        if let Some(why) = self.shared.why_ended() {
            return Some(why.to_owned());
        }
        if self.on.now() >= self.until {
            let seconds = self.shared.limit.as_secs_f32();
            return Some(format!("the target has not answered within {seconds} s"));
        }
        if let Some(queue) = &mut self.queue {
            let mut changes = core::iter::from_fn(|| queue.change());
            let is_over = changes.any(|change| change == DeviceChange::Gone);
            return is_over.then(|| "the session has ended".to_owned());
        }
        if self.shared.has_users() {
            return None;
        }
        match Table::open(&self.on, self.id, self.unit.clone(), &self.shared) {
            Ok(queue) => {
                self.queue = Some(Box::new(queue));
                None
            }
            Err(e) => Some(e.to_string()),
        }
    }
}

impl Driver for Asking {
    fn work(&mut self, on: &Handle) -> Activity {
        let outcome = self.shared.size.outcome(self.number);
        let Some(outcome) = outcome.or_else(|| self.problem().map(Err)) else {
            self.timer.arm(on, self.id, self.until);
            return Activity::Idle;
        };
        self.queue = None;
        if let Some(done) = self.done.take() {
            let url = &self.unit.url;
            let failed = |why: String| {
                Error::new(ErrorKind::Io, format!("{url}: its size cannot be had: {why}"))
            };
            done(outcome.map_err(failed));
        }
        on.remove(self.id);
        Activity::Busy
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.shared.size.leave(&self.on.remote(), self.id);
    }
}
