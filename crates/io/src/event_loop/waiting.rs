//! Polling time of a loop before it sleeps, learnt from the results of recent polling.
//!
//! Polling after the last work (spinning) saves both ends a sleep and a wake-up if the next work
//! comes soon, and is wasted if it comes late. If the other end shares the CPU, spinning even
//! delays the awaited work. Which case applies cannot be queried, only tried. So a loop remembers
//! how many of its recent spins found work. While most did, it spins; otherwise it sleeps at once,
//! and tries a spin again at growing intervals. After a long sleep it discards what it has learnt.

use crate::limits::{SPIN_FORGET_MS, SPIN_TRIAL_GAP_MAX};
use crate::time::Time;
use core::time::Duration;

/// Spins that were never wasted, in the units of [`Waiting::paid`].
const ALWAYS: u32 = 1 << 16;

/// Part of the spins that must have found work for the next one to be worth it: three of four.
/// (Work that is waited for twice, once shortly and once long, as by an initiator that begins
/// operations at a fixed rate, is below that.)
const WORTH: u32 = ALWAYS / 4 * 3;

/// Weight of the last spin in what is remembered: one in `1 << WEIGHT`.
const WEIGHT: u32 = 3;

/// The memory of one loop.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The longest spin; zero: never, [`Duration::MAX`]: always.
    limit: Duration,
    /// Part of the spins that found work, 0 to [`ALWAYS`]: a mean in which older ones count less.
    paid: u32,
    /// Waits without a spin until the next trial...
    until_trial: u32,
    /// ...and the number of them before it.
    gap: u32,
    /// The wait that is on.
    wait: Option<Wait>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Time,
    /// Time for which it spins before it sleeps.
    spin: Duration,
    /// A turn has found nothing to do in it. Before, what ends it may have been there when it
    /// began.
    tried: bool,
    /// It ended, in vain.
    failed: bool,
}

impl Waiting {
    /// Waits that spin `limit` at most.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, paid: ALWAYS, until_trial: 0, gap: 1, wait: None }
    }

    /// A turn that began at `now` found nothing to do: a wait begins, or goes on.
    pub(super) fn idle(&mut self, now: Time) {
        self.settled(now);
        if let Some(wait) = &mut self.wait {
            wait.tried = true;
        }
    }

    /// A turn that ended at `now` left nothing to do, as far as is known: a wait begins.
    pub(super) fn settled(&mut self, now: Time) {
        if self.wait.is_none() {
            let spin = if self.is_worth_it() { self.limit } else { Duration::ZERO };
            self.wait = Some(Wait { since: now, spin, tried: false, failed: false });
        }
    }

    /// Polling time of the current wait, also for the drivers in it; the limit while there is none.
    pub(super) fn spin(&self) -> Duration {
        self.wait.map_or(self.limit, |wait| wait.spin)
    }

    /// Returns whether a wait that begins now probably sleeps at once.
    pub(super) fn doubts(&self) -> bool {
        self.paid < WORTH && self.limit > Duration::ZERO && self.limit < Duration::MAX
    }

    /// Returns whether a wait is on.
    pub(super) fn is_on(&self) -> bool {
        self.wait.is_some()
    }

    /// Returns whether the wait that is on has polled long enough. A loop that was just busy waits
    /// for nothing yet.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.wait.is_some_and(|wait| now - wait.since >= wait.spin && wait.spin < Duration::MAX)
    }

    /// The loop goes to sleep: a spin, if there was one, has failed.
    pub(super) fn sleeps(&mut self) {
        if let Some(wait) = &mut self.wait
            && !wait.failed
            && wait.spin > Duration::ZERO
        {
            wait.failed = true;
            self.learn(false);
        }
    }

    /// There is work again, at `now`.
    #[inline]
    pub(super) fn busy(&mut self, now: Time) {
        if self.wait.is_some() {
            self.end(now);
        }
    }

    fn end(&mut self, now: Time) {
        let Some(wait) = self.wait.take() else { return };
        let waited = now - wait.since;
        if wait.tried && !wait.failed && wait.spin > Duration::ZERO {
            // A processor that was taken away meanwhile, maybe by the very thread that was waited
            // for, was not spun on for this long.
            self.learn(waited <= wait.spin);
        }
        if waited >= Duration::from_millis(SPIN_FORGET_MS) {
            *self = Self::new(self.limit);
        }
    }

    fn is_worth_it(&mut self) -> bool {
        if !self.doubts() {
            return true;
        }
        self.until_trial = self.until_trial.saturating_sub(1);
        self.until_trial == 0
    }

    fn learn(&mut self, paid: bool) {
        self.paid = self.paid - (self.paid >> WEIGHT) + if paid { ALWAYS >> WEIGHT } else { 0 };
        // A trial that paid is soon followed by others, until most have.
        self.gap = if paid { 1 } else { (self.gap * 2).min(SPIN_TRIAL_GAP_MAX) };
        self.until_trial = self.gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    /// A loop whose work comes `gaps` microseconds after it went idle, in turn; counts the time
    /// spent spinning, in microseconds.
    fn spun(waiting: &mut Waiting, at: &mut u64, gaps: &[u64], times: usize) -> u64 {
        let mut spun = 0;
        for gap in gaps.iter().cycle().take(times) {
            waiting.idle(Time::from_nanos(*at * 1000));
            let most = waiting.spin().as_micros() as u64;
            if *gap > most {
                assert!(waiting.is_over(Time::from_nanos((*at + most) * 1000)));
                waiting.sleeps();
            }
            spun += (*gap).min(most);
            *at += gap;
            waiting.busy(Time::from_nanos(*at * 1000));
        }
        spun
    }

    #[test]
    fn spins_that_find_work_go_on_whatever_went_wrong_once() {
        let (mut waiting, mut at) = (Waiting::new(LIMIT), 0);
        assert_eq!(spun(&mut waiting, &mut at, &[5], 1000), 5000);
        assert_eq!(spun(&mut waiting, &mut at, &[4000], 1), 50);
        assert_eq!(spun(&mut waiting, &mut at, &[5], 1000), 5000);
    }

    #[test]
    fn spins_that_find_nothing_end_but_for_a_few() {
        for gaps in [&[1000][..], &[60], &[40, 960], &[70, 30]] {
            let (mut waiting, mut at) = (Waiting::new(LIMIT), 0);
            spun(&mut waiting, &mut at, gaps, 20);
            assert!(spun(&mut waiting, &mut at, gaps, 1024) < 1024, "{gaps:?}");
        }
    }

    #[test]
    fn work_that_comes_sooner_is_noticed() {
        let (mut waiting, mut at) = (Waiting::new(LIMIT), 0);
        spun(&mut waiting, &mut at, &[1000], 10_000);
        spun(&mut waiting, &mut at, &[25], 1000);
        assert_eq!(spun(&mut waiting, &mut at, &[5], 100), 500);
    }

    #[test]
    fn a_long_sleep_forgets() {
        let (mut waiting, mut at) = (Waiting::new(LIMIT), 0);
        spun(&mut waiting, &mut at, &[1000], 1000);
        spun(&mut waiting, &mut at, &[SPIN_FORGET_MS * 1000], 1);
        assert_eq!(spun(&mut waiting, &mut at, &[5], 100), 500);
    }

    #[test]
    fn the_ends_of_the_range_learn_nothing() {
        let (mut never, mut always) = (Waiting::new(Duration::ZERO), Waiting::new(Duration::MAX));
        assert_eq!(spun(&mut never, &mut 0, &[5], 100), 0);
        assert_eq!(spun(&mut always, &mut 0, &[5000], 100), 500_000);
    }
}
