//! The driver of a connection of a front end: messages, rings and the queue of the device, until
//! both are at an end.

use super::device::Device;
use super::dispatch::{Answer, Failure};
use super::gate::{Gate, Pass};
use super::guest::{Guest, Requests};
use super::incoming::{Incoming, Message, Nothing};
use super::socket_record::SocketDiskRecord;
use super::vring::Vring;
use crate::export::local::exchange::Exchange;
use crate::export::local::hosts::{LocalHosts, Opened};
use crate::export::local::queue::LocalQueue;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockQueue, Completion, DeviceChange, Error, Op, Outcome, Status, StatusKind};
use weft_connection::limits::{
    LOCAL_COMMANDS_MAX, VHOST_USER_MESSAGES_PER_TURN, VHOST_USER_POLL_US, VHOST_USER_TURN_WAIT_MS,
    VHOST_USER_WAIT_S,
};
use weft_io::event_loop::TimerSlot;
use weft_io::guest::memory::GuestMemory;
use weft_io::guest::messages::MessageSocket;
use weft_io::{Activity, Driver, DriverId, Handle, Time};
use weft_proto::vhost_user::{BackEndReply, code, protocol_feature};

/// How far it is with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Another front end is still there.
    Waiting,
    Serving,
    /// No more requests are taken; those under way are answered, and then it ends.
    Draining,
    /// The front end is gone, or breaks rules: nothing is answered any more.
    Ending,
}

/// What is to be answered when no request is under way.
#[derive(Clone, Copy)]
enum Stopping {
    /// One queue: where it stopped.
    Queue(u16),
    /// All of them; whether the front end waits for that.
    All { acknowledges: bool, code: u32 },
}

/// See the module.
pub(super) struct FrontEnd {
    id: DriverId,
    name: Arc<str>,
    socket: MessageSocket,
    gate: Gate,
    pass: Option<Pass>,
    /// When it gives up to wait.
    until: Time,
    phase: Phase,
    incoming: Incoming,
    /// There is a message whose descriptors have no room.
    is_put_off: bool,
    outgoing: (Vec<u8>, Option<OwnedFd>),
    stopping: Option<Stopping>,
    device: Device,
    queue: LocalQueue,
    hosts: Arc<LocalHosts>,
    opened: Arc<Opened>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    timer: TimerSlot,
}

impl FrontEnd {
    /// Serves a connection on a loop.
    pub(super) fn start(
        on: &Handle,
        socket: MessageSocket,
        (hosts, opened): (&Arc<LocalHosts>, &Arc<Opened>),
        (gate, kept, name): (Gate, Option<Arc<SocketDiskRecord>>, Arc<str>),
    ) -> Result<DriverId, Error> {
        on.try_spawn(|id| {
            let view = opened.view(&hosts.inventory.now()).ok_or_else(|| {
                Error::new(weft_block::ErrorKind::NotFound, "the namespace is no longer there")
            })?;
            let geometry = view.geometry;
            let operation_bytes = u64::from(geometry.max_transfer_bytes)
                / u64::from(geometry.block_bytes)
                * u64::from(geometry.block_bytes);
            let guest = Rc::new(Guest {
                memory: RefCell::new(GuestMemory::default()),
                requests: RefCell::new(Requests::new(LOCAL_COMMANDS_MAX as u16)),
                operation_bytes,
            });
            let exchange = Rc::clone(&guest) as Rc<dyn Exchange>;
            let queue = LocalQueue::open_for(hosts, opened, on, id, Some(exchange))?;
            let mut socket = socket;
            on.registrar(id, |registrar| socket.register(registrar))
                .map_err(|e| Error::io(format!("cannot serve {name}: {e}"), e))?;
            Ok(Self {
                id,
                name,
                socket,
                gate,
                pass: None,
                until: on.now() + Duration::from_secs(VHOST_USER_WAIT_S),
                phase: Phase::Waiting,
                incoming: Incoming::new(),
                is_put_off: false,
                outgoing: (Vec::new(), None),
                stopping: None,
                device: Device::new(guest, view, kept),
                queue,
                hosts: Arc::clone(hosts),
                opened: Arc::clone(opened),
                ops: VecDeque::new(),
                done: Vec::new(),
                timer: TimerSlot::default(),
            })
        })
    }

    /// Waits until the one before has ended. Whether it has.
    fn enter(&mut self, on: &Handle) -> bool {
        self.pass = self.gate.enter();
        if self.pass.is_some() {
            self.phase = Phase::Serving;
            // What was told meanwhile is in what is seen now.
            self.look();
            return true;
        }
        if self.socket.is_closed() {
            self.end(on, "");
        } else if on.now() >= self.until {
            self.end(on, "another front end is connected, and the disk serves one at a time");
        } else {
            let next = on.now() + Duration::from_millis(VHOST_USER_TURN_WAIT_MS);
            self.timer.arm(on, self.id, next);
        }
        false
    }

