//! The admin connection: drives the state machine of an association on the control loop.

use super::association::{AdminReply, Association, IdleQueue, ToAdmin};
use super::fault::explain;
use super::opening::{self, Opened, Plan};
use crate::pump::{Flow, Handler, StreamPump};
use crate::source::ConnectOptions;
use core::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{AdminData, DiscoveryResult, HostAction, HostConfig, HostControl, RequestId};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Qid;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::{HostConfig as TcpConfig, HostConnection, HostData, HostEvent};
use weft_proto::stream::Tag;

/// Largest data of an admin command that a caller may ask for, bytes.
pub(super) const ADMIN_DATA_MAX: u32 = 128 << 10;

/// How long the controller may take for an admin command, an Abort and what it is to end included; less where I/O may take less.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Whom to connect to.
pub(super) struct Target {
    /// URL or address, for messages.
    pub(super) name: String,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) host: HostConfig,
}

/// What came of connecting.
pub(super) enum Established {
    /// Namespaces are known and I/O queues wait in the association.
    Ready,
    /// The discovery log.
    Discovered(DiscoveryResult),
}

type Then = Box<dyn FnOnce(Result<Established, Error>)>;

/// Starts to connect on a loop, which the admin connection then lives on; `then` gets the result there.
pub(super) fn establish(on: &Handle, target: Target, association: Arc<Association>, then: Then) {
    let options = &association.options;
    let plan = Plan {
        addresses: target.addresses.clone(),
        host: tcp_config(options, HostConfig::ADMIN_ENTRIES),
        connect: None,
        limit: options.connect_timeout,
        in_capsule_bytes: weft_proto::nvme_tcp::pdu::FABRICS_CAPSULE_DATA_BYTES,
    };
    let deadline = on.clock() + options.connect_timeout;
    opening::open(on, plan, move |on, opened| match opened {
        Err(e) => then(Err(e)),
        Ok((pump, _)) => Admin::spawn(on, pump, target, association, deadline, then),
    });
}

fn tcp_config(options: &ConnectOptions, commands: u16) -> TcpConfig {
    TcpConfig {
        digests: Digests { header: options.hdr_digest, data: options.data_digest },
        queue_entries: commands,
        ..TcpConfig::default()
    }
}

/// Whose command is in a slot.
enum Owner {
    Control(RequestId),
    Caller(AdminReply),
}

struct Slot {
    owner: Owner,
    data: Vec<u8>,
}

/// The admin commands under way, and those that have ended.
#[derive(Default)]
struct Commands {
    slots: Vec<Option<Slot>>,
    ended: VecDeque<(Slot, Cqe, u32)>,
    terminated: Option<String>,
}

impl Handler<HostConnection> for Commands {
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        self.slots.get_mut(tag.index())?.as_mut()?.data.get_mut(offset as usize..(offset + len) as usize)
    }

    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        let slot = self.slots[tag.index()].as_ref().expect("the engine sends what was submitted");
        &slot.data[offset as usize..(offset + len) as usize]
    }

    fn event(&mut self, on: &Handle, engine: &mut HostConnection, event: HostEvent) -> Flow {
        let _ = on;
        let (tag, cqe, received) = match event {
            HostEvent::Response { tag, cqe, received_bytes } => (tag, cqe, received_bytes),
            HostEvent::DataFailed { tag, cqe } => {
                let status = weft_proto::nvme::status::Status::TRANSIENT_TRANSPORT_ERROR;
                (tag, Cqe { status, ..cqe }, 0)
            }
            HostEvent::Ready(_) => return Flow::Continue,
            HostEvent::Terminated(why) => {
                self.terminated = Some(why.to_string());
                return Flow::Continue;
            }
        };
        engine.release(tag);
        if let Some(slot) = self.slots[tag.index()].take() {
            self.ended.push_back((slot, cqe, received));
        }
        Flow::Continue
    }

    fn released(&mut self, on: &Handle, engine: &mut HostConnection, tag: Tag) {
        if let Some(event) = engine.sent(tag) {
            let _ = self.event(on, engine, event);
        }
    }
}

/// An I/O queue, the commands that it holds, and its connection or why there is none.
type OpenedQueue = (Qid, u16, Result<Opened, Error>);

/// The driver.
struct Admin {
    id: DriverId,
    pump: StreamPump<HostConnection>,
    commands: Commands,
    control: HostControl,
    association: Arc<Association>,
    target: Target,
    /// Commands for which the queue had no room.
    waiting: VecDeque<(Sqe, HostData, Slot)>,
    /// I/O connections that were opened, or were not.
    opened: Rc<RefCell<Vec<OpenedQueue>>>,
    deadline: Time,
    then: Option<Then>,
    timer: TimerSlot,
    /// A better reason for the end than the state machine's own.
    reason: Option<Error>,
    over: bool,
}

