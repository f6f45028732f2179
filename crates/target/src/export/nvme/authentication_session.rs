//! A connection between its Connect and the proof of its host: the queue is there, and takes no
//! other commands than those of the authentication. It stays on the loop that accepted it, has no
//! devices, and still counts as not admitted.

use super::admission::{Admitted, Queue};
use super::authenticating::{Authenticating, Exchange};
use super::mailbox::NvmeMessage;
use super::transport::{Engine, Event};
use std::time::Duration;
use weft_connection::limits::{AUTHENTICATION_MESSAGES_MAX, AUTHENTICATION_S};
use weft_connection::pump::Flow;
use weft_io::{Handle, Time};
use weft_proto::nvme::controller::{AuthenticationCommand, CONNECT_BYTES, Port};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::stream::Tag;

/// The answer to the command with which a queue opens, not sent yet: to Connect, or to the last
/// message of an authentication.
pub(super) struct Answer {
    pub tag: Tag,
    pub cqe: Cqe,
    /// Data that the host gets before the answer.
    pub data: Vec<u8>,
    /// Entries of the queue and whether it has SQ flow control, if the transport does not know it
    /// yet.
    pub begins: Option<(u16, bool)>,
}

/// A Connect, with its data, and where it came in.
pub(super) struct Asked {
    pub sqe: Sqe,
    pub data: Box<[u8; CONNECT_BYTES]>,
    pub port: Port,
    /// The identity of the connection's key, where it is encrypted.
    pub identity: Option<Box<[u8]>>,
}

/// What the connection is before its host has authenticated.
pub(crate) struct AuthenticationSession {
    /// `None` when it has been passed on.
    admitted: Option<Admitted>,
    /// By what it was connected.
    asked: Asked,
    /// Likewise.
    authenticating: Option<Box<Authenticating>>,
    /// Memory of the commands that have some.
    memory: Vec<(Tag, Vec<u8>)>,
    /// The host has proved who it is: this is to be answered where the queue is served.
    last: Option<Answer>,
    until: Time,
}

impl AuthenticationSession {
    pub(super) fn new(
        on: &Handle,
        asked: Asked,
        admitted: Admitted,
        authenticating: Box<Authenticating>,
    ) -> Self {
        let (admitted, authenticating) = (Some(admitted.step_back()), Some(authenticating));
        Self {
            admitted,
            asked,
            authenticating,
            memory: Vec::new(),
            last: None,
            until: on.now() + Duration::from_secs(AUTHENTICATION_S),
        }
    }

    /// When the host has to have proved who it is.
    pub(super) fn until(&self) -> Time {
        self.until
    }

    /// Why the connection is to be closed, if it is.
    pub(super) fn end(&self, on: &Handle) -> Option<Option<String>> {
        let authenticating = self.authenticating.as_ref()?;
        if authenticating.is_over() {
            return Some(None);
        }
        (on.now() >= self.until).then(|| {
            Some(format!(
                "{}: not authenticated within {AUTHENTICATION_S} s",
                authenticating.names()
            ))
        })
    }

    /// Whether the queue can be served: nothing is being sent from memory that stays here.
    pub(super) fn is_ready(&self) -> bool {
        self.last.is_some() && self.memory.is_empty()
    }

    /// What is served from now on, with the authentication for another time, and what is to be
    /// answered there.
    pub(super) fn take(&mut self) -> Option<(Admitted, Answer)> {
        let admitted = self.admitted.take()?;
        Some((
            Admitted { authentication: self.authenticating.take(), ..admitted },
            self.last.take()?,
        ))
    }

    /// By what the queue was connected.
    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// The connection has ended: nothing of the queue stays.
    pub(super) fn give_up(&mut self) {
        self.admitted = None;
    }

