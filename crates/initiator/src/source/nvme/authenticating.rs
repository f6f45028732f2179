//! The authentication of one queue at its host: the commands that carry its messages, one after the
//! other.

use super::transport::ConcatenationState;
use crate::source::HostSecrets;
use weft_block::{Error, ErrorKind};
use weft_connection::identity::Identities;
use weft_proto::nvme::auth::{
    Concatenation, FailureReason, GeneratedPsk, HostAuthentication, HostStep,
};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::{ConnectData, ConnectResponse, Security};
use weft_proto::nvme::host::HostData;
use weft_proto::nvme::opcode::FabricsType;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Nqn;

/// A command, and its memory.
pub(crate) struct AuthenticationIo {
    pub(crate) sqe: Sqe,
    pub(crate) data: HostData,
    pub(crate) memory: Vec<u8>,
}

/// An authentication that has begun.
pub(crate) struct HostAuthenticating {
    engine: HostAuthentication,
    identities: Identities,
    /// URL or address, for messages.
    name: String,
    /// Name of this host.
    host: Nqn,
    /// The command under way.
    sent: FabricsType,
    /// The controller asked for it.
    is_asked: bool,
    channel: ConcatenationState,
    /// The controller is to prove who it is.
    is_mutual: bool,
    /// The key for TLS that came of it.
    psk: Option<GeneratedPsk>,
}

/// Begins to authenticate a queue, if the answer to its Connect, which had this data, the channel
/// or the secrets ask for it; with the first command.
///
/// # Errors
/// There is no secret of this host.
pub(crate) fn begin(
    name: &str,
    (secrets, identities, channel): (&HostSecrets, &Identities, ConcatenationState),
    connect: &[u8],
    answer: &Cqe,
) -> Result<Option<(HostAuthenticating, AuthenticationIo)>, Error> {
    let authentication = ConnectResponse::decode(answer.result as u32).authentication;
    let is_asked = authentication != 0;
    let names = ConnectData::decode(connect).ok();
    let names = names.and_then(|names| Some((names.hostnqn.nqn().ok()?, names.subnqn.nqn().ok()?)));
    // A secure channel is more than is to be had here: the association says so.
    let is_beyond = authentication & ConnectResponse::SECURE_CHANNEL_REQUIRED != 0
        && channel != ConcatenationState::Making;
    let is_wanted = match channel {
        ConcatenationState::Other => secrets.controller.is_some(),
        // Discovery is open in many places, and each of the subsystems that it tells of makes a key
        // of its own.
        ConcatenationState::Making => {
            names.as_ref().is_some_and(|(_, subsystem)| *subsystem != Nqn::discovery())
        }
        ConcatenationState::Keyed => false,
    };
    if !answer.status.is_success() || is_beyond || !(is_asked || is_wanted) {
        return Ok(None);
    }
    let missing = || {
        let text = format!(
            "{name}: the subsystem demands that its hosts authenticate, and this host has no secret; give it with --dhchap-secret-file"
        );
        Error::new(ErrorKind::PermissionDenied, text)
    };
    let concatenation = if channel == ConcatenationState::Making {
        Concatenation::New
    } else {
        Concatenation::None
    };
    let known = names.and_then(|(host, subsystem)| {
        Some((secrets.keys(&host, &subsystem, concatenation)?, host))
    });
    let (keys, host) = known.ok_or_else(missing)?;
    let transaction = u16::from_le_bytes(identities.random());
    let (engine, step) = HostAuthentication::begin(keys, transaction);
    let (identities, name) = (identities.clone(), name.to_owned());
    let is_mutual = secrets.controller.is_some();
    let sent = FabricsType::AUTHENTICATION_SEND;
    let mut begun = HostAuthenticating {
        engine,
        identities,
        name,
        host,
        sent,
        is_asked,
        channel,
        is_mutual,
        psk: None,
    };
    Ok(begun.follow(step)?.map(|command| (begun, command)))
}

/// The answer to Connect of a queue on which what was asked for has been done.
pub(crate) fn done(answer: &Cqe) -> Cqe {
    with(answer, 0)
}

/// That of one on which it failed: it is of no use.
pub(crate) fn failed(answer: &Cqe) -> Cqe {
    with(answer, ConnectResponse::AUTHENTICATION_REQUIRED)
}

fn with(answer: &Cqe, authentication: u16) -> Cqe {
    let response =
        ConnectResponse { authentication, ..ConnectResponse::decode(answer.result as u32) };
    Cqe { result: response.encode().into(), ..*answer }
}

