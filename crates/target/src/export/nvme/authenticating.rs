//! The authentication of one queue: the commands that carry its messages, when it counts as done,
//! and how often it may be tried.
//!
//! The arithmetic takes some milliseconds, or some tens with the largest group. [`Jobs`] are
//! computed elsewhere, and the queue's loop goes on in the meantime; [`Attempts`] bound how much
//! arithmetic an address may cause.
//!
//! [`Jobs`]: super::arithmetic::Jobs
//! [`Attempts`]: super::attempts::Attempts

use super::arithmetic::Job;
use super::attempts;
use super::generated::Owner;
use super::mailbox::Mailbox;
use super::ports::Caller;
use super::subsystems::ControllerId;
use super::target_state::TargetState;
use super::transport::Engine;
use crate::export::origin::origin;
use std::sync::{Arc, Weak};
use weft_connection::identity::Identities;
use weft_io::Handle;
use weft_proto::nvme::auth::{
    Arithmetic, AuthenticationVerdict, Computed, ControllerAuthentication, ControllerKeys,
    FailureReason, GeneratedPsk, Group, MESSAGE_BYTES_MAX, SecureChannel,
};
use weft_proto::nvme::controller::AuthenticationCommand;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::{HostMemory, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Nqn};
use weft_proto::printable::Printable;
use weft_proto::stream::Tag;

/// The authentication of one queue.
pub(crate) struct Authenticating {
    engine: ControllerAuthentication,
    shared: Arc<TargetState>,
    /// What the secrets of the host are found by.
    host: Option<Nqn>,
    subsystem: Nqn,
    host_memory: HostMemory,
    /// The host's address and port.
    peer: String,
    /// Its connection, which is told what was computed.
    mailbox: Weak<Mailbox>,
    /// What its address was when the authentication began.
    of_address: attempts::Standing,
    /// Of the admin queue: the association that a key for TLS belongs to.
    owner: Option<Owner>,
    /// The Authentication Send whose message is awaited.
    sending: Option<(Tag, Cid)>,
    /// The Authentication Send that is answered when something has been computed.
    computing: Option<(Tag, Cid)>,
    standing: Standing,
    /// An attempt was counted, and the host has not answered since.
    is_unanswered: bool,
    /// A key for TLS came of it, over a connection that has none.
    has_made_key: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing yet.
    Open,
    /// The host is who it says.
    Proved,
    /// It is not, or does not know who the controller is; the host may fetch the reason.
    Failed,
    /// The host has said so itself.
    GivenUp,
}

/// What is to be done about a command.
pub(super) enum Step {
    /// Bring in so many bytes of the host's data, and call [`Authenticating::arrived`].
    Fetch(u32),
    /// Answer it.
    Answer(Cqe),
    /// Answer it with this message.
    Message(Cqe, Vec<u8>),
    /// It is another command.
    Other,
}

impl Authenticating {
    /// One that the host has not begun. `subsystem`: by what the secrets are found.
    pub(super) fn new(
        shared: Arc<TargetState>,
        keys: ControllerKeys,
        (host, subsystem): (Option<Nqn>, Nqn),
        from: Caller<'_>,
        mailbox: &Arc<Mailbox>,
    ) -> Self {
        Self {
            engine: ControllerAuthentication::new(keys),
            shared,
            host,
            subsystem,
            host_memory: from.port.host_memory,
            peer: from.peer.to_owned(),
            mailbox: Arc::downgrade(mailbox),
            of_address: attempts::Standing::Stranger,
            owner: None,
            sending: None,
            computing: None,
            standing: Standing::Open,
            is_unanswered: false,
            has_made_key: false,
        }
    }

    /// On the admin queue of this controller.
    pub(super) fn belongs_to(&mut self, controller: ControllerId) {
        let has_tls = self.engine.keys().has_tls;
        self.owner =
            Some(if has_tls { Owner::UsedBy(controller) } else { Owner::MadeBy(controller) });
    }

