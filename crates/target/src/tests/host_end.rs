//! The message transport's end at the host: memory by key and address, which the target reads and
//! writes while a command is under way.

use super::fabric::{Fabric, FabricEnd, Message, Next};
use std::collections::VecDeque;
use std::sync::Arc;
use weft_block::{Error, ErrorKind};
use weft_initiator::source::nvme::transport::{
    CommandEngine, CommandEvent, CommandOwner, ConnectResult, ControllerLink, LinkPlan, OpenLink,
    Opened,
};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{HostData, SubmitError};
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::types::Cid;
use weft_proto::stream::Tag;

#[derive(Clone, Copy, PartialEq, Eq)]
enum HostState {
    Free,
    /// Not sent yet: the other end may have had no receive for it.
    Queued,
    Sent,
    /// The host has the answer.
    Done,
}

struct Command {
    state: HostState,
    sqe: Sqe,
    data: HostData,
    /// Distinguishes the commands of a tag, in identifiers and keys.
    generation: u16,
    /// The capsule's memory is free.
    capsule_out: bool,
    answer: Option<Cqe>,
    received_bytes: u32,
}

/// Tags are in the lower bits of an identifier.
const TAG_BITS: u32 = 8;

impl Command {
    fn cid(&self, tag: usize) -> Cid {
        Cid(tag as u16 | self.generation << TAG_BITS & 0x7fff)
    }

    fn key(&self, tag: usize) -> u32 {
        u32::from(self.generation) << 16 | tag as u32
    }
}

/// The commands of one connection.
pub(super) struct HostEngine {
    commands: Vec<Command>,
    queue: VecDeque<Tag>,
    in_capsule_bytes: u32,
    closed: bool,
}

impl CommandEngine for HostEngine {
    fn submit(&mut self, mut sqe: Sqe, data: HostData) -> Result<Tag, SubmitError> {
        if self.closed {
            return Err(SubmitError::Closed);
        }
        let at = self
            .commands
            .iter()
            .position(|command| command.state == HostState::Free)
            .ok_or(SubmitError::Full)?;
        let command = &mut self.commands[at];
        command.generation = command.generation.wrapping_add(1);
        sqe.set_cid(command.cid(at));
        match data {
            HostData::Out(bytes) if bytes <= self.in_capsule_bytes => {
                sqe.set_sgl(Sgl::in_capsule(bytes))
            }
            HostData::Out(bytes) | HostData::In(bytes) => sqe.set_keyed(0, bytes, command.key(at)),
            HostData::None => sqe.set_keyed(0, 0, 0),
        }
        (command.sqe, command.data, command.state) = (sqe, data, HostState::Queued);
        (command.capsule_out, command.answer, command.received_bytes) = (false, None, 0);
        self.queue.push_back(Tag(at as u16));
        Ok(Tag(at as u16))
    }

    fn release(&mut self, tag: Tag) {
        assert!(
            self.commands[tag.index()].state == HostState::Done,
            "only what was answered is released"
        );
        self.commands[tag.index()].state = HostState::Free;
    }

    fn outstanding(&self) -> usize {
        self.commands.iter().filter(|command| command.state != HostState::Free).count()
    }

    fn is_closed(&self) -> bool {
        self.closed
    }

    fn cid(&self, tag: Tag) -> Option<Cid> {
        let command = self.commands.get(tag.index())?;
        (command.state != HostState::Free).then(|| command.cid(tag.index()))
    }

    fn never_sent(&self, tag: Tag) -> bool {
        self.commands[tag.index()].state == HostState::Queued
    }
}

impl HostEngine {
    /// The command whose memory a key names.
    fn by_key(&mut self, key: u32) -> Option<(Tag, &mut Command)> {
        let at = (key & 0xffff) as usize;
        let command = self.commands.get_mut(at)?;
        (command.state == HostState::Sent && command.key(at) == key)
            .then_some((Tag(at as u16), command))
    }

    /// The answer of a command, once its capsule is out too.
    fn answer(&mut self, tag: Tag) -> Option<CommandEvent> {
        let command = &mut self.commands[tag.index()];
        let cqe =
            command.answer.filter(|_| command.capsule_out && command.state == HostState::Sent)?;
        command.state = HostState::Done;
        Some(CommandEvent::Response { tag, cqe, received_bytes: command.received_bytes })
    }
}

/// One connection.
pub(super) struct HostEnd {
    end: FabricEnd,
    engine: HostEngine,
    closing: bool,
    driver: Option<DriverId>,
    timer: TimerSlot,
    complaint: Option<String>,
}

