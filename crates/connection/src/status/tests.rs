use super::nbd::{from_nbd, to_nbd};
use super::nvme::{from_nvme, to_nvme};
use super::scsi::{from_scsi, to_scsi};
use weft_block::StatusKind as Kind;
use weft_block::{OpKind, Outcome, Raw, RawScsi, Status};
use weft_proto::nbd::code::ErrorCode;
use weft_proto::nvme::status::Status as NvmeStatus;
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, ScsiStatus, SenseKey as Key};

const CHECK: ScsiStatus = ScsiStatus::CHECK_CONDITION;
const WRITE: OpKind = OpKind::Write { fua: false };

fn failures() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| *kind != Kind::Success)
}

/// The kind at the other end of a wire that carries NVMe.
fn over_nvme(op: OpKind, status: Status) -> Status {
    let told = to_nvme(op, &Outcome::Done(status));
    from_nvme(told.status, told.do_not_retry)
}

fn over_scsi(op: OpKind, status: Status) -> Status {
    let (scsi, sense) = to_scsi(op, &Outcome::Done(status));
    assert_eq!(sense.is_some(), scsi == CHECK, "{status:?}");
    from_scsi(scsi, sense)
}

fn over_nbd(op: OpKind, status: Status) -> Status {
    from_nbd(to_nbd(op, &Outcome::Done(status)), op)
}

#[test]
fn a_kind_comes_back_as_itself_where_the_protocol_has_a_word_for_it() {
    for kind in failures() {
        let status = Status::new(kind);
        for op in [OpKind::Read, WRITE] {
            // To NVMe hosts it is the way that is gone: they look for another one.
            let expected =
                if matches!(kind, Kind::Gone | Kind::TimedOut) { Kind::Path } else { kind };
            assert_eq!(over_nvme(op, status).kind, expected);
            let expected = if kind == Kind::TimedOut { Kind::Path } else { kind };
            assert_eq!(over_scsi(op, status).kind, expected);
        }
        let expected = match kind {
            Kind::OutOfRange => Kind::NoSpace,
            Kind::Unsupported => Kind::Invalid,
            Kind::ReservationConflict => Kind::WriteProtected,
            Kind::CompareFailed
            | Kind::Aborted
            | Kind::Busy
            | Kind::Transport
            | Kind::TimedOut
            | Kind::Internal => Kind::Media,
            // ESHUTDOWN does not tell whether another server has the data.
            Kind::Gone => Kind::Path,
            kind => kind,
        };
        assert_eq!(over_nbd(WRITE, status).kind, expected, "{kind:?}");
    }
}

#[test]
fn a_kind_survives_a_gateway() {
    for kind in failures() {
        for op in [OpKind::Read, WRITE] {
            let name = match kind {
                Kind::Gone => Kind::Internal,
                Kind::TimedOut => Kind::Busy,
                kind => kind,
            };
            assert_eq!(over_nvme(op, over_scsi(op, Status::new(kind))).kind, name);
            // By the translation reference Capacity Exceeded is a medium error.
            let name = match kind {
                Kind::NoSpace => Kind::Media,
                Kind::Gone | Kind::TimedOut => Kind::Path,
                kind => kind,
            };
            assert_eq!(over_scsi(op, over_nvme(op, Status::new(kind))).kind, name);
        }
    }
}

