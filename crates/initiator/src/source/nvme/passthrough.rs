//! Commands to an I/O queue as a user gives them. A command has the queue for itself, on the
//! control loop.

use super::association::{Association, IoConnection, ToAdmin};
use super::command_data::CommandData;
use super::transport::{CommandEngine, CommandEvent, CommandOwner, ControllerLink};
use crate::control::Done;
use std::sync::Arc;
use weft_block::{Error, ErrorKind, waiting};
use weft_io::{Activity, Driver, DriverId, Handle, RemoteLoop, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::HostData;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::stream::Tag;

/// A completion, and the data that came.
type Answer = (Cqe, Vec<u8>);

/// Runs a command on an I/O queue that no device uses, and waits for it, at most for the time limit
/// of I/O.
pub(super) fn run<L: ControllerLink>(
    association: &Arc<Association<L>>,
    name: &str,
    sqe: Sqe,
    data: CommandData,
) -> Result<Answer, Error> {
    let data = data.for_io()?;
    let (association, name) = (Arc::clone(association), name.to_owned());
    let control = association.options.control.clone();
    let _waiting = waiting::begin(|| format!("{name} to answer a command"));
    control.begin(move |on, done| start(on, association, name, (sqe, data), done))?.wait()
}

fn start<L: ControllerLink>(
    on: &Handle,
    association: Arc<Association<L>>,
    name: String,
    (sqe, data): (Sqe, CommandData),
    done: Done<Answer>,
) {
    let Some(mut connection) = association.take_idle() else {
        let text = match association.is_over() {
            true => format!("{name}: {}", association.why_ended()),
            false => format!("{name}: no I/O queue is free"),
        };
        return done(Err(Error::new(ErrorKind::Refused, text)));
    };
    let (direction, memory) = data.into_memory();
    let deadline = on.now() + association.options.io_timeout;
    let mut done = Some(done);
    let spawned = on.try_spawn(|id| {
        connection.link.register(on, id)?;
        on.wake_at(id, deadline);
        association.enter(on.remote(), id);
        let command = Command { memory, ended: None };
        let mut driver = Passthrough {
            id,
            remote: on.remote(),
            connection: Some(connection),
            command,
            association,
            name,
            deadline,
            done: done.take(),
        };
        driver.submit(sqe, direction);
        on.wake(id);
        Ok::<_, std::io::Error>(driver)
    });
    if let (Err(e), Some(done)) = (spawned, done) {
        done(Err(Error::io(format!("cannot watch a connection: {e}"), e)));
    }
}

/// The memory of the command, and what came of it.
struct Command {
    memory: Vec<u8>,
    /// The completion, and how many bytes have come.
    ended: Option<(Cqe, u32)>,
}

impl<E: CommandEngine> CommandOwner<E> for Command {
    fn memory_mut(&mut self, _: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        self.memory.get_mut(offset as usize..offset as usize + len as usize)
    }

    fn memory(&self, _: Tag, offset: u32, len: u32) -> &[u8] {
        &self.memory[offset as usize..offset as usize + len as usize]
    }

    fn event(&mut self, _: &Handle, engine: &mut E, event: CommandEvent) {
        let (tag, cqe, received) = match event {
            CommandEvent::Response { tag, cqe, received_bytes } => (tag, cqe, received_bytes),
            CommandEvent::DataFailed { tag, cqe } => {
                (tag, Cqe { status: Status::TRANSIENT_TRANSPORT_ERROR, ..cqe }, 0)
            }
        };
        engine.release(tag);
        self.ended = Some((cqe, received));
    }
}

/// The driver of a queue while its one command is under way.
struct Passthrough<L: ControllerLink> {
    id: DriverId,
    remote: RemoteLoop,
    /// Taken when it goes back.
    connection: Option<IoConnection<L>>,
    command: Command,
    association: Arc<Association<L>>,
    name: String,
    deadline: Time,
    done: Option<Done<Answer>>,
}

impl<L: ControllerLink> Passthrough<L> {
    fn submit(&mut self, sqe: Sqe, data: HostData) {
        let Some(connection) = &mut self.connection else { return };
        if connection.link.engine().submit(sqe, data).is_err() {
            // Its end is noticed in the first turn.
            connection.link.abort();
        }
    }

    /// The command has ended: the queue is free again.
    fn give_back(&mut self, on: &Handle, (cqe, received): (Cqe, u32)) {
        let mut memory = core::mem::take(&mut self.command.memory);
        memory.truncate(received as usize);
        if let Some(mut connection) = self.connection.take() {
            match connection.link.deregister(on, self.id) {
                Ok(()) => self.association.give_idle(connection),
                Err(_) => self.association.tell(ToAdmin::Lost(connection.qid)),
            }
        }
        self.end(on, Ok((cqe, memory)));
    }

    /// There will be no answer: the association ends, so that nothing of the command is executed
    /// later.
    fn give_up(&mut self, on: &Handle, kind: ErrorKind, why: &str) {
        if let Some(mut connection) = self.connection.take() {
            connection.link.abort();
            self.association.tell(ToAdmin::Lost(connection.qid));
        }
        let text = format!("{}: {why}; whether the command was executed is not known", self.name);
        self.end(on, Err(Error::new(kind, text)));
    }

    fn end(&mut self, on: &Handle, outcome: Result<Answer, Error>) {
        if let Some(done) = self.done.take() {
            done(outcome);
        }
        on.remove(self.id);
    }
}

impl<L: ControllerLink> Drop for Passthrough<L> {
    fn drop(&mut self) {
        self.association.leave(&self.remote, self.id);
    }
}

impl<L: ControllerLink> Driver for Passthrough<L> {
    fn receive(&mut self, on: &Handle) -> Activity {
        match &mut self.connection {
            Some(connection) => connection.link.receive(on, &mut self.command),
            None => Activity::Idle,
        }
    }

    fn work(&mut self, on: &Handle) -> Activity {
        let Some(connection) = &self.connection else { return Activity::Idle };
        let ended = self.command.ended.filter(|_| connection.link.is_quiet());
        if let Some(ended) = ended {
            self.give_back(on, ended);
        } else if connection.link.has_ended() {
            let why = connection.link.why_ended();
            self.give_up(on, ErrorKind::Refused, &why);
        } else if self.association.is_over() {
            let why = self.association.why_ended();
            self.give_up(on, ErrorKind::Refused, &why);
        } else if on.now() >= self.deadline {
            let why = "no answer within --io-timeout";
            self.give_up(on, ErrorKind::TimedOut, why);
        }
        Activity::busy_if(ended.is_some())
    }

    fn send(&mut self, on: &Handle) -> Activity {
        match &mut self.connection {
            Some(connection) => connection.link.send(on, &mut self.command),
            None => Activity::Idle,
        }
    }
}
