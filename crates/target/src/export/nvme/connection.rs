//! One connection of a host, from accept to its end: before Connect on the loop that accepted it,
//! then on the loop of its queue.

use super::admin_session::AdminSession;
use super::admission::{Admitted, Queue};
use super::authenticating::{Authenticating, Exchange};
use super::authentication_session::Answer;
use super::counting;
use super::io_reserve::Reserving;
use super::io_session::IoSession;
use super::mailbox::{Mailbox, NvmeMessage};
use super::new_session::NewSession;
use super::session::NvmeLink;
use super::session::NvmeSession;
use super::target_state::TargetState;
use super::transport::Engine;
use crate::export::budget::Budget;
use crate::export::connection_limit::Newcomer;
use crate::export::device_side::DeviceSide;
use crate::export::devices::OpenDevices;
use crate::export::dialect::Dialect;
use crate::export::driver::{self, Place, Service};
use std::marker::PhantomData;
use std::sync::Arc;
use weft_connection::psk::Proven;
use weft_io::{DriverId, Handle};
use weft_proto::nvme::controller::Port;
use weft_proto::nvme::status::Status;

/// What a connection is for, over links of this kind.
pub(crate) struct NvmeConnection<L> {
    pub(super) id: DriverId,
    pub(super) session: NvmeSession,
    pub(super) shared: Arc<TargetState>,
    pub(super) mailbox: Arc<Mailbox>,
    /// Outstanding commands end, then the connection closes.
    draining: bool,
    /// Before its queue is served.
    pub(super) newcomer: Option<Newcomer>,
    link: PhantomData<fn() -> L>,
}

impl<L: NvmeLink> NvmeConnection<L> {
    /// Takes an accepted connection, on this loop, if there is room for it. One that is encrypted
    /// has a `proven` other end.
    pub(crate) fn accept(
        on: &Handle,
        link: L,
        shared: &Arc<TargetState>,
        port: Port,
        proven: Option<Proven>,
    ) {
        driver::accept_on(on, link, &shared.members, |id, _, mailbox, newcomer| {
            let new = Self::new(
                id,
                NvmeSession::New(NewSession::new(port, proven)),
                Arc::clone(shared),
                mailbox,
            );
            Self { newcomer: Some(newcomer), ..new }
        });
    }

    fn new(
        id: DriverId,
        session: NvmeSession,
        shared: Arc<TargetState>,
        mailbox: &Arc<Mailbox>,
    ) -> Self {
        Self {
            id,
            session,
            shared,
            mailbox: Arc::clone(mailbox),
            draining: false,
            newcomer: None,
            link: PhantomData,
        }
    }

    /// On the loop of its queue: opens the devices and gives the answer by which the queue opens.
    pub(super) fn serve(
        on: &Handle,
        id: DriverId,
        link: &mut L,
        mailbox: &Arc<Mailbox>,
        admitted: Admitted,
        answer: Answer,
    ) -> Self {
        let Admitted { controller, queue, claim, authentication, .. } = admitted;
        let shared = claim.served();
        let budget = Budget::new(on, &link.peer());
        let Answer { tag, mut cqe, data, begins } = answer;
        if let Some((entries, flow_control)) = begins {
            link.engine().begin_queue(entries, flow_control);
        }
        let mut session = match queue {
            Queue::Admin(control) => {
                let (shared, mailbox) = (Arc::clone(&shared), Arc::clone(mailbox));
                NvmeSession::Admin(Box::new(AdminSession::new(
                    *control, controller, shared, mailbox, budget,
                )))
            }
            Queue::Io(queue, view) => {
                let host = shared.names(controller).map(|(_, host)| host).unwrap_or_default();
                let rate = shared.inventory.rate_of(&host);
                let devices = OpenDevices::open(&view.devices, rate, on, id).unwrap_or_else(|e| {
                    let text = || format!("{}: I/O queue {}: {e}", link.peer(), queue.qid());
                    shared.members.refusals().log(on.now().since_epoch(), text);
                    (cqe.status, cqe.do_not_retry) = (Status::INTERNAL_ERROR, true);
                    OpenDevices::default()
                });
                let (meter, subsystem) = counting::enter(
                    &shared,
                    controller,
                    (L::PROTOCOL, &link.peer(), link.encrypted_by()),
                    &queue,
                    &view,
                );
                let reserving = Reserving::new(mailbox, view.reservations, &shared);
                let side = DeviceSide::new(devices, queue.entries() as usize, budget, meter);
                let session = IoSession::new(controller, *queue, side, subsystem, reserving);
                NvmeSession::Io(Box::new(session))
            }
        };
        Self::open(on, link, &mut session, authentication, Answer { tag, cqe, data, begins });
        link.resume();
        Self::new(id, session, shared, mailbox)
    }

