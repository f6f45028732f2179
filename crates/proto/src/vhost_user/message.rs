//! Headers and answers.

use super::Violation;
use crate::limits::VHOST_USER_MESSAGE_BYTES_MAX;

/// Bytes of a header.
const HEADER_BYTES: usize = 12;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Numbers of the messages of the front end.
pub mod code {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const RESET_OWNER: u32 = 4;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_LOG_BASE: u32 = 6;
    pub const SET_LOG_FD: u32 = 7;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ERR: u32 = 14;
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const GET_QUEUE_NUM: u32 = 17;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const SET_BACKEND_REQ_FD: u32 = 21;
    pub const GET_CONFIG: u32 = 24;
    pub const SET_CONFIG: u32 = 25;
    pub const GET_INFLIGHT_FD: u32 = 31;
    pub const SET_INFLIGHT_FD: u32 = 32;
    pub const RESET_DEVICE: u32 = 34;
    pub const GET_MAX_MEM_SLOTS: u32 = 36;
    pub const ADD_MEM_REG: u32 = 37;
    pub const REM_MEM_REG: u32 = 38;
}

/// Numbers of the messages of the back end.
pub mod backend_message {
    /// VHOST_USER_BACKEND_CONFIG_CHANGE_MSG.
    pub const CONFIG_CHANGE: u32 = 2;
}

/// Bits of the protocol's features.
pub mod protocol_feature {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const MQ: u64 = 1 << 0;
    pub const LOG_SHMFD: u64 = 1 << 1;
    pub const REPLY_ACK: u64 = 1 << 3;
    pub const BACKEND_REQ: u64 = 1 << 5;
    pub const CONFIG: u64 = 1 << 9;
    pub const INFLIGHT_SHMFD: u64 = 1 << 12;
    pub const RESET_DEVICE: u64 = 1 << 13;
    pub const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
    /// All that this back end knows.
    pub const ALL: u64 = MQ
        | LOG_SHMFD
        | REPLY_ACK
        | BACKEND_REQ
        | CONFIG
        | INFLIGHT_SHMFD
        | RESET_DEVICE
        | CONFIGURE_MEM_SLOTS;
}

/// The header of a message of the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the message.
    pub code: u32,
    /// True if an answer is wanted in any case (with REPLY_ACK).
    pub needs_reply: bool,
    /// Bytes that follow.
    pub len: usize,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = HEADER_BYTES;

    /// Reads a header.
    ///
    /// # Errors
    /// No front end sends this.
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Self, Violation> {
        let [code, flags, len] = [0, 4, 8]
            .map(|at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        if flags & VERSION_MASK != VERSION || flags & REPLY != 0 {
            return Err(Violation::Version);
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > VHOST_USER_MESSAGE_BYTES_MAX - HEADER_BYTES {
            return Err(Violation::Length(code));
        }
        Ok(Self { code, needs_reply: flags & NEED_REPLY != 0, len })
    }

    /// Returns the header of an answer of this length, or of a message of the back end.
    fn encode(code: u32, flags: u32, len: usize) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        for (at, number) in [code, VERSION | flags, len as u32].into_iter().enumerate() {
            bytes[4 * at..4 * at + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// A message of the back end, without anything behind its header.
    pub fn of_backend(code: u32) -> [u8; HEADER_BYTES] {
        Self::encode(code, 0, 0)
    }
}

/// Memory for what is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InflightDescription {
    /// Bytes.
    pub bytes: u64,
    /// Offset of its start in the descriptor's file.
    pub offset: u64,
    /// Queues.
    pub queues: u16,
    /// Entries of each.
    pub queue_size: u16,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackEndReply {
    /// A number; as an acknowledgement, 0 for success.
    Number(u64),
    /// Place at which a queue stopped.
    Base {
        /// Queue.
        index: u32,
        /// Place at which the next device continues.
        base: u32,
    },
    /// A part of the configuration. Nothing of it: it could not be read.
    Config {
        /// The place.
        offset: u32,
        /// Flags of the request.
        flags: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Memory for what is in flight, whose descriptor goes along.
    Inflight(InflightDescription),
}

impl BackEndReply {
    /// The message.
    pub fn encode(&self, code: u32) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Self::Number(number) => body.extend(number.to_le_bytes()),
            Self::Base { index, base } => {
                body.extend(index.to_le_bytes());
                body.extend(base.to_le_bytes());
            }
            Self::Config { bytes, .. } if bytes.is_empty() => {}
            Self::Config { offset, flags, bytes } => {
                body.extend(offset.to_le_bytes());
                body.extend((bytes.len() as u32).to_le_bytes());
                body.extend(flags.to_le_bytes());
                body.extend(bytes);
            }
            Self::Inflight(of) => {
                body.extend(of.bytes.to_le_bytes());
                body.extend(of.offset.to_le_bytes());
                body.extend(of.queues.to_le_bytes());
                body.extend(of.queue_size.to_le_bytes());
                // The structure of C ends with padding, which front ends read.
                body.extend([0; 4]);
            }
        }
        [&Header::encode(code, REPLY, body.len())[..], &body].concat()
    }
}
