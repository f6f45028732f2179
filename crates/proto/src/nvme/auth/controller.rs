//! The controller's end of an authentication: it challenges the host, judges the response, and
//! answers the host's challenge.

use super::algorithm::{Group, Hash};
use super::digest::{Digest, Responder, Said, hash, response};
use super::group::{Arithmetic, Computed, KeyPair, Outcome};
use super::message::{Challenge, FailureReason, Message, Negotiate, Reply, decode, success1};
use super::psk::GeneratedPsk;
use super::secret::DhchapSecret;
use super::{Concatenation, Random, SecureChannel};

/// Keys of a host, and the algorithms that a subsystem accepts.
#[derive(Clone)]
pub struct ControllerKeys {
    /// Name of the host, as its Connect says.
    pub hostnqn: String,
    /// Name of the subsystem.
    pub subnqn: String,
    /// Secrets of the host: one, or two while it is changed. None: nothing that the host says is
    /// right, but it is not told so at once.
    pub secrets: Vec<DhchapSecret>,
    /// The controller's own, if it may be challenged.
    pub controller: Option<DhchapSecret>,
    /// Hash functions, the preferred one first; what is not here is not accepted.
    pub hashes: Vec<Hash>,
    /// Permitted groups, the preferred one first.
    pub groups: Vec<Group>,
    /// The queue: a key for TLS comes out of the admin queue's authentication alone.
    pub is_admin: bool,
    /// True if the connection has TLS already.
    pub has_tls: bool,
    /// Use of the exchange to make keys for TLS.
    pub channel: SecureChannel,
}

/// State of an authentication after a message of the host.
pub enum AuthenticationVerdict {
    /// The host asks for the next message.
    Next,
    /// Compute this first, and give the result to [`ControllerAuthentication::computed`]. The host
    /// waits for that.
    Compute(Arithmetic),
    /// The host is who it says. With concatenation there is a key.
    Authenticated(Option<GeneratedPsk>),
    /// It failed for this reason, which the host gets with its next Authentication Receive; the
    /// connection ends after that.
    Failed(FailureReason),
    /// The host gave up, for this reason: the connection ends at once.
    GivenUp(FailureReason),
}

enum AuthenticationState {
    /// The host begins.
    Idle,
    /// The same; and a host that challenged the controller for the sake of the key alone may say
    /// Success2, as hosts of Linux do that know a secret of the controller.
    Confirmed,
    /// The host has to fetch this.
    Ready(Vec<u8>, After),
    /// The host has to send this next.
    Reply(Box<Challenged>),
    Success2(Option<GeneratedPsk>),
    /// The key of a challenge is being made.
    Pairing(Box<Challenged>),
    /// The shared secret of the two keys is being computed, for this reply.
    Agreeing(Box<Challenged>, Vec<u8>),
    Over,
}

/// Step after a message that the host fetches.
enum After {
    Reply(Box<Challenged>),
    Success2(Option<GeneratedPsk>),
    Confirmed,
    Nothing,
}

/// Challenge to the host.
struct Challenged {
    hash: Hash,
    group: Group,
    pair: Option<Box<KeyPair>>,
    value: Vec<u8>,
    sequence: u32,
    concatenation: Concatenation,
}

/// Authentications of one queue: one after the other, if the host begins again.
pub struct ControllerAuthentication {
    keys: ControllerKeys,
    transaction: u16,
    state: AuthenticationState,
    /// The host wanted a response of the controller, which has no secret for that.
    lacks_secret: bool,
}

impl ControllerAuthentication {
    /// One that the host has not begun.
    pub fn new(keys: ControllerKeys) -> Self {
        Self { keys, transaction: 0, state: AuthenticationState::Idle, lacks_secret: false }
    }

    /// Returns whether the last authentication failed because the host, whose own response was
    /// right, wanted one of the controller, which has no secret.
    pub fn lacks_secret(&self) -> bool {
        self.lacks_secret
    }

    /// The host sent a message. `sequence` is the number of the controller's challenge: never one
    /// that was used before.
    pub fn sent(
        &mut self,
        data: &[u8],
        sequence: u32,
        random: Random<'_>,
    ) -> AuthenticationVerdict {
        let state = core::mem::replace(&mut self.state, AuthenticationState::Over);
        match decode(data) {
            Err(reason) => self.fail(reason),
            Ok((transaction, Message::Negotiate(negotiate))) => {
                self.transaction = transaction;
                self.lacks_secret = false;
                self.challenge(&negotiate, sequence, random)
            }
            Ok((transaction, _)) if transaction != self.transaction => {
                self.fail(FailureReason::PAYLOAD)
            }
            Ok((_, Message::Failure2(reason))) => AuthenticationVerdict::GivenUp(reason),
            Ok((_, Message::Reply(reply))) => match state {
                AuthenticationState::Reply(challenged) => self.check(challenged, &reply, data),
                _ => self.fail(FailureReason::MESSAGE),
            },
            Ok((_, Message::Success2)) => match state {
                AuthenticationState::Success2(psk) => {
                    self.state = AuthenticationState::Idle;
                    AuthenticationVerdict::Authenticated(psk)
                }
                AuthenticationState::Confirmed => {
                    self.state = AuthenticationState::Idle;
                    AuthenticationVerdict::Authenticated(None)
                }
                _ => self.fail(FailureReason::MESSAGE),
            },
            Ok(_) => self.fail(FailureReason::MESSAGE),
        }
    }