impl Admin {
    fn spawn(
        on: &Handle,
        mut pump: StreamPump<HostConnection>,
        target: Target,
        association: Arc<Association>,
        deadline: Time,
        then: Then,
    ) {
        let mut then = Some(then);
        let spawned = on.try_spawn(|id| {
            pump.register(on, id)?;
            on.wake_at(id, deadline);
            let commands = Commands { slots: (0..HostConfig::ADMIN_ENTRIES).map(|_| None).collect(), ..Commands::default() };
            association.set_control(on.remote(), id);
            Ok::<_, std::io::Error>(Self {
                id,
                pump,
                commands,
                control: HostControl::new(target.host.clone()),
                association,
                target,
                waiting: VecDeque::new(),
                opened: Rc::default(),
                deadline,
                then: then.take(),
                timer: TimerSlot::default(),
                reason: None,
                over: false,
            })
        });
        if let (Err(e), Some(then)) = (spawned, then) {
            then(Err(Error::io(format!("cannot watch a connection: {e}"), e)));
        }
    }

    fn submit(&mut self, sqe: Sqe, data: HostData, slot: Slot) {
        self.waiting.push_back((sqe, data, slot));
        self.submit_waiting();
    }

    /// Submits what there is room for.
    fn submit_waiting(&mut self) {
        while let Some((sqe, data, slot)) = self.waiting.pop_front() {
            match self.pump.engine.submit(sqe, data) {
                Ok(tag) => self.commands.slots[tag.index()] = Some(slot),
                Err(_) => return self.waiting.push_front((sqe, data, slot)),
            }
        }
    }

    fn run_messages(&mut self, now: Duration) {
        for message in self.association.take_messages() {
            match message {
                ToAdmin::TimedOut(qid, cid) => self.control.io_timed_out(now, qid, cid),
                ToAdmin::Completed(qid, cid) => self.control.io_completed(qid, cid),
                ToAdmin::Lost(qid) => self.control.connection_lost(now, qid),
                ToAdmin::Shutdown => self.control.shutdown(now),
                ToAdmin::Command { sqe, len, reply } => {
                    let len = len.min(ADMIN_DATA_MAX);
                    let data = if len == 0 { HostData::None } else { HostData::In(len) };
                    self.submit(sqe, data, Slot { owner: Owner::Caller(reply), data: vec![0; len as usize] });
                }
            }
        }
    }

    fn run_completions(&mut self, now: Duration) {
        while let Some((slot, cqe, received)) = self.commands.ended.pop_front() {
            let mut data = slot.data;
            match slot.owner {
                Owner::Control(id) => self.control.admin_completed(now, id, &cqe, &data[..(received as usize).min(data.len())]),
                Owner::Caller(reply) => {
                    data.truncate(received as usize);
                    reply(Ok((cqe, data)));
                }
            }
        }
    }

    /// I/O connections that were opened since.
    fn run_opened(&mut self, now: Duration) {
        let opened = core::mem::take(&mut *self.opened.borrow_mut());
        for (qid, commands, result) in opened {
            match result {
                Ok((pump, Some(cqe))) => {
                    if cqe.status.is_success() {
                        self.association.give_idle(IdleQueue { qid, commands, pump });
                    }
                    self.control.queue_opened(now, qid, &cqe);
                }
                Ok((_, None)) => self.control.connection_lost(now, qid),
                Err(e) => {
                    self.reason.get_or_insert(e);
                    self.control.connection_lost(now, qid);
                }
            }
        }
    }

    fn act(&mut self, on: &Handle, action: HostAction) {
        match action {
            HostAction::Admin { id, sqe, data } => {
                let (direction, data) = match data {
                    AdminData::None => (HostData::None, Vec::new()),
                    AdminData::Out(data) => (HostData::Out(data.len() as u32), data.to_vec()),
                    AdminData::In { len } => (HostData::In(len), vec![0; len as usize]),
                };
                self.submit(sqe, direction, Slot { owner: Owner::Control(id), data });
            }
            HostAction::OpenQueue { qid, entries } => self.open_queue(on, qid, entries),
            HostAction::Ready => {
                self.learn();
                self.establish(Ok(Established::Ready));
            }
            HostAction::NamespacesChanged => self.learn(),
            HostAction::Discovered(result) => self.establish(Ok(Established::Discovered(result))),
            HostAction::Event(event) => tracing::debug!("{}: event {event:?}", self.target.name),
            HostAction::StopIo => self.association.stop_io(),
            HostAction::Failed { error, .. } => {
                let error = self.reason.take().unwrap_or_else(|| explain(&self.target.name, &error));
                self.finish(on, error);
            }
            HostAction::Closed { .. } => {
                self.finish(on, Error::new(ErrorKind::Refused, format!("{}: the connection was shut down", self.target.name)));
            }
        }
    }

