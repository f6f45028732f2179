//! Translation between NVMe status and SCSI status (NVM Express: SCSI Translation Reference 1.5
//! §7).

use super::sense::Sense;
use super::status::{AdditionalSense as Code, ScsiStatus, SenseKey as Key};
use crate::nvme::status::Status;

/// A row: NVMe status, SCSI status, sense key, additional sense code.
type Row = (Status, ScsiStatus, Key, Code);

const CHECK: ScsiStatus = ScsiStatus::CHECK_CONDITION;

/// The statuses of NVMe that the reference translates (its table of status codes), then newer ones
/// that have a plain counterpart. Where several say the same in SCSI, the first is the one that
/// SCSI is translated to.
const ROWS: &[Row] = &[
    (Status::SUCCESS, ScsiStatus::GOOD, Key::NO_SENSE, Code::NONE),
    (Status::INVALID_OPCODE, CHECK, Key::ILLEGAL_REQUEST, Code::INVALID_COMMAND_OPERATION_CODE),
    (Status::INVALID_FIELD, CHECK, Key::ILLEGAL_REQUEST, Code::INVALID_FIELD_IN_CDB),
    (Status::DATA_TRANSFER_ERROR, CHECK, Key::MEDIUM_ERROR, Code::NONE),
    (
        Status::POWER_LOSS_ABORT,
        ScsiStatus::TASK_ABORTED,
        Key::ABORTED_COMMAND,
        Code::POWER_LOSS_EXPECTED,
    ),
    (Status::INTERNAL_ERROR, CHECK, Key::HARDWARE_ERROR, Code::INTERNAL_TARGET_FAILURE),
    (Status::ABORT_REQUESTED, ScsiStatus::TASK_ABORTED, Key::ABORTED_COMMAND, Code::NONE),
    (Status::SQ_DELETION_ABORT, ScsiStatus::TASK_ABORTED, Key::ABORTED_COMMAND, Code::NONE),
    (Status::FAILED_FUSED, ScsiStatus::TASK_ABORTED, Key::ABORTED_COMMAND, Code::NONE),
    (Status::MISSING_FUSED, ScsiStatus::TASK_ABORTED, Key::ABORTED_COMMAND, Code::NONE),
    (Status::INVALID_NAMESPACE, CHECK, Key::ILLEGAL_REQUEST, Code::ACCESS_DENIED_INVALID_LU),
    (Status::LBA_OUT_OF_RANGE, CHECK, Key::ILLEGAL_REQUEST, Code::LBA_OUT_OF_RANGE),
    (Status::CAPACITY_EXCEEDED, CHECK, Key::MEDIUM_ERROR, Code::NONE),
    (Status::NAMESPACE_NOT_READY, CHECK, Key::NOT_READY, Code::NOT_READY),
    (Status::COMPLETION_QUEUE_INVALID, CHECK, Key::ILLEGAL_REQUEST, Code::NONE),
    (Status::ABORT_COMMAND_LIMIT_EXCEEDED, CHECK, Key::ILLEGAL_REQUEST, Code::NONE),
    (INVALID_FORMAT, CHECK, Key::ILLEGAL_REQUEST, Code::FORMAT_COMMAND_FAILED),
    (CONFLICTING_ATTRIBUTES, CHECK, Key::ILLEGAL_REQUEST, Code::INVALID_FIELD_IN_CDB),
    (Status::WRITE_FAULT, CHECK, Key::MEDIUM_ERROR, Code::PERIPHERAL_DEVICE_WRITE_FAULT),
    (Status::UNRECOVERED_READ_ERROR, CHECK, Key::MEDIUM_ERROR, Code::UNRECOVERED_READ_ERROR),
    (GUARD_CHECK, CHECK, Key::MEDIUM_ERROR, Code::GUARD_CHECK_FAILED),
    (APPLICATION_TAG_CHECK, CHECK, Key::MEDIUM_ERROR, Code::APPLICATION_TAG_CHECK_FAILED),
    (REFERENCE_TAG_CHECK, CHECK, Key::MEDIUM_ERROR, Code::REFERENCE_TAG_CHECK_FAILED),
    (Status::COMPARE_FAILURE, CHECK, Key::MISCOMPARE, Code::MISCOMPARE_DURING_VERIFY),
    (Status::ACCESS_DENIED, CHECK, Key::ILLEGAL_REQUEST, Code::ACCESS_DENIED_INVALID_LU),
    // Newer than the reference.
    (Status::RESERVATION_CONFLICT, ScsiStatus::RESERVATION_CONFLICT, Key::NO_SENSE, Code::NONE),
    (Status::PREEMPT_ABORT, ScsiStatus::TASK_ABORTED, Key::ABORTED_COMMAND, Code::NONE),
    (Status::NAMESPACE_WRITE_PROTECTED, CHECK, Key::DATA_PROTECT, Code::WRITE_PROTECTED),
    (Status::COMMAND_INTERRUPTED, ScsiStatus::BUSY, Key::NO_SENSE, Code::NONE),
    (
        Status::TRANSIENT_TRANSPORT_ERROR,
        CHECK,
        Key::ABORTED_COMMAND,
        Code::PROTOCOL_SERVICE_CRC_ERROR,
    ),
    (Status::SANITIZE_IN_PROGRESS, CHECK, Key::NOT_READY, Code::SANITIZE_IN_PROGRESS),
    (Status::DEALLOCATED_OR_UNWRITTEN, CHECK, Key::MEDIUM_ERROR, Code::UNRECOVERED_READ_ERROR),
    (FORMAT_IN_PROGRESS, CHECK, Key::NOT_READY, Code::FORMAT_IN_PROGRESS),
    (Status::ANA_INACCESSIBLE, CHECK, Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE),
    (Status::ANA_PERSISTENT_LOSS, CHECK, Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE),
    (Status::INTERNAL_PATH_ERROR, CHECK, Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE),
    (Status::CONTROLLER_PATHING_ERROR, CHECK, Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE),
    (Status::HOST_PATHING_ERROR, CHECK, Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE),
    (Status::ABORTED_BY_HOST, CHECK, Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE),
    (Status::ANA_TRANSITION, CHECK, Key::NOT_READY, Code::ACCESS_STATE_TRANSITION),
];

