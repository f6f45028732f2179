//! An I/O queue on the loop of its user: the connection's driver, and the [`BlockQueue`] that shares its state.

use super::association::{AdminReply, Association, IdleQueue, ToAdmin};
use super::table::{Offer, Table};
use super::transport::{Commands, Engine, Event, Link};
use crate::limits::SETTLE_S;
use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockQueue, Change, Completion, Error, Op, Outcome, Status, StatusKind};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::RemoteNamespace;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status as NvmeStatus;
use weft_proto::nvme::types::{Cid, Nsid, Qid};
use weft_proto::stream::Tag;

/// The status of operations whose connection is over.
const GONE: Status = Status::new(StatusKind::Gone);

/// The part that the driver and the queue share.
struct Inner<L> {
    /// Taken out when the connection goes back.
    link: Option<L>,
    table: Table,
    association: Arc<Association<L>>,
    nsid: Nsid,
    qid: Qid,
    commands: u16,
    owner: DriverId,
    /// Set once no more is sent or received.
    over: bool,
    /// The queue was dropped.
    abandoned: bool,
    changes_seen: u64,
    blocks: u64,
    changed: Option<Change>,
    watchdog: TimerSlot,
    /// When overdue commands were looked for.
    looked: Time,
    /// When operations that were lost with the connection end, whatever is known of them then.
    settle_by: Time,
}

/// The device's queue.
pub(crate) struct RemoteQueue<L> {
    inner: Rc<RefCell<Inner<L>>>,
    on: Handle,
    driver: DriverId,
}

/// Abort (Base §5.1).
fn abort(qid: Qid, cid: Cid) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::ABORT.0, Nsid(0));
    sqe.set_dword(10, u32::from(qid.0) | u32::from(cid.0) << 16);
    sqe
}

/// The connection's driver.
struct Connection<L> {
    inner: Rc<RefCell<Inner<L>>>,
    id: DriverId,
}

impl<L: Link> RemoteQueue<L> {
    /// Brings an idle connection to this loop.
    pub(crate) fn open(
        on: &Handle,
        owner: DriverId,
        association: &Arc<Association<L>>,
        idle: IdleQueue<L>,
        namespace: RemoteNamespace,
    ) -> Result<Self, Error> {
        let IdleQueue { qid, commands, mut link } = idle;
        let mut shared = None;
        let driver = on.try_spawn(|id| {
            link.register(on, id).map_err(|e| Error::io(format!("cannot watch the connection of I/O queue {qid}: {e}"), e))?;
            let inner = Rc::new(RefCell::new(Inner {
                link: Some(link),
                nsid: namespace.nsid,
                blocks: namespace.blocks,
                table: Table::new(namespace, commands),
                association: Arc::clone(association),
                qid,
                commands,
                owner,
                over: false,
                abandoned: false,
                changes_seen: association.changes(),
                changed: None,
                watchdog: TimerSlot::default(),
                looked: on.now(),
                settle_by: on.now(),
            }));
            shared = Some(Rc::clone(&inner));
            Ok::<_, Error>(Connection { inner, id })
        })?;
        association.enter(on.remote(), driver);
        let inner = shared.expect("the driver was made");
        Ok(Self { inner, on: on.clone(), driver })
    }
}

impl<L: Link> BlockQueue for RemoteQueue<L> {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let inner = &mut *self.inner.borrow_mut();
        let Some(link) = inner.link.as_mut().filter(|_| !inner.over && inner.association.takes_io()) else {
            if !ops.is_empty() {
                inner.table.done.extend(ops.drain(..).map(|op| op.done(Outcome::NotSent(GONE))));
                self.on.wake(inner.owner);
            }
            return;
        };
        while let Some(op) = ops.pop_front() {
            if let Offer::Full(op) = inner.table.offer(link.engine(), self.on.now(), op) {
                ops.push_front(op);
                break;
            }
        }
        self.on.wake(self.driver);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.inner.borrow_mut().table.done);
    }

    fn cancel(&mut self, user: u64) {
        let inner = &mut *self.inner.borrow_mut();
        let Some(tag) = inner.table.find(user) else { return };
        if let Some(cid) = inner.cid(tag) {
            let reply: AdminReply = Box::new(|_| ());
            inner.association.tell(ToAdmin::Command { sqe: abort(inner.qid, cid), len: 0, reply });
        }
    }

    fn in_flight(&self) -> usize {
        let inner = self.inner.borrow();
        inner.table.running() + inner.table.done.len()
    }

    fn change(&mut self) -> Option<Change> {
        self.inner.borrow_mut().changed.take()
    }
}

impl<L> Drop for RemoteQueue<L> {
    fn drop(&mut self) {
        self.inner.borrow_mut().abandoned = true;
        self.on.wake(self.driver);
    }
}

impl<E: Engine> Commands<E> for Table {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        Self::memory_mut(self, tag, offset, len)
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        Self::memory(self, tag, offset, len).expect("the engine sends what was submitted")
    }

    #[inline]
    fn event(&mut self, on: &Handle, engine: &mut E, event: Event) {
        match event {
            Event::Response { tag, cqe, received_bytes } => self.response(engine, on.now(), tag, cqe, received_bytes),
            Event::DataFailed { tag, cqe } => {
                let failed = Cqe { status: NvmeStatus::TRANSIENT_TRANSPORT_ERROR, ..cqe };
                self.response(engine, on.now(), tag, failed, 0);
            }
        }
    }
}

