//! When a gateway that has lost the cluster ends: so that its hosts turn to others, and that it
//! never does what it still has from them.
//!
//! Closing its connections alone would not do: a write that waits in the library for the image's
//! lock cannot be taken back, and would be executed when the cluster is there again, over what the
//! host has written elsewhere since (decision 31). It dies with the process.

use core::time::Duration;

/// From one answer of theirs to the next question.
const PAUSE: Duration = Duration::from_secs(1);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsolationStep {
    /// Nothing.
    Nothing,
    /// Ask the monitors.
    Ask,
    /// Look again at this time.
    Wait(Duration),
    /// End.
    End,
}

/// What is known of the monitors while the gateway may not serve. Times are those of
/// [`crate::GatewayProcess`].
#[derive(Debug)]
pub(crate) struct Isolation {
    /// How long they may be silent.
    silence: Duration,
    has_served: bool,
    /// When they answered last, or the gateway stopped serving.
    heard: Option<Duration>,
    is_asking: bool,
    ask_at: Duration,
}

impl Isolation {
    /// For a gateway that has not served yet.
    pub fn new(silence: Duration) -> Self {
        Self { silence, has_served: false, heard: None, is_asking: false, ask_at: Duration::ZERO }
    }

    /// Returns the action, given whether this gateway serves, and whether there are others to which
    /// its hosts can turn.
    pub fn look(&mut self, now: Duration, serves: bool, has_company: bool) -> IsolationStep {
        self.has_served |= serves;
        if serves || !self.has_served || !has_company {
            self.heard = None;
            return IsolationStep::Nothing;
        }
        let ends_at = *self.heard.get_or_insert(now) + self.silence;
        match self.is_asking {
            _ if now >= ends_at => IsolationStep::End,
            true => IsolationStep::Wait(ends_at),
            false if now < self.ask_at => IsolationStep::Wait(self.ask_at.min(ends_at)),
            false => {
                self.is_asking = true;
                IsolationStep::Ask
            }
        }
    }

    /// The monitors have answered, or could not be asked.
    pub fn answered(&mut self, now: Duration, reached: bool) {
        (self.is_asking, self.ask_at) = (false, now + PAUSE);
        if reached && self.heard.is_some() {
            self.heard = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(4);

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_gateway_ends_when_it_has_heard_nothing_of_the_monitors() {
        let mut isolation = Isolation::new(SILENCE);
        assert_eq!(isolation.look(S(1), true, true), IsolationStep::Nothing);
        assert_eq!(isolation.look(S(10), false, true), IsolationStep::Ask);
        assert_eq!(isolation.look(S(10), false, true), IsolationStep::Wait(S(10) + SILENCE));
        assert_eq!(isolation.look(S(10) + SILENCE, false, true), IsolationStep::End);
    }

    /// The cluster is there, and does not do what it is asked: another gateway would do no better.
    #[test]
    fn a_gateway_stays_as_long_as_the_monitors_answer() {
        let mut isolation = Isolation::new(SILENCE);
        isolation.look(S(1), true, true);
        for at in (10..100).step_by(2) {
            assert_eq!(isolation.look(S(at), false, true), IsolationStep::Ask);
            isolation.answered(S(at), true);
            assert_eq!(isolation.look(S(at), false, true), IsolationStep::Wait(S(at) + PAUSE));
        }
        assert_eq!(isolation.look(S(98) + SILENCE, false, true), IsolationStep::End);
    }

    /// An answer from before does not count for a gateway that stood still, nor does the time in
    /// which it did.
    #[test]
    fn a_gateway_that_stood_still_asks_first() {
        let mut isolation = Isolation::new(SILENCE);
        isolation.look(S(1), true, true);
        assert_eq!(isolation.look(S(1000), false, true), IsolationStep::Ask);
        isolation.answered(S(1001), false);
        assert_eq!(isolation.look(S(1001), false, true), IsolationStep::Wait(S(1001) + PAUSE));
        assert_eq!(isolation.look(S(1002), true, true), IsolationStep::Nothing, "it serves again");
        assert_eq!(isolation.look(S(2000), false, true), IsolationStep::Ask);
    }

    #[test]
    fn who_has_not_served_yet_and_who_is_alone_stays() {
        let mut isolation = Isolation::new(SILENCE);
        assert_eq!(isolation.look(S(100), false, true), IsolationStep::Nothing);
        isolation.look(S(101), true, true);
        assert_eq!(isolation.look(S(200), false, false), IsolationStep::Nothing);
    }
}
