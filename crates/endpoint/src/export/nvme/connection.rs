//! One connection of a host, from accept to its end: before Connect on the loop that accepted it,
//! then on the loop of its queue.

use super::admin_session::AdminSession;
use super::admission::{Admitted, Queue};
use super::authenticating::{Authenticating, Exchange};
use super::authentication_session::Answer;
use super::counting;
use super::io_reserve::Reserving;
use super::io_session::IoSession;
use super::mailbox::{Mailbox, Told};
use super::new_session::NewSession;
use super::session::Session;
use super::target_state::TargetState;
use super::transport::{Engine, Link};
use crate::export::budget::Budget;
use crate::export::device_side::DeviceSide;
use crate::export::devices::OpenDevices;
use crate::export::dialect::Dialect;
use crate::export::driver::{self, Place, Service};
use crate::export::seats::Newcomer;
use crate::psk::Proven;
use std::marker::PhantomData;
use std::sync::Arc;
use weft_io::{DriverId, Handle};
use weft_proto::nvme::controller::Port;
use weft_proto::nvme::status::Status;

/// What a connection is for, over links of this kind.
pub(crate) struct Connection<L> {
    pub(super) id: DriverId,
    pub(super) session: Session,
    pub(super) shared: Arc<TargetState>,
    pub(super) mailbox: Arc<Mailbox>,
    /// Outstanding commands end, then the connection closes.
    draining: bool,
    /// Before its queue is served.
    pub(super) newcomer: Option<Newcomer>,
    link: PhantomData<fn() -> L>,
}

