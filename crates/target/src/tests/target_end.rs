//! The message transport's end at the target: capsules are received whole; data that is not in them
//! is read from and written to the host's memory.

use super::fabric::{FabricEnd, Message, Next};
use crate::export::nvme::session::NvmeLink;
use crate::export::nvme::session::NvmeSession;
use crate::export::nvme::transport::{Engine, Event};
use std::collections::VecDeque;
use std::time::Duration;
use weft_connection::limits::CLOSE_S;
use weft_connection::pump::{Flow, Link};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, DriverId, Handle, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::deviation::Deviations;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::stream::Tag;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetState {
    Free,
    /// The controller has the command.
    Held,
    /// Its data was asked for and is being read.
    Fetching,
    /// The controller gave it up while its data is being read.
    Draining,
    /// It was answered; data, then the response, are to be sent, or on their way.
    Answered,
}

struct Command {
    state: TargetState,
    sqe: Sqe,
    /// Data that came in the capsule.
    capsule: Vec<u8>,
    wanted: u32,
    cqe: Cqe,
    /// Data that is still to be written to the host; data that is being written.
    unwritten: u32,
    writing: bool,
    response_out: bool,
}

impl Command {
    fn new() -> Self {
        Self {
            state: TargetState::Free,
            sqe: Sqe::default(),
            capsule: Vec::new(),
            wanted: 0,
            cqe: Cqe::new(Cid(0), Status::SUCCESS),
            unwritten: 0,
            writing: false,
            response_out: false,
        }
    }
}

/// The commands of one connection.
pub(super) struct TargetEngine {
    commands: Vec<Command>,
    sqe: Sqe,
    /// Commands whose in-capsule data was asked for.
    in_capsules: VecDeque<Tag>,
    /// Commands with something to send or to ask for.
    todo: VecDeque<Tag>,
    /// Answers so far, and those of them that were sent.
    answers: u64,
    answers_sent: u64,
    /// Connect has succeeded.
    connected: bool,
}

impl Engine for TargetEngine {
    fn sqe(&self) -> &Sqe {
        &self.sqe
    }

    fn fetch(&mut self, tag: Tag, bytes: u32) -> Result<(), Status> {
        let command = &mut self.commands[tag.index()];
        assert_eq!(command.state, TargetState::Held);
        (command.state, command.wanted) = (TargetState::Fetching, bytes);
        if command.sqe.sgl().identifier == Sgl::IN_CAPSULE {
            assert_eq!(command.capsule.len(), bytes as usize, "the controller has judged the SGL");
            self.in_capsules.push_back(tag);
        } else {
            self.todo.push_back(tag);
        }
        Ok(())
    }

    fn ignore_data(&mut self, tag: Tag) {
        self.commands[tag.index()].capsule.clear();
    }

    fn complete(&mut self, tag: Tag, cqe: Cqe, data_bytes: u32) {
        let command = &mut self.commands[tag.index()];
        assert_eq!(command.state, TargetState::Held);
        (command.state, command.cqe, command.unwritten) = (TargetState::Answered, cqe, data_bytes);
        (command.writing, command.response_out) = (false, false);
        self.answers += 1;
        self.todo.push_back(tag);
    }

    fn queued(&self) -> u64 {
        self.answers
    }

    fn sent(&mut self, tag: Tag) {
        assert_eq!(self.commands[tag.index()].state, TargetState::Answered);
        self.commands[tag.index()].state = TargetState::Free;
    }

    fn abandon(&mut self, tag: Tag) {
        let command = &mut self.commands[tag.index()];
        command.state = match command.state {
            TargetState::Held => TargetState::Free,
            TargetState::Fetching => TargetState::Draining,
            other => other,
        };
    }

    fn drop_pending(&mut self) {
        for at in 0..self.commands.len() {
            if self.commands[at].state == TargetState::Fetching {
                self.abandon(Tag(at as u16));
            }
        }
    }

    fn begin_queue(&mut self, entries: u16, _: bool) {
        self.connected = true;
        self.commands.resize_with(self.commands.len().max(entries.into()), Command::new);
    }

    fn checks_data(&self) -> bool {
        false
    }
}

/// One connection.
pub(super) struct TargetEnd {
    end: FabricEnd,
    engine: TargetEngine,
    paused: bool,
    closing: bool,
    connect_limit: Duration,
    /// When Connect must have come, and when a closing connection is cut off.
    limit: Option<Time>,
    driver: Option<DriverId>,
    timer: TimerSlot,
    violation: Option<&'static str>,
}