    /// Continues with the result of the last [`AuthenticationVerdict::Compute`].
    pub fn computed(&mut self, computed: Computed) -> AuthenticationVerdict {
        match (core::mem::replace(&mut self.state, AuthenticationState::Over), computed.0) {
            (AuthenticationState::Pairing(mut challenged), Outcome::Pair(pair)) => {
                challenged.pair = Some(pair);
                self.ask(challenged)
            }
            (AuthenticationState::Agreeing(challenged, reply), Outcome::Agreed(shared)) => {
                match (decode(&reply), shared) {
                    (Ok((_, Message::Reply(reply))), Some(shared)) => {
                        let session = hash(challenged.hash, &shared);
                        self.judge(&challenged, Some(session), &reply)
                    }
                    _ => self.fail(FailureReason::PAYLOAD),
                }
            }
            _ => self.fail(FailureReason::MESSAGE),
        }
    }

    /// The last [`AuthenticationVerdict::Compute`] cannot be computed: the host must begin again.
    pub fn interrupted(&mut self) {
        self.state = AuthenticationState::Idle;
    }

    /// Returns the group of the authentication that a message of the host begins, which determines
    /// the amount of computation; `None`: it begins none.
    pub fn begins(&self, data: &[u8]) -> Option<Group> {
        match decode(data) {
            Ok((_, Message::Negotiate(negotiate))) => {
                Some(self.choose(&negotiate).map_or(Group::Null, |(_, group, _)| group))
            }
            _ => None,
        }
    }

    /// Takes other keys, for what begins from now on.
    pub fn set_keys(&mut self, keys: ControllerKeys) {
        self.keys = keys;
    }

    /// Returns the host's keys and the accepted algorithms.
    pub fn keys(&self) -> &ControllerKeys {
        &self.keys
    }

