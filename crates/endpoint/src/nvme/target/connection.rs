//! One connection of a host, from accept to its end: before Connect on the loop that accepted it, then on the loop of its queue.

use super::admin_session::AdminSession;
use super::io_session::IoSession;
use super::mailbox::{Mailbox, Message};
use super::new_session::NewSession;
use super::session::Session;
use super::shared::{Admitted, Shared};
use super::subsystems::{ControllerId, View};
use super::transport::{Engine, Link};
use crate::export::devices::OpenDevices;
use crate::export::seats::Seat;
use crate::limits::{CLOSE_S, STARVED_RETRY_MS, WORK_PASSES_PER_TURN};
use std::sync::Arc;
use std::time::Duration;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Time};
use weft_proto::nvme::controller::{Control, IoQueue, Port};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Qid;
use weft_proto::stream::Tag;

/// The driver of a connection.
pub(crate) struct Connection<L> {
    id: DriverId,
    /// Taken out when the connection moves to another loop.
    link: Option<L>,
    session: Session,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    /// Outstanding commands end, then the connection closes.
    draining: bool,
    /// When a connection that is closing is cut off.
    close_by: Option<Time>,
    /// For that, and for memory that is waited for.
    timer: TimerSlot,
    /// Counts the connection; `None` once it has moved.
    seat: Option<Seat>,
}

/// A connection on its way to the loop of its queue.
struct Migrant<L> {
    link: L,
    queue: Queue,
    tag: Tag,
    cqe: Cqe,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    seat: Seat,
}

/// What becomes free when a connection cannot go on.
enum Whose {
    Admin(ControllerId),
    Io(ControllerId, Qid),
}

enum Queue {
    Admin(ControllerId, Box<Control>),
    Io(ControllerId, Box<IoQueue>, View),
}

impl<L: Link> Connection<L> {
    /// Takes an accepted connection, if there is room for it.
    pub(crate) fn accept(on: &Handle, mut link: L, shared: &Arc<Shared>, port: Port) -> std::io::Result<()> {
        let Some(seat) = shared.seats.take(|| link.peer()) else { return Ok(()) };
        on.try_spawn(|id| {
            link.register(on, id)?;
            let deadline = on.now() + shared.limits.handshake;
            on.wake_at(id, deadline);
            let session = Session::New(NewSession::new(port, deadline));
            let mailbox = Arc::<Mailbox>::default();
            shared.add_newcomer(&mailbox);
            mailbox.settle(on.remote(), id);
            Ok(Self::new(id, link, session, Arc::clone(shared), mailbox, seat))
        })
        .map(drop)
    }

    fn new(id: DriverId, link: L, session: Session, shared: Arc<Shared>, mailbox: Arc<Mailbox>, seat: Seat) -> Self {
        let (link, seat) = (Some(link), Some(seat));
        Self { id, link, session, shared, mailbox, draining: false, close_by: None, timer: TimerSlot::default(), seat }
    }

    /// Connect's data is there: admits the queue and sends the connection to its loop.
    fn admit(&mut self, on: &Handle) {
        let (Session::New(new), Some(link)) = (&mut self.session, &mut self.link) else { return };
        let Some((tag, sqe)) = new.take_connect() else { return };
        match self.shared.admit(on.now().since_epoch(), &sqe, new.data(), new.port()) {
            Err(refusal) => {
                tracing::warn!("{}: Connect refused: {refusal}", link.peer());
                link.engine().complete(tag, refusal.cqe, 0);
                link.resume();
            }
            Ok(admitted) => self.leave(on, admitted, tag),
        }
    }

    fn leave(&mut self, on: &Handle, admitted: Admitted, tag: Tag) {
        let (Some(mut link), Some(seat)) = (self.link.take(), self.seat.take()) else { return };
        on.remove(self.id);
        let (queue, cqe, mailbox, home) = match admitted {
            Admitted::Admin { id, control, cqe, mailbox } => {
                let home = self.shared.home(id.1, Qid(0)).clone();
                (Queue::Admin(id, control), cqe, mailbox, home)
            }
            Admitted::Io { id, queue, view, cqe, mailbox } => {
                let home = self.shared.home(queue.cntlid(), queue.qid()).clone();
                (Queue::Io(id, Box::new(queue), view), cqe, mailbox, home)
            }
        };
        if let Err(e) = link.deregister(on, self.id) {
            tracing::warn!("{}: cannot move the connection to its loop: {e}", link.peer());
        }
        let migrant = Migrant { link, queue, tag, cqe, shared: Arc::clone(&self.shared), mailbox, seat };
        home.post(move |on| migrant.settle(on));
    }

    fn take_messages(&mut self, on: &Handle) {
        let (Session::Io(io), Some(link)) = (&mut self.session, &mut self.link) else { return };
        for message in self.mailbox.take() {
            match message {
                Message::Stop => {
                    io.stop(link.engine());
                    link.close();
                }
                Message::Drain => {
                    self.draining = true;
                    io.drain();
                }
                Message::Namespaces(view) => io.set_view(on, self.id, link.engine(), view),
                Message::Abort { ticket, cid, reply_to } => {
                    let aborted = io.abort(link.engine(), cid);
                    reply_to.post(Message::Aborted { ticket, aborted });
                }
                Message::Aborted { .. } | Message::Quiet(_) | Message::Discovery(_) => {}
            }
        }
    }

