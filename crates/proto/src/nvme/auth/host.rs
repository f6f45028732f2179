//! The host's end of an authentication: it begins, answers the controller's challenge, and may
//! challenge the controller.

use super::algorithm::{Group, Hash};
use super::digest::{Digest, Responder, Said, hash, response};
use super::group::KeyPair;
use super::message::{
    Challenge, FailureReason, MESSAGE_BYTES_MAX, Message, Negotiate, Reply, decode,
};
use super::psk::GeneratedPsk;
use super::secret::DhchapSecret;
use super::{Concatenation, Random};

/// Keys of a host, and the algorithms that it accepts.
#[derive(Clone)]
pub struct HostKeys {
    /// Name of the host.
    pub hostnqn: String,
    /// Name of the subsystem.
    pub subnqn: String,
    /// The host's secret.
    pub secret: DhchapSecret,
    /// The controller's, if it has to prove that it knows it.
    pub controller: Option<DhchapSecret>,
    /// Hash functions, the preferred one first; what is not here is not accepted.
    pub hashes: Vec<Hash>,
    /// Permitted groups, the preferred one first.
    pub groups: Vec<Group>,
    /// Use of the exchange to make a key for TLS.
    pub concatenation: Concatenation,
}

/// Next step of the host.
pub enum HostStep {
    /// Send this by Authentication Send, and call [`HostAuthentication::sent`] when it was taken.
    Send(Vec<u8>),
    /// Send Authentication Receive for a message of at most this many bytes, and give it to
    /// [`HostAuthentication::received`].
    Receive(usize),
    /// Both know what they wanted to know. With concatenation there is a key.
    Done(Option<GeneratedPsk>),
    /// It failed, for this reason; `true` if the controller says so. The connection is of no use.
    Failed(FailureReason, bool),
}

enum AuthenticationState {
    /// Waits for the answer to the last message.
    Waiting(AwaitedMessage),
    /// The last message is on its way.
    Ending(Result<Option<GeneratedPsk>, FailureReason>),
    Over,
}

enum AwaitedMessage {
    Challenge,
    Success(Box<Expected>),
}

/// Expected contents of Success1.
struct Expected {
    /// The controller's response, if it was challenged.
    response: Option<Digest>,
    psk: Option<GeneratedPsk>,
}

/// An authentication of one queue.
pub struct HostAuthentication {
    keys: HostKeys,
    transaction: u16,
    state: AuthenticationState,
}

impl HostAuthentication {
    /// Begins one: the first message. `transaction` differs from that of the last authentication of
    /// this queue.
    pub fn begin(keys: HostKeys, transaction: u16) -> (Self, HostStep) {
        let mut keys = keys;
        if keys.concatenation != Concatenation::None {
            keys.hashes.retain(|hash| hash.has_cipher());
            keys.groups.retain(|group| *group != Group::Null);
        }
        let negotiate = Negotiate {
            concatenation: keys.concatenation.code(),
            algorithms: Some((keys.hashes.clone(), keys.groups.clone())),
        };
        let message = Message::Negotiate(negotiate).encode(transaction);
        (
            Self {
                keys,
                transaction,
                state: AuthenticationState::Waiting(AwaitedMessage::Challenge),
            },
            HostStep::Send(message),
        )
    }

    /// The message was taken.
    pub fn sent(&mut self) -> HostStep {
        match core::mem::replace(&mut self.state, AuthenticationState::Over) {
            AuthenticationState::Waiting(waiting) => {
                self.state = AuthenticationState::Waiting(waiting);
                HostStep::Receive(MESSAGE_BYTES_MAX)
            }
            AuthenticationState::Ending(Ok(psk)) => HostStep::Done(psk),
            AuthenticationState::Ending(Err(reason)) => HostStep::Failed(reason, false),
            AuthenticationState::Over => HostStep::Failed(FailureReason::MESSAGE, false),
        }
    }

    /// Why this host gives up, once it has made the message that says so (AUTH_Failure2). That
    /// stands whether or not the controller takes the message.
    pub fn verdict(&self) -> Option<FailureReason> {
        match self.state {
            AuthenticationState::Ending(Err(reason)) => Some(reason),
            _ => None,
        }
    }

