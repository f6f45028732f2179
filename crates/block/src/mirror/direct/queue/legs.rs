//! The legs that a loop uses by itself: found, looked after, and let go of.

use super::DirectQueue;
use crate::device::Change;
use crate::limits::MIRROR_BARRED_MS;
use crate::mirror::direct::flight::Does;
use crate::mirror::direct::leg::Leg;
use crate::mirror::direct::shared::lock;
use crate::op::Outcome;
use crate::status::{Status, StatusKind};
use crate::sync::Ordering;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

impl DirectQueue {
    /// Lets go of legs that are not in sync any more, and opens queues of others.
    pub(super) fn follow_legs(&mut self) {
        let version = self.direct.legs_version.load(Ordering::SeqCst);
        if version == self.version {
            return;
        }
        (self.version, self.barred) = (version, None);
        let wanted = lock(&self.direct.legs).clone();
        let mut had = core::mem::take(&mut self.legs);
        for of in wanted {
            let same = |leg: &Leg| Arc::ptr_eq(&leg.of.use_of_it, &of.use_of_it);
            if let Some(at) = had.iter().position(same) {
                self.legs.push(had.swap_remove(at));
                continue;
            }
            match of.device.open_queue(&self.on, self.owner) {
                Ok(queue) => {
                    let todo = VecDeque::new();
                    self.legs.push(Leg { queue, todo, reads: 0, is_lost: false, of });
                }
                Err(e) => {
                    // The home has a queue of it.
                    tracing::debug!("{}: no queue for another loop: {e}", of.device.url());
                    self.bar();
                }
            }
        }
        had.into_iter().for_each(|leg| self.let_go(leg));
    }

    /// A leg cannot be used for a while.
    fn bar(&mut self) {
        self.barred = Some(self.on.now() + Duration::from_millis(MIRROR_BARRED_MS));
    }

    /// A leg is lost, or not in sync any more: what is written there has failed, and may still be
    /// executed.
    fn let_go(&mut self, leg: Leg) {
        let number = leg.of.number;
        self.leaving.push(leg);
        let names: Vec<u64> = self.flights.names().collect();
        for name in names {
            let Some(flight) = self.flights.get_mut(name) else { continue };
            let Does::Write(write) = &mut flight.does else { continue };
            if write.pending >> number & 1 != 0 {
                let gone = Outcome::unsettled(Status::new(StatusKind::Gone));
                self.wrote(name, number, gone);
            }
        }
    }

    pub(super) fn turn_legs(&mut self) {
        let mut is_lost = false;
        for place in 0..self.legs.len() {
            let leg = &mut self.legs[place];
            leg.queue.reap(&mut self.returned);
            while let Some(change) = leg.queue.change() {
                leg.is_lost |=
                    matches!(change, Change::Gone | Change::Away | Change::Resized { .. });
            }
            is_lost |= leg.is_lost;
            let number = leg.of.number;
            let mut returned = core::mem::take(&mut self.returned);
            returned.drain(..).for_each(|completion| self.ended(number, Some(place), completion));
            self.returned = returned;
        }
        if is_lost {
            self.bar();
            let lost: Vec<Leg> = self.legs.extract_if(.., |leg| leg.is_lost).collect();
            lost.into_iter().for_each(|leg| self.let_go(leg));
        }
        if !self.leaving.is_empty() {
            self.turn_leaving();
        }
    }

    fn turn_leaving(&mut self) {
        let mut returned = Vec::new();
        let before = self.leaving.len();
        let mut ended = Vec::new();
        self.leaving.retain_mut(|leg| {
            leg.queue.reap(&mut returned);
            let number = leg.of.number;
            ended.extend(returned.drain(..).map(|completion| (number, completion)));
            !leg.is_settled()
        });
        for (number, completion) in ended {
            self.ended(number, None, completion);
        }
        if self.leaving.len() < before {
            self.direct.wake_home();
        }
    }
}
