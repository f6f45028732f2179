//! The caller's end of a queue, and the driver of the server's end, which lives on until no device
//! holds any operation of the queue.

use super::exchange::Exchange;
use super::hosts::{LocalHosts, Opened, QueueMailbox, QueueMessage};
use super::session::Session;
use crate::export::connection_limit::ConnectionPermit;
use crate::export::members::Serving;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use weft_block::{BlockQueue, Completion, DeviceChange, Error, ErrorKind, Op};
use weft_connection::limits::LOCAL_COMMANDS_MAX;
use weft_io::{Activity, Driver, DriverId, Handle, Segments};

/// A queue of a caller, which is a driver on the same loop.
pub(crate) struct LocalQueue(Rc<RefCell<Session>>);

/// A connection, until no more commands come and no device has anything of those that came.
struct Connection {
    session: Rc<RefCell<Session>>,
    id: DriverId,
    _serving: Serving<QueueMessage>,
    _permit: ConnectionPermit,
}

impl LocalQueue {
    pub(crate) fn open(
        hosts: &Arc<LocalHosts>,
        opened: &Arc<Opened>,
        on: &Handle,
        caller: DriverId,
    ) -> Result<Self, Error> {
        Self::open_for(hosts, opened, on, caller, None)
    }

    /// Like [`LocalQueue::open`], for operations whose data the caller copies.
    pub(crate) fn open_for(
        hosts: &Arc<LocalHosts>,
        opened: &Arc<Opened>,
        on: &Handle,
        caller: DriverId,
        exchange: Option<Rc<dyn Exchange>>,
    ) -> Result<Self, Error> {
        let (members, mailbox) = (&hosts.members, Arc::<QueueMailbox>::default());
        let full = || Error::new(ErrorKind::NoResources, "too many queues are open");
        let (permit, _) =
            members.permit(on.now().since_epoch(), hosts.protocol.name()).ok_or_else(full)?;
        let ended = || Error::new(ErrorKind::Refused, "the namespace is no longer served");
        let view = hosts.enter(opened, &mailbox).filter(|_| !members.is_stopping());
        let (view, mut queue) = (view.ok_or_else(ended)?, None);
        let id = on.try_spawn(|id| {
            let names = (Arc::clone(hosts), Arc::clone(opened), Arc::clone(&mailbox));
            let session =
                Rc::new(RefCell::new(Session::open(names, view, on, (id, caller), exchange)?));
            queue = Some(Self(Rc::clone(&session)));
            Ok::<_, Error>(Connection { session, id, _serving: members.serve(), _permit: permit })
        })?;
        members.enter(&mailbox);
        mailbox.settle(on.remote(), id);
        queue.ok_or_else(ended)
    }
}

impl Driver for Connection {
    fn work(&mut self, on: &Handle) -> Activity {
        let mut session = self.session.borrow_mut();
        let busy = session.turn();
        if session.has_ended() {
            session.release();
            on.remove(self.id);
        }
        Activity::busy_if(busy)
    }
}

impl BlockQueue for LocalQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let mut session = self.0.borrow_mut();
        let room = LOCAL_COMMANDS_MAX.saturating_sub(session.in_flight());
        session.submit(ops.drain(..room.min(ops.len())));
        session.is_refused = !ops.is_empty();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.0.borrow_mut().reap(done);
    }

    fn cancel(&mut self, user: u64) {
        self.0.borrow_mut().cancel(user);
    }

    fn in_flight(&self) -> usize {
        self.0.borrow().in_flight()
    }

    fn overdue(&mut self, _: &mut Vec<Segments>) -> usize {
        // The caller's memory has come back with the completion; that of the session is overdue.
        self.0.borrow().overdue()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.0.borrow_mut().changes.take()
    }
}

impl Drop for LocalQueue {
    fn drop(&mut self) {
        self.0.borrow_mut().leave();
    }
}