impl<L: Link> Connection<L> {
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
                Session::New(NewSession::new(port, proven)),
                Arc::clone(shared),
                mailbox,
            );
            Self { newcomer: Some(newcomer), ..new }
        });
    }

    fn new(
        id: DriverId,
        session: Session,
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
                Session::Admin(Box::new(AdminSession::new(
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
                Session::Io(Box::new(session))
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
        session: &mut Session,
        anew: Option<Box<Authenticating>>,
        answer: Answer,
    ) {
        let Answer { tag, mut cqe, data, .. } = answer;
        let room = match session {
            _ if data.is_empty() || !cqe.status.is_success() => None,
            Session::Admin(admin) => Exchange::<L::Engine>::room(&mut **admin, on, tag, data.len()),
            Session::Io(io) => Exchange::<L::Engine>::room(&mut **io, on, tag, data.len()),
            Session::New(_) | Session::Authenticating(_) => None,
        };
        let data_bytes = room.map_or(0, |room| {
            room.copy_from_slice(&data);
            data.len() as u32
        });
        if !data.is_empty() && data_bytes == 0 {
            cqe.status = Status::INTERNAL_ERROR;
        }
        match session {
            Session::Admin(admin) => admin.authenticating = anew,
            Session::Io(io) => io.authenticating = anew,
            Session::New(_) | Session::Authenticating(_) => {}
        }
        link.engine().complete(tag, cqe, data_bytes);
    }
}

impl<L: Link> Service for Connection<L> {
    type Link = L;
    type Handler = Session;
    type Session = IoSession;
    type Own = Told;

    #[inline]
    fn handler(&mut self) -> &mut Session {
        &mut self.session
    }

    #[inline]
    fn session(&mut self) -> Option<&mut IoSession> {
        if let Session::Io(io) = &mut self.session { Some(io) } else { None }
    }

    fn host(&self, _: &L) -> Option<String> {
        self.shared.names(self.session.controller()?).map(|(_, host)| host)
    }

    fn told(&mut self, on: &Handle, link: &mut L, told: Told) {
        match (&mut self.session, told) {
            (Session::Io(io), Told::Namespaces(view)) => {
                io.set_view(on, self.id, link.engine(), view)
            }
            (Session::Io(io), Told::Abort { cid, answer }) => io.abort(link.engine(), cid, answer),
            (Session::Io(io), Told::Reserved { tag, outcome }) => {
                io.reserved(on, link.engine(), tag, outcome)
            }
            (Session::Io(io), Told::Preempted { nsid, pending }) => {
                io.preempted(on, link.engine(), nsid, pending)
            }
            (Session::New(new), Told::AssociationEnded) => new.set_waits(false),
            (session, Told::Computed(computed)) => session.computed(on, link.engine(), computed),
            (Session::Authenticating(it), told) => it.told(told),
            (Session::Admin(admin), told) => admin.told(told),
            (Session::Io(_) | Session::New(_), _) => {}
        }
    }

    /// Admin queues stay, for Aborts and Keep Alive.
    fn drain(&mut self, link: &mut L) {
        match &mut self.session {
            Session::Io(io) => {
                self.draining = true;
                io.side.drain();
            }
            Session::Admin(_) => {}
            Session::New(_) | Session::Authenticating(_) => link.close(),
        }
    }

    fn stop(&mut self, link: &mut L) {
        match &mut self.session {
            Session::Io(io) => io.stop(link.engine()),
            Session::Admin(_) | Session::New(_) | Session::Authenticating(_) => {}
        }
        link.close();
    }

    #[inline]
    fn follow_devices(&mut self, _: &mut L) {
        if let Session::Io(io) = &mut self.session {
            io.side.tell_changes(&self.shared.inventory);
        }
    }

    #[inline]
    fn is_starved(&mut self) -> bool {
        match &self.session {
            Session::Io(io) => io.side.is_starved(),
            Session::Admin(admin) => admin.is_starved,
            Session::New(_) | Session::Authenticating(_) => false,
        }
    }

    fn feed(&mut self, on: &Handle, link: &mut L) {
        match &mut self.session {
            Session::Io(io) => io.feed(on, link.engine()),
            Session::Admin(admin) => admin.produce_some(on, link.engine()),
            Session::New(_) | Session::Authenticating(_) => {}
        }
    }

    fn may_resume(&mut self, _: &mut L) -> bool {
        // A Connect is resumed by its answer.
        matches!(&self.session, Session::Io(io) if !io.side.is_stuck())
    }

    #[inline]
    fn work(&mut self, on: &Handle, link: &mut L) -> bool {
        let (busy, id, noted) = match &mut self.session {
            Session::Io(io) => {
                (io.work(on, link.engine()), io.controller, io.queue.take_deviations())
            }
            Session::Admin(admin) => {
                let busy = admin.work(on, self.id, link.engine());
                (busy, admin.id, admin.control.take_deviations())
            }
            Session::New(_) | Session::Authenticating(_) => return false,
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
            Session::Io(io) => {
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
            Session::Admin(admin) => {
                if admin.is_over() {
                    link.close();
                }
                false
            }
            Session::New(new) => new.has_connect(),
            Session::Authenticating(it) => match it.end(on) {
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
            Session::New(new) => {
                if new.check_identity().is_ok()
                    && new.wants_admin_queue()
                    && self.shared.holds_back(new.data(), &self.mailbox)
                {
                    new.set_waits(true);
                    return Place::Here(link);
                }
                self.connect(on, link)
            }
            Session::Authenticating(it) => match it.take() {
                Some((admitted, answer)) => self.proved(on, link, admitted, answer),
                None => Place::Here(link),
            },
            Session::Admin(_) | Session::Io(_) => Place::Here(link),
        }
    }

    #[inline]
    fn awaits_sending(&self, _: &L) -> bool {
        match &self.session {
            Session::Io(io) => self.draining || io.has_aborts(),
            Session::Authenticating(_) => true,
            Session::New(_) | Session::Admin(_) => false,
        }
    }

    #[inline]
    fn settles(&self) -> bool {
        matches!(self.session, Session::Io(_))
    }

    fn end(&mut self, link: &mut L) -> bool {
        match &mut self.session {
            Session::Io(io) => {
                io.stop(link.engine());
                let quiet = io.side.is_quiet();
                if quiet {
                    self.shared.queue_gone(io.controller, io.queue.qid());
                }
                quiet
            }
            Session::Admin(admin) => admin.end(),
            Session::Authenticating(it) => {
                it.give_up();
                true
            }
            Session::New(_) => true,
        }
    }

    fn violation(link: &mut L) -> Option<String> {
        link.violation().map(|violation| format!("the host violated the protocol: {violation}"))
    }
}
