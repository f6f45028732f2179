//! One I/O queue: commands of the host become operations of devices, completions become answers.
//!
//! A command that finds no memory waits ("starved"). Data that comes by R2T is then not asked for
//! yet; data in a capsule stops the receiving of the connection. So that this always ends, a
//! connection may go beyond the pool's cap by one capsule's data. And so that no host can take it
//! all, a connection that would hold more of the pool than is left waits.

use super::authenticating::{Authenticating, Exchange};
use super::counting::Counting;
use super::io_reserve::Reserving;
use super::mailbox::AbortAnswer;
use super::subsystems::{ControllerId, View};
use super::transport::{Engine, Event};
use crate::export::device_side::DeviceSide;
use crate::export::direct_write::DirectWrite;
use crate::pump::{Flow, Pieces};
use crate::status::nvme::to_nvme;
use std::sync::Arc;
use weft_block::{BlockDevice, Change, Completion, OpKind, Outcome};
use weft_io::{DriverId, Handle, Segments};
use weft_proto::nvme::controller::{AbortTarget, DeviceOutcome, IoNext, IoQueue, Request};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::stream::Tag;

/// A command that waits for memory.
pub(super) enum Starved {
    /// To bring in the host's data.
    Fetch { tag: Tag, bytes: u32, in_capsule: bool },
    /// To read.
    Read(Request),
    /// For a report.
    Report { tag: Tag, bytes: u32 },
}

/// The I/O side of a connection after Connect.
pub(crate) struct IoSession {
    pub(super) controller: ControllerId,
    pub(super) queue: IoQueue,
    pub(super) side: DeviceSide<Starved>,
    pub(super) direct: DirectWrite,
    pub(super) counting: Counting,
    pub(super) reserving: Reserving,
    /// For when the host authenticates anew.
    pub(super) authenticating: Option<Box<Authenticating>>,
    /// Aborts that are answered when the completions of their commands have left.
    aborts: Vec<(Aborting, AbortAnswer)>,
}

/// Progress of an aborted command.
#[derive(Clone, Copy)]
enum Aborting {
    /// It completes under this tag when its data has come.
    Doomed(Tag),
    /// It has completed, and its completion is sent when the link has sent this much.
    Completed(u64),
}

impl IoSession {
    pub(super) fn new(
        controller: ControllerId,
        queue: IoQueue,
        side: DeviceSide<Starved>,
        counting: Counting,
        reserving: Reserving,
    ) -> Self {
        let (direct, aborts) = (DirectWrite::default(), Vec::new());
        Self { controller, queue, side, direct, counting, reserving, authenticating: None, aborts }
    }

