//! The server: the end that owns the real queue.

use super::message::{GONE, Reply, Request, ServerEnd, borrowed, returned};
use crate::device::{BlockQueue, Device};
use crate::op::{Completion, Op, Outcome};
use crate::outcome::error::Error;
use crate::outcome::status::{Status, StatusKind};
use core::sync::atomic::Ordering;
use std::collections::VecDeque;
use weft_io::{Activity, Driver, DriverId, Handle, RemoteLoop};

/// The driver that owns the queue.
struct Server {
    id: DriverId,
    queue: Box<dyn BlockQueue>,
    /// The queue had no room.
    waiting: VecDeque<Op>,
    requests: Vec<Request>,
    done: Vec<Completion>,
    /// Replies to be sent at the end of the turn.
    replies: Vec<Reply>,
    closed: bool,
    end: ServerEnd,
}

/// Opens the queue on the loop `to` and starts the driver there.
pub(super) fn start(device: Device, to: &RemoteLoop, end: ServerEnd) {
    to.post(move |on| {
        let started = on.try_spawn(|id| {
            let queue = device.open_queue(on, id)?;
            end.requests.read_by(id);
            let (waiting, requests, done, replies) =
                (VecDeque::new(), Vec::new(), Vec::new(), Vec::new());
            Ok::<_, Error>(Server {
                id,
                queue,
                waiting,
                requests,
                done,
                replies,
                closed: false,
                end,
            })
        });
        if let Err(e) = started {
            tracing::error!("a queue for another loop cannot be opened: {e}");
        }
    });
}

impl Server {
    fn take(&mut self, request: Request) {
        match request {
            Request::Submit { name, kind, lba, blocks, loans } => {
                self.waiting.push_back(Op::new(kind, lba, blocks, name, borrowed(loans)));
            }
            Request::Cancel(name) => self.cancel(name),
            Request::Close => self.closed = true,
        }
    }

    fn cancel(&mut self, name: u64) {
        match self
            .waiting
            .iter()
            .position(|op| op.user == name)
            .and_then(|at| self.waiting.remove(at))
        {
            Some(op) => self.answer(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted)))),
            None => self.queue.cancel(name),
        }
    }

    /// Records a reply; all replies of a turn are sent together.
    fn answer(&mut self, Completion { op, outcome }: Completion) {
        self.replies.push(Reply::Done { name: op.user, outcome, loans: returned(op.data) });
    }

    /// Says how the queue is, before the replies say that operations are over.
    fn let_know(&mut self) {
        let known = &self.end.known;
        known.holds_back.store(self.queue.holds_back(), Ordering::Release);
        // Their memory has been given back before.
        let overdue = self.queue.overdue(&mut Vec::new());
        if known.overdue.swap(overdue, Ordering::AcqRel) != 0 && overdue == 0 {
            self.end.replies.wake();
        }
    }

    /// Sends the replies; they are lost if the client's loop has ended, because then nobody waits.
    fn reply(&mut self) {
        if !self.replies.is_empty() && !self.end.replies.put(&mut self.replies) {
            self.replies.clear();
        }
    }
}

impl Driver for Server {
    fn work(&mut self, on: &Handle) -> Activity {
        let mut requests = self.end.requests.take(core::mem::take(&mut self.requests));
        let mut busy = !requests.is_empty();
        requests.drain(..).for_each(|request| self.take(request));
        self.requests = requests;
        self.queue.submit(&mut self.waiting);
        let mut done = core::mem::take(&mut self.done);
        self.queue.reap(&mut done);
        busy |= !done.is_empty();
        done.drain(..).for_each(|completion| self.answer(completion));
        self.done = done;
        while let Some(change) = self.queue.change() {
            self.replies.push(Reply::Changed(change));
        }
        self.let_know();
        self.reply();
        if self.closed && self.waiting.is_empty() && self.queue.in_flight() == 0 {
            on.remove(self.id);
        }
        Activity::busy_if(busy)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for op in core::mem::take(&mut self.waiting) {
            self.answer(op.done(Outcome::NotSent(GONE)));
        }
        self.reply();
    }
}