#[test]
fn what_was_not_done_is_never_told_as_done() {
    let words = [
        None,
        Some(Raw::Nvme(0)),
        Some(Raw::Nbd(0)),
        Some(Raw::Os(0)),
        Some(scsi_words(ScsiStatus::GOOD, Sense::default())),
    ];
    let done = [Key::NO_SENSE, Key::RECOVERED_ERROR, Key::COMPLETED]
        .map(|key| Some(scsi_words(CHECK, Sense::new(key, Code::NONE))));
    for raw in words.into_iter().chain(done) {
        for kind in Kind::ALL.iter().copied() {
            let outcome = Outcome::settled(Status { kind, raw });
            assert!(!to_nvme(WRITE, &outcome).status.is_success(), "{outcome:?}");
            assert_ne!(to_nbd(WRITE, &outcome), ErrorCode::SUCCESS, "{outcome:?}");
            let (status, sense) = to_scsi(WRITE, &outcome);
            assert!(!matches!(status, ScsiStatus::GOOD | ScsiStatus::CONDITION_MET), "{outcome:?}");
            assert!(
                !sense
                    .is_some_and(|sense| matches!(sense.key, Key::NO_SENSE | Key::RECOVERED_ERROR)),
                "{outcome:?}"
            );
        }
    }
}

fn scsi_words(status: ScsiStatus, sense: Sense) -> Raw {
    let (sense_key, additional_sense) = (sense.key.0, sense.code.0);
    Raw::Scsi(RawScsi {
        status: status.0,
        sense_key,
        additional_sense,
        information: sense.information,
    })
}

#[test]
fn nvme_to_nvme_is_unchanged() {
    for code in 1..=0x7ff {
        for do_not_retry in [false, true] {
            let told =
                to_nvme(OpKind::Read, &Outcome::Done(from_nvme(NvmeStatus(code), do_not_retry)));
            assert_eq!((told.status, told.do_not_retry), (NvmeStatus(code), do_not_retry));
        }
    }
}

#[test]
fn scsi_to_scsi_is_unchanged() {
    let failures = [
        Key::NOT_READY,
        Key::MEDIUM_ERROR,
        Key::HARDWARE_ERROR,
        Key::ILLEGAL_REQUEST,
        Key::DATA_PROTECT,
        Key::MISCOMPARE,
    ];
    for key in failures {
        for sense in
            [Sense::new(key, Code(0x4182)), Sense::new(key, Code::NONE).with_information(u64::MAX)]
        {
            assert_eq!(
                to_scsi(WRITE, &Outcome::Done(from_scsi(CHECK, Some(sense)))),
                (CHECK, Some(sense))
            );
        }
    }
    for status in [ScsiStatus::BUSY, ScsiStatus::TASK_SET_FULL, ScsiStatus::RESERVATION_CONFLICT] {
        assert_eq!(to_scsi(WRITE, &Outcome::Done(from_scsi(status, None))), (status, None));
    }
}

#[test]
fn what_concerns_another_nexus_stays_there() {
    let attention = Sense::new(Key::UNIT_ATTENTION, Code::REPORTED_LUNS_DATA_CHANGED);
    assert_eq!(
        to_scsi(WRITE, &Outcome::Done(from_scsi(CHECK, Some(attention)))),
        (ScsiStatus::BUSY, None)
    );
    let aborted = (CHECK, Some(Sense::new(Key::ABORTED_COMMAND, Code::NONE)));
    assert_eq!(to_scsi(WRITE, &Outcome::Done(from_scsi(ScsiStatus::TASK_ABORTED, None))), aborted);
    // The field that is refused is one of our CDB.
    let pointed = to_scsi(WRITE, &Outcome::Done(from_scsi(CHECK, Some(Sense::cdb_byte(2)))));
    assert_eq!(pointed, (CHECK, Some(Sense::illegal(Code::INVALID_FIELD_IN_CDB))));
}

