//! The order in which programs run: the longest first, one while cargo still builds.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{part::Part, program::Job};

/// Programs that wait to be run.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// With the seconds that each took the last time, if that is known.
    waiting: Vec<(Option<f64>, Job)>,
    running: usize,
    /// All programs are built.
    closed: bool,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a program, with the seconds that it took the last time.
    pub(super) fn push(&self, took: Option<f64>, job: Job) {
        self.lock().waiting.push((took, job));
        self.changed.notify_all();
    }

    /// Declares that all programs are built.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Takes the next program, or waits for one; none if there will be no other one. While cargo
    /// builds, which keeps the processors busy, one runs at a time.
    pub(super) fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(at) =
                (state.closed || state.running == 0).then(|| state.longest()).flatten()
            {
                state.running += 1;
                return Some(state.waiting.swap_remove(at).1);
            }
            if state.closed && state.waiting.is_empty() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reports the end of a program that was taken.
    pub(super) fn done(&self) {
        self.lock().running -= 1;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The index of the program that probably takes longest, of those that may run. Where it is not
    /// known how long they take, the largest file holds the most tests of whole programs.
    fn longest(&self) -> Option<usize> {
        let may_run = |(_, job): &&(Option<f64>, Job)| self.closed || job.part != Part::Built;
        let weight = |(took, job): &(Option<f64>, Job)| (took.unwrap_or(0.0), job.program.bytes());
        let waiting = self.waiting.iter().enumerate().filter(|(_, it)| may_run(it));
        let weights = waiting.map(|(index, it)| (index, weight(it)));
        let longest = weights.max_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        longest.map(|(index, _)| index)
    }
}
