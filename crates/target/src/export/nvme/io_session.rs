//! One I/O queue: commands of the host become operations of devices, completions become answers.
//!
//! A command that finds no memory waits ("starved"). Data that comes by R2T is then not asked for
//! yet; data in a capsule stops the receiving of the connection. So that this always ends, a
//! connection may go beyond the pool's cap by one capsule's data. And so that no host can take it
//! all, a connection that would hold more of the pool than is left waits.

use super::authenticating::{Authenticating, Exchange};
use super::counting::{count, names};
use super::io_reserve::Reserving;
use super::mailbox::AbortAnswer;
use super::subsystems::{ControllerId, ControllerView};
use super::transport::{Engine, Event};
use crate::export::device_side::DeviceSide;
use crate::export::dialect::{Dialect, Starved};
use weft_block::{Completion, OpKind, Outcome};
use weft_connection::memory::{piece, piece_mut};
use weft_connection::pump::Flow;
use weft_connection::status::nvme::to_nvme;
use weft_io::segment::total_len;
use weft_io::{DriverId, Handle, Segments};
use weft_proto::nvme::controller::{AbortTarget, DeviceOutcome, Half, IoNext, IoQueue, IoRequest};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Nqn};
use weft_proto::stream::Tag;

/// A write whose data is stored as it arrives.
const WRITE: OpKind = OpKind::Write { fua: false };

