//! ublk: a result is an error number, which the kernel translates to a status of its block layer.

use weft_block::{Outcome, Raw, StatusKind};

const EIO: i32 = 5;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const ENODATA: i32 = 61;
const ENOLINK: i32 = 67;
const EBADE: i32 = 52;
const EOPNOTSUPP: i32 = 95;
const ETIMEDOUT: i32 = 110;
const EREMOTEIO: i32 = 121;

/// The result of a request that was not done: a negative error number.
pub fn to_ublk(outcome: &Outcome) -> i32 {
    let status = outcome.status();
    match status.raw {
        Some(Raw::Os(number)) if (1..4096).contains(&number) => -number,
        _ => -number_of(status.kind),
    }
}

const fn number_of(kind: StatusKind) -> i32 {
    match kind {
        StatusKind::Media => ENODATA,
        StatusKind::NoSpace => ENOSPC,
        StatusKind::Unsupported => EOPNOTSUPP,
        StatusKind::Invalid => EINVAL,
        StatusKind::ReservationConflict => EBADE,
        StatusKind::Path | StatusKind::Busy | StatusKind::Transport => ENOLINK,
        StatusKind::TimedOut => ETIMEDOUT,
        StatusKind::Internal => EREMOTEIO,
        StatusKind::OutOfRange
        | StatusKind::CompareFailed
        | StatusKind::WriteProtected
        | StatusKind::Aborted
        | StatusKind::Gone
        // Not done, whatever it says.
        | StatusKind::Success => EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::Status;

    #[test]
    fn every_failure_is_an_error() {
        for kind in StatusKind::ALL {
            assert!(to_ublk(&Outcome::NotSent(Status::new(*kind))) < 0);
        }
        let raw = Outcome::Done(Status::with_raw(StatusKind::NoSpace, Raw::Os(122)));
        assert_eq!(to_ublk(&raw), -122);
    }
}
