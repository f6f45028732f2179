//! NBD (protocol document, "Error values").

use weft_block::{OpKind, Outcome, Raw, Status, StatusKind};
use weft_proto::nbd::code::ErrorCode;

/// Translates an error of the server.
pub fn from_nbd(error: ErrorCode, kind: OpKind) -> Status {
    let meaning = match error {
        ErrorCode::EPERM if kind.is_write() => StatusKind::WriteProtected,
        ErrorCode::EIO => StatusKind::Media,
        ErrorCode::ENOMEM => StatusKind::Busy,
        ErrorCode::ENOSPC => StatusKind::NoSpace,
        ErrorCode::ENOTSUP => StatusKind::Unsupported,
        // The server is about to end: another connection may do it.
        ErrorCode::ESHUTDOWN => StatusKind::Path,
        ErrorCode::EINVAL | ErrorCode::EOVERFLOW => StatusKind::Invalid,
        // A client takes an unexpected value for EINVAL.
        _ => StatusKind::Invalid,
    };
    Status::with_raw(meaning, Raw::Nbd(error.0))
}

/// The error for a client of an operation that was not done.
pub fn to_nbd(kind: OpKind, outcome: &Outcome) -> ErrorCode {
    let status = outcome.status();
    match status.raw {
        Some(Raw::Nbd(code)) if code != 0 => ErrorCode(code),
        _ => name_of(kind, status.kind),
    }
}

fn name_of(kind: OpKind, status: StatusKind) -> ErrorCode {
    match status {
        StatusKind::OutOfRange if kind.is_write() && kind != OpKind::Discard => ErrorCode::ENOSPC,
        StatusKind::OutOfRange | StatusKind::Invalid | StatusKind::Unsupported => ErrorCode::EINVAL,
        StatusKind::WriteProtected | StatusKind::ReservationConflict => ErrorCode::EPERM,
        StatusKind::NoSpace => ErrorCode::ENOSPC,
        StatusKind::Gone | StatusKind::Path => ErrorCode::ESHUTDOWN,
        StatusKind::Media
        | StatusKind::CompareFailed
        | StatusKind::Aborted
        | StatusKind::Busy
        | StatusKind::Transport
        | StatusKind::TimedOut
        | StatusKind::Internal
        // Not done, whatever it says.
        | StatusKind::Success => ErrorCode::EIO,
    }
}