    /// Whether the host has to come again with TLS.
    pub(super) fn demands_channel(&self) -> bool {
        let keys = self.engine.keys();
        keys.channel == SecureChannel::Required && !keys.has_tls
    }

    /// Whether it has made a key for TLS over a connection that has none: the host is to come again
    /// with it.
    pub(super) fn has_made_key(&self) -> bool {
        self.has_made_key
    }

    /// Whether the host has proved who it is, and has been told so.
    pub(super) fn is_done(&self) -> bool {
        self.standing == Standing::Proved && self.engine.is_idle()
    }

    /// Whether it has failed, and the host knows why: the connection is to be closed.
    pub(super) fn is_over(&self) -> bool {
        match self.standing {
            Standing::Failed => self.engine.is_idle(),
            Standing::GivenUp => true,
            Standing::Open | Standing::Proved => false,
        }
    }

    /// Whether the message of this command is awaited.
    pub(super) fn awaits(&self, tag: Tag) -> bool {
        self.sending.is_some_and(|(of, _)| of == tag)
    }

    /// The message of a command does not come.
    pub(super) fn forget(&mut self, tag: Tag) {
        self.sending.take_if(|(of, _)| *of == tag);
    }

    /// Who authenticates, for people.
    pub(super) fn names(&self) -> String {
        let keys = self.engine.keys();
        let name = if keys.hostnqn.is_empty() { "without a name" } else { keys.hostnqn.as_str() };
        format!("{}: host {}, subsystem {}", self.peer, Printable(name), self.subsystem)
    }

    /// Whether a message of the host is on its way, or being dealt with.
    fn is_busy(&self) -> bool {
        self.sending.is_some() || self.computing.is_some()
    }

    /// A command came; `in_capsule_bytes` is how much data came with it.
    pub(super) fn command(&mut self, tag: Tag, sqe: &Sqe, in_capsule_bytes: u32) -> Step {
        match AuthenticationCommand::parse(sqe, in_capsule_bytes, self.host_memory) {
            Err(cqe) => Step::Answer(cqe),
            Ok(AuthenticationCommand::Other) => Step::Other,
            // Nothing but the reason is to be had any more.
            Ok(AuthenticationCommand::Send { .. })
                if self.is_busy() || self.standing == Standing::Failed =>
            {
                Step::Answer(AuthenticationCommand::out_of_order(sqe))
            }
            Ok(AuthenticationCommand::Send { bytes }) => {
                self.sending = Some((tag, sqe.cid()));
                Step::Fetch(bytes)
            }
            Ok(AuthenticationCommand::Receive { bytes }) => match self.engine.fetch(bytes as usize)
            {
                None => Step::Answer(AuthenticationCommand::out_of_order(sqe)),
                Some(mut message) => {
                    // The rest of the host's memory is zeros.
                    message.resize(message.len().max((bytes as usize).min(MESSAGE_BYTES_MAX)), 0);
                    Step::Message(Cqe::new(sqe.cid(), Status::SUCCESS), message)
                }
            },
        }
    }

    /// The message of the command that was to be fetched has come, or was damaged: the answer,
    /// unless something has to be computed first.
    pub(super) fn arrived(&mut self, on: &Handle, message: Option<&[u8]>) -> Option<Cqe> {
        let (tag, cid) = self.sending.take()?;
        let Some(message) = message else {
            return Some(Cqe::new(cid, Status::TRANSIENT_TRANSPORT_ERROR));
        };
        if !self.may_go_on(on, message) {
            return Some(Cqe::new(cid, Status::COMMAND_INTERRUPTED));
        }
        let identities = Identities::system();
        match self
            .engine
            .sent(message, self.shared.next_sequence(), &mut |bytes| identities.fill(bytes))
        {
            AuthenticationVerdict::Compute(arithmetic) => {
                self.computing = Some((tag, cid));
                self.compute(arithmetic);
                None
            }
            verdict => {
                self.follow(on, verdict);
                Some(Cqe::new(cid, Status::SUCCESS))
            }
        }
    }

