//! The end that is a queue on some loop.

use super::post::{Door, Letter, Loans, Outbox, Parcel, Reply};
use crate::device::{BlockQueue, Change};
use crate::limits::MAILBOX_OPS;
use crate::op::{Completion, Op, Outcome};
use crate::slots::Slots;
use crate::status::{Status, StatusKind};
use core::cell::RefCell;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use weft_io::segment::Receipt;
use weft_io::{Activity, Driver, DriverId, Handle, Segment};

/// The queue.
pub(super) struct Proxy {
    door: Arc<Door>,
    outbox: Arc<Outbox>,
    state: Rc<RefCell<State>>,
    letters: Vec<Letter>,
    on: Handle,
    owner: DriverId,
}

#[derive(Default)]
struct State {
    away: Slots<Away>,
    ready: Vec<Completion>,
    changes: VecDeque<Change>,
    /// `submit` left something.
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
            op.data = self.receipts.into_iter().zip(loans).map(|(receipt, loan)| receipt.redeem(loan)).collect();
        }
        op
    }
}

impl Proxy {
    /// A queue on the loop of `on`, with a clerk that takes in its replies.
    pub(super) fn start(door: &Arc<Door>, on: &Handle, owner: DriverId) -> Self {
        let state: Rc<RefCell<State>> = Rc::default();
        let mut outbox = None;
        on.spawn(|id| {
            let own = Arc::new(Outbox::new(on.remote(), id));
            outbox = Some(Arc::clone(&own));
            Clerk { id, outbox: own, state: Rc::clone(&state), owner, replies: Vec::new() }
        });
        let outbox = outbox.expect("made together with the clerk");
        door.put(&mut vec![Letter::Hello(Arc::clone(&outbox))]);
        Self { door: Arc::clone(door), outbox, state, letters: Vec::new(), on: on.clone(), owner }
    }

    fn pack(&mut self, mut op: Op) {
        let data = core::mem::take(&mut op.data);
        let (receipts, loans): (_, Loans) = data.into_iter().map(Segment::lend).unzip();
        let (kind, lba, blocks) = (op.kind, op.lba, op.blocks);
        let name = self.state.borrow_mut().away.insert(Away { op, receipts });
        self.letters.push(Letter::Submit(Parcel { from: Arc::clone(&self.outbox), name, kind, lba, blocks, loans }));
    }

    fn send(&mut self) {
        if self.letters.is_empty() || self.door.put(&mut self.letters) {
            return;
        }
        // There is no keeper any more.
        let mut state = self.state.borrow_mut();
        for letter in self.letters.drain(..) {
            if let Letter::Submit(parcel) = letter {
                state.take_in(parcel.name, Outcome::NotSent(Status::new(StatusKind::Gone)), parcel.loans);
            }
        }
    }
}

impl State {
    fn in_flight(&self) -> usize {
        self.away.len() + self.ready.len()
    }

    fn take_in(&mut self, name: u64, outcome: Outcome, loans: Loans) {
        let Some(away) = self.away.remove(name) else { return };
        let op = away.redeem(loans);
        if !self.closed {
            self.ready.push(op.done(outcome));
        }
    }
}

impl BlockQueue for Proxy {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let room = MAILBOX_OPS.saturating_sub(self.state.borrow().in_flight()).min(ops.len());
        for op in ops.drain(..room) {
            self.pack(op);
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
            self.letters.push(Letter::Cancel(Arc::clone(&self.outbox), name));
            self.send();
        }
    }

    fn in_flight(&self) -> usize {
        self.state.borrow().in_flight()
    }

    fn change(&mut self) -> Option<Change> {
        self.state.borrow_mut().changes.pop_front()
    }
}

impl Drop for Proxy {
    /// Asks for what is in flight to end; the clerk waits for its memory.
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.closed = true;
        state.ready.clear();
        let cancel = |name| Letter::Cancel(Arc::clone(&self.outbox), name);
        self.letters.extend(state.away.names().map(cancel));
        drop(state);
        self.send();
        self.on.wake(self.outbox.clerk());
    }
}

/// Takes in the replies for a queue, until it is dropped and all its memory is back.
struct Clerk {
    id: DriverId,
    outbox: Arc<Outbox>,
    state: Rc<RefCell<State>>,
    owner: DriverId,
    replies: Vec<Reply>,
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

impl Driver for Clerk {
    fn receive(&mut self, on: &Handle) -> Activity {
        let mut replies = self.outbox.take(core::mem::take(&mut self.replies));
        let some = !replies.is_empty();
        let mut state = self.state.borrow_mut();
        for reply in replies.drain(..) {
            match reply {
                Reply::Done { name, outcome, loans } => state.take_in(name, outcome, loans),
                Reply::Changed(change) => state.changes.push_back(change),
            }
        }
        self.replies = replies;
        if some {
            on.wake(self.owner);
        }
        Activity::busy_if(some)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        let ended = {
            let state = self.state.borrow();
            state.closed && state.away.len() == 0
        };
        if ended {
            on.remove(self.id);
        }
        Activity::Idle
    }
}
