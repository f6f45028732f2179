//! Known states of the reservations in force: answers decide it; a command whose answer was lost
//! may have been executed, or be executed late.

use super::model::{ModelAction, ModelAnswer, ModelState, Who};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use weft_io::Time;

/// A command whose connection was lost is executed within this time, or never.
const LATE: Duration = Duration::from_secs(20);

/// A command.
#[derive(Clone, Copy, Debug)]
struct Command {
    id: u64,
    by: Who,
    action: ModelAction,
    /// The gateway of a group that was asked.
    via: usize,
    /// Until when it may be executed, once its connection was lost.
    until: Time,
    /// At which start of the target it began.
    began: u64,
    /// Generations that had been reported when it began.
    generation: u32,
}

/// What may be the case: a state, and which commands under way have been executed, with what
/// answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Possible {
    state: ModelState,
    executed: Vec<(u64, ModelAnswer)>,
}

/// What was the case from some moment on.
struct Moment {
    /// States of which one is in force.
    states: Vec<ModelState>,
    /// Commands may have been aborted.
    aborts: bool,
}

/// Known states of the reservations of one namespace, now and before.
pub struct KnownReservations {
    /// The last one is now.
    moments: Vec<Moment>,
    /// Of which one is the case now.
    now: BTreeSet<Possible>,
    under_way: Vec<Command>,
    late: Vec<Command>,
    /// Starts of the target, or lives of the group: nothing is kept across them.
    starts: u64,
    /// Commands that were begun or have ended.
    steps: u64,
    /// The greatest generation that was reported since the last start.
    generation: u32,
    /// Gateways that stand still, or that are kept out and have not noticed, with the mark at which
    /// they stopped: they refuse by what they knew then.
    stopped: BTreeMap<usize, usize>,
}

/// Possible outcomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// It may be executed.
    pub executed: bool,
    /// It may be refused, or aborted.
    pub refused: bool,
}

impl Default for KnownReservations {
    fn default() -> Self {
        let moments = vec![Moment { states: vec![ModelState::default()], aborts: false }];
        let now = BTreeSet::from([Possible::default()]);
        Self {
            moments,
            now,
            under_way: Vec::new(),
            late: Vec::new(),
            starts: 0,
            steps: 0,
            generation: 0,
            stopped: BTreeMap::new(),
        }
    }
}

impl KnownReservations {
    /// The states of which one is in force.
    pub fn states(&self) -> &[ModelState] {
        self.moments.last().map_or(&[], |moment| &moment.states)
    }

    /// Returns the only state that may be in force, if nothing can change it.
    pub fn certain(&self) -> Option<&ModelState> {
        let is_certain =
            self.late.is_empty() && self.under_way.is_empty() && self.states().len() == 1;
        self.states().first().filter(|_| is_certain)
    }

    /// A mark for an operation that is submitted now.
    pub fn mark(&self) -> usize {
        self.moments.len() - 1
    }

    /// Returns the possible outcomes of an operation that was submitted at this mark and ends now.
    pub fn fate(&self, mark: usize, who: Option<Who>, writes: bool) -> Fate {
        let mut fate = Fate { executed: false, refused: false };
        for moment in &self.moments[mark..] {
            fate.refused |= moment.aborts;
            for allowed in moment.states.iter().map(|state| state.allows(who, writes)) {
                fate.executed |= allowed;
                fate.refused |= !allowed;
            }
        }
        let known = self.stopped.values().filter_map(|stopped| self.moments.get(*stopped));
        fate.refused |=
            known.flat_map(|moment| &moment.states).any(|state| !state.allows(who, writes));
        fate
    }

    /// Sets whether a gateway stands still, or is kept out of the cluster and has not noticed.
    pub fn set_stopped(&mut self, via: usize, is_stopped: bool) {
        if is_stopped {
            let mark = self.mark();
            self.stopped.entry(via).or_insert(mark);
        } else {
            self.stopped.remove(&via);
        }
    }

    /// A command is about to be sent to a gateway; its number.
    pub fn begin(&mut self, by: Who, action: ModelAction, (via, now): (usize, Time)) -> u64 {
        self.forget_late(now);
        self.steps += 1;
        let (id, began, generation) = (self.steps, self.starts, self.generation);
        self.under_way.push(Command { id, by, action, via, until: now + LATE, began, generation });
        self.enter();
        id
    }

    /// Returns whether nothing was begun or has ended since a command was begun.
    pub fn is_newest(&self, command: u64) -> bool {
        self.steps == command
    }

