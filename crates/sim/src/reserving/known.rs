//! What is known of the reservations in force: answers decide it; a command whose answer was lost may have been executed, or be executed late.

use super::model::{Action, Answer, State, Who};
use core::time::Duration;
use weft_io::Time;

/// A command whose connection was lost is executed within this time, or never.
const LATE: Duration = Duration::from_secs(20);

/// A command.
#[derive(Clone, Copy, Debug)]
struct Command {
    by: Who,
    action: Action,
    /// Until when it may be executed.
    until: Time,
}

/// What was the case from some moment on.
struct Moment {
    /// States of which one is in force.
    states: Vec<State>,
    /// Commands may have been aborted.
    aborts: bool,
}

/// What is known of the reservations of one namespace, now and before.
pub struct Known {
    /// The last one is now.
    moments: Vec<Moment>,
    under_way: Option<Command>,
    late: Vec<Command>,
    /// Starts of the target, which keeps nothing across them.
    starts: u64,
    /// At which of them what is under way began.
    began: u64,
}

/// What may become of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// It may be executed.
    pub executed: bool,
    /// It may be refused, or aborted.
    pub refused: bool,
}

impl Default for Known {
    fn default() -> Self {
        let moments = vec![Moment { states: vec![State::default()], aborts: false }];
        Self { moments, under_way: None, late: Vec::new(), starts: 0, began: 0 }
    }
}

impl Known {
    /// The states of which one is in force.
    pub fn states(&self) -> &[State] {
        self.moments.last().map_or(&[], |moment| &moment.states)
    }

    /// The only state that may be in force, if nothing can change it any more.
    pub fn certain(&self) -> Option<&State> {
        let is_certain = self.late.is_empty() && self.under_way.is_none() && self.states().len() == 1;
        self.states().first().filter(|_| is_certain)
    }

    /// A mark for an operation that is submitted now.
    pub fn mark(&self) -> usize {
        self.moments.len() - 1
    }

    /// What may become of an operation that was submitted at this mark and ends now.
    pub fn fate(&self, mark: usize, who: Option<Who>, writes: bool) -> Fate {
        let mut fate = Fate { executed: false, refused: false };
        for moment in &self.moments[mark..] {
            fate.refused |= moment.aborts;
            for allowed in moment.states.iter().map(|state| state.allows(who, writes)) {
                fate.executed |= allowed;
                fate.refused |= !allowed;
            }
        }
        fate
    }

    /// A command is about to be sent.
    pub fn begin(&mut self, by: Who, action: Action, now: Time) {
        self.late.retain(|command| command.until >= now);
        self.under_way = Some(Command { by, action, until: now + LATE });
        self.began = self.starts;
        self.enter(self.states().to_vec());
    }

    /// The command has been answered; `None`: its connection was lost. Of what was not executed for some other reason, see
    /// [`Known::not_executed`].
    ///
    /// # Errors
    /// Why this cannot be the answer.
    pub fn end(&mut self, answer: Option<Answer>, now: Time) -> Result<(), String> {
        let Some(command) = self.under_way.take() else { return Ok(()) };
        if self.began != self.starts {
            // What happened before the target's last start has no consequences.
            return Ok(());
        }
        let Some(answer) = answer else {
            self.late.push(Command { until: now + LATE, ..command });
            return Ok(());
        };
        // What is in force now includes the state after the command: these are the states before it.
        let before = self.moments.iter().rev().nth(1).map_or_else(Vec::new, |moment| moment.states.clone());
        let matches = before.iter().map(|state| state.after(command.by, command.action));
        let states: Vec<_> = matches.filter(|(given, _)| *given == answer).map(|(_, next)| next).collect();
        if states.is_empty() {
            return Err(format!(
                "{:?} of {} is answered with {answer:?}; what may be in force: {before:?}",
                command.action, command.by
            ));
        }
        self.enter(states);
        Ok(())
    }

    /// The command was not executed, for a reason that has to do with no reservation.
    pub fn not_executed(&mut self) {
        self.under_way = None;
        if self.began == self.starts
            && let Some(before) = self.moments.iter().rev().nth(1)
        {
            self.enter(before.states.clone());
        }
    }

    /// The target has ended, and its reservations with it.
    pub fn restarted(&mut self) {
        self.starts += 1;
        self.late.clear();
        self.moments.push(Moment { states: vec![State::default()], aborts: false });
    }

    /// From now on one of these states is in force, or what follows from them by commands that may be executed at any time.
    fn enter(&mut self, mut states: Vec<State>) {
        let commands: Vec<_> = self.late.iter().copied().chain(self.under_way).collect();
        let mut at = 0;
        while at < states.len() {
            for command in &commands {
                let (_, next) = states[at].after(command.by, command.action);
                if !states.contains(&next) {
                    states.push(next);
                }
            }
            at += 1;
        }
        let mut unique = Vec::new();
        states.into_iter().for_each(|state| {
            if !unique.contains(&state) {
                unique.push(state)
            }
        });
        let aborts = commands.iter().any(|command| matches!(command.action, Action::Preempt { abort: true, .. }));
        self.moments.push(Moment { states: unique, aborts });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(known: &mut Known, by: Who, action: Action) {
        known.begin(by, action, Time::ZERO);
        known.end(Some(Answer::Done), Time::ZERO).unwrap();
    }

    fn fate(known: &Known, mark: usize, who: Who) -> [bool; 2] {
        let Fate { executed, refused } = known.fate(mark, Some(who), true);
        [executed, refused]
    }

    #[test]
    fn answers_decide() {
        let mut known = Known::default();
        let first = known.mark();
        done(&mut known, 0, Action::Register);
        done(&mut known, 0, Action::Acquire(1));
        assert_eq!((fate(&known, first, 1), fate(&known, known.mark(), 1)), ([true, true], [false, true]));
        known.begin(1, Action::Clear, Time::ZERO);
        assert!(known.end(Some(Answer::Done), Time::ZERO).is_err(), "it is not registered");
    }

    #[test]
    fn what_was_lost_may_be_executed_late_but_not_for_ever() {
        let mut known = Known::default();
        done(&mut known, 0, Action::Register);
        known.begin(0, Action::Acquire(1), Time::ZERO);
        known.end(None, Time::ZERO).unwrap();
        assert_eq!(fate(&known, known.mark(), 1), [true, true]);
        assert!(known.certain().is_none());
        known.begin(0, Action::Release(1), Time::ZERO);
        known.end(Some(Answer::Done), Time::ZERO).unwrap();
        assert_eq!(fate(&known, known.mark(), 1), [true, true], "it may be executed after the release");
        known.begin(0, Action::Release(1), Time::ZERO + LATE * 2);
        known.end(Some(Answer::Done), Time::ZERO + LATE * 2).unwrap();
        assert_eq!(fate(&known, known.mark(), 1), [true, false]);
        assert!(known.certain().is_some());
    }

    #[test]
    fn a_restart_ends_everything() {
        let mut known = Known::default();
        done(&mut known, 0, Action::Register);
        known.begin(0, Action::Acquire(2), Time::ZERO);
        known.restarted();
        known.end(None, Time::ZERO).unwrap();
        assert_eq!(fate(&known, known.mark(), 1), [true, false]);
        assert_eq!(known.certain(), Some(&State::default()));
    }
}
