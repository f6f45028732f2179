//! The time limits of a target: for login, for silence (with pings, RFC 7143 §11.18 and §11.19),
//! and for the logout that it has requested (§11.9.1).

use super::{Phase, TargetConfig, TargetConnection, Violation};
use crate::stream::{StartLimit, StreamEngine};
use core::time::Duration;

/// What the time means for the initiator's silence.
#[derive(Debug, PartialEq, Eq)]
enum Silence {
    /// It is short, or not the initiator's.
    Short,
    /// The initiator is to be pinged.
    Ask,
    /// It does not answer.
    Final,
}

/// The clock of a connection.
pub(super) struct Clock {
    login: StartLimit,
    ping_after: Duration,
    ping_timeout: Duration,
    /// Something came since the last tick.
    heard: bool,
    /// The layer above takes nothing, so nothing can be heard: what was received last led to an
    /// event, and nothing was shown since.
    held: bool,
    /// When something was heard last.
    heard_at: Duration,
    /// When the initiator was pinged because it was silent.
    asked_at: Option<Duration>,
    /// For an initiator that was asked to log out.
    pub logout: Option<StartLimit>,
    now: Duration,
}

impl Clock {
    pub fn new(config: &TargetConfig) -> Self {
        Self {
            login: StartLimit::new(config.login_limit),
            ping_after: config.ping_after,
            ping_timeout: config.ping_timeout,
            heard: false,
            held: false,
            heard_at: Duration::ZERO,
            asked_at: None,
            logout: None,
            now: Duration::ZERO,
        }
    }

    /// The time of the last tick.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Received bytes are shown to the engine, or what is left of them.
    #[inline]
    pub fn hear(&mut self, something: bool) {
        self.heard |= something;
        self.held = true;
    }

    /// Nothing is left of what was received.
    #[inline]
    pub fn all_heard(&mut self) {
        self.held = false;
    }

    fn silence(&mut self) -> Silence {
        if core::mem::take(&mut self.heard) || self.held {
            (self.heard_at, self.asked_at) = (self.now, None);
            return Silence::Short;
        }
        match self.asked_at {
            Some(at) if self.now >= at + self.ping_timeout => Silence::Final,
            None if self.now >= self.heard_at + self.ping_after => {
                self.asked_at = Some(self.now);
                Silence::Ask
            }
            _ => Silence::Short,
        }
    }

    /// When silence is to be looked at again.
    fn silence_deadline(&self) -> Option<Duration> {
        let next =
            self.asked_at.map_or(self.heard_at + self.ping_after, |at| at + self.ping_timeout);
        (!self.ping_after.is_zero()).then_some(next)
    }
}

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

    /// Whether commands are outstanding, or responses are to be sent.
    fn is_busy(&self) -> bool {
        self.tasks().next().is_some() || self.wants_transmit()
    }
}
