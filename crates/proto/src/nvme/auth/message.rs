//! The messages (Base §8.3.4.2, §8.3.4.5). Lengths are checked here; what the fields mean is the
//! ends' business.

use super::algorithm::{Group, Hash};

/// Bytes of a message, at most: the longest reply, with SHA-512 and ffdhe8192, and room for more.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// AUTH_TYPE.
const COMMON: u8 = 0;
const DH_HMAC_CHAP: u8 = 1;

/// AUTH_ID.
const NEGOTIATE: u8 = 0x00;
const CHALLENGE: u8 = 0x01;
const REPLY: u8 = 0x02;
const SUCCESS_1: u8 = 0x03;
const SUCCESS_2: u8 = 0x04;
const FAILURE_2: u8 = 0xf0;
const FAILURE_1: u8 = 0xf1;

/// The only protocol identifier.
const PROTOCOL: u8 = 1;

/// Bytes in front of the protocol descriptors, and of each.
const NEGOTIATE_HEAD: usize = 8;
const DESCRIPTOR_BYTES: usize = 64;

/// Where the identifiers of hashes and of groups begin in a descriptor, and how many of each fit.
const HASHES_AT: usize = 4;
const GROUPS_AT: usize = 34;
const IDS_MAX: usize = 30;

/// Bytes in front of the values of the other messages.
const HEAD: usize = 16;

/// Bytes of a failure message.
const FAILURE_BYTES: usize = 8;

/// Why an authentication failed (Base §8.3.4.5.6: Reason Code Explanation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FailureReason(pub u8);

impl FailureReason {
    /// The secrets differ, or there is none for this name.
    pub const FAILED: Self = Self(1);
    /// No common protocol.
    pub const PROTOCOL_UNUSABLE: Self = Self(2);
    /// Secure channel concatenation is asked for and not possible, or demanded and not asked for.
    pub const CONCATENATION_MISMATCH: Self = Self(3);
    /// No common hash function.
    pub const HASH_UNUSABLE: Self = Self(4);
    /// No common Diffie-Hellman group.
    pub const GROUP_UNUSABLE: Self = Self(5);
    /// A field of a message is wrong.
    pub const PAYLOAD: Self = Self(6);
    /// A message that is not next.
    pub const MESSAGE: Self = Self(7);

    /// Returns its meaning, for logs.
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "authentication failed",
            2 => "no common authentication protocol",
            3 => "secure channel concatenation mismatch",
            4 => "no common hash function",
            5 => "no common Diffie-Hellman group",
            6 => "incorrect payload",
            7 => "incorrect protocol message",
            _ => "a reason that is not defined",
        }
    }
}

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    Negotiate(Negotiate),
    Challenge(Challenge<'a>),
    Reply(Reply<'a>),
    Success1(Option<&'a [u8]>),
    Success2,
    Failure1(FailureReason),
    Failure2(FailureReason),
}

/// AUTH_Negotiate: what the host can.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Negotiate {
    /// SC_C.
    pub concatenation: u8,
    /// Algorithms of the first descriptor of DH-HMAC-CHAP, in the host's order; unknown ones are
    /// left out. `None`: there is none.
    pub algorithms: Option<(Vec<Hash>, Vec<Group>)>,
}

/// DH-HMAC-CHAP_Challenge.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Challenge<'a> {
    /// HashID, as it was sent.
    pub hash: u8,
    /// DHgID, as it was sent.
    pub group: u8,
    /// SEQNUM.
    pub sequence: u32,
    /// C1.
    pub value: &'a [u8],
    /// The controller's public value; empty without a group.
    pub public: &'a [u8],
}

/// DH-HMAC-CHAP_Reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply<'a> {
    /// R1.
    pub response: &'a [u8],
    /// C2, if CVALID says that there is one.
    pub challenge: Option<&'a [u8]>,
    /// SEQNUM of C2.
    pub sequence: u32,
    /// The host's public value; empty without a group.
    pub public: &'a [u8],
}

