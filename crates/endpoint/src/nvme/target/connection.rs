//! One connection of a host, from accept to its end: before Connect on the loop that accepted it, then on the loop of its queue.

use super::admin_session::AdminSession;
use super::admission::{Admitted, Queue};
use super::counting::Counting;
use super::io_reserve::Reserving;
use super::io_session::IoSession;
use super::mailbox::{Mailbox, Told};
use super::new_session::NewSession;
use super::session::Session;
use super::shared::Shared;
use super::transport::{Engine, Link};
use crate::export::budget::Budget;
use crate::export::devices::OpenDevices;
use crate::export::driver::{self, Place, Service};
use crate::export::members::Message;
use crate::export::seats::Newcomer;
use std::marker::PhantomData;
use std::sync::Arc;
use weft_io::{DriverId, Handle};
use weft_proto::nvme::controller::{Port, connect_names};
use weft_proto::nvme::status::Status;
use weft_proto::stream::Tag;

/// What a connection is for, over links of this kind.
pub(crate) struct Connection<L> {
    id: DriverId,
    session: Session,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    /// Outstanding commands end, then the connection closes.
    draining: bool,
    /// Before Connect.
    _newcomer: Option<Newcomer>,
    link: PhantomData<fn() -> L>,
}

impl<L: Link> Connection<L> {
    /// Takes an accepted connection, on this loop, if there is room for it.
    pub(crate) fn accept(on: &Handle, link: L, shared: &Arc<Shared>, port: Port) {
        driver::accept_on(on, link, &shared.members, |id, _, mailbox, newcomer| {
            let new = Self::new(id, Session::New(NewSession::new(port)), Arc::clone(shared), mailbox);
            Self { _newcomer: Some(newcomer), ..new }
        });
    }

    fn new(id: DriverId, session: Session, shared: Arc<Shared>, mailbox: &Arc<Mailbox>) -> Self {
        Self { id, session, shared, mailbox: Arc::clone(mailbox), draining: false, _newcomer: None, link: PhantomData }
    }

    /// On the loop of its queue: opens the devices and answers Connect, which was `tag`.
    fn serve(on: &Handle, id: DriverId, link: &mut L, mailbox: &Arc<Mailbox>, admitted: Admitted, tag: Tag) -> Self {
        let Admitted { controller, queue, mut cqe, claim } = admitted;
        let shared = claim.served();
        let budget = Budget::new(on, &link.peer());
        let session = match queue {
            Queue::Admin(control) => {
                link.engine().begin_queue(control.entries() as u16, true);
                {
                    let (shared, mailbox) = (Arc::clone(&shared), Arc::clone(mailbox));
                    Session::Admin(Box::new(AdminSession::new(*control, controller, shared, mailbox, budget)))
                }
            }
            Queue::Io(queue, view) => {
                link.engine().begin_queue(queue.entries() as u16, queue.has_flow_control());
                let host = shared.names(controller).map(|(_, host)| host).unwrap_or_default();
                let rate = shared.inventory.host_limits().of(&host);
                let devices = OpenDevices::open(&view.devices, rate, on, id).unwrap_or_else(|e| {
                    tracing::error!("I/O queue {}: {e}", queue.qid());
                    (cqe.status, cqe.do_not_retry) = (Status::INTERNAL_ERROR, true);
                    OpenDevices::default()
                });
                let counting = Counting::new(&shared, controller, (L::PROTOCOL, &link.peer()), &queue, &view);
                let reserving = Reserving::new(mailbox, view.reservations);
                Session::Io(Box::new(IoSession::new(controller, *queue, devices, budget, counting, reserving)))
            }
        };
        link.engine().complete(tag, cqe, 0);
        link.resume();
        Self::new(id, session, shared, mailbox)
    }
}

impl<L: Link> Service for Connection<L> {
    type Link = L;
    type Handler = Session;
    type Own = Told;

    #[inline]
    fn handler(&mut self) -> &mut Session {
        &mut self.session
    }

    fn told(&mut self, on: &Handle, link: &mut L, told: Told) {
        match (&mut self.session, told) {
            (Session::Io(io), Told::Namespaces(view)) => io.set_view(on, self.id, link.engine(), view),
            (Session::Io(io), Told::Abort { ticket, cid, reply_to }) => {
                let aborted = io.abort(link.engine(), cid);
                reply_to.post(Message::Own(Told::Aborted { ticket, aborted }));
            }
            (Session::Io(io), Told::Reserved { tag, outcome }) => io.reserved(on, link.engine(), tag, outcome),
            (Session::Io(io), Told::Preempted { nsid, pending }) => io.preempted(on, link.engine(), nsid, pending),
            (Session::New(new), Told::AssociationEnded) => new.set_waits(false),
            (Session::Admin(admin), told) => admin.told(told),
            (Session::Io(_) | Session::New(_), _) => {}
        }
    }

