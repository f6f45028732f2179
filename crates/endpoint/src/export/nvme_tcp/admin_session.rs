//! The admin queue of one controller.

use super::mailbox::{Mailbox, Message};
use super::shared::{ControllerId, Shared};
use crate::memory::{piece, piece_mut};
use crate::pump::Flow;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_block::{BlockQueue, Completion, Op, OpKind};
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle, Segments, Time};
use weft_proto::nvme::controller::{Control, ControlEvent, Next};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Qid;
use weft_proto::nvme_tcp::{TargetConnection, TargetEvent};
use weft_proto::stream::Tag;

/// How far a reset or shutdown is.
enum Quiescing {
    No,
    /// I/O queues have been told to stop; these have not ended yet.
    Stopping {
        left: Vec<Qid>,
        flush: bool,
    },
    /// Everything written becomes durable.
    Flushing {
        queues: Vec<Box<dyn BlockQueue>>,
        left: usize,
    },
}

/// The admin side of a connection after Connect.
pub(super) struct AdminSession {
    pub(super) control: Control,
    id: ControllerId,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    memory: Vec<Segments>,
    quiescing: Quiescing,
    timer: TimerSlot,
    /// The association is over: all connections of the controller are to be closed.
    pub(super) over: bool,
    /// I/O queues that the end of the association waits for.
    stopping: Vec<Qid>,
    ended: bool,
}

impl AdminSession {
    pub(super) fn new(control: Control, id: ControllerId, shared: Arc<Shared>, mailbox: Arc<Mailbox>) -> Self {
        let entries = control.entries();
        Self {
            control,
            id,
            shared,
            mailbox,
            memory: (0..entries).map(|_| Segments::new()).collect(),
            quiescing: Quiescing::No,
            timer: TimerSlot::default(),
            over: false,
            stopping: Vec::new(),
            ended: false,
        }
    }

