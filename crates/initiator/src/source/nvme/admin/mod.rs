//! The admin connection: drives the state machine of an association on the control loop.

mod authentication;
mod commands;
mod concatenating;
mod establish;
mod path;
mod presence;

use super::association::{Association, IoConnection, LookReply, ToAdmin};
use super::authenticating::HostAuthenticating;
use super::fault::explain;
use super::learned::AssociationEnd;
use super::transport::{CommandEngine, ConnectResult, ControllerLink, IoPlan, LinkPlan, Opened};
use crate::control::ControlTask;
use crate::source::ConnectOptions;
use crate::source::opening::TimeLimit;
use commands::{AdminCommand, AdminCommands, Owner};
use core::cell::RefCell;
pub(crate) use establish::establish;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_connection::limits::ADMIN_TIMEOUT_S;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{
    AdminData, DiscoveryResult, HostAction, HostConfig, HostControl, HostData, RequestId,
};
use weft_proto::nvme::opcode::FabricsType;
use weft_proto::nvme::sqe::{OPCODE_FABRICS, Sqe};
use weft_proto::nvme::types::Qid;

/// Whom to connect to.
pub(crate) struct ControllerTarget<P> {
    /// URL or address, for messages.
    pub(crate) name: String,
    pub(crate) place: P,
    pub(crate) host: HostConfig,
}

/// What came of connecting.
pub(crate) enum Established {
    /// Namespaces are known and I/O queues wait in the association.
    Ready,
    /// The discovery log.
    Discovered(DiscoveryResult),
}

type Then = Box<dyn FnOnce(Result<Established, Error>)>;

/// Opens the admin connection.
fn connect<L: ControllerLink>(
    on: &Handle,
    target: ControllerTarget<L::Place>,
    limit: TimeLimit,
    association: Arc<Association<L>>,
    then: Then,
) {
    let (options, channel) = association.opening();
    let (name, place, commands) =
        (target.name.clone(), target.place.clone(), HostConfig::ADMIN_COMMANDS);
    let plan = LinkPlan { name, place, options, commands, io: None, channel, limit };
    L::open(on, plan, move |on, opened| match opened {
        Err(e) => then(Err(e)),
        Ok((link, _)) => Admin::spawn(on, link, target, association, limit.until, then),
    });
}

/// An authentication under way, and what the association is told of Connect when it is done.
struct UnderWay {
    engine: HostAuthenticating,
    connect: RequestId,
    answer: Cqe,
}

/// An I/O queue, the commands that it holds, and its connection or why there is none.
type OpenedQueue<L> = (Qid, u16, Result<Opened<L>, Error>);

/// The driver.
struct Admin<L: ControllerLink> {
    id: DriverId,
    link: L,
    commands: AdminCommands,
    control: HostControl,
    association: Arc<Association<L>>,
    target: ControllerTarget<L::Place>,
    /// Commands of the state machine for which the queue had no room: those of before that it has
    /// given up are still in it.
    waiting: VecDeque<(Sqe, HostData, AdminCommand)>,
    /// Commands of callers, which come behind.
    callers: VecDeque<(Sqe, HostData, AdminCommand)>,
    /// Those who wait for the end of a look at the namespaces.
    looks: Vec<LookReply>,
    /// The authentication of the admin queue.
    authenticating: Option<UnderWay>,
    /// I/O connections that were opened, or were not.
    opened: Rc<RefCell<Vec<OpenedQueue<L>>>>,
    deadline: Time,
    then: Option<Then>,
    timer: TimerSlot,
    /// When to look again for the namespace that is used, which is not there.
    look_at: Option<Time>,
    look_timer: TimerSlot,
    /// A better reason for the end than the state machine's own.
    reason: Option<Error>,
    /// Its user wants it to end, or has been told why it does.
    expected: bool,
    /// Its name among those that can reset others.
    registered: Option<u64>,
    /// Its name among those that may execute writes after the end of this process.
    late: Option<u64>,
    over: bool,
    _task: ControlTask,
}

impl<L: ControllerLink> Admin<L> {
    fn spawn(
        on: &Handle,
        mut link: L,
        target: ControllerTarget<L::Place>,
        association: Arc<Association<L>>,
        deadline: Time,
        then: Then,
    ) {
        let mut then = Some(then);
        let spawned = on.try_spawn(|id| {
            link.register(on, id)?;
            on.wake_at(id, deadline);
            let commands = AdminCommands {
                slots: (0..HostConfig::ADMIN_COMMANDS).map(|_| None).collect(),
                ..AdminCommands::default()
            };
            association.set_control(on.remote(), id);
            let _task = association.options.control.task();
            Ok::<_, std::io::Error>(Self {
                id,
                link,
                commands,
                control: HostControl::new(target.host.clone()),
                association,
                target,
                waiting: VecDeque::new(),
                callers: VecDeque::new(),
                looks: Vec::new(),
                authenticating: None,
                opened: Rc::default(),
                deadline,
                then: then.take(),
                timer: TimerSlot::default(),
                look_at: None,
                look_timer: TimerSlot::default(),
                reason: None,
                expected: false,
                registered: None,
                late: None,
                over: false,
                _task,
            })
        });
        if let (Err(e), Some(then)) = (spawned, then) {
            then(Err(Error::io(format!("cannot watch a connection: {e}"), e)));
        }
    }

