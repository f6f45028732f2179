//! The clock of a connection: the last sign of its initiator, and the time of the next ping.

use super::config::IscsiTargetConfig;
use crate::stream::StartLimit;
use core::time::Duration;

/// State of the initiator's silence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// It is short, or not the initiator's.
    Short,
    /// The initiator must be pinged.
    Ask,
    /// It does not answer.
    Final,
}

/// The clock of a connection.
pub(super) struct Clock {
    pub login: StartLimit,
    pub ping_after: Duration,
    ping_timeout: Duration,
    /// Something came since the last tick.
    heard: bool,
    /// The layer above takes nothing, so nothing can be heard: what was received last led to an
    /// event, and nothing was shown since.
    held: bool,
    /// When something was heard last.
    pub heard_at: Duration,
    /// When the initiator was pinged because it was silent.
    asked_at: Option<Duration>,
    /// For an initiator that was asked to log out.
    pub logout: Option<StartLimit>,
    /// The time of the last tick.
    pub now: Duration,
}

impl Clock {
    pub fn new(config: &IscsiTargetConfig) -> Self {
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

    pub fn silence(&mut self) -> Silence {
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

    /// Time at which silence must be checked again.
    pub fn silence_deadline(&self) -> Option<Duration> {
        let next =
            self.asked_at.map_or(self.heard_at + self.ping_after, |at| at + self.ping_timeout);
        (!self.ping_after.is_zero()).then_some(next)
    }
}
