//! One connection of a host, from accept to its end: before Connect on the loop that accepted it, then on the loop of its queue.

use super::admin_session::AdminSession;
use super::io_session::IoSession;
use super::mailbox::{Mailbox, Message};
use super::new_session::NewSession;
use super::shared::{Admitted, Shared};
use crate::export::devices::OpenDevices;
use crate::export::seats::Seat;
use crate::limits::{CLOSE_S, IN_CAPSULE_BYTES, STARVED_RETRY_MS};
use crate::pump::{End, Flow, Handler, Pieces, StreamPump};
use std::io::IoSliceMut;
use std::sync::Arc;
use std::time::Duration;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Stream, Time};
use weft_proto::nvme::controller::{Control, IoQueue, Port};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Qid};
use weft_proto::nvme_tcp::{TargetConfig, TargetConnection, TargetEvent};
use weft_proto::stream::{StreamEngine, Tag};

/// Times that completions may lead to new operations within one turn.
const WORK_PASSES: usize = 8;

/// What the connection is for.
enum Session {
    New(NewSession),
    Admin(Box<AdminSession>),
    Io(Box<IoSession>),
}

/// The driver of a connection.
pub(super) struct Connection {
    id: DriverId,
    /// Taken out when the connection moves to another loop.
    pump: Option<StreamPump<TargetConnection>>,
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
struct Migrant {
    pump: StreamPump<TargetConnection>,
    queue: Queue,
    tag: Tag,
    cqe: Cqe,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    seat: Seat,
}

/// What becomes free when a connection cannot go on.
enum Whose {
    Admin(super::shared::ControllerId),
    Io(Cntlid, Qid),
}

enum Queue {
    Admin(super::shared::ControllerId, Box<Control>),
    Io(Box<IoQueue>),
}

impl Connection {
    /// Takes an accepted stream.
    pub(super) fn accept(
        on: &Handle,
        stream: Box<dyn Stream>,
        shared: &Arc<Shared>,
        port: Port,
        seat: Seat,
    ) -> std::io::Result<()> {
        on.try_spawn(|id| {
            let config = TargetConfig { in_capsule_bytes: IN_CAPSULE_BYTES, ..TargetConfig::default() };
            let mut pump = StreamPump::new(stream, TargetConnection::new(config));
            pump.register(on, id)?;
            let deadline = on.now() + shared.limits.handshake;
            on.wake_at(id, deadline);
            let session = Session::New(NewSession::new(port, deadline));
            let mailbox = Arc::<Mailbox>::default();
            shared.add_newcomer(&mailbox);
            mailbox.settle(on.remote(), id);
            Ok(Self::new(id, pump, session, Arc::clone(shared), mailbox, seat))
        })
        .map(drop)
    }

    fn new(
        id: DriverId,
        pump: StreamPump<TargetConnection>,
        session: Session,
        shared: Arc<Shared>,
        mailbox: Arc<Mailbox>,
        seat: Seat,
    ) -> Self {
        let (pump, seat) = (Some(pump), Some(seat));
        Self { id, pump, session, shared, mailbox, draining: false, close_by: None, timer: TimerSlot::default(), seat }
    }

    /// Connect's data is there: admits the queue and sends the connection to its loop.
    fn admit(&mut self, on: &Handle) {
        let (Session::New(new), Some(pump)) = (&mut self.session, &mut self.pump) else { return };
        let Some((tag, sqe)) = new.take_connect() else { return };
        match self.shared.admit(on.now().since_epoch(), &sqe, new.data(), new.port()) {
            Err(refusal) => {
                tracing::warn!("{}: Connect refused: {refusal}", pump.peer());
                pump.engine.complete(tag, refusal.cqe, 0);
                pump.resume();
            }
            Ok(admitted) => self.leave(on, admitted, tag),
        }
    }

    fn leave(&mut self, on: &Handle, admitted: Admitted, tag: Tag) {
        let (Some(mut pump), Some(seat)) = (self.pump.take(), self.seat.take()) else { return };
        on.remove(self.id);
        let (queue, cqe, mailbox, home) = match admitted {
            Admitted::Admin { id, control, cqe, mailbox } => {
                let home = self.shared.home(id.1, Qid(0)).clone();
                (Queue::Admin(id, control), cqe, mailbox, home)
            }
            Admitted::Io { queue, cqe, mailbox } => {
                let home = self.shared.home(queue.cntlid(), queue.qid()).clone();
                (Queue::Io(Box::new(queue)), cqe, mailbox, home)
            }
        };
        if let Err(e) = pump.deregister(on, self.id) {
            tracing::warn!("{}: cannot move the connection to its loop: {e}", pump.peer());
        }
        let migrant = Migrant { pump, queue, tag, cqe, shared: Arc::clone(&self.shared), mailbox, seat };
        home.post(move |on| migrant.settle(on));
    }

