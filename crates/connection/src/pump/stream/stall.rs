//! Peers that stop half-way: that stop sending data which they announced or were asked for, or stop
//! taking what is sent to them. Memory is held in the meantime, so the time for that is limited.

use super::{ConnectionEnd, ConnectionState, StreamPump};
use crate::limits::STALL_S;
use std::io::{Error, ErrorKind};
use weft_io::{Handle, Time};
use weft_proto::stream::StreamEngine;

impl<E: StreamEngine> StreamPump<E> {
    /// Has the connection end when its peer stops half-way for [`STALL_S`] seconds. For exports: a
    /// source has limits of its own for what it waits for.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.stalls.is_watched = true;
        self
    }

    /// When to look next at whether the peer has stalled. The connection ends here if it has.
    #[inline]
    pub(super) fn stall_limit(&mut self, on: &Handle) -> Option<Time> {
        if !self.stalls.is_watched {
            return None;
        }
        // What is not received because of a pause is not the peer's debt.
        let receives = matches!(self.state, ConnectionState::Open)
            && (self.moving.is_some() || self.engine.awaits_data());
        if self.stalls.received.has_stalled(on.now(), receives) {
            self.end_stalled("sent too little of the data that it announced or was asked for");
        }
        if self.stalls.sent.has_stalled(on.now(), self.sending.is_some()) {
            self.end_stalled("does not receive responses");
        }
        [self.stalls.received.by, self.stalls.sent.by].into_iter().flatten().min()
    }

    #[cold]
    fn end_stalled(&mut self, what: &str) {
        self.finish(ConnectionEnd::Error(Error::new(
            ErrorKind::TimedOut,
            format!("the peer {what} for {STALL_S} s"),
        )));
    }
}