    /// A command whose connection was lost may still be executed as long as the gateway that was
    /// asked is busy, and a while longer.
    pub fn is_busy(&mut self, via: usize, now: Time) {
        self.late
            .iter_mut()
            .filter(|command| command.via == via)
            .for_each(|command| command.until = now + LATE);
    }

    /// Forgets the commands that can no longer be executed; returns whether none is left that can.
    pub fn forget_late(&mut self, now: Time) -> bool {
        self.late.retain(|command| command.until >= now);
        self.late.is_empty()
    }

    /// The command has been answered; `None`: its connection was lost. For commands that were not
    /// executed for some other reason see [`KnownReservations::not_executed`].
    ///
    /// # Errors
    /// Why this cannot be the answer.
    pub fn end(
        &mut self,
        command: u64,
        answer: Option<ModelAnswer>,
        now: Time,
    ) -> Result<(), String> {
        // What happened before the target's last start has no consequences.
        let Some(command) = self.take(command) else { return Ok(()) };
        let Some(answer) = answer else {
            for possible in core::mem::take(&mut self.now) {
                self.now.insert(possible.without(command.id).1);
            }
            self.late.push(Command { until: now + LATE, ..command });
            self.enter();
            return Ok(());
        };
        let before = core::mem::take(&mut self.now);
        let ends = before.iter().map(|possible| possible.without(command.id));
        self.now = ends
            .filter(|(given, _)| given.as_ref() == Some(&answer))
            .map(|(_, possible)| possible)
            .collect();
        if self.now.is_empty() {
            let before: BTreeSet<_> = before.into_iter().map(|possible| possible.state).collect();
            return Err(format!(
                "{:?} of {} is answered with {answer:?}; what may be in force: {before:?}",
                command.action, command.by
            ));
        }
        self.enter();
        Ok(())
    }

    /// A report shows this generation.
    ///
    /// # Errors
    /// It has gone back.
    pub fn check_generation(&mut self, command: u64, shown: u32) -> Result<(), String> {
        let Some(command) =
            self.under_way.iter().find(|of| of.id == command && of.began == self.starts)
        else {
            return Ok(());
        };
        let before = command.generation;
        self.generation = self.generation.max(shown);
        if shown >= before {
            Ok(())
        } else {
            Err(format!("the generation {shown} is reported after {before}"))
        }
    }

    /// The command was not executed, for a reason that has to do with no reservation.
    pub fn not_executed(&mut self, command: u64) {
        if let Some(command) = self.take(command) {
            self.now.retain(|possible| possible.executed.iter().all(|(id, _)| *id != command.id));
            self.enter();
        }
    }

    /// A command that ends; `None`: it began before the last start.
    fn take(&mut self, command: u64) -> Option<Command> {
        self.steps += 1;
        let at = self.under_way.iter().position(|of| of.id == command)?;
        Some(self.under_way.swap_remove(at))
    }

    /// The target has ended, and its reservations with it.
    pub fn restarted(&mut self) {
        self.starts += 1;
        self.steps += 1;
        self.generation = 0;
        self.late.clear();
        self.under_way.clear();
        self.now = BTreeSet::from([Possible::default()]);
        self.moments.push(Moment { states: vec![ModelState::default()], aborts: false });
    }

    /// From now on one of these is the case, or what follows from them by commands that may be
    /// executed at any time.
    fn enter(&mut self) {
        let mut open: Vec<Possible> = self.now.iter().cloned().collect();
        while let Some(possible) = open.pop() {
            let is_left =
                |command: &&Command| possible.executed.iter().all(|(id, _)| *id != command.id);
            let executed =
                self.under_way.iter().filter(is_left).map(|command| possible.with(command));
            let late = self.late.iter().map(|command| {
                let state = possible.state.after(command.by, command.action).1;
                Possible { state, executed: possible.executed.clone() }
            });
            let next: Vec<_> = executed.chain(late).collect();
            open.extend(next.into_iter().filter(|next| self.now.insert(next.clone())));
        }
        let states: BTreeSet<_> = self.now.iter().map(|possible| possible.state.clone()).collect();
        let mut commands = self.late.iter().chain(&self.under_way);
        let aborts = commands
            .any(|command| matches!(command.action, ModelAction::Preempt { abort: true, .. }));
        self.moments.push(Moment { states: states.into_iter().collect(), aborts });
    }
}

