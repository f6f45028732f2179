//! A connection as the queue of a source drives it, whatever carries it.

use weft_connection::pump::{ConnectionEnd, Handler, StreamPump};
use weft_io::{Activity, DriverId, Handle};
use weft_proto::stream::StreamEngine;

/// A connection that carries the commands `C`. One that is quiet may move to another loop.
pub(crate) trait DeviceLink<C>: Sized + 'static {
    /// What commands are submitted to.
    type Engine;

    /// The engine.
    fn engine(&mut self) -> &mut Self::Engine;

    /// Has the loop wake `driver` when something comes.
    fn register(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()>;

    /// Undoes that: the connection may move.
    fn deregister(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()>;

    /// Takes what has come, for one turn.
    fn receive(&mut self, on: &Handle, commands: &mut C) -> Activity;

    /// Sends what there is, for one turn.
    fn send(&mut self, on: &Handle, commands: &mut C) -> Activity;

    /// Whether it has ended: the memory of no command is touched any more.
    fn has_ended(&self) -> bool;

    /// Why it has ended, for people.
    fn why_ended(&self) -> String;

    /// Whether nothing is on its way in either direction.
    fn is_quiet(&self) -> bool;
}

impl<E: StreamEngine + 'static, C: Handler<E>> DeviceLink<C> for StreamPump<E> {
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

    #[inline]
    fn receive(&mut self, on: &Handle, commands: &mut C) -> Activity {
        Self::receive(self, on, commands)
    }

    #[inline]
    fn send(&mut self, on: &Handle, commands: &mut C) -> Activity {
        Self::send(self, on, commands)
    }

    #[inline]
    fn has_ended(&self) -> bool {
        self.end().is_some()
    }

    fn why_ended(&self) -> String {
        match self.end() {
            Some(ConnectionEnd::Peer) => "the peer closed it".into(),
            Some(ConnectionEnd::Error(e)) => e.to_string(),
            Some(ConnectionEnd::Engine) | None => "it was closed".into(),
        }
    }

    fn is_quiet(&self) -> bool {
        Self::is_quiet(self)
    }
}