    #[inline]
    pub(super) fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        self.side.memory.piece_mut(tag, offset, len)
    }

    #[inline]
    pub(super) fn pieces_mut<'a>(
        &'a mut self,
        tag: Tag,
        offset: u32,
        len: u32,
        into: &mut Pieces<'a>,
    ) {
        self.side.memory.pieces_mut(tag, offset, len, into);
    }

    #[inline]
    pub(super) fn memory(&self, tag: Tag, offset: u32, len: u32) -> Option<&[u8]> {
        self.side.memory.piece(tag, offset, len)
    }

    #[inline]
    pub(super) fn take_lent(&mut self, tag: Tag) -> Option<Segments> {
        self.side.memory.take_lent(tag)
    }

    #[inline]
    pub(super) fn give_back(&mut self, tag: Tag, memory: Segments) {
        *self.side.memory.at(tag) = memory;
    }

    #[inline]
    pub(super) fn event(&mut self, on: &Handle, engine: &mut impl Engine, event: Event) -> Flow {
        self.counting.turn(on.now());
        match event {
            Event::Command { tag, in_capsule_bytes } => {
                self.command(on, engine, tag, in_capsule_bytes)
            }
            Event::DataArrived { tag } => {
                let next = self.queue.data(tag, self.side.memory.first(tag));
                self.follow(on, engine, tag, next, false)
            }
            Event::DataFailed { tag } => {
                if self.arrived(on, engine, tag, false) {
                    return Flow::Continue;
                }
                let next = self.queue.data_failed(tag, Status::TRANSIENT_TRANSPORT_ERROR);
                self.follow(on, engine, tag, next, false)
            }
            Event::Dropped { tag } => {
                self.free(tag);
                Flow::Continue
            }
        }
    }

    #[inline]
    fn command(
        &mut self,
        on: &Handle,
        engine: &mut impl Engine,
        tag: Tag,
        in_capsule_bytes: u32,
    ) -> Flow {
        if self.side.is_draining() {
            engine.ignore_data(tag);
            engine.abandon(tag);
            return Flow::Continue;
        }
        self.counting.start(tag, engine.sqe());
        let next = self.queue.start(tag, engine.sqe(), in_capsule_bytes);
        self.follow(on, engine, tag, next, in_capsule_bytes > 0)
    }

    /// Does what the queue says.
    #[inline]
    pub(super) fn follow(
        &mut self,
        on: &Handle,
        engine: &mut impl Engine,
        tag: Tag,
        next: IoNext,
        in_capsule: bool,
    ) -> Flow {
        let flow = match next {
            IoNext::Fetch { bytes } => self.fetch(on, engine, tag, bytes, in_capsule),
            IoNext::Submit(request) => {
                self.submit(on, request);
                Flow::Continue
            }
            IoNext::Reply { cqe, data_bytes } => {
                self.reply(engine, tag, cqe, data_bytes);
                Flow::Continue
            }
            IoNext::ReplyPair { first, second } => {
                self.reply(engine, first.0, first.1, 0);
                self.reply(engine, second.0, second.1, 0);
                Flow::Continue
            }
            IoNext::Reserve { namespace } => {
                self.reserve(on, engine, tag, namespace);
                Flow::Continue
            }
            IoNext::Report { bytes } => self.report(on, engine, tag, bytes),
            IoNext::Authenticate => self.authenticate(on, engine, tag, in_capsule),
            IoNext::Hold => {
                self.arrived(on, engine, tag, true);
                Flow::Continue
            }
        };
        if let Some((tag, cqe)) = self.queue.orphan() {
            self.reply(engine, tag, cqe, 0);
        }
        flow
    }

    /// Answers a command. Memory that the host does not get is free at once.
    #[inline]
    pub(super) fn reply(&mut self, engine: &mut impl Engine, tag: Tag, cqe: Cqe, data_bytes: u32) {
        if data_bytes == 0 {
            self.free(tag);
        }
        self.counting.end(tag, !cqe.status.is_success());
        engine.complete(tag, cqe, data_bytes);
    }

    #[inline]
    pub(super) fn free(&mut self, tag: Tag) {
        self.side.memory.free(tag);
        let _ = self.direct.take(tag);
    }

    /// The host has the memory's content.
    #[inline]
    pub(super) fn released(&mut self, on: &Handle, engine: &mut impl Engine, tag: Tag) {
        self.counting.meter().sent(on, tag);
        self.free(tag);
        engine.sent(tag);
    }

    /// Submits, reaps and answers; tells whether something happened.
    #[inline]
    pub(super) fn work(&mut self, on: &Handle, engine: &mut impl Engine) -> bool {
        self.counting.turn(on.now());
        let Some(mut done) = self.side.reap() else {
            let _ = self.side.holds_overdue();
            if self.has_preempted() {
                self.settle_preempted();
            }
            return false;
        };
        for completion in done.drain(..) {
            self.completed(on, engine, completion);
        }
        self.side.reaped(done);
        if self.has_preempted() {
            self.settle_preempted();
        }
        true
    }

    #[inline]
    fn completed(&mut self, on: &Handle, engine: &mut impl Engine, completion: Completion) {
        let _ = self.side.completed(&completion);
        let Completion { op, outcome } = completion;
        let tag = Tag(op.user as u16);
        self.counting.meter().completed(tag);
        let outcome = if outcome.is_success() {
            DeviceOutcome::DONE
        } else {
            self.failed(tag, op.kind, &outcome)
        };
        let kind = op.kind;
        if kind != OpKind::Discard {
            // A deallocate keeps its ranges in the command's memory, which its operations do not
            // carry.
            *self.side.memory.at(tag) = op.data;
        }
        if self.side.is_stopping() {
            return self.free(tag);
        }
        let next = self.queue.finished(tag, outcome, self.side.memory.first(tag));
        let _ = self.follow(on, engine, tag, next, false);
    }

    /// The status of a failure for the host. A removed device may fail its remaining operations;
    /// the reason is then the removal of the namespace.
    #[cold]
    fn failed(&self, tag: Tag, kind: OpKind, outcome: &Outcome) -> DeviceOutcome {
        self.queue.revoked(tag).map_or_else(|| to_nvme(kind, outcome), DeviceOutcome::failed)
    }

    /// Serves commands that wait for memory, in order, as long as there is some.
    pub(super) fn feed(&mut self, on: &Handle, engine: &mut impl Engine) {
        for _ in 0..self.side.waiting().len() {
            let Some(starved) = self.side.next_waiting() else { break };
            match starved {
                Starved::Fetch { tag, bytes, in_capsule } => {
                    _ = self.fetch(on, engine, tag, bytes, in_capsule)
                }
                Starved::Read(request) => self.submit(on, request),
                Starved::Report { tag, bytes } => _ = self.report(on, engine, tag, bytes),
            }
        }
    }

    /// Whether data that comes in a capsule waits for memory: nothing behind it can be received.
    pub(super) fn is_stuck(&self) -> bool {
        self.side
            .waiting()
            .iter()
            .any(|starved| matches!(starved, Starved::Fetch { in_capsule: true, .. }))
    }

    /// The host sees other namespaces, or there are other devices behind them. What no device has
    /// taken yet and was meant for one that is gone ends.
    #[cold]
    pub(super) fn set_view(
        &mut self,
        on: &Handle,
        id: DriverId,
        engine: &mut impl Engine,
        view: View,
    ) {
        self.counting.follow(&view);
        self.queue.set_namespaces(view.table);
        self.side.follow(&view.devices, on, id);
        self.reserving.of = view.reservations;
        self.end_revoked(on, engine);
    }

    /// Whether commands wait for memory.
    pub(super) fn is_starved(&self) -> bool {
        !self.side.waiting().is_empty()
    }

    /// The host wants a command aborted.
    pub(super) fn abort(&mut self, engine: &mut impl Engine, cid: Cid, answer: AbortAnswer) {
        let target = self.queue.abort(cid);
        if let Some((tag, cqe)) = self.queue.orphan() {
            self.reply(engine, tag, cqe, 0);
        }
        match target {
            AbortTarget::Unknown => answer.give(false),
            AbortTarget::Aborted => {
                self.aborts.push((Aborting::Completed(engine.queued()), answer));
            }
            AbortTarget::Doomed(tag) => self.aborts.push((Aborting::Doomed(tag), answer)),
            AbortTarget::InDevice(tag) => {
                self.side.cancel(tag.0.into());
                answer.give(false);
            }
        }
    }

    /// Whether Aborts wait for completions.
    #[inline]
    pub(super) fn has_aborts(&self) -> bool {
        !self.aborts.is_empty()
    }

    /// Answers the Aborts whose commands have completed, when the completions have left: the link
    /// has `sent` that much, and everything that there is at `queued`.
    #[cold]
    pub(super) fn settle_aborts(&mut self, queued: u64, sent: u64) {
        for (aborting, _) in &mut self.aborts {
            if let Aborting::Doomed(tag) = *aborting
                && self.queue.revoked(tag).is_none()
            {
                *aborting = Aborting::Completed(queued);
            }
        }
        let left = self
            .aborts
            .extract_if(.., |(of, _)| matches!(of, Aborting::Completed(at) if *at <= sent));
        left.for_each(|(_, answer)| answer.give(true));
    }

    /// Takes no more commands; those that came before end as ever.
    pub(super) fn drain(&mut self) {
        self.side.drain();
    }

    /// Takes no more commands; asks the devices to end what they have.
    pub(super) fn stop(&mut self, engine: &mut impl Engine) {
        if self.side.stop() {
            engine.drop_pending();
            self.side.drop_waiting();
            self.side.cancel_all();
        }
    }

    /// Whether no device holds anything of this queue.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.side.is_quiet()
    }

    /// The next change of a device that was not told yet.
    #[inline]
    pub(super) fn change(&mut self) -> Option<(Arc<dyn BlockDevice>, Change)> {
        self.side.change()
    }
}