    /// Admin queues stay, for Aborts and Keep Alive.
    fn drain(&mut self, link: &mut L) {
        match &mut self.session {
            Session::Io(io) => {
                self.draining = true;
                io.drain();
            }
            Session::Admin(_) => {}
            Session::New(_) => link.close(),
        }
    }

    fn stop(&mut self, link: &mut L) {
        match &mut self.session {
            Session::Io(io) => io.stop(link.engine()),
            Session::Admin(_) | Session::New(_) => {}
        }
        link.close();
    }

    #[inline]
    fn follow_devices(&mut self, _: &mut L) {
        let Session::Io(io) = &mut self.session else { return };
        while let Some((device, change)) = io.change() {
            self.shared.inventory.device_changed(&device, change);
        }
    }

    #[inline]
    fn is_starved(&self) -> bool {
        match &self.session {
            Session::Io(io) => io.is_starved(),
            Session::Admin(admin) => admin.is_starved,
            Session::New(_) => false,
        }
    }

    fn feed(&mut self, on: &Handle, link: &mut L) {
        match &mut self.session {
            Session::Io(io) => io.feed(on, link.engine()),
            Session::Admin(admin) => admin.produce_some(on, link.engine()),
            Session::New(_) => {}
        }
    }

    fn may_resume(&mut self, _: &mut L) -> bool {
        // A Connect is resumed by its answer.
        matches!(&self.session, Session::Io(io) if !io.is_stuck())
    }

    #[inline]
    fn work(&mut self, on: &Handle, link: &mut L) -> bool {
        let (busy, id, noted) = match &mut self.session {
            Session::Io(io) => (io.work(on, link.engine()), io.controller, io.queue.take_deviations()),
            Session::Admin(admin) => {
                let busy = admin.work(on, self.id, link.engine());
                (busy, admin.id, admin.control.take_deviations())
            }
            Session::New(_) => return false,
        };
        for noted in [noted, link.take_deviations()] {
            if !noted.is_empty() {
                self.shared.remark(id, noted);
            }
        }
        busy
    }

    #[inline]
    fn advance(&mut self, _: &Handle, link: &mut L) -> bool {
        match &self.session {
            Session::Io(io) => {
                if self.draining && io.queue.outstanding() == 0 && !link.has_unsent() {
                    link.close();
                }
                false
            }
            Session::Admin(admin) => {
                if admin.over {
                    link.close();
                }
                false
            }
            Session::New(new) => new.has_connect(),
        }
    }

    /// Connect's data is there: admits the queue and sends the connection to its loop.
    fn replace(&mut self, on: &Handle, mut link: L) -> Place<Self> {
        let Session::New(new) = &mut self.session else { return Place::Here(link) };
        if new.wants_admin_queue() && self.shared.holds_back(new.data(), &self.mailbox) {
            new.set_waits(true);
            return Place::Here(link);
        }
        let Some((tag, sqe)) = new.take_connect() else { return Place::Here(link) };
        match self.shared.admit(on.now().since_epoch(), &sqe, new.data(), new.port(), &self.mailbox) {
            Err(refusal) => {
                let names = connect_names(new.data());
                let text = || format!("{}: Connect refused: {refusal} ({names})", link.peer());
                self.shared.members.refusals().log(on.now().since_epoch(), text);
                link.engine().complete(tag, refusal.cqe, 0);
                link.resume();
                Place::Here(link)
            }
            Ok(admitted) => {
                let home = self.shared.home(&admitted).clone();
                let make = move |on: &Handle, id, link: &mut L, mailbox: &_| Self::serve(on, id, link, mailbox, admitted, tag);
                Place::There(link, home, Box::new(make))
            }
        }
    }

    #[inline]
    fn awaits_sending(&self, _: &L) -> bool {
        self.draining
    }

    #[inline]
    fn settles(&self) -> bool {
        matches!(self.session, Session::Io(_))
    }

    fn end(&mut self, link: &mut L) -> bool {
        match &mut self.session {
            Session::Io(io) => {
                io.stop(link.engine());
                let quiet = io.is_quiet();
                if quiet {
                    self.shared.queue_gone(io.controller, io.queue.qid());
                }
                quiet
            }
            Session::Admin(admin) => admin.end(),
            Session::New(_) => true,
        }
    }

    fn violation(link: &mut L) -> Option<String> {
        link.violation().map(|violation| format!("the host violated the protocol: {violation}"))
    }
}
