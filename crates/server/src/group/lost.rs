//! When a gateway that has lost the cluster ends: so that its hosts turn to others, and that it
//! never does what it still has from them.
//!
//! Closing its connections alone would not do: a write that waits in the library for the image's
//! lock cannot be taken back, and would be executed when the cluster is there again, over what the
//! host has written elsewhere since (decision 31). It dies with the process.

use super::driver::Event;
use super::store::Store;
use super::thread;
use crate::limits::GROUP_MONITORS_S;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;
use weft_block::Error;

/// How long the monitors may be silent.
const SILENCE: Duration = Duration::from_secs(GROUP_MONITORS_S);

/// From one answer of theirs to the next question.
const PAUSE: Duration = Duration::from_secs(1);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// Ask the monitors.
    Ask,
    /// Look again at this time.
    Wait(Duration),
    /// End.
    End,
}

/// What is known of the monitors while the gateway may not serve. Times are those of the driver.
#[derive(Debug, Default)]
pub struct Lost {
    has_served: bool,
    /// When they answered last, or the gateway stopped serving.
    heard: Option<Duration>,
    is_asking: bool,
    ask_at: Duration,
}

impl Lost {
    /// What to do, given whether this gateway serves, and whether there are others to which its
    /// hosts can turn.
    pub fn look(&mut self, now: Duration, serves: bool, has_company: bool) -> Step {
        self.has_served |= serves;
        if serves || !self.has_served || !has_company {
            self.heard = None;
            return Step::Nothing;
        }
        let ends_at = *self.heard.get_or_insert(now) + SILENCE;
        match self.is_asking {
            _ if now >= ends_at => Step::End,
            true => Step::Wait(ends_at),
            false if now < self.ask_at => Step::Wait(self.ask_at.min(ends_at)),
            false => {
                self.is_asking = true;
                Step::Ask
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

/// A thread that asks the monitors.
pub struct Monitors(Sender<()>);

impl Monitors {
    /// Starts it; answers become events.
    pub fn start(store: &Arc<Store>, events: Sender<Event>) -> Result<Self, Error> {
        let (ask, asked) = mpsc::channel::<()>();
        let store = Arc::clone(store);
        let work = move || {
            for () in asked {
                // It waits for them as long as it takes.
                if events.send(Event::Monitors(store.objects.catch_up().is_ok())).is_err() {
                    break;
                }
            }
        };
        thread("monitors", work)?;
        Ok(Self(ask))
    }

    /// Asks, later.
    pub fn ask(&self) {
        // The thread lives as long as this.
        let _ = self.0.send(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_gateway_ends_when_it_has_heard_nothing_of_the_monitors() {
        let mut lost = Lost::default();
        assert_eq!(lost.look(S(1), true, true), Step::Nothing);
        assert_eq!(lost.look(S(10), false, true), Step::Ask);
        assert_eq!(lost.look(S(10), false, true), Step::Wait(S(10) + SILENCE));
        assert_eq!(lost.look(S(10) + SILENCE, false, true), Step::End);
    }

    /// The cluster is there, and does not do what it is asked: another gateway would do no better.
    #[test]
    fn a_gateway_stays_as_long_as_the_monitors_answer() {
        let mut lost = Lost::default();
        lost.look(S(1), true, true);
        for at in (10..100).step_by(2) {
            assert_eq!(lost.look(S(at), false, true), Step::Ask);
            lost.answered(S(at), true);
            assert_eq!(lost.look(S(at), false, true), Step::Wait(S(at) + PAUSE));
        }
        assert_eq!(lost.look(S(98) + SILENCE, false, true), Step::End);
    }

    /// An answer from before does not count for a gateway that stood still, nor does the time in
    /// which it did.
    #[test]
    fn a_gateway_that_stood_still_asks_first() {
        let mut lost = Lost::default();
        lost.look(S(1), true, true);
        assert_eq!(lost.look(S(1000), false, true), Step::Ask);
        lost.answered(S(1001), false);
        assert_eq!(lost.look(S(1001), false, true), Step::Wait(S(1001) + PAUSE));
        assert_eq!(lost.look(S(1002), true, true), Step::Nothing, "it serves again");
        assert_eq!(lost.look(S(2000), false, true), Step::Ask);
    }

    #[test]
    fn who_has_not_served_yet_and_who_is_alone_stays() {
        let mut lost = Lost::default();
        assert_eq!(lost.look(S(100), false, true), Step::Nothing);
        lost.look(S(101), true, true);
        assert_eq!(lost.look(S(200), false, false), Step::Nothing);
    }
}