    /// Gives the answer, from memory of the queue's own.
    fn open(
        on: &Handle,
        link: &mut L,
        session: &mut NvmeSession,
        exchange: Option<Box<Authenticating>>,
        answer: Answer,
    ) {
        let Answer { tag, mut cqe, data, .. } = answer;
        let room = match session {
            _ if data.is_empty() || !cqe.status.is_success() => None,
            NvmeSession::Admin(admin) => {
                Exchange::<L::Engine>::room(&mut **admin, on, tag, data.len())
            }
            NvmeSession::Io(io) => Exchange::<L::Engine>::room(&mut **io, on, tag, data.len()),
            NvmeSession::New(_) | NvmeSession::Authenticating(_) => None,
        };
        let data_bytes = room.map_or(0, |room| {
            room.copy_from_slice(&data);
            data.len() as u32
        });
        if !data.is_empty() && data_bytes == 0 {
            cqe.status = Status::INTERNAL_ERROR;
        }
        match session {
            NvmeSession::Admin(admin) => admin.authenticating = exchange,
            NvmeSession::Io(io) => io.authenticating = exchange,
            NvmeSession::New(_) | NvmeSession::Authenticating(_) => {}
        }
        link.engine().complete(tag, cqe, data_bytes);
    }
}

impl<L: NvmeLink> Service for NvmeConnection<L> {
    type Link = L;
    type Handler = NvmeSession;
    type Session = IoSession;
    type Own = NvmeMessage;

    #[inline]
    fn handler(&mut self) -> &mut NvmeSession {
        &mut self.session
    }

    #[inline]
    fn session(&mut self) -> Option<&mut IoSession> {
        if let NvmeSession::Io(io) = &mut self.session { Some(io) } else { None }
    }

    fn host(&self, _: &L) -> Option<String> {
        self.shared.names(self.session.controller()?).map(|(_, host)| host)
    }

    fn own_message(&mut self, on: &Handle, link: &mut L, message: NvmeMessage) {
        match (&mut self.session, message) {
            (NvmeSession::Io(io), NvmeMessage::Namespaces(view)) => {
                io.set_view(on, self.id, link.engine(), view)
            }
            (NvmeSession::Io(io), NvmeMessage::Abort { cid, answer }) => {
                io.abort(link.engine(), cid, answer)
            }
            (NvmeSession::Io(io), NvmeMessage::Reserved { tag, outcome }) => {
                io.reserved(on, link.engine(), tag, outcome)
            }
            (NvmeSession::Io(io), NvmeMessage::Preempted { nsid, pending }) => {
                io.preempted(on, link.engine(), nsid, pending)
            }
            (NvmeSession::New(new), NvmeMessage::AssociationEnded) => new.set_waits(false),
            (session, NvmeMessage::Computed(computed)) => {
                session.computed(on, link.engine(), computed)
            }
            (NvmeSession::Authenticating(it), message) => it.own_message(message),
            (NvmeSession::Admin(admin), message) => admin.own_message(message),
            (NvmeSession::Io(_) | NvmeSession::New(_), _) => {}
        }
    }

    /// Admin queues stay, for Aborts and Keep Alive.
    fn drain(&mut self, link: &mut L) {
        match &mut self.session {
            NvmeSession::Io(io) => {
                self.draining = true;
                io.side.drain();
            }
            NvmeSession::Admin(_) => {}
            NvmeSession::New(_) | NvmeSession::Authenticating(_) => link.close(),
        }
    }

    fn stop(&mut self, link: &mut L) {
        match &mut self.session {
            NvmeSession::Io(io) => io.stop(link.engine()),
            NvmeSession::Admin(_) | NvmeSession::New(_) | NvmeSession::Authenticating(_) => {}
        }
        link.close();
    }

    #[inline]
    fn follow_devices(&mut self, _: &mut L) {
        if let NvmeSession::Io(io) = &mut self.session {
            io.side.tell_changes(&self.shared.inventory);
        }
    }