/// Further additional sense codes that say more than their sense key.
const CODES: &[(Code, Status)] = &[
    (Code::WRITE_ERROR, Status::WRITE_FAULT),
    (Code::SPACE_ALLOCATION_FAILED, Status::CAPACITY_EXCEEDED),
    (Code::LOGICAL_UNIT_NOT_SUPPORTED, Status::INVALID_NAMESPACE),
    (Code::COMMUNICATION_FAILURE, Status::INTERNAL_ERROR),
    (Code::ACCESS_STATE_STANDBY, Status::ANA_INACCESSIBLE),
    (Code::ACCESS_STATE_OFFLINE, Status::ANA_PERSISTENT_LOSS),
    (Code::TRANSPORT_CRC_ERROR, Status::TRANSIENT_TRANSPORT_ERROR),
    (Code::DATA_PHASE_ERROR, Status::TRANSIENT_TRANSPORT_ERROR),
];

const FORMAT_IN_PROGRESS: Status = Status(0x084);
const INVALID_FORMAT: Status = Status(0x10a);
const CONFLICTING_ATTRIBUTES: Status = Status(0x180);
const GUARD_CHECK: Status = Status(0x282);
const APPLICATION_TAG_CHECK: Status = Status(0x283);
const REFERENCE_TAG_CHECK: Status = Status(0x284);

/// Code type and code of a status.
const STATUS_BITS: u16 = 0x7ff;

/// Returns the SCSI status for a status of NVMe. One that the table does not have is a hardware
/// error, as the reference wants it.
pub fn from_nvme(status: Status) -> (ScsiStatus, Option<Sense>) {
    let bare = Status(status.0 & STATUS_BITS);
    let row = ROWS.iter().find(|row| row.0 == bare);
    let (_, scsi, key, code) =
        *row.unwrap_or(&(bare, CHECK, Key::HARDWARE_ERROR, Code::INTERNAL_TARGET_FAILURE));
    (scsi, (scsi == CHECK).then(|| Sense::new(key, code)))
}

/// Returns the NVMe status for the end of a SCSI command: the corresponding status if there is one,
/// otherwise that for the additional sense code or the sense key.
pub fn to_nvme(status: ScsiStatus, sense: Option<Sense>) -> Status {
    let same = |row: &&Row| {
        row.1 == status
            && (status != CHECK
                || sense.is_some_and(|sense| (row.2, row.3) == (sense.key, sense.code)))
    };
    if let Some(row) = ROWS.iter().find(same) {
        return row.0;
    }
    let by_code = sense.and_then(|sense| CODES.iter().find(|row| row.0 == sense.code));
    if let (CHECK, Some(row)) = (status, by_code) {
        return row.1;
    }
    match (status, sense.map(|sense| sense.key)) {
        (ScsiStatus::CONDITION_MET, _) => Status::SUCCESS,
        (ScsiStatus::TASK_SET_FULL | ScsiStatus::ACA_ACTIVE, _) => Status::COMMAND_INTERRUPTED,
        (_, Some(Key::NO_SENSE | Key::RECOVERED_ERROR)) => Status::SUCCESS,
        (_, Some(Key::NOT_READY)) => Status::NAMESPACE_NOT_READY,
        (_, Some(Key::MEDIUM_ERROR)) => Status::UNRECOVERED_READ_ERROR,
        (_, Some(Key::ILLEGAL_REQUEST)) => Status::INVALID_FIELD,
        (_, Some(Key::UNIT_ATTENTION)) => Status::COMMAND_INTERRUPTED,
        (_, Some(Key::DATA_PROTECT)) => Status::NAMESPACE_WRITE_PROTECTED,
        (_, Some(Key::ABORTED_COMMAND)) => Status::ABORT_REQUESTED,
        (_, Some(Key::VOLUME_OVERFLOW)) => Status::CAPACITY_EXCEEDED,
        (_, Some(Key::MISCOMPARE)) => Status::COMPARE_FAILURE,
        _ => Status::INTERNAL_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_same_words_comes_back() {
        for (index, row) in ROWS.iter().enumerate() {
            let (status, sense) = from_nvme(row.0);
            let back = to_nvme(status, sense);
            let first =
                ROWS.iter().position(|other| (other.1, other.2, other.3) == (row.1, row.2, row.3));
            let is_first = first == Some(index);
            assert!(!is_first || back == row.0 || status != CHECK, "{} became {back}", row.0);
        }
    }

    #[test]
    fn no_status_stands_twice() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|other| other.0 != row.0), "{}", row.0);
        }
    }

    #[test]
    fn do_not_retry_does_not_matter() {
        let (status, sense) = from_nvme(Status(Status::LBA_OUT_OF_RANGE.0 | Status::DNR));
        assert_eq!((status, sense), (CHECK, Some(Sense::illegal(Code::LBA_OUT_OF_RANGE))));
    }

    #[test]
    fn sense_data_comes_with_check_condition_only() {
        for code in 0..=STATUS_BITS {
            let (status, sense) = from_nvme(Status(code));
            assert_eq!(sense.is_some(), status == CHECK, "{code:#x}");
        }
    }
}