impl TargetEnd {
    /// The target's end, on which Connect may take so long.
    pub(super) fn new(end: FabricEnd, connect_limit: Duration) -> Self {
        let engine = TargetEngine {
            commands: vec![Command::new()],
            sqe: Sqe::default(),
            in_capsules: VecDeque::new(),
            todo: VecDeque::new(),
            answers: 0,
            answers_sent: 0,
            connected: false,
        };
        let timer = TimerSlot::default();
        Self {
            end,
            engine,
            paused: false,
            closing: false,
            connect_limit,
            limit: None,
            driver: None,
            timer,
            violation: None,
        }
    }

    /// Keeps the time limits: for Connect, and for a host that does not take the last that there is
    /// for it.
    fn keep_time(&mut self, on: &Handle) {
        let limit = match (self.closing, self.engine.connected) {
            (true, _) => Duration::from_secs(CLOSE_S),
            (false, false) => self.connect_limit,
            (false, true) => return self.limit = None,
        };
        let at = *self.limit.get_or_insert_with(|| on.now() + limit);
        if self.end.has_ended() {
            return;
        }
        match self.driver {
            _ if on.now() >= at => self.break_off(if self.closing {
                "responses are not taken"
            } else {
                "Connect is late"
            }),
            Some(driver) => self.timer.arm(on, driver, at),
            None => {}
        }
    }

    fn break_off(&mut self, why: &'static str) {
        self.violation = Some(why);
        self.end.cut();
    }

    fn tell(&mut self, on: &Handle, session: &mut NvmeSession, event: Event) {
        self.paused |= session.event(on, &mut self.engine, event) == Flow::Pause;
        while let Some(tag) = self.engine.in_capsules.pop_front() {
            let data = core::mem::take(&mut self.engine.commands[tag.index()].capsule);
            self.arrived(on, session, tag, &data);
        }
    }

    /// All data of a command is here.
    fn arrived(&mut self, on: &Handle, session: &mut NvmeSession, tag: Tag, data: &[u8]) {
        let state = self.engine.commands[tag.index()].state;
        if state == TargetState::Draining {
            self.engine.commands[tag.index()].state = TargetState::Free;
            return self.tell(on, session, Event::Dropped { tag });
        }
        assert_eq!(state, TargetState::Fetching);
        if session.wants_whole(tag) {
            session.place(tag, data);
        } else {
            let mut at = 0;
            while at < data.len() {
                let piece = session
                    .memory_mut(tag, at as u32, (data.len() - at) as u32)
                    .expect("a fetch has memory");
                let n = piece.len();
                piece.copy_from_slice(&data[at..at + n]);
                at += n;
            }
        }
        self.engine.commands[tag.index()].state = TargetState::Held;
        self.tell(on, session, Event::DataArrived { tag });
    }

    fn capsule(&mut self, on: &Handle, session: &mut NvmeSession, bytes: &[u8]) {
        self.end.post_receive();
        let Some((sqe, data)) = bytes.split_first_chunk() else {
            return self.break_off("a capsule is too short");
        };
        let free =
            self.engine.commands.iter().position(|command| command.state == TargetState::Free);
        let Some(at) = free else {
            return self.break_off("more commands than the queue has entries");
        };
        let command = &mut self.engine.commands[at];
        (command.sqe, command.state) = (Sqe(*sqe), TargetState::Held);
        command.capsule = data.to_vec();
        self.engine.sqe = Sqe(*sqe);
        self.tell(
            on,
            session,
            Event::Command { tag: Tag(at as u16), in_capsule_bytes: data.len() as u32 },
        );
    }

    /// The memory of an answered command is free once its data is written and its response sent.
    fn settle(&mut self, on: &Handle, session: &mut NvmeSession, tag: Tag) {
        let command = &self.engine.commands[tag.index()];
        if command.response_out && !command.writing {
            session.released(on, &mut self.engine, tag);
        }
    }