fn head(kind: u8, id: u8, transaction: u16, bytes: usize) -> Vec<u8> {
    let mut message = vec![0; bytes];
    (message[0], message[1]) = (kind, id);
    message[4..6].copy_from_slice(&transaction.to_le_bytes());
    message
}

impl Message<'_> {
    /// Its bytes.
    pub(super) fn encode(&self, transaction: u16) -> Vec<u8> {
        match self {
            Self::Negotiate(negotiate) => negotiate.encode(transaction),
            Self::Challenge(challenge) => challenge.encode(transaction),
            Self::Reply(reply) => reply.encode(transaction),
            Self::Success1(response) => {
                let mut message = head(DH_HMAC_CHAP, SUCCESS_1, transaction, HEAD);
                if let Some(response) = response {
                    (message[6], message[8]) = (response.len() as u8, 1);
                    message.extend_from_slice(response);
                }
                message
            }
            Self::Success2 => head(DH_HMAC_CHAP, SUCCESS_2, transaction, HEAD),
            Self::Failure1(reason) => failure(FAILURE_1, transaction, *reason),
            Self::Failure2(reason) => failure(FAILURE_2, transaction, *reason),
        }
    }
}

/// DH-HMAC-CHAP_Success1 without a response: HL is that of the hash function all the same, which
/// hosts compare.
pub(super) fn success1(transaction: u16, hash: Hash, response: Option<&[u8]>) -> Vec<u8> {
    let mut message = Message::Success1(response).encode(transaction);
    message[6] = hash.bytes() as u8;
    message
}

fn failure(id: u8, transaction: u16, reason: FailureReason) -> Vec<u8> {
    let mut message = head(COMMON, id, transaction, FAILURE_BYTES);
    (message[6], message[7]) = (1, reason.0);
    message
}

impl Negotiate {
    fn encode(&self, transaction: u16) -> Vec<u8> {
        let mut message = head(COMMON, NEGOTIATE, transaction, NEGOTIATE_HEAD + DESCRIPTOR_BYTES);
        message[6] = self.concatenation;
        message[7] = 1;
        let descriptor = &mut message[NEGOTIATE_HEAD..];
        let (hashes, groups) = self
            .algorithms
            .as_ref()
            .map_or((&[][..], &[][..]), |(hashes, groups)| (hashes, groups));
        (descriptor[0], descriptor[2], descriptor[3]) =
            (PROTOCOL, hashes.len() as u8, groups.len() as u8);
        descriptor[HASHES_AT..].iter_mut().zip(hashes).for_each(|(byte, hash)| *byte = hash.id());
        descriptor[GROUPS_AT..].iter_mut().zip(groups).for_each(|(byte, group)| *byte = group.id());
        message
    }

    fn decode(data: &[u8]) -> Result<Self, FailureReason> {
        let count = usize::from(*data.get(7).ok_or(FailureReason::PAYLOAD)?);
        let descriptors = data
            .get(NEGOTIATE_HEAD..NEGOTIATE_HEAD + count * DESCRIPTOR_BYTES)
            .ok_or(FailureReason::PAYLOAD)?;
        let ours =
            descriptors.chunks_exact(DESCRIPTOR_BYTES).find(|descriptor| descriptor[0] == PROTOCOL);
        let ids = |descriptor: &[u8], count: u8, at: usize| -> Result<Vec<u8>, FailureReason> {
            let count = usize::from(count);
            if count > IDS_MAX {
                Err(FailureReason::PAYLOAD)
            } else {
                Ok(descriptor[at..at + count].to_vec())
            }
        };
        let algorithms = match ours {
            None => None,
            Some(descriptor) => {
                let hashes = ids(descriptor, descriptor[2], HASHES_AT)?
                    .into_iter()
                    .filter_map(Hash::of)
                    .collect();
                let groups = ids(descriptor, descriptor[3], GROUPS_AT)?
                    .into_iter()
                    .filter_map(Group::of)
                    .collect();
                Some((hashes, groups))
            }
        };
        Ok(Self { concatenation: data[6], algorithms })
    }
}

