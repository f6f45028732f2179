//! The exchange on the connection of an I/O queue before the queue is used: Connect, and the
//! authentication behind it. The same for every transport.

use super::authenticating::{self, HostAuthenticating};
use super::transport::{
    CommandEngine, CommandEvent, CommandOwner, ConcatenationState, ConnectResult, LinkPlan,
};
use crate::source::HostSecrets;
use weft_block::Error;
use weft_connection::identity::Identities;
use weft_io::Handle;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::HostData;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::stream::Tag;

/// What is said, and how far it is.
pub(crate) struct ConnectExchange {
    /// URL or address, for messages.
    name: String,
    connect: Option<(Sqe, Box<[u8; 1024]>)>,
    secrets: HostSecrets,
    channel: ConcatenationState,
    identities: Identities,
    /// Of the command under way.
    memory: Vec<u8>,
    authenticating: Option<HostAuthenticating>,
    /// The answer to Connect.
    answer: Option<Cqe>,
    outcome: Option<Result<(), Error>>,
}

impl ConnectExchange {
    /// What the plan has to say: nothing on the connection of an admin queue, whose Connect is the
    /// association's.
    pub(crate) fn new<P>(plan: &LinkPlan<P>) -> Self {
        let connect = plan.io.as_ref().map(|io| io.connect.clone());
        Self {
            name: plan.name.clone(),
            outcome: connect.is_none().then_some(Ok(())),
            connect,
            secrets: plan.options.secrets.clone(),
            channel: plan.channel,
            identities: plan.options.control.identities().clone(),
            memory: Vec::new(),
            authenticating: None,
            answer: None,
        }
    }

    /// Begins, on a connection that stands.
    pub(crate) fn start(&mut self, engine: &mut impl CommandEngine) {
        if let Some((sqe, data)) = &self.connect {
            self.memory = data.to_vec();
            // A new queue has room for its first command.
            let _ = engine.submit(*sqe, HostData::Out(data.len() as u32));
        }
    }

    /// Whether all is said.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.outcome, Some(Ok(())))
    }

    /// Why nothing came of it, once.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.outcome.take_if(|outcome| outcome.is_err()).and_then(Result::err)
    }

    /// Why this host has given up, also if the controller does not take its word about that.
    pub(crate) fn verdict(&self) -> Option<Error> {
        self.authenticating.as_ref()?.verdict()
    }

    /// What the controller has to answer.
    pub(crate) fn stage(&self) -> &'static str {
        if self.authenticating.is_some() { "the authentication" } else { "Connect" }
    }

    /// What was said, when all is.
    pub(crate) fn finish(&mut self) -> ConnectResult {
        let psk = self.authenticating.as_mut().and_then(HostAuthenticating::take_psk);
        ConnectResult { answer: self.answer, psk }
    }

    /// The command under way has ended.
    fn ended(&mut self, engine: &mut impl CommandEngine, cqe: Cqe, received_bytes: u32) {
        let received = (received_bytes as usize).min(self.memory.len());
        let next = match &mut self.authenticating {
            Some(it) => it.ended(&cqe, &self.memory[..received]),
            None => {
                self.answer = Some(cqe);
                let with = (&self.secrets, &self.identities, self.channel);
                let begun = authenticating::begin(&self.name, with, &self.memory, &cqe);
                begun.map(|begun| {
                    let (it, command) = begun?;
                    self.authenticating = Some(it);
                    Some(command)
                })
            }
        };
        match next {
            Err(why) => self.outcome = Some(Err(why)),
            Ok(None) => {
                if self.authenticating.is_some() {
                    self.answer = self.answer.as_ref().map(authenticating::done);
                }
                self.outcome = Some(Ok(()));
            }
            Ok(Some(command)) => {
                self.memory = command.memory;
                // The command before has ended, so there is room.
                let _ = engine.submit(command.sqe, command.data);
            }
        }
    }
}

impl<E: CommandEngine> CommandOwner<E> for ConnectExchange {
    fn memory_mut(&mut self, _: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        let rest = self.memory.get_mut(offset as usize..)?;
        let len = rest.len().min(len as usize);
        Some(&mut rest[..len]).filter(|piece| !piece.is_empty())
    }

    fn memory(&self, _: Tag, offset: u32, len: u32) -> &[u8] {
        &self.memory[offset as usize..(offset + len) as usize]
    }

    fn event(&mut self, _: &Handle, engine: &mut E, event: CommandEvent) {
        let (tag, cqe, received_bytes) = match event {
            CommandEvent::Response { tag, cqe, received_bytes } => (tag, cqe, received_bytes),
            // What arrived damaged is no message.
            CommandEvent::DataFailed { tag, cqe } => (tag, cqe, 0),
        };
        engine.release(tag);
        self.ended(engine, cqe, received_bytes);
    }
}
