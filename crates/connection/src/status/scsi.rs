//! SCSI (SAM-5 §5.3, SPC-4 §4.5).

use weft_block::{OpKind, Outcome, Raw, RawScsi, Status, StatusKind};
use weft_proto::nvme::status::Status as NvmeStatus;
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, ScsiStatus, SenseKey as Key};
use weft_proto::scsi::translation;

const CHECK: ScsiStatus = ScsiStatus::CHECK_CONDITION;

/// Translates the status of a command that failed. `sense` is that of a CHECK CONDITION.
pub fn from_scsi(status: ScsiStatus, sense: Option<Sense>) -> Status {
    let kind = match status {
        ScsiStatus::BUSY | ScsiStatus::TASK_SET_FULL | ScsiStatus::ACA_ACTIVE => StatusKind::Busy,
        ScsiStatus::RESERVATION_CONFLICT => StatusKind::ReservationConflict,
        ScsiStatus::TASK_ABORTED => StatusKind::Aborted,
        CHECK => sense.map_or(StatusKind::Internal, kind_of),
        _ => StatusKind::Internal,
    };
    let sense = sense.filter(|_| status == CHECK).unwrap_or_default();
    let raw = RawScsi {
        status: status.0,
        sense_key: sense.key.0,
        additional_sense: sense.code.0,
        information: sense.information,
    };
    Status::with_raw(kind, Raw::Scsi(raw))
}

fn kind_of(sense: Sense) -> StatusKind {
    match (sense.key, sense.code) {
        (_, Code::LBA_OUT_OF_RANGE) => StatusKind::OutOfRange,
        (_, Code::SPACE_ALLOCATION_FAILED) | (Key::VOLUME_OVERFLOW, _) => StatusKind::NoSpace,
        (_, Code::INVALID_COMMAND_OPERATION_CODE) => StatusKind::Unsupported,
        (
            _,
            Code::LOGICAL_UNIT_NOT_SUPPORTED
            | Code::COMMUNICATION_FAILURE
            | Code::MEDIUM_NOT_PRESENT,
        ) => StatusKind::Gone,
        (
            Key::NOT_READY,
            Code::ACCESS_STATE_TRANSITION
            | Code::ACCESS_STATE_STANDBY
            | Code::ACCESS_STATE_UNAVAILABLE
            | Code::ACCESS_STATE_OFFLINE,
        ) => StatusKind::Path,
        (
            Key::ABORTED_COMMAND,
            Code::PROTOCOL_SERVICE_CRC_ERROR | Code::TRANSPORT_CRC_ERROR | Code::DATA_PHASE_ERROR,
        ) => StatusKind::Transport,
        (Key::NOT_READY, Code::COMMUNICATION_TIME_OUT) => StatusKind::Path,
        (_, Code::COMMUNICATION_TIME_OUT) => StatusKind::TimedOut,
        (Key::MEDIUM_ERROR, _) => StatusKind::Media,
        (Key::MISCOMPARE, _) => StatusKind::CompareFailed,
        (Key::DATA_PROTECT, _) => StatusKind::WriteProtected,
        (Key::ILLEGAL_REQUEST, _) => StatusKind::Invalid,
        (Key::ABORTED_COMMAND, _) => StatusKind::Aborted,
        (Key::NOT_READY | Key::UNIT_ATTENTION, _) => StatusKind::Busy,
        _ => StatusKind::Internal,
    }
}

/// Status and sense data that were kept.
pub(super) fn words(raw: &RawScsi) -> (ScsiStatus, Option<Sense>) {
    let sense = Sense {
        information: raw.information,
        ..Sense::new(Key(raw.sense_key), Code(raw.additional_sense))
    };
    let status = ScsiStatus(raw.status);
    (status, (status == CHECK && sense != Sense::default()).then_some(sense))
}