impl<'a> Challenge<'a> {
    fn encode(&self, transaction: u16) -> Vec<u8> {
        let mut message = head(DH_HMAC_CHAP, CHALLENGE, transaction, HEAD);
        (message[6], message[8], message[9]) = (self.value.len() as u8, self.hash, self.group);
        message[10..12].copy_from_slice(&(self.public.len() as u16).to_le_bytes());
        message[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        message.extend_from_slice(self.value);
        message.extend_from_slice(self.public);
        message
    }

    fn decode(data: &'a [u8]) -> Result<Self, FailureReason> {
        let (lengths, sequence) = lengths(data)?;
        let values = data.get(HEAD..HEAD + lengths.0 + lengths.1).ok_or(FailureReason::PAYLOAD)?;
        let (value, public) = values.split_at(lengths.0);
        Ok(Self { hash: data[8], group: data[9], sequence, value, public })
    }
}

impl<'a> Reply<'a> {
    fn encode(&self, transaction: u16) -> Vec<u8> {
        let mut message = head(DH_HMAC_CHAP, REPLY, transaction, HEAD);
        (message[6], message[8]) = (self.response.len() as u8, self.challenge.is_some().into());
        message[10..12].copy_from_slice(&(self.public.len() as u16).to_le_bytes());
        message[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        message.extend_from_slice(self.response);
        match self.challenge {
            Some(challenge) => message.extend_from_slice(challenge),
            // The room for C2 is there in any case.
            None => message.resize(HEAD + 2 * self.response.len(), 0),
        }
        message.extend_from_slice(self.public);
        message
    }

    fn decode(data: &'a [u8]) -> Result<Self, FailureReason> {
        let (lengths, sequence) = lengths(data)?;
        let values =
            data.get(HEAD..HEAD + 2 * lengths.0 + lengths.1).ok_or(FailureReason::PAYLOAD)?;
        let (response, rest) = values.split_at(lengths.0);
        let (challenge, public) = rest.split_at(lengths.0);
        Ok(Self { response, challenge: (data[8] & 1 != 0).then_some(challenge), sequence, public })
    }
}

/// HL and DHVLEN, and SEQNUM.
fn lengths(data: &[u8]) -> Result<((usize, usize), u32), FailureReason> {
    let head: &[u8; HEAD] = data.first_chunk().ok_or(FailureReason::PAYLOAD)?;
    let public = u16::from_le_bytes([head[10], head[11]]);
    let sequence = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
    Ok(((head[6].into(), public.into()), sequence))
}

/// Reads a message, with its T_ID.
///
/// # Errors
/// [`FailureReason::PAYLOAD`] if it is cut or a count is too great, [`FailureReason::MESSAGE`] if
/// there is no such message.
pub(super) fn decode(data: &[u8]) -> Result<(u16, Message<'_>), FailureReason> {
    let head: &[u8; FAILURE_BYTES] = data.first_chunk().ok_or(FailureReason::PAYLOAD)?;
    let transaction = u16::from_le_bytes([head[4], head[5]]);
    let message = match (head[0], head[1]) {
        (COMMON, NEGOTIATE) => Message::Negotiate(Negotiate::decode(data)?),
        (COMMON, FAILURE_1) => Message::Failure1(FailureReason(head[7])),
        (COMMON, FAILURE_2) => Message::Failure2(FailureReason(head[7])),
        (DH_HMAC_CHAP, CHALLENGE) => Message::Challenge(Challenge::decode(data)?),
        (DH_HMAC_CHAP, REPLY) => Message::Reply(Reply::decode(data)?),
        (DH_HMAC_CHAP, SUCCESS_1) => {
            let ((len, _), _) = lengths(data)?;
            let response = match data[8] & 1 {
                0 => None,
                _ => Some(data.get(HEAD..HEAD + len).ok_or(FailureReason::PAYLOAD)?),
            };
            Message::Success1(response)
        }
        (DH_HMAC_CHAP, SUCCESS_2) if data.len() >= HEAD => Message::Success2,
        (DH_HMAC_CHAP, SUCCESS_2) => return Err(FailureReason::PAYLOAD),
        _ => return Err(FailureReason::MESSAGE),
    };
    Ok((transaction, message))
}
