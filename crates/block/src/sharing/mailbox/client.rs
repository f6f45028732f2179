//! The client: the end that is a queue.

use super::channel::Channel;
use super::message::{GONE, Loans, QueueStatus, Reply, Request, ServerEnd};
use crate::device::{BlockQueue, DeviceChange, DeviceChanges};
use crate::limits::MAILBOX_OPS;
use crate::op::{Completion, Op, Outcome};
use crate::queue::slots::Slots;
use core::cell::RefCell;
use core::sync::atomic::Ordering;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use weft_io::segment::Receipt;
use weft_io::{Activity, Driver, DriverId, Handle, RemoteLoop, Segment, Segments};

/// The queue.
pub(super) struct Client {
    requests: Arc<Channel<Request>>,
    known: Arc<QueueStatus>,
    state: Rc<RefCell<ClientState>>,
    /// Those of one call.
    batch: Vec<Request>,
    reader: DriverId,
    on: Handle,
    owner: DriverId,
}

#[derive(Default)]
struct ClientState {
    away: Slots<Away>,
    ready: Vec<Completion>,
    changes: DeviceChanges,
    /// `submit` left operations with the caller.
    refused: bool,
    /// The queue was dropped.
    closed: bool,
}

/// An operation whose memory is on loan.
struct Away {
    op: Op,
    receipts: SmallVec<[Receipt; 1]>,
}

impl Away {
    /// The operation with its memory, or without any if some is lost.
    fn redeem(self, loans: Loans) -> Op {
        let mut op = self.op;
        if loans.len() == self.receipts.len() {
            op.data = self
                .receipts
                .into_iter()
                .zip(loans)
                .map(|(receipt, loan)| receipt.redeem(loan))
                .collect();
        }
        op
    }
}

impl Client {
    /// A queue on the loop of `on`, with a driver that receives the replies; and the other end, for
    /// the loop `to`.
    pub(super) fn start(to: &RemoteLoop, on: &Handle, owner: DriverId) -> (Self, ServerEnd) {
        let state: Rc<RefCell<ClientState>> = Rc::default();
        let (requests, replies) =
            (Arc::new(Channel::new(to.clone())), Arc::new(Channel::new(on.remote())));
        let reader = on.spawn(|id| {
            replies.read_by(id);
            Reader {
                id,
                replies: Arc::clone(&replies),
                state: Rc::clone(&state),
                owner,
                taken: Vec::new(),
            }
        });
        let known = Arc::<QueueStatus>::default();
        let end = ServerEnd { requests: Arc::clone(&requests), replies, known: Arc::clone(&known) };
        (Self { requests, known, state, batch: Vec::new(), reader, on: on.clone(), owner }, end)
    }

    fn lend(&mut self, mut op: Op) {
        let data = core::mem::take(&mut op.data);
        let (receipts, loans): (_, Loans) = data.into_iter().map(Segment::lend).unzip();
        let (kind, lba, blocks) = (op.kind, op.lba, op.blocks);
        let name = self.state.borrow_mut().away.insert(Away { op, receipts });
        self.batch.push(Request::Submit { name, kind, lba, blocks, loans });
    }

    fn send(&mut self) {
        if self.batch.is_empty() || self.requests.put(&mut self.batch) {
            return;
        }
        // The server is gone.
        let mut state = self.state.borrow_mut();
        for request in self.batch.drain(..) {
            if let Request::Submit { name, loans, .. } = request {
                state.take_in(name, Outcome::NotSent(GONE), loans);
            }
        }
    }
}

impl ClientState {
    fn in_flight(&self) -> usize {
        self.away.len() + self.ready.len()
    }

    fn take_in(&mut self, name: u64, outcome: Outcome, loans: Loans) {
        let Some(away) = self.away.remove(name) else { return };
        let completion = away.redeem(loans).done(outcome);
        if !self.closed {
            self.ready.push(completion);
        }
    }

    /// Operations without a reply are still with the device.
    fn server_ended(&mut self) {
        let names: Vec<u64> = self.away.names().collect();
        names
            .into_iter()
            .for_each(|name| self.take_in(name, Outcome::unsettled(GONE), Loans::new()));
    }
}

impl Drop for ClientState {
    /// The loop ends before the replies have come.
    fn drop(&mut self) {
        self.away.drain().for_each(|away| away.op.give_up());
    }
}

impl BlockQueue for Client {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let room = MAILBOX_OPS.saturating_sub(self.state.borrow().in_flight()).min(ops.len());
        for op in ops.drain(..room) {
            self.lend(op);
        }
        self.state.borrow_mut().refused = !ops.is_empty();
        self.send();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let mut state = self.state.borrow_mut();
        let made_room = !state.ready.is_empty();
        done.append(&mut state.ready);
        if made_room && core::mem::take(&mut state.refused) {
            self.on.wake(self.owner);
        }
    }

    fn cancel(&mut self, user: u64) {
        let name = self.state.borrow().away.find(|away| away.op.user == user);
        if let Some(name) = name {
            self.batch.push(Request::Cancel(name));
            self.send();
        }
    }

    fn in_flight(&self) -> usize {
        self.state.borrow().in_flight()
    }

    fn holds_back(&self) -> bool {
        self.known.holds_back.load(Ordering::Acquire)
    }

    fn overdue(&mut self, _: &mut Vec<Segments>) -> usize {
        self.known.overdue.load(Ordering::Acquire)
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.state.borrow_mut().changes.take()
    }
}

impl Drop for Client {
    /// Cancels operations in flight; the reader waits for their memory.
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.closed = true;
        state.ready.clear();
        self.batch.extend(state.away.names().map(Request::Cancel).chain([Request::Close]));
        drop(state);
        self.send();
        self.on.wake(self.reader);
    }
}

/// Receives replies for a queue, until it is dropped and all its memory is back.
struct Reader {
    id: DriverId,
    replies: Arc<Channel<Reply>>,
    state: Rc<RefCell<ClientState>>,
    owner: DriverId,
    taken: Vec<Reply>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.replies.close();
    }
}

impl Driver for Reader {
    fn receive(&mut self, on: &Handle) -> Activity {
        let mut replies = self.replies.take(core::mem::take(&mut self.taken));
        let some = !replies.is_empty();
        let mut state = self.state.borrow_mut();
        for reply in replies.drain(..) {
            match reply {
                Reply::Done { name, outcome, loans } => state.take_in(name, outcome, loans),
                Reply::Changed(change) => state.changes.add(change),
                Reply::Ended => state.server_ended(),
            }
        }
        self.taken = replies;
        if some {
            on.wake(self.owner);
        }
        Activity::busy_if(some)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        let ended = {
            let state = self.state.borrow();
            state.closed && state.away.is_empty()
        };
        if ended {
            on.remove(self.id);
        }
        Activity::Idle
    }
}