/// The status for an initiator of an operation that was not done. There is sense data with CHECK
/// CONDITION only.
pub fn to_scsi(kind: OpKind, outcome: &Outcome) -> (ScsiStatus, Option<Sense>) {
    let status = outcome.status();
    let told = match status.raw {
        Some(Raw::Nvme(code)) => Some(translation::from_nvme(NvmeStatus(code)))
            .filter(|(status, _)| *status != ScsiStatus::GOOD),
        Some(Raw::Scsi(raw)) => {
            Some(words(&raw)).filter(|(status, sense)| goes_on(*status, *sense))
        }
        _ => None,
    };
    told.unwrap_or_else(|| match outcome {
        // It may still be executed: initiators that send it again, here or by another path, would
        // not know which one comes last.
        Outcome::MayHaveExecuted {
            status: Status { kind: StatusKind::TimedOut, .. },
            settled: false,
        } if kind.is_write() => UNKNOWN,
        // Sent again, it may find its own data, and say that somebody else has changed it.
        Outcome::MayHaveExecuted { status, .. }
            if is_lost(status.kind) && matches!(kind, OpKind::CompareAndWrite { .. }) =>
        {
            UNKNOWN
        }
        _ => name_of(kind, status.kind),
    })
}

/// What keeps initiators from sending a command again by themselves.
const UNKNOWN: (ScsiStatus, Option<Sense>) =
    (CHECK, Some(Sense::new(Key::HARDWARE_ERROR, Code::COMMUNICATION_TIME_OUT)));

/// Whether the way to the device is lost, or the device.
fn is_lost(kind: StatusKind) -> bool {
    matches!(kind, StatusKind::Path | StatusKind::Gone | StatusKind::TimedOut)
}

/// Whether an initiator may be told in our name what we were told by a target. Not that a command
/// was done, and not what concerns only the nexus that it came from: commands that others aborted
/// there, its ACA and its unit attentions.
fn goes_on(status: ScsiStatus, sense: Option<Sense>) -> bool {
    match (status, sense.map(|sense| sense.key)) {
        (ScsiStatus::BUSY | ScsiStatus::TASK_SET_FULL | ScsiStatus::RESERVATION_CONFLICT, _) => {
            true
        }
        (CHECK, Some(key)) => !matches!(
            key,
            Key::NO_SENSE | Key::RECOVERED_ERROR | Key::COMPLETED | Key::UNIT_ATTENTION
        ),
        _ => false,
    }
}

fn name_of(kind: OpKind, status: StatusKind) -> (ScsiStatus, Option<Sense>) {
    let (key, code) = match status {
        StatusKind::Media if kind.is_write() || kind == OpKind::Flush => {
            (Key::MEDIUM_ERROR, Code::WRITE_ERROR)
        }
        StatusKind::Media => (Key::MEDIUM_ERROR, Code::UNRECOVERED_READ_ERROR),
        StatusKind::OutOfRange => (Key::ILLEGAL_REQUEST, Code::LBA_OUT_OF_RANGE),
        StatusKind::CompareFailed => (Key::MISCOMPARE, Code::MISCOMPARE_DURING_VERIFY),
        StatusKind::WriteProtected => (Key::DATA_PROTECT, Code::WRITE_PROTECTED),
        StatusKind::NoSpace => (Key::DATA_PROTECT, Code::SPACE_ALLOCATION_FAILED),
        StatusKind::Unsupported => (Key::ILLEGAL_REQUEST, Code::INVALID_COMMAND_OPERATION_CODE),
        StatusKind::Invalid => (Key::ILLEGAL_REQUEST, Code::INVALID_FIELD_IN_CDB),
        StatusKind::Aborted => (Key::ABORTED_COMMAND, Code::NONE),
        StatusKind::Transport => (Key::ABORTED_COMMAND, Code::PROTOCOL_SERVICE_CRC_ERROR),
        StatusKind::Path => (Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE),
        StatusKind::Gone => (Key::NOT_READY, Code::COMMUNICATION_FAILURE),
        StatusKind::TimedOut => (Key::NOT_READY, Code::COMMUNICATION_TIME_OUT),
        // Success: not done, whatever it says.
        StatusKind::Internal | StatusKind::Success => {
            (Key::HARDWARE_ERROR, Code::INTERNAL_TARGET_FAILURE)
        }
        StatusKind::ReservationConflict => return (ScsiStatus::RESERVATION_CONFLICT, None),
        StatusKind::Busy => return (ScsiStatus::BUSY, None),
    };
    (CHECK, Some(Sense::new(key, code)))
}