    fn take(&mut self, on: &Handle, session: &mut NvmeSession, message: Message) {
        match message {
            Message::Capsule(bytes) => self.capsule(on, session, &bytes),
            Message::Sent(tag) => {
                self.engine.commands[tag.index()].response_out = true;
                self.settle(on, session, tag);
            }
            Message::ReadDone { tag, data: Some(data) } => self.arrived(on, session, tag, &data),
            Message::WriteDone { tag, allowed: true } => {
                self.engine.commands[tag.index()].writing = false;
                self.settle(on, session, tag);
            }
            Message::ReadDone { .. } | Message::WriteDone { .. } => {
                self.break_off("memory may not be accessed by this key")
            }
            Message::Read { .. } | Message::Write { .. } => {
                self.break_off("a target lends no memory")
            }
        }
    }

    /// Does what is next for a command; `false` when the host has no receive for its response yet.
    fn advance(&mut self, on: &Handle, session: &NvmeSession, tag: Tag) -> bool {
        let command = &mut self.engine.commands[tag.index()];
        match command.state {
            TargetState::Fetching | TargetState::Draining => {
                self.end.put(
                    on.now(),
                    Message::Read { tag, key: command.sqe.key(), len: command.wanted },
                );
                true
            }
            TargetState::Answered => {
                if command.unwritten > 0 {
                    let len = core::mem::take(&mut command.unwritten);
                    let mut data = Vec::with_capacity(len as usize);
                    while data.len() < len as usize {
                        data.extend_from_slice(session.memory(
                            tag,
                            data.len() as u32,
                            len - data.len() as u32,
                        ));
                    }
                    command.writing = true;
                    self.end.put(on.now(), Message::Write { tag, key: command.sqe.key(), data });
                }
                let is_sent = self.end.send(on.now(), tag, &command.cqe.encode());
                self.engine.answers_sent += u64::from(is_sent);
                is_sent
            }
            TargetState::Free | TargetState::Held => true,
        }
    }
}

impl Link<NvmeSession> for TargetEnd {
    type Engine = TargetEngine;

    fn engine(&mut self) -> &mut TargetEngine {
        &mut self.engine
    }

    fn register(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        self.driver = Some(driver);
        self.end.settle(Some((on.remote(), driver)));
        on.wake(driver);
        Ok(())
    }

    fn deregister(&mut self, _: &Handle, _: DriverId) -> std::io::Result<()> {
        (self.driver, self.timer) = (None, TimerSlot::default());
        self.end.settle(None);
        Ok(())
    }

    fn peer(&self) -> String {
        "a host by messages".into()
    }

    fn receive(&mut self, on: &Handle, session: &mut NvmeSession) -> Activity {
        let mut activity = Activity::Idle;
        while !self.paused && !self.closing {
            if let Some(tag) = self.engine.in_capsules.pop_front() {
                let data = core::mem::take(&mut self.engine.commands[tag.index()].capsule);
                self.arrived(on, session, tag, &data);
                activity = Activity::Busy;
                continue;
            }
            match self.end.next(on.now()) {
                Next::Now(message) => self.take(on, session, message),
                Next::Later(at) => {
                    if let Some(driver) = self.driver {
                        self.timer.arm(on, driver, at);
                    }
                    break;
                }
                Next::Nothing => break,
            }
            activity = Activity::Busy;
        }
        activity
    }

    fn send(&mut self, on: &Handle, session: &mut NvmeSession) -> Activity {
        let mut activity = Activity::Idle;
        while !self.end.has_ended()
            && let Some(&tag) = self.engine.todo.front()
            && self.advance(on, session, tag)
        {
            self.engine.todo.pop_front();
            activity = Activity::Busy;
        }
        if self.closing && self.engine.todo.is_empty() {
            self.end.leave();
        }
        self.keep_time(on);
        activity
    }

    fn has_unsent(&self) -> bool {
        !self.engine.todo.is_empty()
    }

    fn is_paused(&self) -> bool {
        self.paused
    }

    fn resume(&mut self) {
        self.paused = false;
    }

    fn close(&mut self) {
        if !self.closing {
            (self.closing, self.limit) = (true, None);
        }
    }

    fn has_ended(&self) -> bool {
        self.end.has_ended()
    }

    fn error(&self) -> Option<&std::io::Error> {
        None
    }
}

impl NvmeLink for TargetEnd {
    const PROTOCOL: &'static str = "messages";

    fn sent(&self) -> u64 {
        self.engine.answers_sent
    }

    fn violation(&self) -> Option<String> {
        self.violation.map(str::to_owned)
    }

    fn take_deviations(&mut self) -> Deviations {
        Deviations::default()
    }
}

impl Drop for TargetEnd {
    fn drop(&mut self) {
        self.end.close();
    }
}