    /// Submits what there is room for.
    fn submit_waiting(&mut self) {
        while let Some((sqe, data, slot)) = self.waiting.pop_front() {
            match self.link.engine().submit(sqe, data) {
                Ok(tag) => self.commands.slots[tag.index()] = Some(slot),
                Err(_) => return self.waiting.push_front((sqe, data, slot)),
            }
        }
        let is_of_caller = |slot: &&Option<AdminCommand>| {
            matches!(slot, Some(AdminCommand { owner: Owner::Caller(_), .. }))
        };
        let under_way = self.commands.slots.iter().filter(is_of_caller).count();
        for _ in under_way..HostConfig::ADMIN_COMMANDS_OF_OTHERS.into() {
            let Some((sqe, data, slot)) = self.callers.pop_front() else { return };
            match self.link.engine().submit(sqe, data) {
                Ok(tag) => self.commands.slots[tag.index()] = Some(slot),
                Err(_) => return self.callers.push_front((sqe, data, slot)),
            }
        }
    }

    fn run_messages(&mut self, now: Duration) {
        for message in self.association.take_messages() {
            match message {
                ToAdmin::TimedOut(qid, cid) => self.control.io_timed_out(now, qid, cid),
                ToAdmin::Cancelled(qid, cid) => self.control.io_cancelled(now, qid, cid),
                ToAdmin::Completed(qid, cid) => self.control.io_completed(qid, cid),
                ToAdmin::Use(nsid) => self.control.use_namespace(nsid),
                ToAdmin::AccessDoubt => self.control.access_doubted(now),
                ToAdmin::CrossReset(lost) => self.control.cross_reset(now, lost),
                ToAdmin::Doubt => self.control.look_again(now),
                ToAdmin::Look(reply) => {
                    self.control.look_again(now);
                    self.looks.push(reply);
                }
                ToAdmin::Lost(qid) => self.control.connection_lost(now, qid),
                ToAdmin::Shutdown => {
                    self.expected = true;
                    self.control.shutdown(now);
                }
                ToAdmin::Command { sqe, data, reply } => {
                    let (direction, data) = data.into_memory();
                    let slot = AdminCommand { owner: Owner::Caller(reply), data };
                    self.callers.push_back((sqe, direction, slot));
                    self.submit_waiting();
                }
            }
        }
    }

