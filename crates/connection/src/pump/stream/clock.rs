//! Time: the engine's limits, that of a peer which stops half-way, and that of one which does not
//! take the last that there is for it.

use super::{ConnectionEnd, ConnectionState, StreamPump};
use crate::limits::CLOSE_S;
use crate::pump::handler::{Flow, Handler};
use std::time::Duration;
use weft_io::{Handle, Time};
use weft_proto::stream::StreamEngine;

impl<E: StreamEngine> StreamPump<E> {
    /// Tells the engine the time, if something was `received` or its time has come, and the handler
    /// what came of it.
    #[inline]
    pub(super) fn pass_time<H: Handler<E>>(
        &mut self,
        on: &Handle,
        handler: &mut H,
        received: bool,
    ) {
        if received || self.engine.deadline().is_some_and(|at| at <= on.now().since_epoch()) {
            self.tick(on, handler);
        }
    }

    fn tick<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) {
        if self.end().is_some() {
            return;
        }
        self.engine.tick(on.now().since_epoch());
        while let Some(event) = self.engine.poll_event() {
            if handler.event(on, &mut self.engine, event) == Flow::Pause
                && matches!(self.state, ConnectionState::Open | ConnectionState::Resumed)
            {
                self.state = ConnectionState::Paused;
            }
        }
        if self.engine.is_closed() {
            self.engine_gave_up = true;
            self.close();
        }
    }

    /// Has the driver woken when time is up next. A connection that is closing for too long ends
    /// here.
    #[inline]
    pub(super) fn arm(&mut self, on: &Handle) {
        let (closes, stalls) = (self.close_limit(on), self.stall_limit(on));
        let Some(driver) = self.driver else { return };
        let next = match &self.state {
            ConnectionState::Ended(_) => None,
            ConnectionState::Closing { .. } => closes,
            ConnectionState::Open | ConnectionState::Paused | ConnectionState::Resumed => {
                let deadline = self.engine.deadline().map(Time::from_epoch);
                [deadline, stalls].into_iter().flatten().min()
            }
        };
        if let Some(at) = next.filter(|at| *at > on.now()) {
            self.timer.arm(on, driver, at);
        }
    }

    /// When a closing connection is cut off; does so if that is now.
    #[inline]
    fn close_limit(&mut self, on: &Handle) -> Option<Time> {
        let ConnectionState::Closing { by } = &mut self.state else { return None };
        let by = *by.get_or_insert_with(|| on.now() + Duration::from_secs(CLOSE_S));
        if on.now() >= by {
            self.finish(ConnectionEnd::Engine);
        }
        Some(by)
    }
}