    /// What has to be said about the end, if anything.
    fn log_end(pump: &StreamPump<TargetConnection>) {
        if let Some(violation) = pump.engine.violation() {
            tracing::warn!("{}: the host broke the protocol: {violation}; connection closed", pump.peer());
        } else if let Some(End::Error(e)) = pump.end() {
            tracing::debug!("connection ended: {e}");
        }
    }

    fn take_messages(&mut self) {
        let (Session::Io(io), Some(pump)) = (&mut self.session, &mut self.pump) else { return };
        for message in self.mailbox.take() {
            match message {
                Message::Stop => {
                    io.stop(&mut pump.engine);
                    pump.close();
                }
                Message::Drain => {
                    self.draining = true;
                    io.drain();
                }
                Message::Namespaces(table) => io.queue.set_namespaces(table),
                Message::Abort { ticket, cid, reply_to } => {
                    let aborted = io.abort(&mut pump.engine, cid);
                    reply_to.post(Message::Aborted { ticket, aborted });
                }
                Message::Aborted { .. } | Message::Quiet(_) => {}
            }
        }
    }

    #[inline]
    fn work_io(&mut self, on: &Handle) -> Activity {
        self.take_messages();
        let (Session::Io(io), Some(pump)) = (&mut self.session, &mut self.pump) else { return Activity::Idle };
        let mut busy = false;
        if io.is_starved() {
            if io.feed(on, &mut pump.engine) && pump.is_paused() {
                pump.resume();
                // What was held back is parsed by the next receive, which no readiness may announce.
                busy = true;
            }
            if io.is_starved() {
                self.timer.arm(on, self.id, on.now() + Duration::from_millis(STARVED_RETRY_MS));
            }
        }
        for _ in 0..WORK_PASSES {
            if !io.work(on, &mut pump.engine) {
                break;
            }
            busy = true;
        }
        while let Some((index, change)) = io.change() {
            self.shared.device_changed(index, change);
        }
        if self.draining && io.queue.outstanding() == 0 && !pump.engine.wants_transmit() {
            pump.close();
        }
        if pump.end().is_some() {
            io.stop(&mut pump.engine);
            if io.is_quiet() {
                Self::log_end(pump);
                self.shared.queue_gone(io.queue.cntlid(), io.queue.qid());
                on.remove(self.id);
            }
        }
        Activity::busy_if(busy)
    }

    fn work_admin(&mut self, on: &Handle) -> Activity {
        let (Session::Admin(admin), Some(pump)) = (&mut self.session, &mut self.pump) else { return Activity::Idle };
        let busy = admin.work(on, self.id, &mut pump.engine);
        if admin.over {
            pump.close();
        }
        if pump.end().is_some() && admin.end() {
            Self::log_end(pump);
            on.remove(self.id);
        }
        Activity::busy_if(busy)
    }

