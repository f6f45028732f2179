//! The time for which no path of a device can be used, and when the log reports it.

use std::time::Duration;
use weft_connection::limits::{STRANDED_AGAIN_S, STRANDED_AGAIN_S_MAX, STRANDED_FIRST_S};
use weft_io::Time;

/// See the module.
pub(super) struct Stranded {
    since: Time,
    /// When the log may report it.
    next: Time,
    /// From that report to the one after it.
    pause: Duration,
    is_told: bool,
}

impl Stranded {
    pub(super) fn new(now: Time) -> Self {
        let next = now + Duration::from_secs(STRANDED_FIRST_S);
        Self { since: now, next, pause: Duration::from_secs(STRANDED_AGAIN_S), is_told: false }
    }

    pub(super) fn since(&self) -> Time {
        self.since
    }

    /// When to look again.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Whether the log has reported it.
    pub(super) fn is_told(&self) -> bool {
        self.is_told
    }

    /// Whether to report it now, if there `is_news`: something that nothing else in the log says.
    pub(super) fn report(&mut self, now: Time, is_news: bool) -> bool {
        if now < self.next {
            return false;
        }
        if !is_news {
            self.next = now + Duration::from_secs(STRANDED_FIRST_S);
            return false;
        }
        self.is_told = true;
        self.next = now + self.pause;
        self.pause = (self.pause * 2).min(Duration::from_secs(STRANDED_AGAIN_S_MAX));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_reported_after_a_moment_and_then_ever_more_rarely() {
        let start = Time::from_epoch(Duration::from_secs(100));
        let mut stranded = Stranded::new(start);
        let second = |n: u64| start + Duration::from_secs(n);
        let day: Vec<u64> =
            (0..24 * 3600).filter(|&n| stranded.report(second(n), n >= 10)).collect();
        assert_eq!(day[..4], [10, 70, 190, 430], "first when there is something to report");
        assert!(day.len() < 40 && day.is_sorted(), "{day:?}");
        assert!(day.windows(2).all(|pair| pair[1] - pair[0] <= STRANDED_AGAIN_S_MAX));
        assert!(stranded.is_told() && stranded.since() == start);
        let mut stranded = Stranded::new(start);
        assert!(!stranded.report(second(STRANDED_FIRST_S - 1), true) && !stranded.is_told());
        assert!(stranded.report(second(STRANDED_FIRST_S), true));
        assert_eq!(stranded.next(), second(STRANDED_FIRST_S + STRANDED_AGAIN_S));
    }
}
