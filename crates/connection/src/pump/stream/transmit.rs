//! Sending: what a turn has produced goes out in one gather.

use super::tapped;
use super::{ConnectionEnd, StreamPump};
use crate::limits::SENDS_PER_TURN;
use crate::pump::gather::Sending;
use crate::pump::handler::Handler;
use crate::pump::scratch::{give_transmit, take_transmit};
use smallvec::SmallVec;
use std::io::ErrorKind;
use weft_io::{Activity, Handle};
use weft_proto::stream::StreamEngine;

impl<E: StreamEngine> StreamPump<E> {
    /// Sends what the engine has, until it has nothing, the socket is full, or the turn's share is
    /// used up.
    pub fn send<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) -> Activity {
        if self.end().is_some() {
            return Activity::Idle;
        }
        self.share.answered(on);
        let activity = self.send_some(on, handler);
        self.pass_time(on, handler, false);
        self.arm(on);
        // Once: an ended connection may wait long for its devices.
        if let Some(driver) = self.driver.filter(|_| self.end().is_some()) {
            on.wake(driver);
        }
        activity
    }

    fn send_some<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) -> Activity {
        let mut activity = Activity::Idle;
        for _ in 0..SENDS_PER_TURN {
            if !self.fill(handler) {
                let closed = self.finish_closing(on);
                return if closed == Activity::Busy { closed } else { activity };
            }
            if !self.send_once(on, handler) {
                return activity;
            }
            activity = Activity::Busy;
        }
        activity
    }

    /// Whether something is to be sent, after asking the engine if need be.
    fn fill<H: Handler<E>>(&mut self, handler: &H) -> bool {
        if self.sending.is_some() {
            return true;
        }
        if !self.engine.wants_transmit() {
            return false;
        }
        self.sent = self.engine.taken();
        let mut list = take_transmit();
        self.engine.transmit(&mut list);
        if list.is_empty() {
            give_transmit(list);
            return false;
        }
        let mut sending = Sending::new(list);
        sending.fill_digests::<E, H>(handler);
        self.sending = Some(sending);
        true
    }

    /// One call; `false` when the socket took nothing.
    fn send_once<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) -> bool {
        let Some(sending) = &mut self.sending else { return false };
        let mut slices = SmallVec::new();
        sending.add_slices::<E, H>(handler, &mut slices);
        // A list may consist of releases alone.
        let result = if slices.is_empty() { Ok(0) } else { self.stream.send(&slices) };
        if self.tap.is_some() {
            let pieces = slices.iter().map(|slice| &**slice);
            tapped::sent(&mut self.tap, &result, pieces, sending.is_at_start());
        }
        drop(slices);
        match result {
            Ok(n) => {
                if n > 0 {
                    on.counters().send_calls.add(1);
                    on.counters().send_bytes.add(n as u64);
                    self.stalls.sent.moved(n);
                }
                let engine = &mut self.engine;
                sending.advance(n as u32, |tag| handler.released(on, engine, tag));
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                on.counters().send_blocked.add(1);
                return false;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => {
                self.finish(ConnectionEnd::Error(e));
                return false;
            }
        }
        if let Some(done) = self.sending.take_if(|s| s.is_done()) {
            give_transmit(done.list);
        }
        true
    }
}
