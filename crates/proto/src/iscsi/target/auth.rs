//! The security stage of a login: choice of a method, and CHAP in one direction or both (RFC 7143
//! §12.1).

use super::config::{ChapPolicy, Guard};
use crate::iscsi::chap::{self, Algorithm, CHALLENGE_BYTES, Credentials};
use crate::iscsi::pdu::LoginStatus;
use crate::iscsi::text::{Key, Name, REJECT, Writer, binary};
use core::time::Duration;
use std::sync::Arc;

/// Randomness of one connection: the challenge and its identifier.
pub type Entropy = [u8; CHALLENGE_BYTES + 1];

/// Progress of an authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// No method was chosen.
    Start,
    /// CHAP was chosen; the algorithms are awaited.
    Algorithm,
    /// The challenge was sent.
    Challenged(Algorithm),
    /// Done.
    Proven,
}

/// Message of an initiator in one step.
#[derive(Debug, Default)]
pub(super) struct Said<'a> {
    pub methods: Option<&'a str>,
    pub algorithms: Option<&'a str>,
    pub identifier: Option<&'a str>,
    pub challenge: Option<&'a str>,
    pub name: Option<&'a str>,
    pub response: Option<&'a str>,
}

impl<'a> Said<'a> {
    /// Takes a pair, if its key is one of security.
    pub fn take(&mut self, key: Key, value: &'a str) -> bool {
        let place = match key {
            Key::AuthMethod => &mut self.methods,
            Key::ChapAlgorithm => &mut self.algorithms,
            Key::ChapIdentifier => &mut self.identifier,
            Key::ChapChallenge => &mut self.challenge,
            Key::ChapName => &mut self.name,
            Key::ChapResponse => &mut self.response,
            _ => return false,
        };
        *place = Some(value);
        true
    }
}

/// The proof that an initiator owes.
pub(super) struct Auth {
    progress: Progress,
    entropy: Entropy,
    /// The CHAP name that the initiator gave.
    claimed: Option<String>,
    pub guard: Option<Arc<dyn Guard>>,
    pub now: Duration,
}

const FAILED: LoginStatus = LoginStatus::AUTHENTICATION_FAILURE;

impl Auth {
    pub fn new(entropy: Entropy) -> Self {
        Self { progress: Progress::Start, entropy, claimed: None, guard: None, now: Duration::ZERO }
    }

    /// Returns whether the initiator may go on to the next stage.
    pub fn is_done(&self, policy: Option<&ChapPolicy>) -> bool {
        policy.is_none() || self.progress == Progress::Proven
    }

    /// The CHAP name that the initiator gave, proven or not.
    pub fn claimed(&self) -> Option<&str> {
        self.claimed.as_deref()
    }

    /// The user that the initiator has proven to be.
    pub fn user(&self) -> Option<&str> {
        self.claimed().filter(|_| self.progress == Progress::Proven)
    }

    /// Returns whether an exchange has begun that has to come to its end.
    pub fn is_under_way(&self) -> bool {
        matches!(self.progress, Progress::Algorithm | Progress::Challenged(_))
    }

    /// Processes one step of `initiator`. The answer is put into `reply`.
    pub fn step(
        &mut self,
        said: &Said<'_>,
        initiator: Option<&Name>,
        policy: Option<&ChapPolicy>,
        reply: &mut Writer,
    ) -> Result<(), LoginStatus> {
        if let Some(methods) = said.methods {
            self.choose(methods, policy, reply)?;
        }
        match (self.progress, policy) {
            (Progress::Algorithm, Some(_)) => match said.algorithms {
                Some(algorithms) => self.challenge(algorithms, reply),
                None => Ok(()),
            },
            (Progress::Challenged(algorithm), Some(policy)) => {
                self.check(algorithm, said, initiator, policy, reply)
            }
            _ => Ok(()),
        }
    }

    fn choose(
        &mut self,
        methods: &str,
        policy: Option<&ChapPolicy>,
        reply: &mut Writer,
    ) -> Result<(), LoginStatus> {
        if self.progress != Progress::Start {
            return Err(LoginStatus::INITIATOR_ERROR);
        }
        let wanted = if policy.is_some() { "CHAP" } else { "None" };
        if !methods.split(',').any(|method| method == wanted) {
            reply.put(Key::AuthMethod.name(), REJECT);
            return Err(FAILED);
        }
        reply.put(Key::AuthMethod.name(), wanted);
        self.progress = if policy.is_some() { Progress::Algorithm } else { Progress::Proven };
        Ok(())
    }

    fn challenge(&mut self, algorithms: &str, reply: &mut Writer) -> Result<(), LoginStatus> {
        let algorithm = Algorithm::choose(algorithms).ok_or(FAILED)?;
        reply.put(Key::ChapAlgorithm.name(), &algorithm.0.to_string());
        reply.put(Key::ChapIdentifier.name(), &self.identifier().to_string());
        reply.put(Key::ChapChallenge.name(), &binary::encode(self.challenge_bytes()));
        self.progress = Progress::Challenged(algorithm);
        Ok(())
    }

    fn identifier(&self) -> u8 {
        self.entropy[CHALLENGE_BYTES]
    }

    fn challenge_bytes(&self) -> &[u8] {
        &self.entropy[..CHALLENGE_BYTES]
    }

    fn check(
        &mut self,
        algorithm: Algorithm,
        said: &Said<'_>,
        initiator: Option<&Name>,
        policy: &ChapPolicy,
        reply: &mut Writer,
    ) -> Result<(), LoginStatus> {
        let (Some(name), Some(response)) = (said.name, said.response) else { return Err(FAILED) };
        self.claimed = Some(name.to_owned());
        // Unknown names take as long as known ones.
        let known = policy.users.iter().find(|known| known.credentials.name == name);
        let secret = known.map_or(&[][..], |known| &*known.credentials.secret);
        let expected = chap::respond(algorithm, self.identifier(), secret, self.challenge_bytes())
            .ok_or(FAILED)?;
        let right = known.filter(|_| expected.matches(response));
        if !self.guard.as_ref().is_none_or(|guard| guard.heeds(name, right.is_some(), self.now)) {
            return Err(LoginStatus::SERVICE_UNAVAILABLE);
        }
        let user = right.ok_or(FAILED)?;
        if !initiator.is_some_and(|initiator| policy.may_use(user, initiator)) {
            return Err(LoginStatus::AUTHORIZATION_FAILURE);
        }
        match (said.identifier, said.challenge) {
            (None, None) => {}
            (Some(identifier), Some(challenge)) => {
                self.prove(
                    algorithm,
                    identifier,
                    challenge,
                    policy.target.as_ref().ok_or(FAILED)?,
                    reply,
                )?;
            }
            _ => return Err(FAILED),
        }
        self.progress = Progress::Proven;
        Ok(())
    }

    /// The target proves itself. A challenge that comes back as it was sent would have it answer
    /// its own (§12.1.3).
    fn prove(
        &self,
        algorithm: Algorithm,
        identifier: &str,
        challenge: &str,
        own: &Credentials,
        reply: &mut Writer,
    ) -> Result<(), LoginStatus> {
        let identifier = chap::identifier(identifier).ok_or(FAILED)?;
        let challenge = chap::challenge(challenge)
            .filter(|bytes| bytes != self.challenge_bytes())
            .ok_or(FAILED)?;
        let response =
            chap::respond(algorithm, identifier, &own.secret, &challenge).ok_or(FAILED)?;
        reply.put(Key::ChapName.name(), &own.name);
        reply.put(Key::ChapResponse.name(), &response.text());
        Ok(())
    }
}