    fn work_new(&mut self, on: &Handle) -> Activity {
        let (Session::New(new), Some(pump)) = (&mut self.session, &mut self.pump) else { return Activity::Idle };
        if !self.mailbox.take().is_empty() {
            // There is but one thing to tell somebody who has not come in yet.
            on.remove(self.id);
        } else if pump.end().is_some() {
            Self::log_end(pump);
            on.remove(self.id);
        } else if on.now() >= new.deadline() {
            let limit = self.shared.limits.handshake.as_secs_f32();
            tracing::warn!("{}: no Connect within {limit} s; connection closed", pump.peer());
            on.remove(self.id);
        } else if new.has_connect() {
            self.admit(on);
            return Activity::Busy;
        }
        Activity::Idle
    }
}

impl Migrant {
    /// On the loop of its queue: opens the devices, answers Connect, goes on.
    fn settle(self, on: &Handle) {
        let Self { mut pump, queue, tag, mut cqe, shared, mailbox, seat } = self;
        let whose = match &queue {
            Queue::Admin(controller, _) => Whose::Admin(*controller),
            Queue::Io(queue) => Whose::Io(queue.cntlid(), queue.qid()),
        };
        let spawned = on.try_spawn(|id| {
            pump.register(on, id)?;
            let session = match queue {
                Queue::Admin(controller, control) => {
                    pump.engine.set_queue_entries(control.entries() as u16);
                    Session::Admin(Box::new(AdminSession::new(*control, controller, Arc::clone(&shared), Arc::clone(&mailbox))))
                }
                Queue::Io(queue) => {
                    pump.engine.set_queue_entries(queue.entries() as u16);
                    pump.engine.set_success_flag(true);
                    let devices = OpenDevices::open(&shared.devices, on, id).unwrap_or_else(|e| {
                        tracing::error!("I/O queue {}: {e}", queue.qid());
                        (cqe.status, cqe.do_not_retry) = (Status::INTERNAL_ERROR, true);
                        OpenDevices::none()
                    });
                    Session::Io(Box::new(IoSession::new(*queue, devices)))
                }
            };
            pump.engine.complete(tag, cqe, 0);
            pump.resume();
            mailbox.settle(on.remote(), id);
            Ok::<_, std::io::Error>(Connection::new(id, pump, session, Arc::clone(&shared), mailbox, seat))
        });
        if let Err(e) = spawned {
            tracing::error!("cannot take a connection to its loop: {e}");
            match whose {
                Whose::Admin(controller) => shared.give_up(controller),
                Whose::Io(cntlid, qid) => shared.queue_gone(cntlid, qid),
            }
        }
    }
}

impl Handler<TargetConnection> for Session {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        match self {
            Self::Io(io) => io.memory_mut(tag, offset, len),
            Self::Admin(admin) => admin.memory_mut(tag, offset, len),
            Self::New(new) => new.memory_mut(offset, len),
        }
    }

    #[inline]
    fn pieces_mut<'a>(&'a mut self, tag: Tag, offset: u32, len: u32, into: &mut Pieces<'a>) {
        match self {
            Self::Io(io) => io.pieces_mut(tag, offset, len, into),
            Self::Admin(_) | Self::New(_) => into.extend(self.memory_mut(tag, offset, len).map(IoSliceMut::new)),
        }
    }

    #[inline]
    fn wants_whole(&self, tag: Tag) -> bool {
        matches!(self, Self::Io(io) if io.wants_whole(tag))
    }

    #[inline]
    fn place(&mut self, tag: Tag, payload: &[u8]) {
        if let Self::Io(io) = self {
            io.place(tag, payload);
        }
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        let memory = match self {
            Self::Io(io) => io.memory(tag, offset, len),
            Self::Admin(admin) => admin.memory(tag, offset, len),
            Self::New(_) => None,
        };
        memory.expect("the engine sends what a command was completed with")
    }

    #[inline]
    fn event(&mut self, on: &Handle, engine: &mut TargetConnection, event: TargetEvent) -> Flow {
        match self {
            Self::Io(io) => io.event(on, engine, event),
            Self::Admin(admin) => admin.event(on, engine, event),
            Self::New(new) => new.event(engine, event),
        }
    }

    #[inline]
    fn released(&mut self, on: &Handle, engine: &mut TargetConnection, tag: Tag) {
        match self {
            Self::Io(io) => io.released(engine, tag),
            Self::Admin(admin) => admin.released(on, engine, tag),
            Self::New(_) => engine.sent(tag),
        }
    }
}

impl Connection {
    /// Cuts off a peer that does not take what a closing connection has for it.
    #[inline]
    fn watch_close(&mut self, on: &Handle) {
        let Some(pump) = self.pump.as_mut().filter(|pump| pump.is_closing()) else { return };
        let by = *self.close_by.get_or_insert_with(|| on.now() + Duration::from_secs(CLOSE_S));
        if on.now() >= by {
            pump.abort();
            on.wake(self.id);
        } else {
            self.timer.arm(on, self.id, by);
        }
    }
}

impl Driver for Connection {
    #[inline]
    fn receive(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        pump.receive(on, &mut self.session)
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
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        let had_ended = pump.end().is_some();
        let activity = pump.send(on, &mut self.session);
        // Once: an ended connection may wait long for its devices.
        if !had_ended && pump.end().is_some() {
            on.wake(self.id);
        }
        activity
    }
}
