//! Outcomes of devices as NVMe status.

use weft_block::{OpKind, Outcome, RawProtocol, StatusKind};
use weft_proto::nvme::controller::DeviceOutcome;
use weft_proto::nvme::status::Status;

/// What the host is told. A status that was NVMe's comes out unchanged.
pub(super) fn to_nvme(kind: OpKind, outcome: &Outcome) -> DeviceOutcome {
    let status = outcome.status();
    if let Some(raw) = status.raw.filter(|raw| raw.protocol == RawProtocol::Nvme) {
        return DeviceOutcome { status: Status(raw.code & 0x7ff), do_not_retry: raw.code & Status::DNR != 0 };
    }
    let (status, do_not_retry) = match status.kind {
        StatusKind::Success => (Status::SUCCESS, false),
        StatusKind::Media if kind.is_write() => (Status::WRITE_FAULT, true),
        StatusKind::Media => (Status::UNRECOVERED_READ_ERROR, true),
        StatusKind::OutOfRange => (Status::LBA_OUT_OF_RANGE, true),
        StatusKind::CompareFailed => (Status::COMPARE_FAILURE, true),
        StatusKind::WriteProtected => (Status::NAMESPACE_WRITE_PROTECTED, true),
        StatusKind::NoSpace => (Status::CAPACITY_EXCEEDED, true),
        StatusKind::Unsupported => (Status::INVALID_OPCODE, true),
        StatusKind::Invalid => (Status::INVALID_FIELD, true),
        StatusKind::Aborted => (Status::ABORT_REQUESTED, false),
        StatusKind::ReservationConflict => (Status::RESERVATION_CONFLICT, true),
        StatusKind::Busy => (Status::COMMAND_INTERRUPTED, false),
        StatusKind::Transport => (Status::TRANSIENT_TRANSPORT_ERROR, false),
        StatusKind::Gone | StatusKind::Internal => (Status::INTERNAL_ERROR, true),
    };
    DeviceOutcome { status, do_not_retry }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_nvme_comes_out_unchanged() {
        let raw = Status::ACCESS_DENIED.0 | Status::DNR;
        let outcome = Outcome::Done(weft_block::Status::nvme(StatusKind::WriteProtected, raw));
        let told = to_nvme(OpKind::Read, &outcome);
        assert_eq!((told.status, told.do_not_retry), (Status::ACCESS_DENIED, true));
    }

    #[test]
    fn media_errors_name_the_direction() {
        let outcome = Outcome::Done(weft_block::Status::new(StatusKind::Media));
        assert_eq!(to_nvme(OpKind::Read, &outcome).status, Status::UNRECOVERED_READ_ERROR);
        assert_eq!(to_nvme(OpKind::Write { fua: false }, &outcome).status, Status::WRITE_FAULT);
    }
}
