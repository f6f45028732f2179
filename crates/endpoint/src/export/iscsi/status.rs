//! Outcomes of devices as SCSI faults.

use weft_block::{Outcome, RawProtocol, StatusKind};
use weft_proto::nvme::status::Status as NvmeStatus;
use weft_proto::scsi::lun::DeviceOutcome;
use weft_proto::scsi::translation::{Fault, FaultKind};

/// What the logical unit is told. A status of NVMe keeps its meaning by the standard translation.
pub(super) fn to_scsi(outcome: &Outcome) -> DeviceOutcome {
    let status = outcome.status();
    if let Some(raw) = status.raw.filter(|raw| raw.protocol == RawProtocol::Nvme) {
        return DeviceOutcome::Failed(Fault::Nvme(NvmeStatus(raw.code & 0x7ff)));
    }
    let kind = match status.kind {
        // Not done, whatever it says.
        StatusKind::Success | StatusKind::Internal => FaultKind::Internal,
        StatusKind::Media => FaultKind::Media,
        StatusKind::OutOfRange => FaultKind::OutOfRange,
        StatusKind::CompareFailed => FaultKind::CompareFailed,
        StatusKind::WriteProtected => FaultKind::WriteProtected,
        StatusKind::NoSpace => FaultKind::NoSpace,
        StatusKind::Unsupported => FaultKind::Unsupported,
        StatusKind::Invalid => FaultKind::Invalid,
        StatusKind::Aborted => FaultKind::Aborted,
        StatusKind::ReservationConflict => FaultKind::ReservationConflict,
        StatusKind::Busy => FaultKind::Busy,
        StatusKind::Transport => FaultKind::Transport,
        StatusKind::Gone => FaultKind::Gone,
    };
    DeviceOutcome::Failed(Fault::Kind(kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::Status;

    #[test]
    fn a_status_of_nvme_keeps_its_code() {
        let outcome = Outcome::Done(Status::nvme(StatusKind::Media, NvmeStatus::UNRECOVERED_READ_ERROR.0 | NvmeStatus::DNR));
        assert_eq!(to_scsi(&outcome), DeviceOutcome::Failed(Fault::Nvme(NvmeStatus::UNRECOVERED_READ_ERROR)));
    }

    #[test]
    fn kinds_go_by_their_names() {
        let outcome = Outcome::MayHaveExecuted(Status::new(StatusKind::NoSpace));
        assert_eq!(to_scsi(&outcome), DeviceOutcome::Failed(Fault::Kind(FaultKind::NoSpace)));
    }
}
