//! The connections of I/O queues: they are opened as the state machine says.

use super::super::association::IoConnection;
use super::super::transport::{ConnectResult, ControllerLink, IoPlan, LinkPlan};
use super::Admin;
use crate::source::opening::TimeLimit;
use std::rc::Rc;
use std::time::Duration;
use weft_io::Handle;
use weft_proto::nvme::types::Qid;

impl<L: ControllerLink> Admin<L> {
    pub(super) fn open_queue(&self, on: &Handle, qid: Qid, entries: u16) {
        let (options, channel) = self.association.opening();
        // One entry of a queue stays free (Base §3.3.1.4).
        let commands = entries.saturating_sub(1).max(1);
        let io = IoPlan {
            connect: self.control.io_connect(qid),
            in_capsule_bytes: self.control.controller().in_capsule_bytes(),
        };
        let limit = TimeLimit::new(on, options.connect_timeout);
        let (name, place) = (self.target.name.clone(), self.target.place.clone());
        let plan = LinkPlan { name, place, options, commands, io: Some(io), channel, limit };
        let (opened, id) = (Rc::clone(&self.opened), self.id);
        L::open(on, plan, move |on, result| {
            opened.borrow_mut().push((qid, commands, result));
            on.wake(id);
        });
    }

    /// I/O connections that were opened since.
    pub(super) fn run_opened(&mut self, now: Duration) {
        let opened = core::mem::take(&mut *self.opened.borrow_mut());
        for (qid, commands, result) in opened {
            match result {
                Ok((link, ConnectResult { answer: Some(cqe), .. })) => {
                    if cqe.status.is_success() {
                        self.association.give_idle(IoConnection { qid, commands, link });
                    }
                    self.control.queue_opened(now, qid, &cqe);
                }
                Ok((_, ConnectResult { answer: None, .. })) => {
                    self.control.connection_lost(now, qid)
                }
                Err(e) => {
                    self.reason.get_or_insert(e);
                    self.control.connection_lost(now, qid);
                }
            }
        }
    }
}