    pub(super) fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        piece_mut(self.memory.get_mut(tag.index())?, offset, len)
    }

    pub(super) fn memory(&self, tag: Tag, offset: u32, len: u32) -> Option<&[u8]> {
        piece(self.memory.get(tag.index())?, offset, len)
    }

    pub(super) fn event(&mut self, on: &Handle, engine: &mut TargetConnection, event: TargetEvent) -> Flow {
        if let TargetEvent::Command { tag, sqe, .. } = event {
            let next = self.control.start(on.now().since_epoch(), tag, &sqe);
            self.follow(on, engine, tag, sqe.cid(), next);
        }
        Flow::Continue
    }

    fn follow(&mut self, on: &Handle, engine: &mut TargetConnection, tag: Tag, cid: weft_proto::nvme::types::Cid, next: Next) {
        match next {
            Next::Produce { bytes } => {
                // Bounded by the entries of the queue and the largest transfer: an admin command never waits for I/O's memory.
                let Some(mut buf) = on.pool().take_reserve(bytes as usize) else {
                    return engine.complete(tag, Cqe::new(cid, Status::INTERNAL_ERROR), 0);
                };
                let next = self.control.produce(on.now().since_epoch(), tag, &mut buf);
                self.memory[tag.index()] = Segments::from_iter([buf.into()]);
                self.follow(on, engine, tag, cid, next);
            }
            Next::Reply { cqe, data_bytes } => self.reply(engine, tag, cqe, data_bytes),
            Next::Fetch { .. } | Next::Hold => {}
        }
    }

    fn reply(&mut self, engine: &mut TargetConnection, tag: Tag, mut cqe: Cqe, mut data_bytes: u32) {
        if let Err(status) = engine.can_send(tag, data_bytes) {
            (cqe.status, cqe.do_not_retry, data_bytes) = (status, true, 0);
        }
        if data_bytes == 0 {
            self.memory[tag.index()].clear();
        }
        engine.complete(tag, cqe, data_bytes);
    }

    pub(super) fn released(&mut self, engine: &mut TargetConnection, tag: Tag) {
        self.memory[tag.index()].clear();
        engine.sent(tag);
    }

    /// Messages, events of the controller, the course of a reset; tells whether something happened.
    pub(super) fn work(&mut self, on: &Handle, id: DriverId, engine: &mut TargetConnection) -> bool {
        let mut busy = false;
        for message in self.mailbox.take() {
            busy = true;
            self.message(message);
        }
        self.go_on_quiescing(on, id);
        while let Some(event) = self.control.poll(on.now().since_epoch()) {
            busy = true;
            self.control_event(engine, event);
            self.go_on_quiescing(on, id);
        }
        if let Some(deadline) = self.control.deadline() {
            self.timer.arm(on, id, Time::from_epoch(deadline));
        }
        busy
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Stop | Message::Drain => self.over = true,
            Message::Namespaces(table) => self.control.namespaces_changed(table),
            Message::Aborted { ticket, aborted } => self.control.abort_result(ticket, aborted),
            Message::Quiet(qid) => {
                self.stopping.retain(|&waiting| waiting != qid);
                if let Quiescing::Stopping { left, .. } = &mut self.quiescing {
                    left.retain(|&waiting| waiting != qid);
                }
            }
            Message::Abort { .. } => {}
        }
    }

    fn control_event(&mut self, engine: &mut TargetConnection, event: ControlEvent) {
        match event {
            ControlEvent::Reply { tag, cqe } => self.reply(engine, tag, cqe, 0),
            ControlEvent::Quiesce { flush } => self.quiesce(flush),
            ControlEvent::Abort { ticket, sqid, cid } => match self.shared.queue_mailbox(self.id, sqid) {
                Some(queue) => queue.post(Message::Abort { ticket, cid, reply_to: Arc::clone(&self.mailbox) }),
                None => self.control.abort_result(ticket, false),
            },
            ControlEvent::KeepAliveExpired => {
                tracing::warn!("host {}: keep alive expired, ending its association", self.control.host().nqn);
                self.over = true;
            }
        }
    }

    fn quiesce(&mut self, flush: bool) {
        let left = self.shared.stop_queues(self.id);
        self.quiescing = Quiescing::Stopping { left, flush };
    }

    /// The host sees the reset done only when no device holds anything of its I/O queues any more, and the shutdown only when what
    /// was written is durable.
    fn go_on_quiescing(&mut self, on: &Handle, id: DriverId) {
        if let Quiescing::Stopping { left, flush } = &self.quiescing
            && left.is_empty()
        {
            self.quiescing = if *flush { self.flush(on, id) } else { Quiescing::Flushing { queues: Vec::new(), left: 0 } };
        }
        if let Quiescing::Flushing { queues, left } = &mut self.quiescing {
            let mut done: Vec<Completion> = Vec::new();
            queues.iter_mut().for_each(|queue| queue.reap(&mut done));
            *left -= done.len();
            if let Some(failed) = done.iter().find(|completion| !completion.outcome.is_success()) {
                tracing::error!("flush at shutdown failed: {:?}", failed.outcome.status());
            }
            if *left == 0 {
                self.quiescing = Quiescing::No;
                self.control.quiesced(on.now().since_epoch());
            }
        }
    }

    fn flush(&self, on: &Handle, id: DriverId) -> Quiescing {
        let mut queues = Vec::new();
        let mut left = 0;
        for device in self.shared.devices.iter().filter(|device| device.features().volatile_cache) {
            match device.open_queue(on, id) {
                Ok(mut queue) => {
                    queue.submit(&mut VecDeque::from([Op::bare(OpKind::Flush, 0, 0, 0)]));
                    left += queue.in_flight();
                    queues.push(queue);
                }
                Err(e) => tracing::error!("cannot flush {} at shutdown: {e}", device.url()),
            }
        }
        Quiescing::Flushing { queues, left }
    }

    /// The connection is gone: ends the association. Tells whether it has ended, so that no device holds anything of it any more.
    pub(super) fn end(&mut self) -> bool {
        if !core::mem::replace(&mut self.ended, true) {
            self.stopping = self.shared.end(self.id);
        }
        if !self.stopping.is_empty() {
            return false;
        }
        self.shared.release(self.id);
        true
    }
}