impl HostAuthenticating {
    /// The command under way has ended, with this data: the next one, if there is one.
    ///
    /// # Errors
    /// The authentication has failed.
    pub(crate) fn ended(
        &mut self,
        cqe: &Cqe,
        data: &[u8],
    ) -> Result<Option<AuthenticationIo>, Error> {
        if let Some(why) = self.verdict() {
            return Err(why);
        }
        if !cqe.status.is_success() {
            return Err(self.refused(cqe.status));
        }
        let step = if self.sent == FabricsType::AUTHENTICATION_SEND {
            self.engine.sent()
        } else {
            let sequence = u32::from_le_bytes(self.identities.random());
            self.engine.received(data, sequence, &mut |bytes| self.identities.fill(bytes))
        };
        self.follow(step)
    }

    fn follow(&mut self, step: HostStep) -> Result<Option<AuthenticationIo>, Error> {
        match step {
            HostStep::Send(memory) => {
                self.sent = FabricsType::AUTHENTICATION_SEND;
                let bytes = memory.len() as u32;
                Ok(Some(AuthenticationIo {
                    sqe: Security::send(bytes),
                    data: HostData::Out(bytes),
                    memory,
                }))
            }
            HostStep::Receive(bytes) => {
                self.sent = FabricsType::AUTHENTICATION_RECEIVE;
                let memory = vec![0; bytes];
                let bytes = bytes as u32;
                Ok(Some(AuthenticationIo {
                    sqe: Security::receive(bytes),
                    data: HostData::In(bytes),
                    memory,
                }))
            }
            HostStep::Done(psk) => {
                self.psk = psk;
                Ok(None)
            }
            HostStep::Failed(reason, by_controller) => Err(self.failure(reason, by_controller)),
        }
    }

    /// Why this host has given up, as it tells the controller with the command under way. Linux
    /// ends the connection in answer to that, and may do so before it answers the command.
    pub(crate) fn verdict(&self) -> Option<Error> {
        Some(self.failure(self.engine.verdict()?, false))
    }

    /// The key for TLS that came of it, once it is over.
    pub(crate) fn take_psk(&mut self) -> Option<GeneratedPsk> {
        self.psk.take()
    }

    /// The controller did not take a message, or gave none.
    fn refused(&self, status: Status) -> Error {
        let (name, sent) = (&self.name, self.sent);
        if status == Status::COMMAND_INTERRUPTED {
            let text = format!(
                "{name}: the controller does not authenticate this host now ({status}); try again in a while"
            );
            return Error::new(ErrorKind::Refused, text);
        }
        let text = if self.is_asked {
            format!("{name}: the controller refused {sent}: {status}")
        } else if self.channel == ConcatenationState::Making {
            format!(
                "{name}: the subsystem does not authenticate its hosts (it refused {sent}: {status}), so that there is no key for TLS; set secrets \
                 there, or leave --concat out"
            )
        } else {
            format!(
                "{name}: the controller does not prove who it is (it refused {sent}: {status}); set its secret there (for discovery, \
                 weft serve --dhchap-discovery), or leave --dhchap-ctrl-secret-file out"
            )
        };
        Error::new(ErrorKind::PermissionDenied, text)
    }

    fn failure(&self, reason: FailureReason, by_controller: bool) -> Error {
        let (name, why) = (&self.name, reason.name());
        let text = match (reason, by_controller) {
            (FailureReason::FAILED, true) if self.is_mutual => format!(
                "{name}: the controller refused this host: {why}; check that --dhchap-secret-file holds the secret that it knows of {}, and that it has \
                 a secret with which it proves who it is, as --dhchap-ctrl-secret-file demands",
                self.host
            ),
            (FailureReason::FAILED, true) => format!(
                "{name}: the controller refused this host: {why}; check that --dhchap-secret-file holds the secret that it knows of {}",
                self.host
            ),
            (FailureReason::FAILED, false) => format!(
                "{name}: the controller does not know the secret of --dhchap-ctrl-secret-file: it may be another one than it says; check the file"
            ),
            (FailureReason::HASH_UNUSABLE | FailureReason::GROUP_UNUSABLE, _) => {
                format!(
                    "{name}: {why}: the two ends accept different ones; see --dhchap-hash and --dhchap-dhgroup"
                )
            }
            (FailureReason::CONCATENATION_MISMATCH, true)
                if self.channel == ConcatenationState::Making =>
            {
                format!(
                    "{name}: the target makes no keys for TLS: {why}; enable secure channel concatenation there (weft serve --concat), or leave --concat \
                 out"
                )
            }
            (FailureReason::CONCATENATION_MISMATCH, true) => {
                format!(
                    "{name}: the target demands secure channel concatenation: {why}; connect with --concat"
                )
            }
            (_, true) => format!("{name}: the controller ended the authentication: {why}"),
            (_, false) => {
                format!("{name}: the controller broke the rules of authentication: {why}")
            }
        };
        Error::new(ErrorKind::PermissionDenied, text)
    }
}