impl<L: Link> Inner<L> {
    fn cid(&mut self, tag: Tag) -> Option<Cid> {
        self.link.as_mut()?.engine().cid(tag)
    }

    /// Tells the owner what there is to reap, and that there is room again.
    #[inline]
    fn wake_owner(&mut self, on: &Handle) {
        if !self.table.done.is_empty() || self.changed.is_some() {
            on.wake(self.owner);
        }
    }

    /// Looks whether the association or the connection ended, and whether the namespace changed.
    fn look_around(&mut self, on: &Handle, id: DriverId) {
        if self.over {
            return self.settle(on, id);
        }
        if self.association.changes() != self.changes_seen {
            self.changes_seen = self.association.changes();
            match self.association.blocks(self.nsid) {
                None => self.changed = Some(Change::Gone),
                Some(blocks) if blocks != self.blocks => {
                    self.blocks = blocks;
                    self.changed = Some(Change::Resized { blocks });
                }
                Some(_) => {}
            }
        }
        if self.association.is_over() || self.link.as_ref().is_some_and(|link| link.has_ended()) {
            self.finish(on);
            self.settle(on, id);
        }
    }

    /// Ends what was lost with the connection once it is known what became of the controller.
    fn settle(&mut self, on: &Handle, id: DriverId) {
        if !self.table.is_unsettled() {
            return;
        }
        if self.association.is_over() || on.now() >= self.settle_by || self.abandoned {
            self.table.settle(GONE, self.association.is_confirmed());
        } else {
            self.watchdog.arm(on, id, self.settle_by);
        }
    }

    fn finish(&mut self, on: &Handle) {
        self.over = true;
        if let Some(complaint) = self.link.as_ref().and_then(L::complaint) {
            tracing::warn!("I/O queue {}: the controller {complaint}", self.qid);
        }
        self.changed = Some(Change::Gone);
        if !self.association.is_over() {
            self.association.tell(ToAdmin::Lost(self.qid));
        }
        // The memory goes back to its owner: nothing may be sent from it any more, nor received into it.
        if let Some(mut link) = self.link.take() {
            self.table.connection_ended(link.engine(), GONE);
        }
        self.settle_by = on.now() + Duration::from_secs(SETTLE_S);
        on.wake(self.owner);
    }

    /// Reports commands that take too long, and those that did and have ended. Looks four times per time limit.
    fn watch(&mut self, on: &Handle, id: DriverId) {
        for cid in self.table.recovered.drain(..) {
            self.association.tell(ToAdmin::Completed(self.qid, cid));
        }
        if self.table.running() == 0 || self.over {
            return;
        }
        let limit = self.association.options.io_timeout;
        let next = self.looked + limit / 4;
        if on.now() < next {
            self.watchdog.arm(on, id, next);
            return;
        }
        self.looked = on.now();
        self.watchdog.arm(on, id, on.now() + limit / 4);
        while let Some(tag) = self.table.next_overdue(on.now(), limit) {
            if let Some(cid) = self.cid(tag) {
                self.association.tell(ToAdmin::TimedOut(self.qid, cid));
            }
        }
    }
}

impl<L: Link> Connection<L> {
    /// The queue was dropped and nothing is under way: the connection goes back for the next queue, unless it is over.
    fn retire(&self, on: &Handle) {
        let inner = &mut *self.inner.borrow_mut();
        inner.association.leave(&on.remote(), self.id);
        on.remove(self.id);
        let Some(mut link) = inner.link.take().filter(|_| !inner.over) else { return };
        if link.is_quiet() && link.deregister(on, self.id).is_ok() {
            inner.association.give_idle(IdleQueue { qid: inner.qid, commands: inner.commands, link });
        } else {
            inner.association.tell(ToAdmin::Lost(inner.qid));
        }
    }
}

impl<L: Link> Driver for Connection<L> {
    #[inline]
    fn receive(&mut self, on: &Handle) -> Activity {
        let inner = &mut *self.inner.borrow_mut();
        let Some(link) = &mut inner.link else { return Activity::Idle };
        let activity = link.receive(on, &mut inner.table);
        inner.wake_owner(on);
        activity
    }

    #[inline]
    fn work(&mut self, on: &Handle) -> Activity {
        let finished = {
            let inner = &mut *self.inner.borrow_mut();
            inner.look_around(on, self.id);
            inner.watch(on, self.id);
            if inner.abandoned {
                inner.table.done.clear();
            }
            inner.wake_owner(on);
            inner.abandoned && inner.table.running() == 0
        };
        if finished {
            self.retire(on);
            return Activity::Busy;
        }
        Activity::Idle
    }

    #[inline]
    fn send(&mut self, on: &Handle) -> Activity {
        let inner = &mut *self.inner.borrow_mut();
        let Some(link) = &mut inner.link else { return Activity::Idle };
        let activity = link.send(on, &mut inner.table);
        inner.wake_owner(on);
        activity
    }
}