    /// Sees what the host sees now.
    fn look(&mut self) {
        if let Some(view) = self.opened.view(&self.hosts.inventory.now()) {
            self.device.is_news |= view.geometry.blocks != self.device.view.geometry.blocks;
            self.device.view = view;
        }
    }

    /// Nothing is answered any more.
    fn end(&mut self, on: &Handle, why: &str) {
        if self.phase < Phase::Ending {
            if !why.is_empty() {
                self.log(on, &format!("the connection ends: {why}"));
            }
            self.phase = Phase::Ending;
            let gone = Outcome::NotSent(Status::new(StatusKind::Gone));
            self.ops.drain(..).map(|op| op.done(gone)).for_each(drop);
            let names: Vec<u64> = self.device.guest.requests.borrow().names();
            let names = names.into_iter().chain(self.device.last_flush.under_way());
            names.for_each(|name| self.queue.cancel(name));
        }
    }

    /// Logs what the front end, or the driver behind it, has done.
    fn log(&self, on: &Handle, what: &str) {
        self.gate.refusals().log(on.now().since_epoch(), || format!("{}: {what}", self.name));
    }

    /// Receives messages, as long as each is answered at once.
    fn hear(&mut self, on: &Handle) -> bool {
        let mut is_busy = false;
        for _ in 0..VHOST_USER_MESSAGES_PER_TURN {
            if self.phase >= Phase::Ending || !self.outgoing.0.is_empty() || self.stopping.is_some()
            {
                return is_busy;
            }
            match self.incoming.next(&self.socket) {
                Ok(message) => {
                    self.is_put_off = false;
                    self.obey(message, on);
                }
                Err(Nothing::Yet) => return is_busy,
                Err(Nothing::Later) => {
                    self.put_off(on);
                    return is_busy;
                }
                Err(Nothing::More) => self.end(on, ""),
                Err(Nothing::Broken(e)) => self.end(on, &e.to_string()),
                Err(Nothing::Violation(violation)) => self.end(on, &violation.to_string()),
            }
            is_busy = true;
        }
        // The socket may have more, and nothing announces it.
        on.wake(self.id);
        is_busy
    }

    /// Looks for the message again soon. Requests go on.
    fn put_off(&mut self, on: &Handle) {
        if !core::mem::replace(&mut self.is_put_off, true) {
            self.log(on, "a message waits, as others have taken the descriptors that are reserved");
        }
        self.timer.arm(on, self.id, on.now() + Duration::from_millis(VHOST_USER_TURN_WAIT_MS));
    }

    fn obey(&mut self, message: Message, on: &Handle) {
        let (code, needs_reply) = (message.header.code, message.header.needs_reply);
        let has_reply = message.request.has_reply();
        let acknowledges =
            needs_reply && !has_reply && self.device.speaks(protocol_feature::REPLY_ACK);
        match self.device.dispatch(message, on, self.id) {
            Ok(Answer::Reply(reply)) => self.reply(code, &reply),
            Ok(Answer::Stop(index)) => self.stopping = Some(Stopping::Queue(index)),
            Ok(Answer::Reset) => self.stopping = Some(Stopping::All { acknowledges, code }),
            Ok(Answer::Done) if acknowledges => self.reply(code, &BackEndReply::Number(0)),
            Ok(Answer::Done) => {}
            Err(Failure::Refused(why)) if acknowledges => {
                self.log(on, &format!("message {code} of the front end is refused: {why}"));
                self.reply(code, &BackEndReply::Number(1));
            }
            Err(Failure::Refused(why)) => self.end(on, &format!("message {code}: {why}")),
            Err(Failure::Violation(violation)) => self.end(on, &violation.to_string()),
        }
    }

    fn reply(&mut self, code: u32, reply: &BackEndReply) {
        self.outgoing = (reply.encode(code), self.device.record_file.take());
    }

    /// Whether all is durable that was written, or can be. If not, a flush is submitted next.
    fn is_flushed(&mut self, on: &Handle) -> bool {
        if self.phase != Phase::Serving || !self.device.view.features.volatile_cache {
            return true;
        }
        let Some(flush) = self.device.last_flush.take() else {
            return self.device.last_flush.under_way().is_none();
        };
        self.ops.push_back(flush);
        on.wake(self.id);
        false
    }

