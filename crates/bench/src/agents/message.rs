//! The messages between a study and an agent. Each is JSON, after its length in four bytes (big
//! endian).
//!
//! The study asks and the agent answers; while a run goes on, the agent also reports its progress.
//! The first request is [`StudyMessage::Hello`] and its answer [`AgentMessage::Welcome`]: they
//! carry the proofs. Nothing else is answered before.

use super::{MeasuredRun, RunOrder};
use crate::limits::AGENT_MESSAGE_BYTES_MAX;
use crate::results::Machine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Version of the messages. An agent and a study of different versions refuse each other.
pub const VERSION: u32 = 1;

/// Message of a study.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum StudyMessage {
    /// The first one.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// The study's proof that it has the key, hexadecimal.
        proof: String,
    },
    /// Asks for the agent's clock. It also says that the study is still there.
    Clock {
        /// Which question it is.
        number: u64,
    },
    /// Opens a device, in place of the one that was open.
    Open {
        /// The URL, as the agent's configuration has it; passwords apart, which only that has.
        url: String,
        /// Whether the study is going to write to it.
        write: bool,
        /// The user's consent to overwrite what is recognised.
        destroy_data: bool,
        /// Connections, and loops.
        threads: u32,
        /// Least number of entries of their queues.
        queue_size: Option<u16>,
    },
    /// Connects the jobs of a run.
    Prepare {
        /// The run.
        order: RunOrder,
    },
    /// Starts the prepared run.
    Start {
        /// When, on the agent's clock.
        at_ns: i64,
    },
    /// Ends the run early.
    Stop,
}

/// Message of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum AgentMessage {
    /// Of `Hello`.
    Welcome {
        /// The agent's proof that it has the key, hexadecimal.
        proof: String,
        /// Version of weft.
        weft: String,
        /// Its machine.
        machine: Box<Machine>,
    },
    /// Of `Clock`.
    Time {
        /// The question that it answers.
        number: u64,
        /// The agent's clock.
        now_ns: i64,
    },
    /// Of `Open`.
    Opened {
        /// Size of a block, bytes.
        block_bytes: u32,
        /// Blocks.
        blocks: u64,
        /// Largest transfer, bytes.
        max_transfer_bytes: u32,
        /// Whether the agent writes to it.
        write: bool,
        /// Processors that the load runs on.
        cpus: Vec<usize>,
    },
    /// Of `Prepare`: its jobs are connected.
    Ready,
    /// While it runs.
    Progress {
        /// Operations per second.
        iops: f64,
        /// Whether it is measuring already.
        measuring: bool,
    },
    /// The run has ended.
    Ended {
        /// What it found.
        measured: Box<MeasuredRun>,
    },
    /// A request is not fulfilled, or a run failed.
    Refused {
        /// What kind of failure it is.
        kind: WireErrorKind,
        /// In a sentence, without a secret.
        why: String,
    },
}

/// The kinds of [`weft_block::ErrorKind`], on the wire.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "they are those of ErrorKind")]
pub enum WireErrorKind {
    Usage,
    NotFound,
    PermissionDenied,
    InUse,
    NoResources,
    Refused,
    TimedOut,
    Protocol,
    Unsupported,
    Io,
}

macro_rules! kinds {
    ($($kind:ident)*) => {
        impl From<weft_block::ErrorKind> for WireErrorKind {
            fn from(kind: weft_block::ErrorKind) -> Self {
                match kind { $(weft_block::ErrorKind::$kind => Self::$kind,)* }
            }
        }

        impl From<WireErrorKind> for weft_block::ErrorKind {
            fn from(kind: WireErrorKind) -> Self {
                match kind { $(WireErrorKind::$kind => Self::$kind,)* }
            }
        }
    };
}

kinds!(Usage NotFound PermissionDenied InUse NoResources Refused TimedOut Protocol Unsupported Io);

/// Reason why bytes are not a message.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum MessageError {
    /// It says that it is longer than allowed.
    #[error("a message of {bytes} bytes, of which at most {most} are allowed")]
    TooLong {
        /// What it says.
        bytes: usize,
        /// What is allowed.
        most: usize,
    },
    /// It is not in the form of this version. What is wrong is not told: the words would be the
    /// peer's.
    #[error("a message that is not in the form of version {VERSION}, at byte {0} of it")]
    Form(usize),
}

/// Bytes of the length in front of a message.
pub const LENGTH_BYTES: usize = 4;

/// A message as bytes, with its length.
///
/// # Errors
/// It is longer than [`AGENT_MESSAGE_BYTES_MAX`].
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, MessageError> {
    let text = serde_json::to_vec(message).map_err(|e| MessageError::Form(e.column()))?;
    let most = AGENT_MESSAGE_BYTES_MAX;
    let length = u32::try_from(text.len()).ok().filter(|_| text.len() <= most);
    let length = length.ok_or(MessageError::TooLong { bytes: text.len(), most })?;
    Ok([&length.to_be_bytes()[..], &text].concat())
}

/// The first message in `bytes`, and how many bytes it has; none while some of them are missing.
/// `most` is what a message may have.
///
/// # Errors
/// It is longer, as soon as its length is there, or it is not a message.
pub fn decode<M: DeserializeOwned>(
    bytes: &[u8],
    most: usize,
) -> Result<Option<(M, usize)>, MessageError> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > most {
        return Err(MessageError::TooLong { bytes: length, most });
    }
    let Some(text) = rest.get(..length) else { return Ok(None) };
    let message = serde_json::from_slice(text).map_err(|e| MessageError::Form(e.column()))?;
    Ok(Some((message, LENGTH_BYTES + length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::AGENT_FIRST_BYTES_MAX;

    #[test]
    fn messages_arrive_whole_or_not_at_all() {
        let hello = StudyMessage::Hello { version: VERSION, proof: "00".repeat(32) };
        let bytes = encode(&hello).unwrap();
        for cut in 0..bytes.len() {
            assert_eq!(decode::<StudyMessage>(&bytes[..cut], AGENT_FIRST_BYTES_MAX), Ok(None));
        }
        let two = [&bytes[..], &encode(&StudyMessage::Clock { number: 7 }).unwrap()].concat();
        let (first, length) = decode::<StudyMessage>(&two, AGENT_FIRST_BYTES_MAX).unwrap().unwrap();
        assert_eq!((first, length), (hello, bytes.len()));
        assert_eq!(
            decode::<StudyMessage>(&two[length..], AGENT_FIRST_BYTES_MAX).unwrap().unwrap().0,
            StudyMessage::Clock { number: 7 }
        );
    }

    #[test]
    fn long_ones_are_refused_by_their_length_alone_and_others_by_their_form() {
        let long = (AGENT_FIRST_BYTES_MAX as u32 + 1).to_be_bytes();
        assert!(matches!(
            decode::<StudyMessage>(&long, AGENT_FIRST_BYTES_MAX),
            Err(MessageError::TooLong { .. })
        ));
        let nested = "[".repeat(4000);
        for text in ["", "{}", "null", "{\"request\":\"format\"}", "\u{7f}", nested.as_str()] {
            let bytes = [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
            assert!(
                matches!(
                    decode::<StudyMessage>(&bytes, AGENT_FIRST_BYTES_MAX),
                    Err(MessageError::Form(_))
                ),
                "{text:.20}"
            );
        }
    }

    #[test]
    fn kinds_of_errors_round_trip() {
        for kind in
            [weft_block::ErrorKind::Usage, weft_block::ErrorKind::InUse, weft_block::ErrorKind::Io]
        {
            assert_eq!(weft_block::ErrorKind::from(WireErrorKind::from(kind)), kind);
        }
    }
}