    fn compute(&self, arithmetic: Arithmetic) {
        let job = Job {
            address: origin(&self.peer),
            standing: self.of_address,
            arithmetic,
            to: Weak::clone(&self.mailbox),
        };
        self.shared.jobs.add(job, &*self.shared.inventory.threads());
    }

    /// What a message of the host asked for has been computed, or could not be: the answer to its
    /// command.
    pub(super) fn computed(
        &mut self,
        on: &Handle,
        computed: Option<Computed>,
    ) -> Option<(Tag, Cqe)> {
        let (tag, cid) = self.computing.take()?;
        let Some(computed) = computed else {
            self.engine.interrupted();
            return Some((tag, Cqe::new(cid, Status::COMMAND_INTERRUPTED)));
        };
        let verdict = self.engine.computed(computed);
        self.follow(on, verdict);
        Some((tag, Cqe::new(cid, Status::SUCCESS)))
    }

    fn follow(&mut self, on: &Handle, verdict: AuthenticationVerdict) {
        match verdict {
            AuthenticationVerdict::Next | AuthenticationVerdict::Compute(_) => {
                self.standing = Standing::Open
            }
            AuthenticationVerdict::Authenticated(psk) => {
                self.standing = Standing::Proved;
                self.shared.attempts.succeeded(on.now().since_epoch(), origin(&self.peer));
                psk.into_iter().for_each(|psk| self.keep(on, &psk));
                tracing::debug!("{}: authenticated", self.names());
            }
            AuthenticationVerdict::Failed(reason) => {
                self.failed(on, Standing::Failed, "authentication refused", reason)
            }
            AuthenticationVerdict::GivenUp(reason) => {
                self.failed(on, Standing::GivenUp, "the host refuses this controller", reason)
            }
        }
    }

    /// Keeps the key that came of it, until the host comes with it.
    fn keep(&mut self, on: &Handle, psk: &GeneratedPsk) {
        self.has_made_key |= !self.engine.keys().has_tls;
        let (Some(owner), keys) = (self.owner, self.engine.keys()) else { return };
        let names = (keys.hostnqn.as_str(), keys.subnqn.as_str());
        if !self.shared.generated.insert(on.now().since_epoch(), psk, names, owner) {
            let text = || format!("{}: no key for TLS can have these names", self.names());
            self.shared.members.refusals().log(on.now().since_epoch(), text);
        }
    }

    /// Whether the host may send this message, which may begin an authentication. Where too many of
    /// its address have failed, or too much was computed, it may try again later: it is not told
    /// that its secret is wrong, as it would give up for good then, and anybody at its address
    /// could have that done.
    fn may_go_on(&mut self, on: &Handle, message: &[u8]) -> bool {
        if self.engine.begins(message).is_none() {
            self.is_unanswered = false;
            return true;
        }
        // Secrets and groups may have been changed since the queue was connected.
        if let Some(keys) =
            self.shared.keys(&self.subsystem, self.host.as_ref(), self.engine.keys())
        {
            self.engine.set_keys(keys);
        }
        let (now, group) =
            (on.now().since_epoch(), self.engine.begins(message).unwrap_or(Group::Null));
        let begun = self.shared.attempts.begin(now, origin(&self.peer), group);
        self.is_unanswered |= begun.is_ok();
        let refused = begun.map(|standing| self.of_address = standing).err();
        if let Some(too_much) = refused {
            let text = || format!("{}: {}; it has to wait", self.names(), too_much.text());
            self.shared.members.refusals().log(now, text);
        }
        refused.is_none()
    }