#[test]
fn nvme_to_scsi_follows_the_translation_reference() {
    let cases = [
        (NvmeStatus::UNRECOVERED_READ_ERROR, Key::MEDIUM_ERROR, Code::UNRECOVERED_READ_ERROR),
        (NvmeStatus::LBA_OUT_OF_RANGE, Key::ILLEGAL_REQUEST, Code::LBA_OUT_OF_RANGE),
        (NvmeStatus::ACCESS_DENIED, Key::ILLEGAL_REQUEST, Code::ACCESS_DENIED_INVALID_LU),
        (NvmeStatus(0x282), Key::MEDIUM_ERROR, Code::GUARD_CHECK_FAILED),
        // One that the reference does not have.
        (NvmeStatus(0x6ff), Key::HARDWARE_ERROR, Code::INTERNAL_TARGET_FAILURE),
    ];
    for (status, key, code) in cases {
        let told = to_scsi(OpKind::Read, &Outcome::Done(from_nvme(status, true)));
        assert_eq!(told, (CHECK, Some(Sense::new(key, code))), "{status}");
    }
    let conflict = from_nvme(NvmeStatus::RESERVATION_CONFLICT, true);
    assert_eq!(to_scsi(WRITE, &Outcome::Done(conflict)), (ScsiStatus::RESERVATION_CONFLICT, None));
}

#[test]
fn scsi_to_nvme_follows_the_translation_reference() {
    let check = |key, code| from_scsi(CHECK, Some(Sense::new(key, code)));
    let cases = [
        (
            check(Key::MEDIUM_ERROR, Code::PERIPHERAL_DEVICE_WRITE_FAULT),
            NvmeStatus::WRITE_FAULT,
            true,
        ),
        (
            check(Key::MEDIUM_ERROR, Code::UNRECOVERED_READ_ERROR),
            NvmeStatus::UNRECOVERED_READ_ERROR,
            true,
        ),
        (check(Key::MEDIUM_ERROR, Code::GUARD_CHECK_FAILED), NvmeStatus(0x282), true),
        (check(Key::ILLEGAL_REQUEST, Code::LBA_OUT_OF_RANGE), NvmeStatus::LBA_OUT_OF_RANGE, true),
        (check(Key::NOT_READY, Code::NOT_READY), NvmeStatus::NAMESPACE_NOT_READY, false),
        (check(Key::HARDWARE_ERROR, Code(0x4182)), NvmeStatus::INTERNAL_ERROR, true),
        (from_scsi(ScsiStatus::RESERVATION_CONFLICT, None), NvmeStatus::RESERVATION_CONFLICT, true),
        (from_scsi(ScsiStatus::TASK_SET_FULL, None), NvmeStatus::COMMAND_INTERRUPTED, false),
    ];
    for (status, expected, do_not_retry) in cases {
        let told = to_nvme(OpKind::Read, &Outcome::Done(status));
        assert_eq!((told.status, told.do_not_retry), (expected, do_not_retry), "{status:?}");
    }
}

#[test]
fn a_path_that_does_not_reach_the_data_is_told_from_a_device_that_failed() {
    for code in [0x300, 0x301, 0x302, 0x303, 0x360, 0x370, 0x371] {
        let status = from_nvme(NvmeStatus(code), false);
        assert_eq!((status.kind, status.raw), (Kind::Path, Some(Raw::Nvme(code))));
        let (_, sense) = to_scsi(WRITE, &Outcome::Done(status));
        assert_eq!(
            sense.map(|sense| (sense.key, sense.code.0 >> 8)),
            Some((Key::NOT_READY, 4)),
            "{code:#x}"
        );
        assert_eq!(to_nbd(WRITE, &Outcome::Done(status)), ErrorCode::ESHUTDOWN);
    }
    let access = [
        (Code::ACCESS_STATE_TRANSITION, NvmeStatus::ANA_TRANSITION),
        (Code::ACCESS_STATE_STANDBY, NvmeStatus::ANA_INACCESSIBLE),
        (Code::ACCESS_STATE_UNAVAILABLE, NvmeStatus::ANA_INACCESSIBLE),
        (Code::ACCESS_STATE_OFFLINE, NvmeStatus::ANA_PERSISTENT_LOSS),
    ];
    for (code, expected) in access {
        let status = from_scsi(CHECK, Some(Sense::new(Key::NOT_READY, code)));
        assert_eq!(status.kind, Kind::Path);
        let told = to_nvme(WRITE, &Outcome::Done(status));
        assert_eq!((told.status, told.do_not_retry), (expected, false), "{code}");
    }
    assert_eq!(from_nbd(ErrorCode::ESHUTDOWN, WRITE).kind, Kind::Path);
    // Otherwise it is nobody's path: the unit itself is not ready.
    assert_eq!(
        from_scsi(CHECK, Some(Sense::new(Key::NOT_READY, Code::BECOMING_READY))).kind,
        Kind::Busy
    );
}

