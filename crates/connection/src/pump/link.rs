//! A connection as its driver sees it, whatever carries it.

use super::handler::Handler;
use super::stream::{ConnectionEnd, StreamPump};
use crate::capture::{Capture, Start};
use weft_io::{Activity, DriverId, Handle};
use weft_proto::stream::StreamEngine;

/// A connection whose commands `H` handles. One that is quiet may move to another loop, if its
/// engine may.
pub trait Link<H> {
    /// What the layer above submits to and completes on.
    type Engine;

    /// The engine.
    fn engine(&mut self) -> &mut Self::Engine;

    /// Has the loop wake `driver` when there is something to receive or room to send, when the
    /// engine's time comes, and when the connection ends.
    fn register(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()>;

    /// Undoes that: the connection may move to another loop.
    fn deregister(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()>;

    /// The other end, for people.
    fn peer(&self) -> String;

    /// Has a capture show what passes from now on.
    fn capture(&mut self, capture: &Capture, start: Start) {
        let _ = (capture, start);
    }

    /// Takes what has come, for one turn. Settled: more will wake the driver.
    fn receive(&mut self, on: &Handle, handler: &mut H) -> Activity;

    /// Sends what there is, for one turn. Settled: nothing is left.
    fn send(&mut self, on: &Handle, handler: &mut H) -> Activity;

    /// Whether something is to be sent.
    fn has_unsent(&self) -> bool;

    /// Whether [`super::Flow::Pause`] is in force.
    fn is_paused(&self) -> bool;

    /// Goes on after a pause.
    fn resume(&mut self);

    /// Sends what there is and then ends; takes nothing more. A peer that does not take it within
    /// `CLOSE_S` seconds is cut off.
    fn close(&mut self);

    /// Whether it has ended: the memory of no command is touched any more.
    fn has_ended(&self) -> bool;

    /// What the system said, if that ended it.
    fn error(&self) -> Option<&std::io::Error>;
}

impl<E: StreamEngine, H: Handler<E>> Link<H> for StreamPump<E> {
    type Engine = E;

    #[inline]
    fn engine(&mut self) -> &mut E {
        &mut self.engine
    }

    fn register(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        Self::register(self, on, driver)
    }

    fn deregister(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        Self::deregister(self, on, driver)
    }

    fn peer(&self) -> String {
        Self::peer(self)
    }

    fn capture(&mut self, capture: &Capture, start: Start) {
        self.tap_by(capture, start);
    }

    #[inline]
    fn receive(&mut self, on: &Handle, handler: &mut H) -> Activity {
        Self::receive(self, on, handler).or_settled_if(self.is_drained())
    }

    #[inline]
    fn send(&mut self, on: &Handle, handler: &mut H) -> Activity {
        Self::send(self, on, handler).or_settled_if(!Self::has_unsent(self))
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        Self::has_unsent(self)
    }

    #[inline]
    fn is_paused(&self) -> bool {
        Self::is_paused(self)
    }

    fn resume(&mut self) {
        Self::resume(self);
    }

    fn close(&mut self) {
        Self::close(self);
    }

    #[inline]
    fn has_ended(&self) -> bool {
        self.end().is_some()
    }

    fn error(&self) -> Option<&std::io::Error> {
        if let Some(ConnectionEnd::Error(error)) = self.end() { Some(error) } else { None }
    }
}
