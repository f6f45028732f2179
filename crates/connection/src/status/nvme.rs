//! NVMe (Base §3.3.3.2.1, NVM §3.1.1).

use super::scsi;
use weft_block::{OpKind, Outcome, Raw, Status, StatusKind};
use weft_proto::nvme::controller::DeviceOutcome;
use weft_proto::nvme::status::Status as NvmeStatus;
use weft_proto::scsi::translation;

/// Code type and code of a status.
const STATUS_BITS: u16 = 0x7ff;

/// Format In Progress (Base §3.3.3.2.1.1).
const FORMAT_IN_PROGRESS: NvmeStatus = NvmeStatus(0x084);

/// Attempted Write to Read Only Range (NVM §3.1.1).
const READ_ONLY_RANGE: NvmeStatus = NvmeStatus(0x182);

/// Translates the status of an I/O command. (Status codes that depend on the command mean other
/// things elsewhere.)
pub fn from_nvme(status: NvmeStatus, do_not_retry: bool) -> Status {
    let code = status.0 & STATUS_BITS | if do_not_retry { NvmeStatus::DNR } else { 0 };
    match kind_of(status) {
        StatusKind::Success => Status::SUCCESS,
        kind => Status::with_raw(kind, Raw::Nvme(code)),
    }
}

fn kind_of(status: NvmeStatus) -> StatusKind {
    match status {
        NvmeStatus::SUCCESS => StatusKind::Success,
        NvmeStatus::INVALID_OPCODE => StatusKind::Unsupported,
        NvmeStatus::INVALID_NAMESPACE => StatusKind::Gone,
        NvmeStatus::LBA_OUT_OF_RANGE => StatusKind::OutOfRange,
        NvmeStatus::CAPACITY_EXCEEDED => StatusKind::NoSpace,
        NvmeStatus::COMPARE_FAILURE => StatusKind::CompareFailed,
        NvmeStatus::RESERVATION_CONFLICT => StatusKind::ReservationConflict,
        NvmeStatus::NAMESPACE_WRITE_PROTECTED | NvmeStatus::ACCESS_DENIED | READ_ONLY_RANGE => {
            StatusKind::WriteProtected
        }
        NvmeStatus::DATA_TRANSFER_ERROR | NvmeStatus::TRANSIENT_TRANSPORT_ERROR => {
            StatusKind::Transport
        }
        NvmeStatus::NAMESPACE_NOT_READY
        | NvmeStatus::COMMAND_INTERRUPTED
        | NvmeStatus::SANITIZE_IN_PROGRESS
        | FORMAT_IN_PROGRESS => StatusKind::Busy,
        NvmeStatus::POWER_LOSS_ABORT
        | NvmeStatus::ABORT_REQUESTED
        | NvmeStatus::SQ_DELETION_ABORT
        | NvmeStatus::FAILED_FUSED
        | NvmeStatus::MISSING_FUSED
        | NvmeStatus::PREEMPT_ABORT => StatusKind::Aborted,
        NvmeStatus::SANITIZE_FAILED => StatusKind::Media,
        NvmeStatus::INTERNAL_ERROR => StatusKind::Internal,
        NvmeStatus(0x002..=0x07f) => StatusKind::Invalid,
        NvmeStatus(0x100..=0x1ff) => StatusKind::Invalid,
        NvmeStatus(0x280..=0x2ff) => StatusKind::Media,
        _ if status.is_path() => StatusKind::Path,
        _ => StatusKind::Internal,
    }
}

/// The status for a host of an operation that was not done.
pub fn to_nvme(kind: OpKind, outcome: &Outcome) -> DeviceOutcome {
    let status = outcome.status();
    let passing = status.kind.is_passing();
    match status.raw {
        Some(Raw::Nvme(code)) if code & STATUS_BITS != 0 => DeviceOutcome {
            status: NvmeStatus(code & STATUS_BITS),
            do_not_retry: code & NvmeStatus::DNR != 0,
        },
        Some(Raw::Scsi(raw)) => {
            let (scsi, sense) = scsi::words(&raw);
            match translation::to_nvme(scsi, sense) {
                // The words say that it was done, which it was not.
                NvmeStatus::SUCCESS => {
                    DeviceOutcome { status: name_of(kind, status.kind), do_not_retry: !passing }
                }
                translated => DeviceOutcome { status: translated, do_not_retry: !passing },
            }
        }
        None | Some(Raw::Os(_))
            if matches!(
                status.kind,
                StatusKind::Gone | StatusKind::TimedOut | StatusKind::Path
            ) =>
        {
            let elsewhere = may_go_elsewhere(kind, outcome);
            let status = if elsewhere {
                NvmeStatus::CONTROLLER_PATHING_ERROR
            } else {
                NvmeStatus::INTERNAL_ERROR
            };
            DeviceOutcome { status, do_not_retry: !elsewhere }
        }
        _ => DeviceOutcome { status: name_of(kind, status.kind), do_not_retry: !passing },
    }
}

/// Whether what was lost with the way to the device may be sent again by another way: it was not
/// executed, changes nothing, or will not be executed any more and may be done twice (decision 8).
fn may_go_elsewhere(kind: OpKind, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done(_) | Outcome::NotSent(_) => true,
        Outcome::MayHaveExecuted { settled, .. } => {
            !kind.is_write() || *settled && !matches!(kind, OpKind::CompareAndWrite { .. })
        }
    }
}

fn name_of(kind: OpKind, status: StatusKind) -> NvmeStatus {
    match status {
        StatusKind::Media if kind.is_write() || kind == OpKind::Flush => NvmeStatus::WRITE_FAULT,
        StatusKind::Media => NvmeStatus::UNRECOVERED_READ_ERROR,
        StatusKind::OutOfRange => NvmeStatus::LBA_OUT_OF_RANGE,
        StatusKind::CompareFailed => NvmeStatus::COMPARE_FAILURE,
        StatusKind::WriteProtected => NvmeStatus::NAMESPACE_WRITE_PROTECTED,
        StatusKind::NoSpace => NvmeStatus::CAPACITY_EXCEEDED,
        StatusKind::Unsupported => NvmeStatus::INVALID_OPCODE,
        StatusKind::Invalid => NvmeStatus::INVALID_FIELD,
        StatusKind::Aborted => NvmeStatus::ABORT_REQUESTED,
        StatusKind::ReservationConflict => NvmeStatus::RESERVATION_CONFLICT,
        StatusKind::Busy => NvmeStatus::COMMAND_INTERRUPTED,
        StatusKind::Transport => NvmeStatus::TRANSIENT_TRANSPORT_ERROR,
        // Hosts with several paths send the command again by another one.
        StatusKind::Path => NvmeStatus::CONTROLLER_PATHING_ERROR,
        // That a namespace is gone is told by events; Invalid Namespace would blame the host.
        // Success: not done, whatever it says.
        StatusKind::Gone | StatusKind::TimedOut | StatusKind::Internal | StatusKind::Success => {
            NvmeStatus::INTERNAL_ERROR
        }
    }
}