impl HostEnd {
    fn new(end: FabricEnd, commands: u16) -> Self {
        let free = || Command {
            state: HostState::Free,
            sqe: Sqe::default(),
            data: HostData::None,
            generation: 0,
            capsule_out: false,
            answer: None,
            received_bytes: 0,
        };
        let commands = (0..commands.min(1 << TAG_BITS)).map(|_| free()).collect();
        let engine =
            HostEngine { commands, queue: VecDeque::new(), in_capsule_bytes: 0, closed: false };
        Self {
            end,
            engine,
            closing: false,
            driver: None,
            timer: TimerSlot::default(),
            complaint: None,
        }
    }

    fn take(
        &mut self,
        on: &Handle,
        commands: &mut impl CommandOwner<HostEngine>,
        message: Message,
    ) {
        let event = match message {
            Message::Capsule(bytes) => {
                self.end.post_receive();
                self.response(&bytes)
            }
            Message::Sent(tag) => {
                self.engine.commands[tag.index()].capsule_out = true;
                self.engine.answer(tag)
            }
            Message::Read { tag: theirs, key, len } => {
                let data = self.read(commands, key, len);
                self.end.put(on.now(), Message::ReadDone { tag: theirs, data });
                None
            }
            Message::Write { tag: theirs, key, data } => {
                let allowed = self.write(commands, key, &data);
                self.end.put(on.now(), Message::WriteDone { tag: theirs, allowed });
                None
            }
            Message::ReadDone { .. } | Message::WriteDone { .. } => None,
        };
        if let Some(event) = event {
            commands.event(on, &mut self.engine, event);
        }
    }

    fn response(&mut self, bytes: &[u8]) -> Option<CommandEvent> {
        let cqe = Cqe::decode(bytes.try_into().expect("a response is 16 bytes"));
        let at = usize::from(cqe.cid.0 & ((1 << TAG_BITS) - 1));
        let known = self
            .engine
            .commands
            .get_mut(at)
            .filter(|c| c.state == HostState::Sent && c.cid(at) == cqe.cid);
        let Some(command) = known else {
            self.complaint = Some(format!("answered command {}, which there is not", cqe.cid));
            self.end.cut();
            return None;
        };
        command.answer = Some(cqe);
        self.engine.answer(Tag(at as u16))
    }

    /// The memory of a command whose data goes out.
    fn read(
        &mut self,
        commands: &impl CommandOwner<HostEngine>,
        key: u32,
        len: u32,
    ) -> Option<Vec<u8>> {
        let (tag, command) = self.engine.by_key(key)?;
        let HostData::Out(bytes) = command.data else { return None };
        (len <= bytes).then(|| gather(commands, tag, len))
    }

    fn write(
        &mut self,
        commands: &mut impl CommandOwner<HostEngine>,
        key: u32,
        data: &[u8],
    ) -> bool {
        let Some((tag, command)) = self.engine.by_key(key) else { return false };
        if !matches!(command.data, HostData::In(bytes) if data.len() <= bytes as usize) {
            return false;
        }
        command.received_bytes = data.len() as u32;
        let mut at = 0;
        while at < data.len() {
            let Some(piece) = commands.memory_mut(tag, at as u32, (data.len() - at) as u32) else {
                return false;
            };
            let n = piece.len();
            piece.copy_from_slice(&data[at..at + n]);
            at += n;
        }
        true
    }
}

fn gather<E>(commands: &impl CommandOwner<E>, tag: Tag, len: u32) -> Vec<u8> {
    let mut data = Vec::with_capacity(len as usize);
    while data.len() < len as usize {
        data.extend_from_slice(commands.memory(tag, data.len() as u32, len - data.len() as u32));
    }
    data
}

impl OpenLink for HostEnd {
    type Place = Arc<Fabric>;

    fn open(
        on: &Handle,
        plan: LinkPlan<Arc<Fabric>>,
        then: impl FnOnce(&Handle, Result<Opened<Self>, Error>) + 'static,
    ) {
        let mut link = Self::new(plan.place.connect(), plan.commands);
        let Some(io) = plan.io else { return then(on, Ok((link, ConnectResult::default()))) };
        let (sqe, data) = io.connect;
        on.spawn(|id| {
            link.register(on, id).expect("a message end can be watched");
            link.engine.submit(sqe, HostData::Out(1024)).expect("a new queue has room");
            on.wake_at(id, plan.limit.until());
            let (link, then) = (Some(link), Some(Box::new(then) as Box<_>));
            let connect = Connect { data, answer: None };
            Connecting {
                link,
                connect,
                id,
                until: plan.limit.until(),
                in_capsule_bytes: io.in_capsule_bytes,
                then,
            }
        });
    }
}