    fn establish(&mut self, result: Result<Established, Error>) {
        if let Some(then) = self.then.take() {
            then(result);
        }
    }

    fn learn(&self) {
        self.association.learn(|learned| {
            learned.controller = self.control.controller().clone();
            learned.namespaces = self.control.namespaces().to_vec();
            learned.unusable = self.control.unusable_namespaces().iter().map(|(nsid, why)| (*nsid, why.to_string())).collect();
        });
    }

    fn open_queue(&self, on: &Handle, qid: Qid, entries: u16) {
        let options = &self.association.options;
        // One entry of a queue stays free (Base §3.3.1.4).
        let commands = entries.saturating_sub(1).max(1);
        let plan = Plan {
            addresses: self.target.addresses.clone(),
            host: tcp_config(options, commands),
            connect: Some(self.control.io_connect(qid)),
            limit: options.connect_timeout,
            in_capsule_bytes: self.control.controller().in_capsule_bytes(),
        };
        let (opened, id) = (Rc::clone(&self.opened), self.id);
        opening::open(on, plan, move |on, result| {
            opened.borrow_mut().push((qid, commands, result));
            on.wake(id);
        });
    }

    /// The association is over.
    fn finish(&mut self, on: &Handle, error: Error) {
        if self.over {
            return;
        }
        self.over = true;
        if self.then.is_none() {
            tracing::info!("{error}");
        }
        let text = error.to_string();
        self.association.end(text.clone());
        self.establish(Err(error));
        let waiting = self.waiting.drain(..).map(|(.., slot)| slot);
        for slot in waiting.chain(self.commands.slots.iter_mut().filter_map(Option::take)) {
            if let Owner::Caller(reply) = slot.owner {
                reply(Err(text.clone()));
            }
        }
        self.pump.close();
        on.remove(self.id);
    }

    /// Notices the end of the connection, and of the time for connecting.
    fn check_ends(&mut self, on: &Handle) {
        if self.pump.end().is_some() {
            if let Some(why) = self.commands.terminated.take() {
                let text = format!("{}: the controller ended the connection: {why}", self.target.name);
                self.reason.get_or_insert(Error::new(ErrorKind::Protocol, text));
            } else if let Some(violation) = self.pump.engine.violation() {
                let text = format!("{}: the controller broke the protocol: {violation}", self.target.name);
                self.reason.get_or_insert(Error::new(ErrorKind::Protocol, text));
            }
            self.control.connection_lost(on.now().since_epoch(), Qid(0));
        }
        if self.then.is_some() && on.now() >= self.deadline {
            let limit = self.association.options.connect_timeout.as_secs_f32();
            let text = format!(
                "{}: the controller did not get ready within {limit} s; try again or raise --connect-timeout",
                self.target.name
            );
            self.finish(on, Error::new(ErrorKind::TimedOut, text));
        }
    }
}

impl Driver for Admin {
    fn receive(&mut self, on: &Handle) -> Activity {
        self.pump.receive(on, &mut self.commands)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        let now = on.now().since_epoch();
        self.run_completions(now);
        self.submit_waiting();
        self.run_opened(now);
        self.run_messages(now);
        self.check_ends(on);
        let mut activity = Activity::Idle;
        while !self.over
            && let Some(action) = self.control.poll(now)
        {
            activity = Activity::Busy;
            self.act(on, action);
        }
        if let Some(deadline) = self.control.deadline() {
            self.timer.arm(on, self.id, Time::from_epoch(deadline));
        }
        activity
    }

    fn send(&mut self, on: &Handle) -> Activity {
        self.pump.send(on, &mut self.commands)
    }
}

/// The configuration of the state machine that the options ask for.
pub(super) fn host_config(mut config: HostConfig, options: &ConnectOptions) -> HostConfig {
    config.keep_alive_ms = if config.discovery { 0 } else { options.keep_alive_ms };
    config.io_queues = options.nr_io_queues;
    config.queue_entries = options.queue_size;
    config.command_timeout = ADMIN_TIMEOUT.min(options.io_timeout);
    config
}