    fn run_completions(&mut self, now: Duration) {
        while let Some((slot, cqe, received)) = self.commands.ended.pop_front() {
            let mut data = slot.data;
            match slot.owner {
                Owner::Connect(id) => self.connected(now, id, cqe, &data),
                Owner::Authentication => self.authentication_ended(
                    now,
                    &cqe,
                    &data[..(received as usize).min(data.len())],
                ),
                Owner::Control(id) => self.control.admin_completed(
                    now,
                    id,
                    &cqe,
                    &data[..(received as usize).min(data.len())],
                ),
                Owner::Caller(reply) => {
                    data.truncate(received as usize);
                    reply(Ok((cqe, data)));
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
                let is_connect =
                    sqe.opcode() == OPCODE_FABRICS && sqe.fabrics_type() == FabricsType::CONNECT.0;
                let owner = if is_connect { Owner::Connect(id) } else { Owner::Control(id) };
                self.waiting.push_back((sqe, direction, AdminCommand { owner, data }));
                self.submit_waiting();
            }
            HostAction::OpenQueue { qid, entries } => self.open_queue(on, qid, entries),
            HostAction::Ready => {
                self.learn();
                self.may_write(on);
                self.offer_resets();
                self.establish(Ok(Established::Ready));
            }
            HostAction::NamespacesChanged => self.learn(),
            HostAction::Discovered(result) => self.establish(Ok(Established::Discovered(result))),
            HostAction::Event(event) => tracing::debug!("{}: event {event:?}", self.target.name),
            HostAction::AccessChanged => self.learn(),
            HostAction::CrossReset { lost, stopped } => self.reset_answered(on, lost, stopped),
            HostAction::StopIo => {
                self.association.stop_io();
                self.withdraw_resets();
            }
            HostAction::Failed { error, confirmed } => {
                let error =
                    self.reason.take().unwrap_or_else(|| explain(&self.target.name, &error));
                self.finish(on, error, confirmed);
            }
            HostAction::Closed { confirmed } => {
                let shut_down = || {
                    Error::new(
                        ErrorKind::Refused,
                        format!("{}: the connection was shut down", self.target.name),
                    )
                };
                let why = self.reason.take().unwrap_or_else(shut_down);
                self.finish(on, why, confirmed);
            }
        }
    }

    /// Does what the state machine says; tells whether it said something.
    fn poll(&mut self, on: &Handle, now: Duration) -> bool {
        let mut some = false;
        while !self.over
            && let Some(action) = self.control.poll(now)
        {
            some = true;
            self.act(on, action);
        }
        some
    }

    fn establish(&mut self, result: Result<Established, Error>) {
        if let Some(then) = self.then.take() {
            then(result);
        }
    }

    /// The association is over; `confirmed` tells whether it is certain that the controller
    /// executes nothing of it any more.
    fn finish(&mut self, on: &Handle, error: Error, confirmed: bool) {
        if self.over {
            return;
        }
        self.over = true;
        let (name, is_final) =
            (&self.target.name, self.association.options.ends_with_connections());
        match (self.then.is_none(), self.expected) {
            (true, false) if is_final => tracing::error!("{name}: the device is lost: {error}"),
            (true, false) => tracing::warn!("{name}: the connection is lost: {error}"),
            (true, true) => tracing::info!("{error}"),
            (false, _) => {}
        }
        let text = error.to_string();
        let bound = if confirmed { Duration::ZERO } else { self.settle_bound() };
        let settled_at = on.now() + bound;
        self.association.end(AssociationEnd { why: text.clone(), settled_at });
        self.writes_end(settled_at);
        self.withdraw_resets();
        if !confirmed && self.then.is_none() {
            self.register_unsettled(on);
        }
        self.establish(Err(error));
        self.looks.drain(..).for_each(|reply| reply(Err(text.clone())));
        let waiting = self.waiting.drain(..).chain(self.callers.drain(..)).map(|(.., slot)| slot);
        for slot in waiting.chain(self.commands.slots.iter_mut().filter_map(Option::take)) {
            if let Owner::Caller(reply) = slot.owner {
                reply(Err(text.clone()));
            }
        }
        match self.expected {
            true => self.link.close(),
            false => self.link.abort(),
        }
        on.remove(self.id);
    }

    /// Notices the end of the connection, and of the time for connecting.
    fn check_ends(&mut self, on: &Handle) {
        if self.link.has_ended() {
            if let Some(complaint) = self.link.complaint() {
                let text = format!("{}: the controller {complaint}", self.target.name);
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
            // There has been no I/O.
            self.finish(on, Error::new(ErrorKind::TimedOut, text), true);
        }
    }
}

impl<L: ControllerLink> Driver for Admin<L> {
    fn receive(&mut self, on: &Handle) -> Activity {
        self.link.receive(on, &mut self.commands)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        let now = on.now().since_epoch();
        self.run_completions(now);
        self.submit_waiting();
        self.run_opened(now);
        self.run_messages(now);
        self.check_ends(on);
        self.look_for_absent(on);
        let before = self.poll(on, now);
        self.judge(on);
        self.tell_access();
        let activity = Activity::busy_if(self.poll(on, now) | before);
        self.answer_looks();
        if let Some(deadline) = self.control.deadline() {
            self.timer.arm(on, self.id, Time::from_epoch(deadline));
        }
        activity
    }

    fn send(&mut self, on: &Handle) -> Activity {
        self.link.send(on, &mut self.commands)
    }
}

/// The configuration of the state machine that the options ask for.
pub(crate) fn host_config(mut config: HostConfig, options: &ConnectOptions) -> HostConfig {
    config.keep_alive_ms = if config.discovery { 0 } else { options.keep_alive_ms };
    config.io_queues = options.nr_io_queues;
    // A fused pair takes two commands at a time, and a queue holds one less than it has entries.
    config.queue_entries = options.queue_size.max(3);
    config.command_timeout = Duration::from_secs(ADMIN_TIMEOUT_S).min(options.io_timeout);
    config
}

// The connections of I/O queues: they are opened as the state machine says.

impl<L: ControllerLink> Admin<L> {
    fn open_queue(&self, on: &Handle, qid: Qid, entries: u16) {
        let (options, channel) = self.association.opening();
        // One entry of a queue stays free (Base §3.3.1.4).
        let commands = entries.saturating_sub(1).max(1);
        let io = IoPlan {
            connect: self.control.io_connect(qid),
            in_capsule_bytes: self.control.controller().in_capsule_bytes(),
        };
        let limit = TimeLimit::new(on, options.connect_timeout);
        let (name, place) = (self.target.name.clone(), self.target.place.clone());
        let plan = LinkPlan { name, place, options, commands, io: Some(io), channel, limit };
        let (opened, id) = (Rc::clone(&self.opened), self.id);
        L::open(on, plan, move |on, result| {
            opened.borrow_mut().push((qid, commands, result));
            on.wake(id);
        });
    }

    /// I/O connections that were opened since.
    fn run_opened(&mut self, now: Duration) {
        let opened = core::mem::take(&mut *self.opened.borrow_mut());
        for (qid, commands, result) in opened {
            match result {
                Ok((link, ConnectResult { answer: Some(cqe), .. })) => {
                    if cqe.status.is_success() {
                        self.association.give_idle(IoConnection { qid, commands, link });
                    }
                    self.control.queue_opened(now, qid, &cqe);
                }
                Ok((_, ConnectResult { answer: None, .. })) => {
                    self.control.connection_lost(now, qid)
                }
                Err(e) => {
                    self.reason.get_or_insert(e);
                    self.control.connection_lost(now, qid);
                }
            }
        }
    }
}