    /// Returns whether no message waits for the host, and none of the host's is awaited.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, AuthenticationState::Idle | AuthenticationState::Confirmed)
    }

    /// The message that the host asks for; `None` if it is not its turn, or its buffer of `bytes`
    /// is too short for it.
    pub fn fetch(&mut self, bytes: usize) -> Option<Vec<u8>> {
        match core::mem::replace(&mut self.state, AuthenticationState::Over) {
            AuthenticationState::Ready(message, after) if message.len() <= bytes => {
                self.state = match after {
                    After::Reply(challenged) => AuthenticationState::Reply(challenged),
                    After::Success2(psk) => AuthenticationState::Success2(psk),
                    After::Confirmed => AuthenticationState::Confirmed,
                    After::Nothing => AuthenticationState::Idle,
                };
                Some(message)
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    fn fail(&mut self, reason: FailureReason) -> AuthenticationVerdict {
        self.state = AuthenticationState::Ready(
            Message::Failure1(reason).encode(self.transaction),
            After::Nothing,
        );
        AuthenticationVerdict::Failed(reason)
    }

    fn challenge(
        &mut self,
        negotiate: &Negotiate,
        sequence: u32,
        random: Random<'_>,
    ) -> AuthenticationVerdict {
        match self.choose(negotiate) {
            Err(reason) => self.fail(reason),
            Ok((hash, group, concatenation)) => {
                let arithmetic = Arithmetic::pair(group, random);
                let mut value = vec![0; hash.bytes()];
                random(&mut value);
                let challenged = Box::new(Challenged {
                    hash,
                    group,
                    pair: None,
                    value,
                    sequence,
                    concatenation,
                });
                match arithmetic {
                    None => self.ask(challenged),
                    Some(arithmetic) => {
                        self.state = AuthenticationState::Pairing(challenged);
                        AuthenticationVerdict::Compute(arithmetic)
                    }
                }
            }
        }
    }

    fn ask(&mut self, challenged: Box<Challenged>) -> AuthenticationVerdict {
        let message = Message::Challenge(Challenge {
            hash: challenged.hash.id(),
            group: challenged.group.id(),
            sequence: challenged.sequence,
            value: &challenged.value,
            public: challenged.pair.as_ref().map_or(&[], |pair| pair.public()),
        })
        .encode(self.transaction);
        self.state = AuthenticationState::Ready(message, After::Reply(challenged));
        AuthenticationVerdict::Next
    }

    /// Our first that the host can.
    fn choose(&self, negotiate: &Negotiate) -> Result<(Hash, Group, Concatenation), FailureReason> {
        let concatenation = Concatenation::of(negotiate.concatenation)
            .ok_or(FailureReason::CONCATENATION_MISMATCH)?;
        let ControllerKeys { is_admin, has_tls, channel, .. } = self.keys;
        let fits = match concatenation {
            Concatenation::None => has_tls || channel != SecureChannel::Required,
            Concatenation::New => is_admin && !has_tls && channel != SecureChannel::None,
            Concatenation::Replace => is_admin && has_tls && channel != SecureChannel::None,
        };
        if !fits {
            return Err(FailureReason::CONCATENATION_MISMATCH);
        }
        let (hashes, groups) =
            negotiate.algorithms.as_ref().ok_or(FailureReason::PROTOCOL_UNUSABLE)?;
        let concatenates = concatenation != Concatenation::None;
        let usable = |hash: &&Hash| hashes.contains(hash) && (!concatenates || hash.has_cipher());
        let hash = self.keys.hashes.iter().find(usable).ok_or(FailureReason::HASH_UNUSABLE)?;
        let usable =
            |group: &&Group| groups.contains(group) && (!concatenates || **group != Group::Null);
        let group = self.keys.groups.iter().find(usable).ok_or(FailureReason::GROUP_UNUSABLE)?;
        Ok((*hash, *group, concatenation))
    }

    /// The host's reply came as `data`: it is judged at once if there is nothing to be computed.
    fn check(
        &mut self,
        mut challenged: Box<Challenged>,
        reply: &Reply<'_>,
        data: &[u8],
    ) -> AuthenticationVerdict {
        if reply.response.len() != challenged.hash.bytes()
            || challenged.group.bytes() != reply.public.len()
        {
            return self.fail(FailureReason::PAYLOAD);
        }
        match challenged.pair.take() {
            None => self.judge(&challenged, None, reply),
            Some(pair) => {
                self.state = AuthenticationState::Agreeing(challenged, data.to_vec());
                AuthenticationVerdict::Compute(Arithmetic::agree(pair, reply.public))
            }
        }
    }

    fn judge(
        &mut self,
        challenged: &Challenged,
        session: Option<Digest>,
        reply: &Reply<'_>,
    ) -> AuthenticationVerdict {
        let with = challenged.hash;
        let said = |challenge, sequence| Said {
            challenge,
            session: session.as_ref(),
            sequence,
            transaction: self.transaction,
            concatenation: challenged.concatenation.code(),
        };
        if !self.is_right(with, &said(&challenged.value, challenged.sequence), reply.response) {
            return self.fail(FailureReason::FAILED);
        }
        // A host that sends the controller's challenge back wants the controller's response to it.
        if reply.challenge == Some(&challenged.value[..]) {
            return self.fail(FailureReason::FAILED);
        }
        let concatenates = challenged.concatenation != Concatenation::None;
        let psk = match (&session, reply.challenge, concatenates) {
            (_, _, false) => None,
            (Some(session), Some(theirs), true) => {
                Some(GeneratedPsk::new(with, session, &challenged.value, theirs))
            }
            _ => return self.fail(FailureReason::FAILED),
        };
        let ours = match reply.challenge.filter(|_| reply.sequence != 0) {
            None => None,
            Some(challenge) => match self.proof(with, &said(challenge, reply.sequence)) {
                None => {
                    self.lacks_secret = true;
                    return self.fail(FailureReason::FAILED);
                }
                proof => proof,
            },
        };
        let message = success1(self.transaction, with, ours.as_ref().map(Digest::as_bytes));
        if ours.is_some() {
            // The host may still find that the controller is not who it says.
            self.state = AuthenticationState::Ready(message, After::Success2(psk));
            return AuthenticationVerdict::Next;
        }
        // SEQNUM 0: the challenge was for the key alone, and Success1 is the last message.
        self.state = AuthenticationState::Ready(
            message,
            if psk.is_some() { After::Confirmed } else { After::Nothing },
        );
        AuthenticationVerdict::Authenticated(psk)
    }

    /// The controller's response, if it has a secret.
    fn proof(&self, with: Hash, said: &Said<'_>) -> Option<Digest> {
        let (host, subsystem) = (&self.keys.hostnqn, &self.keys.subnqn);
        let key = self.keys.controller.as_ref()?.transformed(subsystem);
        Some(response(with, &key, said, Responder::Controller, host, subsystem))
    }

    /// Returns whether the response is that of one of the host's secrets; all are tried, whichever
    /// is right.
    fn is_right(&self, with: Hash, said: &Said<'_>, theirs: &[u8]) -> bool {
        let ControllerKeys { hostnqn, subnqn, secrets, .. } = &self.keys;
        secrets.iter().fold(false, |right, secret| {
            let ours = response(
                with,
                &secret.transformed(hostnqn),
                said,
                Responder::Host,
                hostnqn,
                subnqn,
            );
            right | ours.is(theirs)
        })
    }
}
