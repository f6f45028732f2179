//! The end that owns the real queue.

use super::post::{Door, Inbox, Letter, Outbox, Parcel, Reply, borrowed, returned};
use crate::device::{BlockQueue, Change};
use crate::error::Error;
use crate::op::{Completion, Op, Outcome};
use crate::registry::Device;
use crate::slots::Slots;
use crate::status::{Status, StatusKind};
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::{Activity, Driver, DriverId, Handle};

const GONE: Status = Status::new(StatusKind::Gone);

/// The driver that owns the queue.
pub(super) struct Keeper {
    id: DriverId,
    inbox: Arc<Inbox>,
    queue: Box<dyn BlockQueue>,
    /// Whose operation it is, and its name there; under the name that the queue knows it by.
    senders: Slots<(Arc<Outbox>, u64)>,
    /// The queue had no room.
    waiting: VecDeque<Op>,
    /// Who shares the queue, and the replies that leave at the end of the turn.
    clients: Vec<(Arc<Outbox>, Vec<Reply>)>,
    letters: Vec<Letter>,
    done: Vec<Completion>,
    closed: bool,
}

impl Keeper {
    /// Opens the queue and starts the driver; the way to it.
    pub(super) fn start(device: &Device, on: &Handle) -> Result<Arc<Door>, Error> {
        let mut door = None;
        on.try_spawn(|id| {
            let inbox = Arc::new(Inbox::new(on.remote(), id));
            let keeper = Self {
                id,
                inbox: Arc::clone(&inbox),
                queue: device.open_queue(on, id)?,
                senders: Slots::default(),
                waiting: VecDeque::new(),
                clients: Vec::new(),
                letters: Vec::new(),
                done: Vec::new(),
                closed: false,
            };
            door = Some(Arc::new(Door(inbox)));
            Ok::<_, Error>(keeper)
        })?;
        Ok(door.expect("made together with the keeper"))
    }

    fn open(&mut self, letter: Letter) {
        match letter {
            Letter::Hello(client) => {
                // Those whom nobody else knows are gone.
                self.clients.retain(|(known, _)| Arc::strong_count(known) > 1);
                self.clients.push((client, Vec::new()));
            }
            Letter::Submit(Parcel { from, name, kind, lba, blocks, loans }) => {
                let user = self.senders.insert((from, name));
                self.waiting.push_back(Op { kind, lba, blocks, user, data: borrowed(loans) });
            }
            Letter::Cancel(from, name) => self.cancel(&from, name),
            Letter::Close => self.closed = true,
        }
    }

    fn cancel(&mut self, from: &Arc<Outbox>, name: u64) {
        let Some(user) = self.senders.find(|(sender, n)| *n == name && Arc::ptr_eq(sender, from)) else { return };
        match self.waiting.iter().position(|op| op.user == user).and_then(|at| self.waiting.remove(at)) {
            Some(op) => self.answer(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted)))),
            None => self.queue.cancel(user),
        }
    }

    /// Notes the reply; all of a turn leave together.
    fn answer(&mut self, completion: Completion) {
        let Completion { op, outcome } = completion;
        let Some((to, name)) = self.senders.remove(op.user) else { return };
        let reply = Reply::Done { name, outcome, loans: returned(op.data) };
        if let Some((_, replies)) = self.clients.iter_mut().find(|(client, _)| Arc::ptr_eq(client, &to)) {
            replies.push(reply);
        }
    }

    fn send_replies(&mut self) {
        let busy = self.clients.iter_mut().filter(|(_, replies)| !replies.is_empty());
        busy.for_each(|(client, replies)| client.put_all(replies));
    }

    fn tell(&self, change: Change) {
        self.clients.iter().for_each(|(client, _)| client.put(Reply::Changed(change)));
    }
}

impl Driver for Keeper {
    fn work(&mut self, on: &Handle) -> Activity {
        let mut letters = self.inbox.take(core::mem::take(&mut self.letters));
        let mut busy = !letters.is_empty();
        letters.drain(..).for_each(|letter| self.open(letter));
        self.letters = letters;
        self.queue.submit(&mut self.waiting);
        let mut done = core::mem::take(&mut self.done);
        self.queue.reap(&mut done);
        busy |= !done.is_empty();
        done.drain(..).for_each(|completion| self.answer(completion));
        self.done = done;
        self.send_replies();
        while let Some(change) = self.queue.change() {
            self.tell(change);
        }
        if self.closed && self.senders.len() == 0 {
            on.remove(self.id);
        }
        Activity::busy_if(busy)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        for letter in self.inbox.close() {
            if let Letter::Submit(parcel) = letter {
                parcel.refuse(Outcome::NotSent(GONE));
            }
        }
        for op in core::mem::take(&mut self.waiting) {
            self.answer(op.done(Outcome::NotSent(GONE)));
        }
        self.send_replies();
        for (to, name) in self.senders.drain() {
            to.put(Reply::Done { name, outcome: Outcome::MayHaveExecuted(GONE), loans: Default::default() });
        }
        self.tell(Change::Gone);
    }
}