    /// A message arrived. `sequence` is the number of the host's own challenge: never 0, and never
    /// one that was used before.
    pub fn received(&mut self, data: &[u8], sequence: u32, random: Random<'_>) -> HostStep {
        let AuthenticationState::Waiting(waiting) =
            core::mem::replace(&mut self.state, AuthenticationState::Over)
        else {
            return HostStep::Failed(FailureReason::MESSAGE, false);
        };
        let next = match decode(data) {
            Err(reason) => Err(reason),
            Ok((_, Message::Failure1(reason))) => return HostStep::Failed(reason, true),
            Ok((transaction, _)) if transaction != self.transaction => Err(FailureReason::PAYLOAD),
            Ok((_, Message::Challenge(challenge)))
                if matches!(waiting, AwaitedMessage::Challenge) =>
            {
                self.reply(&challenge, sequence, random)
            }
            Ok((_, Message::Success1(response))) => match waiting {
                AwaitedMessage::Success(expected) => self.judge(*expected, response),
                AwaitedMessage::Challenge => Err(FailureReason::MESSAGE),
            },
            Ok(_) => Err(FailureReason::MESSAGE),
        };
        next.unwrap_or_else(|reason| {
            // A host that fails after the challenge says so; before it, it just goes.
            self.state = AuthenticationState::Ending(Err(reason));
            HostStep::Send(Message::Failure2(reason).encode(self.transaction))
        })
    }

    /// The hash function and the group that the controller has chosen, if they can be used.
    fn chosen(&self, challenge: &Challenge<'_>) -> Result<(Hash, Group), FailureReason> {
        let with = Hash::of(challenge.hash)
            .filter(|hash| self.keys.hashes.contains(hash))
            .ok_or(FailureReason::HASH_UNUSABLE)?;
        let group = Group::of(challenge.group)
            .filter(|group| self.keys.groups.contains(group))
            .ok_or(FailureReason::GROUP_UNUSABLE)?;
        let concatenates = self.keys.concatenation != Concatenation::None;
        if challenge.value.len() != with.bytes() {
            return Err(FailureReason::PAYLOAD);
        }
        if group == Group::Null && (concatenates || !challenge.public.is_empty()) {
            return Err(if concatenates {
                FailureReason::GROUP_UNUSABLE
            } else {
                FailureReason::PAYLOAD
            });
        }
        Ok((with, group))
    }

    fn reply(
        &mut self,
        challenge: &Challenge<'_>,
        sequence: u32,
        random: Random<'_>,
    ) -> Result<HostStep, FailureReason> {
        let (with, group) = self.chosen(challenge)?;
        let concatenates = self.keys.concatenation != Concatenation::None;
        let pair = KeyPair::new(group, random);
        let session = match &pair {
            None => None,
            Some(pair) => {
                Some(hash(with, &pair.agree(challenge.public).ok_or(FailureReason::PAYLOAD)?))
            }
        };
        let mut own = vec![0; with.bytes()];
        let is_challenged = self.keys.controller.is_some() || concatenates;
        if is_challenged {
            random(&mut own);
        }
        // SEQNUM 0 says that C2 is there for the key alone.
        let own_sequence = if self.keys.controller.is_some() { sequence.max(1) } else { 0 };
        let HostKeys { hostnqn, subnqn, secret, controller, .. } = &self.keys;
        let respond = |secret: &DhchapSecret, name, challenge, sequence, responder| {
            let said = Said {
                challenge,
                session: session.as_ref(),
                sequence,
                transaction: self.transaction,
                concatenation: self.keys.concatenation.code(),
            };
            response(with, &secret.transformed(name), &said, responder, hostnqn, subnqn)
        };
        let ours = respond(secret, hostnqn, challenge.value, challenge.sequence, Responder::Host);
        // A controller that sends our own challenge back wants our response to it.
        if is_challenged && own == challenge.value {
            return Err(FailureReason::FAILED);
        }
        let theirs = controller
            .as_ref()
            .map(|secret| respond(secret, subnqn, &own, own_sequence, Responder::Controller));
        let psk = session
            .as_ref()
            .filter(|_| concatenates)
            .map(|session| GeneratedPsk::new(with, session, challenge.value, &own));
        let message = Message::Reply(Reply {
            response: ours.as_bytes(),
            challenge: is_challenged.then_some(&own),
            sequence: own_sequence,
            public: pair.as_ref().map_or(&[], KeyPair::public),
        });
        let step = HostStep::Send(message.encode(self.transaction));
        self.state = AuthenticationState::Waiting(AwaitedMessage::Success(Box::new(Expected {
            response: theirs,
            psk,
        })));
        Ok(step)
    }

    fn judge(
        &mut self,
        expected: Expected,
        response: Option<&[u8]>,
    ) -> Result<HostStep, FailureReason> {
        match (&expected.response, response) {
            (Some(ours), Some(theirs)) if ours.is(theirs) => {}
            (Some(_), _) => return Err(FailureReason::FAILED),
            // What was not asked for proves nothing, and does not harm.
            (None, _) => {}
        }
        // Without a proof that was asked for, Success1 is the last message.
        if expected.response.is_none() {
            return Ok(HostStep::Done(expected.psk));
        }
        self.state = AuthenticationState::Ending(Ok(expected.psk));
        Ok(HostStep::Send(Message::Success2.encode(self.transaction)))
    }
}
