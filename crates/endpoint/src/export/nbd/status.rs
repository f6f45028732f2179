//! Outcomes of devices as NBD errors.

use weft_block::{OpKind, Outcome, RawProtocol, StatusKind};
use weft_proto::nbd::code::ErrorCode;

/// What the client is told. An error that was NBD's comes out unchanged.
pub(super) fn to_nbd(kind: OpKind, outcome: &Outcome) -> ErrorCode {
    let status = outcome.status();
    if let Some(raw) = status.raw.filter(|raw| raw.protocol == RawProtocol::Nbd) {
        return ErrorCode(raw.code.into());
    }
    match status.kind {
        StatusKind::Success => ErrorCode::SUCCESS,
        StatusKind::OutOfRange if kind.is_write() && kind != OpKind::Discard => ErrorCode::ENOSPC,
        StatusKind::OutOfRange | StatusKind::Invalid | StatusKind::Unsupported => ErrorCode::EINVAL,
        StatusKind::WriteProtected | StatusKind::ReservationConflict => ErrorCode::EPERM,
        StatusKind::NoSpace => ErrorCode::ENOSPC,
        StatusKind::Gone => ErrorCode::ESHUTDOWN,
        StatusKind::Media
        | StatusKind::CompareFailed
        | StatusKind::Aborted
        | StatusKind::Busy
        | StatusKind::Transport
        | StatusKind::Internal => ErrorCode::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::Status;

    #[test]
    fn an_error_of_nbd_comes_out_unchanged() {
        let outcome = Outcome::Done(Status::nbd(StatusKind::Busy, 12));
        assert_eq!(to_nbd(OpKind::Read, &outcome), ErrorCode::ENOMEM);
    }

    #[test]
    fn beyond_the_end_depends_on_the_direction() {
        let outcome = Outcome::Done(Status::new(StatusKind::OutOfRange));
        assert_eq!(to_nbd(OpKind::Read, &outcome), ErrorCode::EINVAL);
        assert_eq!(to_nbd(OpKind::Discard, &outcome), ErrorCode::EINVAL);
        assert_eq!(to_nbd(OpKind::Write { fua: false }, &outcome), ErrorCode::ENOSPC);
    }
}