#[test]
fn an_error_of_nbd_is_unchanged_and_beyond_the_end_depends_on_the_direction() {
    assert_eq!(
        to_nbd(OpKind::Read, &Outcome::Done(from_nbd(ErrorCode::ENOMEM, OpKind::Read))),
        ErrorCode::ENOMEM
    );
    let beyond = Outcome::Done(Status::new(Kind::OutOfRange));
    assert_eq!(to_nbd(OpKind::Read, &beyond), ErrorCode::EINVAL);
    assert_eq!(to_nbd(OpKind::Discard, &beyond), ErrorCode::EINVAL);
    assert_eq!(to_nbd(WRITE, &beyond), ErrorCode::ENOSPC);
}

#[test]
fn a_flush_that_failed_is_a_write_fault() {
    let failed = Outcome::Done(Status::with_raw(Kind::Media, Raw::Os(5)));
    assert_eq!(to_nvme(OpKind::Flush, &failed).status, NvmeStatus::WRITE_FAULT);
    assert_eq!(
        to_scsi(OpKind::Flush, &failed),
        (CHECK, Some(Sense::new(Key::MEDIUM_ERROR, Code::WRITE_ERROR)))
    );
    assert_eq!(to_nbd(OpKind::Flush, &failed), ErrorCode::EIO);
}

#[test]
fn the_loss_of_the_device_is_an_error_of_the_path_where_the_command_may_go_by_another() {
    for kind in [Kind::Gone, Kind::Path] {
        goes_elsewhere_if_it_may(Status::new(kind));
    }
}

fn goes_elsewhere_if_it_may(gone: Status) {
    let swap = OpKind::CompareAndWrite { fua: false };
    let elsewhere = [
        (OpKind::Read, Outcome::NotSent(gone)),
        (OpKind::Read, Outcome::unsettled(gone)),
        (OpKind::Flush, Outcome::unsettled(gone)),
        (WRITE, Outcome::NotSent(gone)),
        (WRITE, Outcome::settled(gone)),
        (swap, Outcome::NotSent(gone)),
    ];
    for (kind, outcome) in elsewhere {
        let told = to_nvme(kind, &outcome);
        assert_eq!(
            (told.status.code_type(), told.do_not_retry),
            (3, false),
            "{kind:?} {outcome:?}"
        );
    }
    // A write that may be executed later would undo what another path wrote; a second
    // compare-and-write may fail on its own data.
    for (kind, outcome) in [
        (WRITE, Outcome::unsettled(gone)),
        (swap, Outcome::settled(gone)),
        (swap, Outcome::unsettled(gone)),
    ] {
        let told = to_nvme(kind, &outcome);
        assert_eq!(
            (told.status, told.do_not_retry),
            (NvmeStatus::INTERNAL_ERROR, true),
            "{kind:?} {outcome:?}"
        );
    }
    let unknown = (CHECK, Some(Sense::new(Key::HARDWARE_ERROR, Code::COMMUNICATION_TIME_OUT)));
    for (outcome, may) in [
        (Outcome::NotSent(gone), true),
        (Outcome::settled(gone), false),
        (Outcome::unsettled(gone), false),
    ] {
        assert_eq!(to_scsi(swap, &outcome) != unknown, may, "{outcome:?}");
    }
    assert_ne!(to_scsi(WRITE, &Outcome::settled(gone)), unknown);
}