impl ControllerLink for HostEnd {
    type Engine = HostEngine;

    fn engine(&mut self) -> &mut HostEngine {
        &mut self.engine
    }

    fn register(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        self.driver = Some(driver);
        self.end.settle(Some((on.remote(), driver)));
        Ok(())
    }

    fn deregister(&mut self, _: &Handle, _: DriverId) -> std::io::Result<()> {
        (self.driver, self.timer) = (None, TimerSlot::default());
        self.end.settle(None);
        Ok(())
    }

    fn receive(&mut self, on: &Handle, commands: &mut impl CommandOwner<HostEngine>) -> Activity {
        let mut activity = Activity::Idle;
        while !self.closing {
            match self.end.next(on.now()) {
                Next::Now(message) => self.take(on, commands, message),
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
        self.engine.closed = self.end.has_ended();
        activity
    }

    fn send(&mut self, on: &Handle, commands: &mut impl CommandOwner<HostEngine>) -> Activity {
        let mut activity = Activity::Idle;
        while let Some(&tag) = self.engine.queue.front() {
            let command = &self.engine.commands[tag.index()];
            let mut capsule = command.sqe.0.to_vec();
            if let (HostData::Out(bytes), Sgl::IN_CAPSULE) =
                (command.data, command.sqe.sgl().identifier)
            {
                capsule.extend(gather(commands, tag, bytes));
            }
            if !self.end.send(on.now(), tag, &capsule) {
                break;
            }
            self.engine.queue.pop_front();
            self.engine.commands[tag.index()].state = HostState::Sent;
            activity = Activity::Busy;
        }
        if self.closing && self.engine.queue.is_empty() {
            self.end.leave();
        }
        activity
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn abort(&mut self) {
        self.close();
    }

    fn has_ended(&self) -> bool {
        self.end.has_ended()
    }

    fn complaint(&self) -> Option<String> {
        self.complaint.clone()
    }

    fn is_quiet(&self) -> bool {
        !self.closing && !self.end.has_ended() && self.engine.queue.is_empty()
    }
}

impl Drop for HostEnd {
    fn drop(&mut self) {
        self.end.close();
    }
}

/// Connect of an I/O queue.
struct Connect {
    data: Box<[u8; 1024]>,
    answer: Option<Cqe>,
}

impl CommandOwner<HostEngine> for Connect {
    fn memory_mut(&mut self, _: Tag, _: u32, _: u32) -> Option<&mut [u8]> {
        None
    }

    fn memory(&self, _: Tag, offset: u32, len: u32) -> &[u8] {
        &self.data[offset as usize..(offset + len) as usize]
    }

    fn event(&mut self, _: &Handle, engine: &mut HostEngine, event: CommandEvent) {
        let (CommandEvent::Response { tag, cqe, .. } | CommandEvent::DataFailed { tag, cqe }) =
            event;
        engine.release(tag);
        self.answer = Some(cqe);
    }
}

type Then = Box<dyn FnOnce(&Handle, Result<Opened<HostEnd>, Error>)>;

/// The driver until Connect is answered.
struct Connecting {
    link: Option<HostEnd>,
    connect: Connect,
    id: DriverId,
    until: Time,
    in_capsule_bytes: u32,
    then: Option<Then>,
}

impl Driver for Connecting {
    fn receive(&mut self, on: &Handle) -> Activity {
        self.link.as_mut().map_or(Activity::Idle, |link| link.receive(on, &mut self.connect))
    }

    fn work(&mut self, on: &Handle) -> Activity {
        let Some(mut link) = self.link.take() else { return Activity::Idle };
        let result = if self.connect.answer.is_some() {
            link.engine.in_capsule_bytes = self.in_capsule_bytes;
            let _ = link.deregister(on, self.id);
            Ok((link, ConnectResult { answer: self.connect.answer, psk: None }))
        } else if link.has_ended() {
            Err(Error::new(
                ErrorKind::Refused,
                "the target ended the connection in answer to Connect",
            ))
        } else if on.now() >= self.until {
            Err(Error::new(ErrorKind::TimedOut, "the target does not answer Connect"))
        } else {
            self.link = Some(link);
            return Activity::Idle;
        };
        on.remove(self.id);
        if let Some(then) = self.then.take() {
            then(on, result);
        }
        Activity::Busy
    }

    fn send(&mut self, on: &Handle) -> Activity {
        self.link.as_mut().map_or(Activity::Idle, |link| link.send(on, &mut self.connect))
    }
}
