//! Begins writes of a loop that wait until the regions of their blocks are marked. They stay on
//! their loop and are begun there when the home has published the marks. If the permit is withdrawn,
//! or the marks of one are evicted again and again, the home executes them.

use super::Begun;
use super::queue::DirectQueue;
use crate::limits::MIRROR_MARK_ASKS;

impl DirectQueue {
    /// Asks for the marks of writes that were parked just now.
    pub(super) fn ask_for_marks(&mut self) {
        if self.parked.is_new {
            self.look_at_parked();
        }
    }

    /// Begins parked writes, if the home has published anything since the last look.
    pub(super) fn unpark(&mut self) {
        if !self.parked.ops.is_empty() && !self.one.waiter.is_waiting() {
            self.look_at_parked();
        }
    }

    fn look_at_parked(&mut self) {
        // What is published from now on wakes this loop, so nothing that was looked for is missed.
        self.one.waiter.wait();
        self.parked.is_new = false;
        let seen = self.direct.permit.see();
        if seen.holds() {
            self.follow_legs();
        }
        let may_begin = seen.holds() && self.legs.are_usable();
        let mut is_asking = false;
        for _ in 0..self.parked.ops.len() {
            let Some((op, asks)) = self.parked.ops.pop_front() else { break };
            if !may_begin || asks == MIRROR_MARK_ASKS {
                self.for_home.push_back(op);
                continue;
            }
            match self.direct.begin_write(&self.one, seen, op.lba, op.blocks) {
                Begun::Yes(range, seen) => {
                    if let Err(op) = self.send_all(op, range, seen) {
                        self.for_home.push_back(op);
                    }
                }
                Begun::No => self.for_home.push_back(op),
                Begun::Unmarked => {
                    self.direct.want(op.lba, op.blocks);
                    self.parked.ops.push_back((op, asks + 1));
                    is_asking = true;
                }
            }
        }
        if is_asking {
            self.direct.wake_home();
        }
    }
}
