//! Commands as submitted by the layer above, and their outcomes.

use crate::iscsi::deviation::Deviation;
use crate::iscsi::pdu::{Lun, RejectReason, ScsiResponseCode};
use crate::stream::Tag;

/// Bytes of sense data that are kept of a command; further bytes are discarded. This includes the
/// key, code and information of both formats (SPC-4 §4.5).
pub const SENSE_BYTES_MAX: usize = 48;

/// The data of a command, from the start of its tag's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScsiData {
    /// None.
    None,
    /// At most this many bytes from the target.
    In(u32),
    /// This many bytes to the target. If that is not a multiple of four, the memory extends to the
    /// next one, because with data digests the padding is sent from there.
    Out(u32),
}

/// A SCSI command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitiatorCommand {
    /// To which logical unit.
    pub lun: Lun,
    /// Command descriptor block, padded with zeroes.
    pub cdb: [u8; 16],
    /// Its data.
    pub data: ScsiData,
}

/// By how much the data that the command was about differs from what the initiator had for it (RFC
/// 7143 §11.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residual {
    /// Not at all.
    #[default]
    None,
    /// This many bytes were not moved.
    Underflow(u32),
    /// This many bytes more would have been needed.
    Overflow(u32),
}

/// Answer of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandResponse {
    /// Response code: whether the command was completed at all.
    pub response: ScsiResponseCode,
    /// SCSI status (SAM-5 §5.3.1), if it was.
    pub status: u8,
    /// Residual.
    pub residual: Residual,
    /// Bytes of data received.
    pub received_bytes: u32,
    /// A data digest was wrong: what was received is not to be used.
    pub damaged: bool,
}

impl CommandResponse {
    /// GOOD, without data.
    pub const GOOD: Self = Self {
        response: ScsiResponseCode::COMPLETED,
        status: 0,
        residual: Residual::None,
        received_bytes: 0,
        damaged: false,
    };
}

/// Outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// The target answered; where there is sense data,
    /// [`Initiator::sense`](super::Initiator::sense) has it.
    Answered(CommandResponse),
    /// It was aborted, alone or with all others of its logical unit. Whether it was executed is
    /// unknown.
    Aborted,
    /// It was given up before the target could know of it.
    NotSent,
    /// The target refused its PDU; it was not executed.
    Rejected(RejectReason),
}

/// Events for the layer above an initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitiatorEvent {
    /// Login has succeeded. Commands that were submitted before are sent now.
    Ready,
    /// A discovery session has the list of targets:
    /// [`Initiator::take_targets`](super::Initiator::take_targets).
    Targets,
    /// A command ended. If it was answered with GOOD then all its data has moved.
    Ended {
        /// Names the command until [`Initiator::release`](super::Initiator::release).
        tag: Tag,
        /// Its outcome.
        end: CommandOutcome,
    },
    /// An asynchronous report of a logical unit: additional sense code and qualifier.
    Reported {
        /// The logical unit.
        lun: Lun,
        /// Sense key.
        key: u8,
        /// ASC in the upper, ASCQ in the lower byte.
        code: u16,
    },
    /// The target deviated from the standard in this way, for the first time, and was tolerated.
    Deviation(Deviation),
    /// The target requests the end of this session. No further command is accepted; when
    /// outstanding ones have ended, the session is logged out.
    Leaving,
}

/// Why a command was not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many commands are outstanding as the session holds.
    #[error("the session's maximum of commands is outstanding")]
    Full,
    /// The session is over, or about to end.
    #[error("the session has ended")]
    Closed,
}

/// A target that was discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// Its name.
    pub name: String,
    /// Its addresses, as it reports them: `HOST:PORT` or `HOST:PORT,GROUP`, IPv6 addresses in
    /// brackets. None: the address that was asked.
    pub addresses: Vec<String>,
}