impl Possible {
    /// After a command under way has been executed, too.
    fn with(&self, command: &Command) -> Self {
        let (answer, state) = self.state.after(command.by, command.action);
        let mut executed = self.executed.clone();
        executed.push((command.id, answer));
        executed.sort();
        Self { state, executed }
    }

    /// What a command was answered that is not under way any more, if it was executed, and the
    /// rest.
    fn without(&self, command: u64) -> (Option<ModelAnswer>, Self) {
        let mut rest = self.clone();
        let at = rest.executed.iter().position(|(id, _)| *id == command);
        (at.map(|at| rest.executed.remove(at).1), rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(known: &mut KnownReservations, by: Who, action: ModelAction) {
        let command = known.begin(by, action, (0, Time::ZERO));
        known.end(command, Some(ModelAnswer::Done), Time::ZERO).unwrap();
    }

    fn fate(known: &KnownReservations, mark: usize, who: Who) -> [bool; 2] {
        let Fate { executed, refused } = known.fate(mark, Some(who), true);
        [executed, refused]
    }

    #[test]
    fn answers_decide() {
        let mut known = KnownReservations::default();
        let first = known.mark();
        done(&mut known, 0, ModelAction::Register);
        done(&mut known, 0, ModelAction::Acquire(1));
        assert_eq!(
            (fate(&known, first, 1), fate(&known, known.mark(), 1)),
            ([true, true], [false, true])
        );
        let command = known.begin(1, ModelAction::Clear, (0, Time::ZERO));
        assert!(
            known.end(command, Some(ModelAnswer::Done), Time::ZERO).is_err(),
            "it is not registered"
        );
    }

    #[test]
    fn what_is_under_way_at_a_time_is_executed_in_some_order() {
        let mut known = KnownReservations::default();
        done(&mut known, 0, ModelAction::Register);
        done(&mut known, 1, ModelAction::Register);
        let commands = [0, 1].map(|by| known.begin(by, ModelAction::Acquire(1), (0, Time::ZERO)));
        known.end(commands[1], Some(ModelAnswer::Done), Time::ZERO).unwrap();
        assert!(
            known.end(commands[0], Some(ModelAnswer::Done), Time::ZERO).is_err(),
            "one of them is too late"
        );
    }

    #[test]
    fn what_is_reported_is_so_from_then_on() {
        let mut known = KnownReservations::default();
        done(&mut known, 0, ModelAction::Register);
        let lost = known.begin(0, ModelAction::Acquire(1), (0, Time::ZERO));
        known.end(lost, None, Time::ZERO).unwrap();
        assert_eq!(fate(&known, known.mark(), 1), [true, true]);
        let report = known.begin(1, ModelAction::Report, (0, Time::ZERO));
        known.check_generation(report, 7).unwrap();
        known
            .end(
                report,
                Some(ModelAnswer::Shows(ModelState::new(vec![0], Some((1, Some(0)))))),
                Time::ZERO,
            )
            .unwrap();
        assert_eq!(fate(&known, known.mark(), 1), [false, true]);
        let report = known.begin(1, ModelAction::Report, (0, Time::ZERO));
        assert!(known.check_generation(report, 6).is_err());
    }

    #[test]
    fn what_was_lost_may_be_executed_late_but_not_for_ever() {
        let mut known = KnownReservations::default();
        done(&mut known, 0, ModelAction::Register);
        let lost = known.begin(0, ModelAction::Acquire(1), (0, Time::ZERO));
        known.end(lost, None, Time::ZERO).unwrap();
        assert_eq!(fate(&known, known.mark(), 1), [true, true]);
        assert!(known.certain().is_none());
        done(&mut known, 0, ModelAction::Release(1));
        assert_eq!(
            fate(&known, known.mark(), 1),
            [true, true],
            "it may be executed after the release"
        );
        let later = Time::ZERO + LATE * 2;
        let command = known.begin(0, ModelAction::Release(1), (0, later));
        known.end(command, Some(ModelAnswer::Done), later).unwrap();
        assert_eq!(fate(&known, known.mark(), 1), [true, false]);
        assert!(known.certain().is_some());
    }

    #[test]
    fn a_restart_ends_everything() {
        let mut known = KnownReservations::default();
        done(&mut known, 0, ModelAction::Register);
        let command = known.begin(0, ModelAction::Acquire(2), (0, Time::ZERO));
        known.restarted();
        known.end(command, None, Time::ZERO).unwrap();
        assert_eq!(fate(&known, known.mark(), 1), [true, false]);
        assert_eq!(known.certain(), Some(&ModelState::default()));
    }
}