    /// Answers what waited until no request was under way.
    fn settle(&mut self, on: &Handle) {
        let Some(stopping) = self.stopping else { return };
        let at_rest = |of: &Vring| of.in_flight == 0;
        match stopping {
            Stopping::Queue(index) => {
                let vring = self.device.vrings.get(usize::from(index));
                if vring.is_some_and(at_rest) && self.is_flushed(on) {
                    let base = self.device.stop(index);
                    let reply = BackEndReply::Base { index: index.into(), base };
                    self.reply(code::GET_VRING_BASE, &reply);
                    self.stopping = None;
                }
            }
            Stopping::All { acknowledges, code } => {
                if self.device.vrings.iter().all(at_rest) && self.is_flushed(on) {
                    for index in 0..self.device.vrings.len() as u16 {
                        self.device.stop(index);
                        self.device.vrings[usize::from(index)].is_enabled = false;
                    }
                    if acknowledges {
                        self.reply(code, &BackEndReply::Number(0));
                    }
                    self.stopping = None;
                }
            }
        }
    }

    /// Reaps and answers. Whether something ended.
    fn reap(&mut self) -> bool {
        self.queue.reap(&mut self.done);
        let mut done = core::mem::take(&mut self.done);
        let is_busy = !done.is_empty();
        for completion in done.drain(..) {
            // After the end, what is under way is left to the next front end.
            if self.phase < Phase::Ending {
                self.device.completed(completion);
            }
        }
        self.done = done;
        is_busy
    }

    /// What the device tells.
    fn follow(&mut self) {
        while let Some(change) = self.queue.change() {
            match change {
                DeviceChange::Resized { .. } => self.look(),
                DeviceChange::Gone if self.phase < Phase::Draining => {
                    self.phase = Phase::Draining;
                    let gone = Outcome::NotSent(Status::new(StatusKind::Gone));
                    let unsent: Vec<Op> = self.ops.drain(..).collect();
                    unsent.into_iter().for_each(|op| {
                        let Completion { op, outcome } = op.done(gone);
                        self.device.ended(op.user, outcome);
                    });
                }
                DeviceChange::Gone
                | DeviceChange::Away
                | DeviceChange::Back
                | DeviceChange::Access(_) => {}
            }
        }
    }

    fn serve(&mut self, on: &Handle) -> bool {
        let mut is_busy = self.reap();
        self.follow();
        if self.device.is_lost() {
            self.end(on, "memory of the virtual machine was truncated");
        }
        if self.phase == Phase::Serving {
            self.device.start_all();
            if self.stopping.is_none() && self.device.take_all(&mut self.ops) {
                on.wake(self.id);
            }
            is_busy |= !self.ops.is_empty();
            self.queue.submit(&mut self.ops);
            is_busy |= self.reap();
        }
        self.device.notify_all();
        self.device.tell();
        for remark in core::mem::take(&mut self.device.remarks) {
            self.log(on, &remark);
        }
        self.settle(on);
        if self.phase == Phase::Draining && self.device.guest.requests.borrow().in_use() == 0 {
            self.end(on, "");
        }
        if self.device.vrings.iter().any(Vring::is_polled) {
            let next = on.now() + Duration::from_micros(VHOST_USER_POLL_US);
            self.timer.arm(on, self.id, next);
        }
        is_busy
    }
}

impl Driver for FrontEnd {
    fn receive(&mut self, on: &Handle) -> Activity {
        let entered = self.phase > Phase::Waiting || self.enter(on);
        Activity::busy_if(entered && self.hear(on))
    }

    fn work(&mut self, on: &Handle) -> Activity {
        let is_busy = match self.phase {
            Phase::Waiting => false,
            Phase::Serving | Phase::Draining => self.serve(on),
            Phase::Ending => self.reap(),
        };
        if self.phase == Phase::Ending && self.queue.in_flight() == 0 {
            on.remove(self.id);
        }
        Activity::busy_if(is_busy)
    }

    fn send(&mut self, on: &Handle) -> Activity {
        let (bytes, file) = &mut self.outgoing;
        if bytes.is_empty() || self.phase == Phase::Ending {
            return Activity::Idle;
        }
        match self.socket.send(bytes, file.as_ref().map(|file| file.as_fd())) {
            Ok(sent) => {
                bytes.drain(..sent);
                *file = None;
                // The next message may be there already.
                on.wake(self.id);
                Activity::Busy
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Activity::Idle,
            Err(e) => {
                self.end(on, &e.to_string());
                on.wake(self.id);
                Activity::Busy
            }
        }
    }
}

impl Drop for FrontEnd {
    /// The loop ends, or it has ended.
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
        if self.queue.in_flight() > 0 {
            // The next process has to wait for what a device still has.
            core::mem::forget(self.device.kept.clone());
        }
    }
}