/// The I/O side of a connection after Connect.
pub(crate) struct IoSession {
    pub(super) controller: ControllerId,
    pub(super) queue: IoQueue,
    pub(super) side: DeviceSide<Starved<IoRequest>>,
    /// For the names of its namespaces.
    subsystem: Nqn,
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
        side: DeviceSide<Starved<IoRequest>>,
        subsystem: Nqn,
        reserving: Reserving,
    ) -> Self {
        let (authenticating, aborts) = (None, Vec::new());
        Self { controller, queue, side, subsystem, reserving, authenticating, aborts }
    }

    #[inline]
    pub(super) fn event(&mut self, on: &Handle, engine: &mut impl Engine, event: Event) -> Flow {
        self.side.meter.turn(on.now());
        match event {
            Event::Command { tag, in_capsule_bytes } => {
                self.command(on, engine, tag, in_capsule_bytes)
            }
            Event::DataArrived { tag } => {
                let next = match self.side.placed(tag) {
                    None => self.queue.data(tag, self.side.memory.first(tag)),
                    Some(Some(outcome)) => {
                        let outcome = self.outcome(tag, WRITE, &outcome);
                        self.queue.stored(tag, outcome)
                    }
                    Some(None) => self.kept_out(tag),
                };
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
                self.side.free(tag);
                Flow::Continue
            }
        }
    }

    /// The data of a write was kept from the device. Its host may send it again if the reason for
    /// that has gone since.
    #[cold]
    fn kept_out(&mut self, tag: Tag) -> IoNext {
        match self.queue.data(tag, &[]) {
            IoNext::Submit(_) => {
                self.queue.finished(tag, DeviceOutcome::failed(Status::INTERNAL_ERROR), &[])
            }
            next => next,
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
        count(&mut self.side.meter, tag, engine.sqe());
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
        let mut flow = Flow::Continue;
        match next {
            IoNext::Fetch { bytes } => flow = self.fetch(on, engine, tag, bytes, in_capsule),
            IoNext::Submit(request) => self.submit(on, request),
            IoNext::Reply { cqe, data_bytes } => self.reply(engine, tag, cqe, data_bytes),
            IoNext::ReplyPair { first, second } => {
                self.reply(engine, first.0, first.1, 0);
                self.reply(engine, second.0, second.1, 0);
            }
            IoNext::Reserve { namespace } => self.reserve(tag, namespace),
            IoNext::Report { bytes } => flow = self.report(on, engine, tag, bytes),
            IoNext::Authenticate => flow = self.authenticate(on, engine, tag, in_capsule),
            IoNext::Hold => _ = self.arrived(on, engine, tag, true),
        }
        if let Some((tag, cqe)) = self.queue.orphan() {
            self.reply(engine, tag, cqe, 0);
        }
        flow
    }

    /// Answers a command. Memory that the host does not get is free at once.
    #[inline]
    pub(super) fn reply(&mut self, engine: &mut impl Engine, tag: Tag, cqe: Cqe, data_bytes: u32) {
        if data_bytes == 0 {
            self.side.free(tag);
        }
        self.side.meter.end(tag, !cqe.status.is_success());
        engine.complete(tag, cqe, data_bytes);
    }

    /// The host has the memory's content.
    #[inline]
    pub(super) fn released(&mut self, on: &Handle, engine: &mut impl Engine, tag: Tag) {
        self.side.meter.sent(on, tag);
        self.side.free(tag);
        engine.sent(tag);
    }

    /// The outcome of an operation, for the queue.
    #[inline]
    fn outcome(&self, tag: Tag, kind: OpKind, outcome: &Outcome) -> DeviceOutcome {
        if outcome.is_success() { DeviceOutcome::DONE } else { self.failed(tag, kind, outcome) }
    }

    /// The status of a failure for the host. A removed device may fail its remaining operations;
    /// the reason is then the removal of the namespace.
    #[cold]
    fn failed(&self, tag: Tag, kind: OpKind, outcome: &Outcome) -> DeviceOutcome {
        self.queue.revoked(tag).map_or_else(|| to_nvme(kind, outcome), DeviceOutcome::failed)
    }

    /// The host sees other namespaces, or there are other devices behind them. What no device has
    /// taken yet and was meant for one that is gone ends.
    #[cold]
    pub(super) fn set_view(
        &mut self,
        on: &Handle,
        id: DriverId,
        engine: &mut impl Engine,
        view: ControllerView,
    ) {
        self.side.meter.follow(names(&self.subsystem, &view));
        self.queue.set_namespaces(view.table);
        self.side.follow(&view.devices, on, id);
        self.reserving.of = view.reservations;
        self.end_revoked(on, engine);
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

    /// Takes no more commands; asks the devices to end what they have.
    pub(super) fn stop(&mut self, engine: &mut impl Engine) {
        if self.side.stop() {
            engine.drop_pending();
            self.side.drop_waiting();
            self.side.cancel_all();
        }
    }
}

impl<E: Engine> Dialect<E> for IoSession {
    type Waiting = Starved<IoRequest>;

    #[inline]
    fn side(&mut self) -> &mut DeviceSide<Starved<IoRequest>> {
        &mut self.side
    }

    #[inline]
    fn completed(
        &mut self,
        on: &Handle,
        engine: &mut E,
        tag: Tag,
        Completion { op, outcome }: &mut Completion,
        _: bool,
    ) {
        let outcome = self.outcome(tag, op.kind, outcome);
        if op.kind != OpKind::Discard {
            // A deallocate keeps its ranges in the command's memory, which its operations do not
            // carry.
            *self.side.memory.at(tag) = core::mem::take(&mut op.data);
        }
        if self.side.is_stopping() {
            return self.side.free(tag);
        }
        let next = self.queue.finished(tag, outcome, self.side.memory.first(tag));
        let _ = self.follow(on, engine, tag, next, false);
    }

    fn retry(&mut self, on: &Handle, engine: &mut E, command: Starved<IoRequest>) {
        match command {
            Starved::Fetch { tag, bytes, urgent } => _ = self.fetch(on, engine, tag, bytes, urgent),
            Starved::Submit { request, .. } => self.submit(on, request),
            Starved::Respond { tag, bytes } => _ = self.report(on, engine, tag, bytes),
        }
    }

    #[inline]
    fn settle(&mut self, _: &mut E) {
        let held = self.side.holds_overdue();
        self.reserving.settle(&self.queue, held);
    }
}

// Memory of fused operations, whose halves must not wait for each other's.

impl IoSession {
    /// Memory for the data of one half of a fused operation. The first half takes it for both,
    /// behind its own: so no half waits for memory that halves hold.
    #[cold]
    pub(super) fn take_half(&mut self, on: &Handle, tag: Tag, half: Half, bytes: usize) -> bool {
        match half {
            Half::First => {
                let both = self.side.memory.provide(on, tag, bytes)
                    && self.side.memory.add_buffer(on, tag, bytes);
                if !both {
                    self.side.memory.free(tag);
                }
                both
            }
            Half::Second { first } => match self.side.memory.of(first).len() {
                // It waits itself, and is served before.
                0 => false,
                // It went beyond the cap.
                1 => self.side.memory.provide(on, tag, bytes),
                _ => match self.side.memory.at(first).pop() {
                    Some(kept) => {
                        self.side.memory.at(tag).push(kept);
                        true
                    }
                    None => false,
                },
            },
        }
    }
}

// Reauthentication on an I/O queue: its messages among the commands.

impl IoSession {
    /// A message of an authentication, or what looks like one.
    #[cold]
    fn authenticate(
        &mut self,
        on: &Handle,
        engine: &mut impl Engine,
        tag: Tag,
        in_capsule: bool,
    ) -> Flow {
        let sqe = *engine.sqe();
        // What the descriptor says of it is checked again when it is fetched.
        let in_capsule_bytes = if in_capsule { sqe.sgl().length } else { 0 };
        self.exchange(on, engine, tag, &sqe, in_capsule_bytes);
        Flow::Continue
    }

    /// Whether the connection ends, as its host did not prove anew who it is.
    pub(super) fn is_over(&self) -> bool {
        self.authenticating.as_ref().is_some_and(|it| it.is_over())
    }
}

impl<E: Engine> Exchange<E> for IoSession {
    fn authenticating(&mut self) -> Option<&mut Authenticating> {
        self.authenticating.as_deref_mut()
    }

    fn room(&mut self, on: &Handle, tag: Tag, bytes: usize) -> Option<&mut [u8]> {
        let buf = self.side.memory.buffer(on, bytes)?;
        let memory: &mut Segments = self.side.memory.at(tag);
        memory.push(buf.into());
        piece_mut(memory, 0, bytes as u32)
    }

    fn message(&self, tag: Tag) -> Vec<u8> {
        let memory = self.side.memory.of(tag);
        piece(memory, 0, total_len(memory) as u32).map(<[u8]>::to_vec).unwrap_or_default()
    }

    fn answer(&mut self, engine: &mut E, tag: Tag, cqe: Cqe, data_bytes: u32) {
        let cqe = self.queue.stamped(cqe);
        self.reply(engine, tag, cqe, data_bytes);
    }
}