    #[inline]
    fn work_io(&mut self, on: &Handle) -> Activity {
        self.take_messages(on);
        let (Session::Io(io), Some(link)) = (&mut self.session, &mut self.link) else { return Activity::Idle };
        let (mut busy, mut resumed) = (false, false);
        if io.is_starved() {
            if io.feed(on, link.engine()) && link.is_paused() {
                link.resume();
                // What was held back is parsed by the next receive, which no readiness may announce.
                (busy, resumed) = (true, true);
            }
            if io.is_starved() {
                self.timer.arm(on, self.id, on.now() + Duration::from_millis(STARVED_RETRY_MS));
            }
        }
        let mut more = true;
        for _ in 0..WORK_PASSES_PER_TURN {
            more = io.work(on, link.engine());
            if !more {
                break;
            }
            busy = true;
        }
        while let Some((device, change)) = io.change() {
            self.shared.device_changed(&device, change);
        }
        if self.draining && io.queue.outstanding() == 0 && !link.has_unsent() {
            link.close();
        }
        if link.has_ended() {
            io.stop(link.engine());
            if io.is_quiet() {
                link.log_end();
                self.shared.queue_gone(io.controller, io.queue.qid());
                on.remove(self.id);
            }
        }
        Activity::busy_if(busy).or_settled_if(!resumed && !more)
    }

    fn work_admin(&mut self, on: &Handle) -> Activity {
        let (Session::Admin(admin), Some(link)) = (&mut self.session, &mut self.link) else { return Activity::Idle };
        let busy = admin.work(on, self.id, link.engine());
        if admin.over {
            link.close();
        }
        if link.has_ended() && admin.end() {
            link.log_end();
            on.remove(self.id);
        }
        Activity::busy_if(busy)
    }

    fn work_new(&mut self, on: &Handle) -> Activity {
        let (Session::New(new), Some(link)) = (&mut self.session, &mut self.link) else { return Activity::Idle };
        if !self.mailbox.take().is_empty() {
            // There is but one thing to tell somebody who has not come in yet.
            on.remove(self.id);
        } else if link.has_ended() {
            link.log_end();
            on.remove(self.id);
        } else if on.now() >= new.deadline() {
            let limit = self.shared.limits.handshake.as_secs_f32();
            tracing::warn!("{}: no Connect within {limit} s; connection closed", link.peer());
            on.remove(self.id);
        } else if new.has_connect() {
            self.admit(on);
            return Activity::Busy;
        }
        Activity::Idle
    }
}

impl<L: Link> Migrant<L> {
    /// On the loop of its queue: opens the devices, answers Connect, goes on.
    fn settle(self, on: &Handle) {
        let Self { mut link, queue, tag, mut cqe, shared, mailbox, seat } = self;
        let whose = match &queue {
            Queue::Admin(controller, _) => Whose::Admin(*controller),
            Queue::Io(controller, queue, _) => Whose::Io(*controller, queue.qid()),
        };
        let spawned = on.try_spawn(|id| {
            link.register(on, id)?;
            let session = match queue {
                Queue::Admin(controller, control) => {
                    link.engine().begin_queue(control.entries() as u16, false);
                    Session::Admin(Box::new(AdminSession::new(*control, controller, Arc::clone(&shared), Arc::clone(&mailbox))))
                }
                Queue::Io(controller, queue, view) => {
                    link.engine().begin_queue(queue.entries() as u16, true);
                    let devices = OpenDevices::open(&view.devices, on, id).unwrap_or_else(|e| {
                        tracing::error!("I/O queue {}: {e}", queue.qid());
                        (cqe.status, cqe.do_not_retry) = (Status::INTERNAL_ERROR, true);
                        OpenDevices::default()
                    });
                    Session::Io(Box::new(IoSession::new(controller, *queue, devices)))
                }
            };
            link.engine().complete(tag, cqe, 0);
            link.resume();
            mailbox.settle(on.remote(), id);
            Ok::<_, std::io::Error>(Connection::new(id, link, session, Arc::clone(&shared), mailbox, seat))
        });
        if let Err(e) = spawned {
            tracing::error!("cannot take a connection to its loop: {e}");
            match whose {
                Whose::Admin(controller) => shared.give_up(controller),
                Whose::Io(controller, qid) => shared.queue_gone(controller, qid),
            }
        }
    }
}

impl<L: Link> Connection<L> {
    /// Cuts off a peer that does not take what a closing connection has for it.
    #[inline]
    fn watch_close(&mut self, on: &Handle) {
        let Some(link) = self.link.as_mut().filter(|link| link.is_closing()) else { return };
        let by = *self.close_by.get_or_insert_with(|| on.now() + Duration::from_secs(CLOSE_S));
        if on.now() >= by {
            link.abort();
            on.wake(self.id);
        } else {
            self.timer.arm(on, self.id, by);
        }
    }
}

impl<L: Link> Driver for Connection<L> {
    #[inline]
    fn receive(&mut self, on: &Handle) -> Activity {
        let Some(link) = &mut self.link else { return Activity::Idle };
        let activity = link.receive(on, &mut self.session);
        activity.or_busy_unless(matches!(self.session, Session::Io(_)))
    }

    #[inline]
    fn work(&mut self, on: &Handle) -> Activity {
        let activity = match &self.session {
            Session::Io(_) => self.work_io(on),
            Session::Admin(_) => self.work_admin(on),
            Session::New(_) => self.work_new(on),
        };
        self.watch_close(on);
        activity
    }

    #[inline]
    fn send(&mut self, on: &Handle) -> Activity {
        let Some(link) = &mut self.link else { return Activity::Idle };
        let had_ended = link.has_ended();
        let activity = link.send(on, &mut self.session);
        // Once: an ended connection may wait long for its devices.
        if !had_ended && link.has_ended() {
            on.wake(self.id);
        }
        // What was sent may be what was waited for.
        activity.or_busy_unless(matches!(self.session, Session::Io(_)) && !self.draining)
    }
}