    #[inline]
    fn is_starved(&mut self) -> bool {
        match &self.session {
            NvmeSession::Io(io) => io.side.is_starved(),
            NvmeSession::Admin(admin) => admin.is_starved,
            NvmeSession::New(_) | NvmeSession::Authenticating(_) => false,
        }
    }

    fn feed(&mut self, on: &Handle, link: &mut L) {
        match &mut self.session {
            NvmeSession::Io(io) => io.feed(on, link.engine()),
            NvmeSession::Admin(admin) => admin.produce_some(on, link.engine()),
            NvmeSession::New(_) | NvmeSession::Authenticating(_) => {}
        }
    }

    fn may_resume(&mut self, _: &mut L) -> bool {
        // A Connect is resumed by its answer.
        matches!(&self.session, NvmeSession::Io(io) if !io.side.is_stuck())
    }

    #[inline]
    fn work(&mut self, on: &Handle, link: &mut L) -> bool {
        let (busy, id, noted) = match &mut self.session {
            NvmeSession::Io(io) => {
                (io.work(on, link.engine()), io.controller, io.queue.take_deviations())
            }
            NvmeSession::Admin(admin) => {
                let busy = admin.work(on, self.id, link.engine());
                (busy, admin.id, admin.control.take_deviations())
            }
            NvmeSession::New(_) | NvmeSession::Authenticating(_) => return false,
        };
        for noted in [noted, link.take_deviations()] {
            if !noted.is_empty() {
                self.shared.remark(id, noted);
            }
        }
        busy
    }

    #[inline]
    fn advance(&mut self, on: &Handle, link: &mut L) -> bool {
        match &mut self.session {
            NvmeSession::Io(io) => {
                if io.has_aborts() {
                    let queued = link.engine().queued();
                    io.settle_aborts(queued, link.sent());
                }
                let is_drained = self.draining && io.queue.outstanding() == 0 && !link.has_unsent();
                if is_drained || io.is_over() {
                    link.close();
                }
                false
            }
            NvmeSession::Admin(admin) => {
                if admin.is_over() {
                    link.close();
                }
                false
            }
            NvmeSession::New(new) => new.has_connect(),
            NvmeSession::Authenticating(it) => match it.end(on) {
                None => it.is_ready() && !link.has_unsent(),
                Some(why) => {
                    let log =
                        |why| self.shared.members.refusals().log(on.now().since_epoch(), || why);
                    why.into_iter().for_each(log);
                    link.close();
                    false
                }
            },
        }
    }

    /// Connect's data is there, or the host has proved who it is.
    fn replace(&mut self, on: &Handle, link: L) -> Place<Self> {
        match &mut self.session {
            NvmeSession::New(new) => {
                if new.check_identity().is_ok()
                    && new.wants_admin_queue()
                    && self.shared.holds_back(new.data(), &self.mailbox)
                {
                    new.set_waits(true);
                    return Place::Here(link);
                }
                self.connect(on, link)
            }
            NvmeSession::Authenticating(it) => match it.take() {
                Some((admitted, answer)) => self.proved(on, link, admitted, answer),
                None => Place::Here(link),
            },
            NvmeSession::Admin(_) | NvmeSession::Io(_) => Place::Here(link),
        }
    }

    #[inline]
    fn awaits_sending(&self, _: &L) -> bool {
        match &self.session {
            NvmeSession::Io(io) => self.draining || io.has_aborts(),
            NvmeSession::Authenticating(_) => true,
            NvmeSession::New(_) | NvmeSession::Admin(_) => false,
        }
    }

    #[inline]
    fn settles(&self) -> bool {
        matches!(self.session, NvmeSession::Io(_))
    }

    fn end(&mut self, link: &mut L) -> bool {
        match &mut self.session {
            NvmeSession::Io(io) => {
                io.stop(link.engine());
                let quiet = io.side.is_quiet();
                if quiet {
                    self.shared.queue_gone(io.controller, io.queue.qid());
                }
                quiet
            }
            NvmeSession::Admin(admin) => admin.end(),
            NvmeSession::Authenticating(it) => {
                it.give_up();
                true
            }
            NvmeSession::New(_) => true,
        }
    }

    fn violation(link: &mut L) -> Option<String> {
        link.violation().map(|violation| format!("the host violated the protocol: {violation}"))
    }
}
