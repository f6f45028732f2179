//! Reservations on an I/O queue: operations on them, reports of them, and commands that another
//! host has aborted by preempting.

use super::io_session::IoSession;
use super::mailbox::{Mailbox, NvmeMessage};
use super::subsystems::OfNamespaces;
use super::target_state::TargetState;
use super::transport::Engine;
use crate::export::dialect::Starved;
use crate::export::members::Message;
use crate::reservations::PendingChange;
use std::sync::Arc;
use weft_connection::pump::Flow;
use weft_io::Handle;
use weft_proto::nvme::controller::{DeviceOutcome, IoQueue};
use weft_proto::nvme::types::Nsid;
use weft_proto::reservation::ReservationRefusal;
use weft_proto::stream::Tag;

/// What an I/O queue has to do with reservations.
pub(super) struct Reserving {
    mailbox: Arc<Mailbox>,
    shared: Arc<TargetState>,
    pub of: OfNamespaces,
    /// Operations of other hosts that wait until devices have given these commands back.
    preempted: Vec<(Vec<Tag>, Arc<PendingChange>)>,
}

impl Reserving {
    pub(super) fn new(mailbox: &Arc<Mailbox>, of: OfNamespaces, shared: &Arc<TargetState>) -> Self {
        Self { mailbox: Arc::clone(mailbox), shared: Arc::clone(shared), of, preempted: Vec::new() }
    }

    /// Lets go of the operations of other hosts that need not wait any longer. Devices have overdue
    /// operations if they are `held`.
    #[inline]
    pub(super) fn settle(&mut self, queue: &IoQueue, held: bool) {
        self.preempted.retain_mut(|(tags, _)| {
            tags.retain(|&tag| queue.revoked(tag).is_some());
            held || !tags.is_empty()
        });
    }
}

impl IoSession {
    /// Has the operation of a command executed. It counts as one that a device has, until
    /// [`NvmeMessage::Reserved`].
    #[cold]
    pub(super) fn reserve(&mut self, tag: Tag, namespace: usize) {
        self.side.hold();
        let of = self.reserving.of.get(namespace).and_then(Option::as_ref);
        let mailbox = Arc::clone(&self.reserving.mailbox);
        let answer = Box::new(move |outcome| {
            mailbox.post(Message::Own(NvmeMessage::Reserved { tag, outcome }))
        });
        match (self.queue.take_operation(), of) {
            (Some(operation), Some(of)) => {
                match self.reserving.shared.reserves_as(self.controller, &operation) {
                    Ok(proven) => of.execute_as(operation, proven, answer),
                    Err(refusal) => answer(Err(refusal)),
                }
            }
            (None, Some(of)) => of.confirm(answer),
            (_, None) => answer(Err(ReservationRefusal::Conflict)),
        }
    }

    /// The operation of a command has ended.
    #[cold]
    pub(super) fn reserved(
        &mut self,
        on: &Handle,
        engine: &mut impl Engine,
        tag: Tag,
        outcome: Result<(), ReservationRefusal>,
    ) {
        self.side.release();
        if self.side.is_stopping() {
            return self.side.free(tag);
        }
        let next = self.queue.reserved(tag, outcome);
        let _ = self.follow(on, engine, tag, next, false);
    }

    /// Gives a command memory for its report.
    #[cold]
    pub(super) fn report(
        &mut self,
        on: &Handle,
        engine: &mut impl Engine,
        tag: Tag,
        bytes: u32,
    ) -> Flow {
        let Some(mut buf) = self.side.memory.buffer(on, bytes as usize) else {
            self.side.wait(Starved::Respond { tag, bytes });
            return Flow::Continue;
        };
        let next = self.queue.report(tag, &mut buf);
        self.side.memory.at(tag).push(buf.into());
        self.follow(on, engine, tag, next, false)
    }

    /// Another host has preempted the reservation of this one and aborted its commands. `pending`
    /// is kept until no device has any of them.
    #[cold]
    pub(super) fn preempted(
        &mut self,
        on: &Handle,
        engine: &mut impl Engine,
        nsid: Option<Nsid>,
        pending: Arc<PendingChange>,
    ) {
        let mut tags = self.queue.preempt(nsid);
        self.end_revoked(on, engine);
        // Those that waited for memory have ended.
        tags.retain(|&tag| self.queue.revoked(tag).is_some());
        tags.iter().for_each(|tag| self.side.cancel(tag.0.into()));
        self.reserving.preempted.push((tags, pending));
        let held = self.side.holds_overdue();
        self.reserving.settle(&self.queue, held);
    }

    /// Ends reads that wait for memory and must not reach a device any more.
    #[cold]
    pub(super) fn end_revoked(&mut self, on: &Handle, engine: &mut impl Engine) {
        let revoked = self.side.take_revoked(|tag, _| self.queue.revoked(tag).is_some());
        for tag in revoked {
            let Some(status) = self.queue.revoked(tag) else { continue };
            let next = self.queue.finished(tag, DeviceOutcome::failed(status), &[]);
            let _ = self.follow(on, engine, tag, next, false);
        }
    }
}
