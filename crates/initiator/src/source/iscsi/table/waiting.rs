//! Commands that must be sent again: when, and how often.

use super::Table;
use crate::source::iscsi::step::Running;
use crate::source::settle::GONE;
use std::time::Duration;
use weft_block::{Outcome, Status, StatusKind};
use weft_connection::limits::ISCSI_RETRIES_MAX;
use weft_io::Time;
use weft_proto::iscsi::initiator::Initiator;

impl Table {
    /// The command was not executed, or to no avail: it is sent again, so often and for so long.
    pub(super) fn again(&mut self, mut running: Running, pause: Duration, otherwise: Status) {
        let patient = if pause.is_zero() {
            running.tries < ISCSI_RETRIES_MAX
        } else {
            self.now < running.started + self.shared.limit
        };
        running.tries += u32::from(pause.is_zero());
        if !patient || running.cancelled {
            let status =
                if running.cancelled { Status::new(StatusKind::Aborted) } else { otherwise };
            return self.finish(running.op, Outcome::Done(status));
        }
        self.waiting.push_back((self.now + pause, running));
    }

    /// Sends commands again whose time has come. Gives the time of the next one.
    pub(super) fn start_waiting(&mut self, engine: &mut Initiator) -> Option<Time> {
        let mut next = None;
        for _ in 0..self.waiting.len() {
            let Some((at, running)) = self.waiting.pop_front() else { break };
            if running.cancelled {
                let aborted = Status::new(StatusKind::Aborted);
                let outcome = if running.is_untouched() {
                    Outcome::NotSent(aborted)
                } else {
                    Outcome::settled(aborted)
                };
                self.finish(running.op, outcome);
                continue;
            }
            if self.identification.is_absent() {
                let outcome = if running.is_untouched() {
                    Outcome::NotSent(GONE)
                } else {
                    Outcome::settled(GONE)
                };
                self.finish(running.op, outcome);
                continue;
            }
            let left = if at <= self.now && !self.identification.holds() {
                self.start(engine, running)
            } else {
                Some(running)
            };
            if let Some(running) = left {
                next = Some(next.map_or(at, |next: Time| next.min(at)));
                self.waiting.push_back((at, running));
            }
        }
        next
    }
}
