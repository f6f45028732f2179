//! One connection of a host, from accept to its end: before Connect on the loop that accepted it, then on the loop of its queue.

use super::admin_session::AdminSession;
use super::devices::OpenDevices;
use super::io_session::IoSession;
use super::mailbox::{Mailbox, Message};
use super::new_session::NewSession;
use super::shared::{Admitted, Shared};
use crate::limits::{HANDSHAKE_S, IN_CAPSULE_BYTES, STARVED_RETRY_MS};
use crate::pump::{End, Flow, Handler, StreamPump};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_io::{Activity, Driver, DriverId, Handle, Stream};
use weft_proto::nvme::controller::{Control, IoQueue, Port};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;
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
    /// Counts the connection; `None` once it has moved.
    seat: Option<Seat>,
}

/// Counts a connection for as long as it lives, on whatever loop.
pub(super) struct Seat(Arc<Shared>);

impl Seat {
    pub(super) fn take(shared: &Arc<Shared>) -> Self {
        shared.connections.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(shared))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
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

enum Queue {
    Admin(super::shared::ControllerId, Box<Control>),
    Io(Box<IoQueue>),
}

impl Connection {
    /// Takes an accepted stream.
    pub(super) fn accept(on: &Handle, stream: Box<dyn Stream>, shared: &Arc<Shared>, port: Port) -> std::io::Result<()> {
        on.try_spawn(|id| {
            let config = TargetConfig { in_capsule_bytes: IN_CAPSULE_BYTES, ..TargetConfig::default() };
            let mut pump = StreamPump::new(stream, TargetConnection::new(config));
            pump.register(on, id)?;
            let deadline = on.now() + Duration::from_secs(HANDSHAKE_S);
            on.wake_at(id, deadline);
            Ok(Self {
                id,
                pump: Some(pump),
                session: Session::New(NewSession::new(port, deadline)),
                shared: Arc::clone(shared),
                mailbox: Arc::default(),
                draining: false,
                seat: Some(Seat::take(shared)),
            })
        })
        .map(drop)
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
                let home = self.shared.home(id.1, weft_proto::nvme::types::Qid(0)).clone();
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
                Message::Drain => self.draining = true,
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
            if io.feed(on, &mut pump.engine) {
                pump.resume();
            }
            if io.is_starved() {
                on.wake_at(self.id, on.now() + Duration::from_millis(STARVED_RETRY_MS));
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
        if pump.end().is_some() {
            Self::log_end(pump);
            on.remove(self.id);
        } else if on.now() >= new.deadline() {
            tracing::warn!("{}: no Connect within {HANDSHAKE_S} s; connection closed", pump.peer());
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
            Ok::<_, std::io::Error>(Connection {
                id,
                pump: Some(pump),
                session,
                shared: Arc::clone(&shared),
                mailbox,
                draining: false,
                seat: Some(seat),
            })
        });
        if let Err(e) = spawned {
            tracing::error!("cannot take a connection to its loop: {e}");
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
    fn released(&mut self, _: &Handle, engine: &mut TargetConnection, tag: Tag) {
        match self {
            Self::Io(io) => io.released(engine, tag),
            Self::Admin(admin) => admin.released(engine, tag),
            Self::New(_) => engine.sent(tag),
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
        match &self.session {
            Session::Io(_) => self.work_io(on),
            Session::Admin(_) => self.work_admin(on),
            Session::New(_) => self.work_new(on),
        }
    }

    #[inline]
    fn send(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        let activity = pump.send(on, &mut self.session);
        if pump.end().is_some() {
            on.wake(self.id);
        }
        activity
    }
}
