//! Pauses between operations (`thinktime`).

use core::time::Duration;
use weft_io::Time;

/// `thinktime` and the options that belong to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Think {
    /// `thinktime`: length of a pause; zero: none.
    pub time: Duration,
    /// `thinktime_spin`: the part of a pause for which the job uses the processor.
    pub spin: Duration,
    /// `thinktime_blocks`: operations between two pauses; 1 by default, unless `io_time` is given.
    pub blocks: Option<u32>,
    /// `thinktime_blocks_type=issue`: count operations that began, instead of those that completed.
    pub on_issue: bool,
    /// `thinktime_iotime`: time between two pauses; zero: only `blocks` counts.
    pub io_time: Duration,
    /// `rate_ignore_thinktime`: operations that would have been due in a pause are not made up for.
    pub outside_rate: bool,
}

/// Whether operations may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    No,
    /// Not now.
    Yes,
    /// A pause begins, and ends at this time.
    Until(Time),
}

/// Decides when a job pauses.
#[derive(Debug)]
pub(super) struct Pauses {
    think: Think,
    state: State,
    /// Operations at the last pause.
    counted: u64,
    /// When the last pause, or the job, began.
    since: Time,
}

#[derive(Debug)]
enum State {
    Running,
    /// A pause begins when the operations in flight have completed.
    Draining,
    Asleep {
        spin_until: Time,
        wake: Time,
    },
}

impl Pauses {
    /// For a job that starts at `start`; `None` if it has no pauses.
    pub fn new(think: Think, start: Time) -> Option<Self> {
        let pauses = Self { think, state: State::Running, counted: 0, since: start };
        (!think.time.is_zero()).then_some(pauses)
    }

    /// Decides on further operations: `begun` have begun so far, `completed` have completed, and
    /// `is_idle` if none is in flight.
    pub fn hold(&mut self, now: Time, begun: u64, completed: u64, is_idle: bool) -> Hold {
        let count = if self.think.on_issue { begun } else { completed };
        match self.state {
            State::Asleep { wake, .. } if now < wake => return Hold::Yes,
            State::Asleep { .. } => self.state = State::Running,
            State::Draining => {}
            State::Running if self.is_due(now, count) => {
                (self.state, self.counted, self.since) = (State::Draining, count, now);
            }
            State::Running => {}
        }
        match self.state {
            State::Draining if is_idle => {
                let wake = now + self.think.time;
                let spin_until = now + self.think.spin.min(self.think.time);
                self.state = State::Asleep { spin_until, wake };
                Hold::Until(wake)
            }
            State::Draining => Hold::Yes,
            _ => Hold::No,
        }
    }

    fn is_due(&self, now: Time, count: u64) -> bool {
        let by_time = !self.think.io_time.is_zero();
        let in_time = by_time && now >= self.since + self.think.io_time + self.think.time;
        let blocks = self.think.blocks.or((!by_time).then_some(1));
        in_time || blocks.is_some_and(|blocks| count >= self.counted + u64::from(blocks))
    }

    /// Returns whether the job uses the processor in a pause.
    pub fn is_spinning(&self, now: Time) -> bool {
        matches!(self.state, State::Asleep { spin_until, .. } if now < spin_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_pause_follows_each_block_once_all_have_completed() {
        let think = Think { time: 10 * MS, spin: 4 * MS, ..Think::default() };
        let mut pauses = Pauses::new(think, at(0)).unwrap();
        assert_eq!(pauses.hold(at(0), 0, 0, true), Hold::No);
        assert_eq!(pauses.hold(at(1), 2, 1, false), Hold::Yes);
        assert_eq!(pauses.hold(at(2), 2, 2, true), Hold::Until(at(12)));
        assert!(pauses.is_spinning(at(5)) && !pauses.is_spinning(at(6)));
        assert_eq!(pauses.hold(at(11), 2, 2, true), Hold::Yes);
        // The second one completed while the pause was awaited: as in fio, the next pause comes
        // after one more.
        assert_eq!(pauses.hold(at(12), 2, 2, true), Hold::No);
        assert_eq!(pauses.hold(at(12), 3, 2, false), Hold::Yes);
        assert_eq!(pauses.hold(at(13), 3, 3, true), Hold::Until(at(23)));
        assert!(Pauses::new(Think::default(), at(0)).is_none());
    }

    #[test]
    fn blocks_and_time_cause_a_pause() {
        let think = Think { time: 10 * MS, blocks: Some(3), on_issue: true, ..Think::default() };
        let mut pauses = Pauses::new(think, at(0)).unwrap();
        assert_eq!(pauses.hold(at(1), 2, 2, true), Hold::No);
        assert_eq!(pauses.hold(at(1), 3, 2, false), Hold::Yes);
        let timed = Think { time: 10 * MS, io_time: 90 * MS, ..Think::default() };
        let mut pauses = Pauses::new(timed, at(0)).unwrap();
        assert_eq!(pauses.hold(at(99), 500, 500, true), Hold::No);
        assert_eq!(pauses.hold(at(100), 500, 500, true), Hold::Until(at(110)));
        assert_eq!(pauses.hold(at(110), 501, 501, true), Hold::No);
        assert_eq!(pauses.hold(at(200), 501, 501, true), Hold::Until(at(210)));
    }
}
