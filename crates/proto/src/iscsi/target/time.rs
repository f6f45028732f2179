//! The time limits of a target: for login, for silence (with pings, RFC 7143 §11.18 and §11.19),
//! and for the logout that it has requested (§11.9.1).

use super::clock::Silence;
use super::{Phase, TargetConnection, Violation};
use crate::stream::StreamEngine;
use core::time::Duration;

impl TargetConnection {
    /// See [`StreamEngine::tick`].
    pub(super) fn pass_time(&mut self, now: Duration) {
        self.clock.now = now;
        match self.phase {
            Phase::Login | Phase::Deciding => {
                self.clock.heard_at = now;
                if self.clock.login.has_passed(now) {
                    self.give_up(Violation::LoginLate(self.clock.login.limit()));
                }
            }
            Phase::Full | Phase::LoggingOut => {
                let over = self.clock.logout.as_mut().is_some_and(|limit| limit.has_passed(now));
                if over && !self.is_busy() {
                    self.announce_drop(0);
                    self.phase = Phase::Closed;
                    return;
                }
                self.watch_silence();
            }
            Phase::Closed => {}
        }
    }

    fn watch_silence(&mut self) {
        if self.clock.ping_after.is_zero() {
            return;
        }
        match self.clock.silence() {
            Silence::Short => {}
            Silence::Ask => self.ping(),
            Silence::Final => self.give_up(Violation::Silent),
        }
    }

    /// Closes the connection of an initiator that reads nothing that could be said to it.
    fn give_up(&mut self, violation: Violation) {
        self.fail(violation);
        self.urgent.clear();
        self.urgent_sent = 0;
    }

    /// See [`StreamEngine::deadline`].
    #[inline]
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Login | Phase::Deciding => Some(self.clock.login.deadline()),
            Phase::Full | Phase::LoggingOut => {
                let logout = self.clock.logout.map(|limit| limit.deadline());
                [logout, self.clock.silence_deadline()].into_iter().flatten().min()
            }
            Phase::Closed => None,
        }
    }

    /// Returns whether commands are outstanding, or responses must be sent.
    fn is_busy(&self) -> bool {
        self.tasks().next().is_some() || self.wants_transmit()
    }
}
