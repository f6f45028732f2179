//! The admin queue of one controller.

use super::authenticating::{Authenticating, Exchange};
use super::flush::Flush;
use super::mailbox::{AbortAnswer, Mailbox, NvmeMessage};
use super::subsystems::ControllerId;
use super::target_state::TargetState;
use super::transport::{Engine, Event};
use crate::export::budget::Budget;
use crate::export::members::Message;
use crate::export::memory::CommandMemory;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use weft_connection::limits::{ADMIN_ANSWER_BYTES, CONCATENATION_PLAIN_S};
use weft_connection::pump::Flow;
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle, Segments, Time};
use weft_proto::nvme::controller::{ControlEvent, ControllerCore, Next, ReservationTicket};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Nsid, Qid};
use weft_proto::reservation::ReservationRefusal;
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
    Flushing(Flush),
}

/// The admin side of a connection after Connect.
pub(crate) struct AdminSession {
    pub(super) control: ControllerCore,
    pub(super) id: ControllerId,
    shared: Arc<TargetState>,
    mailbox: Arc<Mailbox>,
    memory: CommandMemory,
    /// Bytes of `memory`.
    held_bytes: usize,
    /// Answers that wait until earlier ones are sent, or for memory, with their sizes.
    waiting: VecDeque<(Tag, u32)>,
    /// The first of them waits for memory.
    pub(super) is_starved: bool,
    quiescing: Quiescing,
    /// A further reset or shutdown that was asked for meanwhile, with or without a flush.
    quiesce_next: VecDeque<bool>,
    timer: TimerSlot,
    /// For when the host authenticates anew.
    pub(super) authenticating: Option<Box<Authenticating>>,
    /// Commands have come in this turn.
    has_heard: bool,
    /// When the host has to have come again with TLS, for which it has got a key.
    tls_by: Option<Time>,
    /// When to look whether it has connected the queues that it was granted.
    lapses: Option<Duration>,
    /// The association is over: all connections of the controller are to be closed.
    over: bool,
    /// I/O queues that the end of the association waits for.
    stopping: Vec<Qid>,
    ended: bool,
}

impl AdminSession {
    pub(super) fn new(
        control: ControllerCore,
        id: ControllerId,
        shared: Arc<TargetState>,
        mailbox: Arc<Mailbox>,
        budget: Budget,
    ) -> Self {
        let entries = control.entries();
        Self {
            control,
            id,
            shared,
            mailbox,
            memory: CommandMemory::new(entries as usize, budget),
            held_bytes: 0,
            waiting: VecDeque::new(),
            is_starved: false,
            quiescing: Quiescing::No,
            quiesce_next: VecDeque::new(),
            timer: TimerSlot::default(),
            authenticating: None,
            has_heard: false,
            tls_by: None,
            lapses: None,
            over: false,
            stopping: Vec::new(),
            ended: false,
        }
    }