    fn failed(&mut self, on: &Handle, standing: Standing, what: &str, reason: FailureReason) {
        self.standing = standing;
        // The host is not told.
        let is_unknown = standing == Standing::Failed && self.engine.keys().secrets.is_empty();
        let hint = match reason {
            FailureReason::GROUP_UNUSABLE => {
                "; groups of more than 4096 bits have to be accepted by --dhchap-dhgroup"
            }
            _ if is_unknown => "; there is no secret of this host here",
            _ if self.engine.lacks_secret() => {
                "; its secret is right, but it wants this controller to prove who it is, and there is no secret for that here (--dhchap-ctrl-secret-file)"
            }
            _ => "",
        };
        let text = || format!("{}: {what}: {}{hint}", self.names(), reason.name());
        self.shared.members.refusals().log(on.now().since_epoch(), text);
    }
}

impl Drop for Authenticating {
    /// Who has not answered a challenge has guessed nothing. A host that needs several queues at
    /// once, and goes when one of them has to wait, would otherwise use up with the others what is
    /// forgotten until it comes again.
    fn drop(&mut self) {
        if self.is_unanswered {
            self.shared.attempts.withdrawn(origin(&self.peer));
        }
    }
}

/// A queue on which messages of an authentication are exchanged, and the memory of its commands.
pub(super) trait Exchange<E: Engine> {
    /// The authentication, if there is one.
    fn authenticating(&mut self) -> Option<&mut Authenticating>;

    /// Gives a command memory of so many bytes; `None`: there is none.
    fn room(&mut self, on: &Handle, tag: Tag, bytes: usize) -> Option<&mut [u8]>;

    /// A copy of a command's memory.
    fn message(&self, tag: Tag) -> Vec<u8>;

    /// Answers a command with so many bytes of its memory. Memory that the host does not get is
    /// free then.
    fn answer(&mut self, engine: &mut E, tag: Tag, cqe: Cqe, data_bytes: u32);

    /// A command came; tells whether it is dealt with here.
    fn exchange(
        &mut self,
        on: &Handle,
        engine: &mut E,
        tag: Tag,
        sqe: &Sqe,
        in_capsule_bytes: u32,
    ) -> bool {
        let Some(authenticating) = self.authenticating() else { return false };
        match authenticating.command(tag, sqe, in_capsule_bytes) {
            Step::Other => return false,
            Step::Answer(cqe) => self.answer(engine, tag, cqe, 0),
            Step::Fetch(bytes) => {
                let fetched = match self.room(on, tag, bytes as usize) {
                    Some(_) => engine.fetch(tag, bytes),
                    None => Err(Status::INTERNAL_ERROR),
                };
                if let Err(status) = fetched {
                    self.authenticating().into_iter().for_each(|it| it.forget(tag));
                    self.answer(engine, tag, Cqe::new(sqe.cid(), status), 0);
                }
            }
            Step::Message(cqe, message) => match self.room(on, tag, message.len()) {
                None => self.answer(engine, tag, Cqe::new(sqe.cid(), Status::INTERNAL_ERROR), 0),
                Some(room) => {
                    room.copy_from_slice(&message);
                    self.answer(engine, tag, cqe, message.len() as u32);
                }
            },
        }
        true
    }

    /// The data of a command has come, if it `is_whole`; tells whether it was a message.
    fn arrived(&mut self, on: &Handle, engine: &mut E, tag: Tag, is_whole: bool) -> bool {
        if !self.authenticating().is_some_and(|it| it.awaits(tag)) {
            return false;
        }
        let message = self.message(tag);
        let answer =
            self.authenticating().and_then(|it| it.arrived(on, is_whole.then_some(&message)));
        if let Some(cqe) = answer {
            self.answer(engine, tag, cqe, 0);
        }
        true
    }

    /// What was computed for the queue has come.
    fn computed(&mut self, on: &Handle, engine: &mut E, computed: Option<Computed>) {
        if let Some((tag, cqe)) = self.authenticating().and_then(|it| it.computed(on, computed)) {
            self.answer(engine, tag, cqe, 0);
        }
    }
}
