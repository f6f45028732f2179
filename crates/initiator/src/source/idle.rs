//! Connections of a source that wait for a queue.
//!
//! A source opens its connections on the control loop. Each then waits here until its device opens
//! a queue on some loop, moves there with all its state, and comes back when the queue is dropped.

use crate::control::{Control, ControlTask};
use crate::source::ConnectOptions;
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind};
use weft_connection::limits::CLOSE_S;
use weft_connection::pump::{Handler, StreamPump};
use weft_io::{Activity, Driver, DriverId, Handle, Time};
use weft_proto::stream::StreamEngine;

/// The open connections of one source that no queue uses.
pub(crate) struct Idle<E> {
    /// The source's URL, for messages.
    name: String,
    control: Control,
    state: Lock<IdleState<E>>,
    /// Until the last connection has been ended, wherever it is.
    _task: ControlTask,
}

struct IdleState<E> {
    waiting: Vec<StreamPump<E>>,
    /// Connections that stand, waiting or in use.
    standing: usize,
    /// Why the first one that ended did.
    why: Option<String>,
    /// Nothing connects again.
    is_final: bool,
    /// The device is gone: connections that come back are ended like this.
    closed: Option<fn(&Control, StreamPump<E>)>,
}

impl<E> IdleState<E> {
    /// A connection has ended. With the last one the device is lost, unless nobody has it,
    /// or it is connected again.
    fn lose(&mut self, name: &str, why: String) {
        self.standing -= 1;
        match (self.standing == 0 && self.closed.is_none(), self.is_final) {
            (true, true) => tracing::error!("{name}: the device is lost: {why}"),
            (true, false) => tracing::warn!("{name}: the connection is lost: {why}"),
            (false, _) => tracing::info!("{name}: a connection is over: {why}"),
        }
        self.why.get_or_insert(why);
    }
}

impl<E: StreamEngine> Idle<E> {
    pub(crate) fn new(
        name: String,
        options: &ConnectOptions,
        connections: Vec<StreamPump<E>>,
    ) -> Self {
        let state = IdleState {
            standing: connections.len(),
            waiting: connections,
            why: None,
            is_final: options.ends_with_connections(),
            closed: None,
        };
        let control = options.control.clone();
        let task = control.task();
        Self { name, control, state: Lock::new(state), _task: task }
    }

    /// A connection for a queue.
    ///
    /// # Errors
    /// [`ErrorKind::NoResources`] when all are in use, [`ErrorKind::Refused`] when all have ended.
    pub(crate) fn take(&self) -> Result<StreamPump<E>, Error> {
        let mut state = self.state.lock();
        if let Some(connection) = state.waiting.pop() {
            return Ok(connection);
        }
        let (name, standing) = (&self.name, state.standing);
        if standing == 0 {
            let why = state.why.as_deref().unwrap_or("it was closed");
            return Err(Error::new(
                ErrorKind::Refused,
                format!("{name}: the connection is over: {why}"),
            ));
        }
        let text = format!(
            "{name}: all {standing} connections are in use; ask for more with --nr-io-queues"
        );
        Err(Error::new(ErrorKind::NoResources, text))
    }

    /// Puts a connection back.
    pub(crate) fn give(&self, connection: StreamPump<E>) {
        let mut state = self.state.lock();
        if let Some(end) = state.closed {
            drop(state);
            return end(&self.control, connection);
        }
        state.waiting.push(connection);
    }

    /// A connection that was taken has ended.
    pub(crate) fn lost(&self, why: String) {
        let mut state = self.state.lock();
        state.lose(&self.name, why);
    }

    /// Has `look` see to each connection that waits; it says why one has ended, which is then
    /// thrown away.
    pub(crate) fn look_after(
        &self,
        mut look: impl FnMut(&mut StreamPump<E>) -> Result<(), String>,
    ) {
        let state = &mut *self.state.lock();
        let mut lost = Vec::new();
        state.waiting.retain_mut(|pump| {
            let Err(why) = look(pump) else { return true };
            lost.push(why);
            false
        });
        lost.into_iter().for_each(|why| state.lose(&self.name, why));
    }

    /// Connections that stand, waiting or in use.
    pub(crate) fn standing(&self) -> usize {
        self.state.lock().standing
    }

    /// A connection that was taken is being ended on purpose.
    pub(crate) fn ended(&self) {
        self.state.lock().standing -= 1;
    }

    /// Takes all that wait, to end them.
    pub(crate) fn take_all(&self) -> Vec<StreamPump<E>> {
        core::mem::take(&mut self.state.lock().waiting)
    }

    /// The device is gone: ends those that wait, and those that come back later. `end` does so in
    /// order and without waiting, as [`take_leave`] does.
    pub(crate) fn close(&self, end: fn(&Control, StreamPump<E>)) {
        self.state.lock().closed = Some(end);
        self.take_all().into_iter().for_each(|connection| end(&self.control, connection));
    }
}

/// Ends a connection, on the control loop. Its engine has to know what there is still to say;
/// `handler` knows nothing else to send.
pub(crate) fn take_leave<E, H>(control: &Control, mut pump: StreamPump<E>, handler: H)
where
    E: StreamEngine + Send + 'static,
    H: Handler<E> + Send + 'static,
{
    let Ok(remote) = control.remote() else { return };
    let task = control.task();
    remote.post(move |on| {
        let deadline = on.now() + Duration::from_secs(CLOSE_S);
        let spawned = on.try_spawn(|id| {
            pump.register(on, id)?;
            on.wake_at(id, deadline);
            pump.close();
            Ok::<_, std::io::Error>(Ending { pump, handler, id, deadline, _task: task })
        });
        if let Err(e) = spawned {
            tracing::debug!("cannot take leave of a peer: {e}");
        }
    });
}

/// Sends what is left to say, then closes.
struct Ending<E, H> {
    pump: StreamPump<E>,
    handler: H,
    id: DriverId,
    deadline: Time,
    _task: ControlTask,
}

impl<E: StreamEngine, H: Handler<E>> Driver for Ending<E, H> {
    fn work(&mut self, on: &Handle) -> Activity {
        if self.pump.end().is_some() || on.now() >= self.deadline {
            on.remove(self.id);
        }
        Activity::Idle
    }

    fn send(&mut self, on: &Handle) -> Activity {
        let activity = self.pump.send(on, &mut self.handler);
        if self.pump.end().is_some() {
            on.remove(self.id);
        }
        activity
    }
}