    pub(super) fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        self.memory.piece_mut(tag, offset, len)
    }

    pub(super) fn memory(&self, tag: Tag, offset: u32, len: u32) -> Option<&[u8]> {
        self.memory.piece(tag, offset, len)
    }

    pub(super) fn event(&mut self, on: &Handle, engine: &mut impl Engine, event: Event) -> Flow {
        match event {
            Event::DataArrived { tag } => self.fetched(on, engine, tag, true),
            Event::DataFailed { tag } => self.fetched(on, engine, tag, false),
            Event::Dropped { tag } => self.free(tag),
            Event::Command { .. } => {}
        }
        if let Event::Command { tag, in_capsule_bytes } = event {
            self.has_heard = true;
            let sqe = *engine.sqe();
            if self.exchange(on, engine, tag, &sqe, in_capsule_bytes) {
                self.control.passed(on.now().since_epoch());
                return Flow::Continue;
            }
            self.heed_key(on);
            let now = on.now().since_epoch();
            let next = self.control.start_with(now, tag, &sqe, in_capsule_bytes);
            match next {
                Next::Produce { bytes } => {
                    self.waiting.push_back((tag, bytes));
                    self.produce_some(on, engine);
                }
                Next::Reply { cqe, data_bytes } => self.reply(engine, tag, cqe, data_bytes),
                Next::Fetch { bytes } => self.fetch(on, engine, tag, bytes),
                Next::Hold => {}
            }
        }
        Flow::Continue
    }

    /// Asks for the host's data of a command: little of it.
    fn fetch(&mut self, on: &Handle, engine: &mut impl Engine, tag: Tag, bytes: u32) {
        let fetched = match self.memory.buffer(on, bytes as usize) {
            Some(buf) => {
                self.held_bytes += buf.len();
                *self.memory.at(tag) = Segments::from_iter([buf.into()]);
                engine.fetch(tag, bytes)
            }
            None => Err(Status::INTERNAL_ERROR),
        };
        if let Err(status) = fetched
            && let Next::Reply { cqe, data_bytes } = self.control.data(tag, Err(status))
        {
            self.reply(engine, tag, cqe, data_bytes);
        }
    }

    /// The data of a command has come, if it `is_whole`.
    fn fetched(&mut self, on: &Handle, engine: &mut impl Engine, tag: Tag, is_whole: bool) {
        if self.arrived(on, engine, tag, is_whole) {
            return;
        }
        let data = match is_whole {
            true => Ok(self.memory.first(tag)),
            false => Err(Status::TRANSIENT_TRANSPORT_ERROR),
        };
        if let Next::Reply { cqe, data_bytes } = self.control.data(tag, data) {
            self.reply(engine, tag, cqe, data_bytes);
        }
    }

    /// Makes the data of those answers for which there is room. Most fit into what is guaranteed to
    /// each connection, so that they do not wait for I/O's memory.
    pub(super) fn produce_some(&mut self, on: &Handle, engine: &mut impl Engine) {
        self.is_starved = false;
        let fits =
            |held: usize, bytes: u32| held == 0 || held + bytes as usize <= ADMIN_ANSWER_BYTES;
        while let Some((tag, bytes)) =
            self.waiting.pop_front_if(|(_, bytes)| fits(self.held_bytes, *bytes))
        {
            let Some(mut buf) = self.memory.buffer(on, bytes as usize) else {
                self.is_starved = true;
                return self.waiting.push_front((tag, bytes));
            };
            let next = self.control.produce(on.now().since_epoch(), tag, &mut buf);
            self.held_bytes += buf.len();
            *self.memory.at(tag) = Segments::from_iter([buf.into()]);
            if let Next::Reply { cqe, data_bytes } = next {
                self.reply(engine, tag, cqe, data_bytes);
            }
        }
    }

    fn reply(&mut self, engine: &mut impl Engine, tag: Tag, cqe: Cqe, data_bytes: u32) {
        if data_bytes == 0 {
            self.free(tag);
        }
        engine.complete(tag, cqe, data_bytes);
    }

    fn free(&mut self, tag: Tag) {
        self.held_bytes -= self.memory.len(tag);
        self.memory.free(tag);
    }

    pub(super) fn released(&mut self, on: &Handle, engine: &mut impl Engine, tag: Tag) {
        self.free(tag);
        engine.sent(tag);
        self.produce_some(on, engine);
    }

    /// Events of the controller, the course of a reset; tells whether something happened.
    pub(super) fn work(&mut self, on: &Handle, id: DriverId, engine: &mut impl Engine) -> bool {
        let mut busy = false;
        if core::mem::take(&mut self.has_heard) {
            self.control.answered(on.clock().since_epoch());
        }
        self.go_on_quiescing(on, id);
        while let Some(event) = self.control.poll(on.now().since_epoch()) {
            busy = true;
            self.control_event(on, engine, event);
            self.go_on_quiescing(on, id);
        }
        self.heed_key(on);
        if self.lapses.is_some_and(|at| on.now().since_epoch() >= at) {
            self.lapses = self.shared.lapse(on.now().since_epoch(), self.id);
        }
        let deadline = [self.control.deadline(), self.tls_by.map(Time::since_epoch), self.lapses]
            .into_iter()
            .flatten()
            .min();
        if let Some(deadline) = deadline.filter(|_| !self.over) {
            // To the full second, which is as exact as keep alive is: a thousand quiet hosts wake
            // the loop once a second.
            self.timer.arm(on, id, Time::from_epoch(Duration::from_secs(deadline.as_secs() + 1)));
        }
        busy
    }

    /// A host that has got a key for TLS over a plain connection is to come again with it, soon.
    fn heed_key(&mut self, on: &Handle) {
        match self.tls_by {
            None if self.authenticating.as_ref().is_some_and(|it| it.has_made_key()) => {
                self.control.await_tls();
                self.tls_by = Some(on.now() + Duration::from_secs(CONCATENATION_PLAIN_S));
            }
            Some(by) if on.now() >= by && !self.over => {
                self.over = true;
                let host = self.control.host();
                let text = || {
                    format!(
                        "host {host}: has not come again with TLS within {CONCATENATION_PLAIN_S} s; connection closed"
                    )
                };
                self.shared.members.refusals().log(on.now().since_epoch(), text);
            }
            _ => {}
        }
    }

    /// Another connection, or a change of what is served, tells it something.
    pub(super) fn own_message(&mut self, message: NvmeMessage) {
        match message {
            NvmeMessage::Namespaces(view) => self.control.namespaces_changed(view.table),
            NvmeMessage::Discovery(log) => self.control.discovery_changed(log),
            NvmeMessage::Aborted { ticket, aborted } => self.control.abort_result(ticket, aborted),
            NvmeMessage::Quiet(qid) => {
                self.stopping.retain(|&waiting| waiting != qid);
                if let Quiescing::Stopping { left, .. } = &mut self.quiescing {
                    left.retain(|&waiting| waiting != qid);
                }
            }
            NvmeMessage::CrossResetOver(named) => self.control.cross_reset_over(named),
            NvmeMessage::Notice { nsid, notice } => self.control.reservation_changed(nsid, notice),
            NvmeMessage::Persisted { ticket, outcome } => self.control.persisted(ticket, outcome),
            NvmeMessage::Abort { .. }
            | NvmeMessage::Reserved { .. }
            | NvmeMessage::Preempted { .. }
            | NvmeMessage::AssociationEnded
            | NvmeMessage::Computed(_) => {}
        }
    }

    fn control_event(&mut self, on: &Handle, engine: &mut impl Engine, event: ControlEvent) {
        match event {
            ControlEvent::Reply { tag, cqe } => self.reply(engine, tag, cqe, 0),
            ControlEvent::Quiesce { flush } => self.quiesce(flush),
            ControlEvent::Abort { ticket, sqid, cid } => {
                let answer = AbortAnswer::new(ticket, &self.mailbox);
                match self.shared.queue_mailbox(self.id, sqid) {
                    Some(queue) => queue.post(Message::Own(NvmeMessage::Abort { cid, answer })),
                    None => answer.give(false),
                }
            }
            ControlEvent::Queues { ticket, wanted } => {
                let now = on.now().since_epoch();
                let granted = self.shared.grant_queues(now, self.id, wanted);
                self.control.queues_allocated(ticket, granted);
                self.lapses = self.shared.lapse(now, self.id);
            }
            ControlEvent::CrossReset(named) => {
                let found = self.shared.cross_reset(self.id, named, &self.mailbox);
                self.control.cross_reset(named, found);
            }
            ControlEvent::Persist { ticket, nsid, persist } => self.persist(ticket, nsid, persist),
            ControlEvent::KeepAliveExpired => {
                self.shared.inventory.statistics().keep_alive_expired();
                let host = self.control.host();
                let text = || format!("host {host}: keep alive expired, ending its association");
                self.shared.expired.log(on.now().since_epoch(), text);
                self.over = true;
            }
        }
    }

    /// The host wants the reservations of a namespace to outlast a restart, or not.
    fn persist(&mut self, ticket: ReservationTicket, nsid: Nsid, persist: bool) {
        let view = self.shared.view(self.id);
        let Some(of) = view.as_ref().and_then(|view| view.reservations_of(nsid)) else {
            return self.control.persisted(ticket, Err(ReservationRefusal::Conflict));
        };
        let mailbox = Arc::clone(&self.mailbox);
        let answer =
            move |outcome| mailbox.post(Message::Own(NvmeMessage::Persisted { ticket, outcome }));
        of.execute(self.control.persistence(persist), Box::new(answer));
    }

    fn quiesce(&mut self, flush: bool) {
        if !matches!(self.quiescing, Quiescing::No) {
            return self.quiesce_next.push_back(flush);
        }
        let left = self.shared.stop_queues(self.id);
        self.quiescing = Quiescing::Stopping { left, flush };
    }

    /// The host sees the reset done only when no device holds anything of its I/O queues any more,
    /// and the shutdown only when what was written is durable.
    fn go_on_quiescing(&mut self, on: &Handle, id: DriverId) {
        if let Quiescing::Stopping { left, flush } = &self.quiescing
            && left.is_empty()
        {
            let view = if *flush { self.shared.view(self.id) } else { None };
            let devices: Vec<_> =
                view.iter().flat_map(|view| view.devices.iter().flatten().cloned()).collect();
            self.quiescing = Quiescing::Flushing(Flush::new(&devices));
        }
        if let Quiescing::Flushing(flush) = &mut self.quiescing
            && flush.go_on(on, id)
        {
            self.quiescing = Quiescing::No;
            self.control.quiesced(on.now().since_epoch());
            if let Some(flush) = self.quiesce_next.pop_front() {
                self.quiesce(flush);
                on.wake(id);
            }
        }
    }

    /// The connection is gone: ends the association. Tells whether it has ended, so that no device
    /// holds anything of it any more.
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

impl AdminSession {
    /// Whether the association ends, as its host did not prove anew who it is.
    pub(super) fn is_over(&self) -> bool {
        self.over || self.authenticating.as_ref().is_some_and(|it| it.is_over())
    }
}

impl<E: Engine> Exchange<E> for AdminSession {
    fn authenticating(&mut self) -> Option<&mut Authenticating> {
        self.authenticating.as_deref_mut()
    }

    fn room(&mut self, on: &Handle, tag: Tag, bytes: usize) -> Option<&mut [u8]> {
        let buf = self.memory.buffer(on, bytes)?;
        self.held_bytes += buf.len();
        *self.memory.at(tag) = Segments::from_iter([buf.into()]);
        self.memory.piece_mut(tag, 0, bytes as u32)
    }

    fn message(&self, tag: Tag) -> Vec<u8> {
        self.memory.first(tag).to_vec()
    }

    fn answer(&mut self, engine: &mut E, tag: Tag, cqe: Cqe, data_bytes: u32) {
        let cqe = self.control.stamped(cqe);
        self.reply(engine, tag, cqe, data_bytes);
    }
}