    pub(super) fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        let (_, memory) = self.memory.iter_mut().find(|(of, _)| *of == tag)?;
        let rest = memory.get_mut(offset as usize..)?;
        let len = rest.len().min(len as usize);
        Some(&mut rest[..len]).filter(|piece| !piece.is_empty())
    }

    pub(super) fn memory(&self, tag: Tag, offset: u32, len: u32) -> Option<&[u8]> {
        let (_, memory) = self.memory.iter().find(|(of, _)| *of == tag)?;
        let rest = memory.get(offset as usize..)?;
        Some(&rest[..rest.len().min(len as usize)])
    }

    fn free(&mut self, tag: Tag) {
        self.memory.retain(|(of, _)| *of != tag);
    }

    pub(super) fn released(&mut self, engine: &mut impl Engine, tag: Tag) {
        self.free(tag);
        engine.sent(tag);
    }

    pub(super) fn event(&mut self, on: &Handle, engine: &mut impl Engine, event: Event) -> Flow {
        match event {
            Event::Command { tag, in_capsule_bytes } => {
                self.passed(on);
                let sqe = *engine.sqe();
                if !self.exchange(on, engine, tag, &sqe, in_capsule_bytes) {
                    self.answer(engine, tag, AuthenticationCommand::required(&sqe), 0);
                }
            }
            Event::DataArrived { tag } => _ = self.arrived(on, engine, tag, true),
            Event::DataFailed { tag } => _ = self.arrived(on, engine, tag, false),
            Event::Dropped { tag } => self.free(tag),
        }
        if self.last.is_some() { Flow::Pause } else { Flow::Continue }
    }

    /// Counts a command, as the queue does.
    fn passed(&mut self, on: &Handle) {
        match self.admitted.as_mut().map(|admitted| &mut admitted.queue) {
            Some(Queue::Admin(control)) => control.passed(on.now().since_epoch()),
            Some(Queue::Io(queue, _)) => queue.passed(),
            None => {}
        }
    }

    /// What the queue is to know when it is served.
    pub(super) fn own_message(&mut self, message: NvmeMessage) {
        match (self.admitted.as_mut().map(|admitted| &mut admitted.queue), message) {
            (Some(Queue::Admin(control)), NvmeMessage::Namespaces(view)) => {
                control.namespaces_changed(view.table)
            }
            (Some(Queue::Admin(control)), NvmeMessage::Discovery(log)) => {
                control.discovery_changed(log)
            }
            // An I/O queue has no place yet, and sees everything when it gets one.
            _ => {}
        }
    }
}

impl<E: Engine> Exchange<E> for AuthenticationSession {
    fn authenticating(&mut self) -> Option<&mut Authenticating> {
        self.authenticating.as_deref_mut()
    }

    fn room(&mut self, _: &Handle, tag: Tag, bytes: usize) -> Option<&mut [u8]> {
        self.free(tag);
        if self.memory.len() >= AUTHENTICATION_MESSAGES_MAX {
            return None;
        }
        self.memory.push((tag, vec![0; bytes]));
        self.memory.last_mut().map(|(_, memory)| &mut memory[..])
    }

    fn message(&self, tag: Tag) -> Vec<u8> {
        self.memory
            .iter()
            .find(|(of, _)| *of == tag)
            .map(|(_, memory)| memory.clone())
            .unwrap_or_default()
    }

    fn answer(&mut self, engine: &mut E, tag: Tag, cqe: Cqe, data_bytes: u32) {
        let cqe = match self.admitted.as_ref().map(|admitted| &admitted.queue) {
            Some(Queue::Admin(control)) => control.stamped(cqe),
            Some(Queue::Io(queue, _)) => queue.stamped(cqe),
            None => cqe,
        };
        let is_done =
            self.last.is_none() && self.authenticating.as_ref().is_some_and(|it| it.is_done());
        if is_done && cqe.status.is_success() {
            let at = self.memory.iter().position(|(of, _)| *of == tag);
            let mut data = at.map(|at| self.memory.swap_remove(at).1).unwrap_or_default();
            data.truncate(data_bytes as usize);
            self.last = Some(Answer { tag, cqe, data, begins: None });
            return;
        }
        if data_bytes == 0 {
            self.free(tag);
        }
        engine.complete(tag, cqe, data_bytes);
    }
}
