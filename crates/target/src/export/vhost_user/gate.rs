//! The connections of one socket: a few are accepted, and one front end is served at a time. The
//! next one begins when no device has anything of the one before.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use weft_connection::limits::VHOST_USER_CONNECTIONS_MAX;
use weft_connection::refusals::Refusals;
use weft_io::accept::Accept;
use weft_io::event_loop::Registrar;
use weft_io::guest::messages::{MessageListener, MessageSocket};

/// The gate of a socket.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<GateState>);

#[derive(Default)]
struct GateState {
    /// A front end is served.
    is_taken: AtomicBool,
    /// Connections, with those that wait.
    open: AtomicUsize,
    /// Has the listener look whether there is room.
    has_room: OnceLock<Box<dyn Fn() + Send + Sync>>,
    refusals: Refusals,
}

/// A listener that accepts as long as there is room: what it does not accept takes no descriptor.
pub(super) struct Gated {
    listener: MessageListener,
    gate: Gate,
}

/// A connection, served or not, until it is closed.
struct Visitor(Arc<GateState>);

/// Held by the front end that is served.
pub(super) struct Pass(Arc<GateState>);

impl Gate {
    /// Has a listener accept for this gate. When it is there, `has_room` wakes it: see
    /// [`Gate::wakes`].
    pub(super) fn before(&self, listener: MessageListener) -> Gated {
        Gated { listener, gate: self.clone() }
    }

    /// Sets the function that is called when there is room again.
    pub(super) fn wakes(&self, has_room: impl Fn() + Send + Sync + 'static) {
        // There is one listener.
        let _ = self.0.has_room.set(Box::new(has_room));
    }

    /// Counts a connection; `None`: there are [`VHOST_USER_CONNECTIONS_MAX`].
    fn visit(&self) -> Option<Visitor> {
        let more = |open: usize| (open < VHOST_USER_CONNECTIONS_MAX).then_some(open + 1);
        let counted = self.0.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        counted.ok().map(|_| Visitor(Arc::clone(&self.0)))
    }

    /// Lets a front end in, unless another one is there.
    pub(super) fn enter(&self) -> Option<Pass> {
        let taken = &self.0.is_taken;
        let entered = taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
        entered.ok().map(|_| Pass(Arc::clone(&self.0)))
    }

    /// Returns the log lines about front ends and drivers of this socket, whose rate is limited.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.0.refusals
    }
}

impl Accept for Gated {
    type Accepted = MessageSocket;

    fn accept(&mut self) -> io::Result<Self::Accepted> {
        let is_full = || io::Error::from(io::ErrorKind::WouldBlock);
        if self.gate.0.open.load(Ordering::Acquire) >= VHOST_USER_CONNECTIONS_MAX {
            return Err(is_full());
        }
        let socket = self.listener.accept()?;
        // Nobody else accepts for this gate, so there still is room. What closes slowly takes it.
        socket.hold(self.gate.visit().ok_or_else(is_full)?);
        Ok(socket)
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        self.listener.register(registrar)
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let open = self.0.open.fetch_sub(1, Ordering::AcqRel);
        if open == VHOST_USER_CONNECTIONS_MAX
            && let Some(has_room) = self.0.has_room.get()
        {
            has_room();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let gate = Gate::default();
        let pass = gate.enter();
        assert!(pass.is_some() && gate.enter().is_none());
        drop(pass);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_few_are_accepted_and_more_when_one_has_left() {
        let (gate, woken) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
        let of_gate = Arc::clone(&woken);
        gate.wakes(move || {
            of_gate.fetch_add(1, Ordering::AcqRel);
        });
        let mut visitors: Vec<_> = std::iter::from_fn(|| gate.visit()).collect();
        assert_eq!(visitors.len(), VHOST_USER_CONNECTIONS_MAX);
        visitors.pop();
        assert_eq!(woken.load(Ordering::Acquire), 1);
        visitors.pop();
        assert_eq!(woken.load(Ordering::Acquire), 1, "there was room before");
        assert!(gate.visit().is_some());
    }
}
