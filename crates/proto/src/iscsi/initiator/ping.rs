//! Pings in both directions (RFC 7143 §11.18 and §11.19), and detection of a dead target.

use super::fault::Violation;
use crate::iscsi::pdu::{Lun, TaskTag};
use crate::limits::ISCSI_PINGS_MAX;
use core::time::Duration;

/// A ping of the target that waits for its answer to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Question {
    pub lun: Lun,
    pub transfer: TaskTag,
}

/// Result of `Pings::tick`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Health {
    Fine,
    /// Nothing came for too long, not even an answer to our ping.
    Silent,
}

/// Outstanding pings.
pub(super) struct Pings {
    interval: Duration,
    limit: Duration,
    questions: [Question; ISCSI_PINGS_MAX],
    waiting: usize,
    /// Something came since the last tick.
    heard: bool,
    last_heard: Duration,
    /// A ping of ours must be sent.
    wanted: bool,
    /// When the last one was asked for, while it is not answered.
    asked: Option<Duration>,
}

impl Pings {
    /// A zero interval: the target is not pinged.
    pub fn new(interval: Duration, limit: Duration, now: Duration) -> Self {
        Self {
            interval,
            limit,
            questions: [Question::default(); ISCSI_PINGS_MAX],
            waiting: 0,
            heard: false,
            last_heard: now,
            wanted: false,
            asked: None,
        }
    }

    /// A PDU has come.
    #[inline]
    pub fn hear(&mut self) {
        self.heard = true;
    }

    /// The target pings.
    pub fn question(&mut self, question: Question) -> Result<(), Violation> {
        let place = self.questions.get_mut(self.waiting).ok_or(Violation::Pings)?;
        *place = question;
        self.waiting += 1;
        Ok(())
    }

    /// The target answers our ping.
    pub fn answered(&mut self) {
        self.asked = None;
    }

    /// Returns whether something must be sent.
    pub fn is_due(&self) -> bool {
        self.waiting > 0 || self.wanted
    }

    /// Returns an answer that must be sent.
    pub fn take_question(&mut self) -> Option<Question> {
        self.waiting = self.waiting.checked_sub(1)?;
        Some(self.questions[self.waiting])
    }

    /// Returns whether a ping of ours must be sent, which then counts as sent.
    pub fn take_ping(&mut self) -> bool {
        core::mem::take(&mut self.wanted)
    }

    /// Time passes.
    pub fn tick(&mut self, now: Duration) -> Health {
        if core::mem::take(&mut self.heard) {
            self.last_heard = now;
        }
        if self.interval.is_zero() {
            return Health::Fine;
        }
        match self.asked {
            Some(asked) if self.last_heard > asked => {
                // It lives, if it does not answer pings: the next one is for later.
                self.asked = None;
            }
            Some(asked) if now >= asked + self.limit => return Health::Silent,
            None if now >= self.last_heard + self.interval => {
                self.wanted = true;
                self.asked = Some(now);
            }
            _ => {}
        }
        Health::Fine
    }

    /// Time of the next call of `tick`.
    pub fn deadline(&self) -> Option<Duration> {
        if self.interval.is_zero() {
            return None;
        }
        Some(self.asked.map_or(self.last_heard + self.interval, |asked| asked + self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn silence_is_noticed_and_a_busy_target_is_not_pinged() {
        let mut pings = Pings::new(S(5), S(3), S(0));
        pings.hear();
        assert_eq!((pings.tick(S(4)), pings.is_due()), (Health::Fine, false));
        assert_eq!(
            (pings.tick(S(9)), pings.take_ping(), pings.deadline()),
            (Health::Fine, true, Some(S(12)))
        );
        assert_eq!(pings.tick(S(11)), Health::Fine);
        assert_eq!(pings.tick(S(12)), Health::Silent);
    }

    #[test]
    fn an_answer_is_as_good_as_any_other_sign_of_life() {
        for answer in [Pings::answered, Pings::hear] {
            let mut pings = Pings::new(S(5), S(3), S(0));
            assert_eq!((pings.tick(S(5)), pings.take_ping()), (Health::Fine, true));
            answer(&mut pings);
            pings.hear();
            assert_eq!(
                (pings.tick(S(8)), pings.tick(S(12)), pings.take_ping()),
                (Health::Fine, Health::Fine, false)
            );
            assert_eq!((pings.tick(S(13)), pings.take_ping()), (Health::Fine, true));
        }
    }

    #[test]
    fn a_flood_is_refused() {
        let mut pings = Pings::new(S(0), S(0), S(0));
        for n in 0..ISCSI_PINGS_MAX {
            pings.question(Question { transfer: TaskTag(n as u32), lun: Lun(0) }).unwrap();
        }
        assert_eq!(pings.question(Question::default()), Err(Violation::Pings));
        assert!(pings.take_question().is_some() && pings.question(Question::default()).is_ok());
    }
}
