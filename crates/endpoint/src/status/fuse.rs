//! FUSE: a failure is an error number, which the program that uses the file gets.

use weft_block::{Outcome, Raw, StatusKind};

const EIO: i32 = 5;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EOPNOTSUPP: i32 = 95;
const ETIMEDOUT: i32 = 110;

/// The positive error number of a request that was not done.
pub(crate) fn to_fuse(outcome: &Outcome) -> i32 {
    let status = outcome.status();
    match status.raw {
        // Those of which programs know what they mean for a file.
        Some(Raw::Os(number)) if (1..4096).contains(&number) => number,
        _ => number_of(status.kind),
    }
}

const fn number_of(kind: StatusKind) -> i32 {
    match kind {
        StatusKind::NoSpace => ENOSPC,
        StatusKind::Unsupported => EOPNOTSUPP,
        StatusKind::Invalid => EINVAL,
        StatusKind::WriteProtected => EROFS,
        StatusKind::TimedOut => ETIMEDOUT,
        StatusKind::Media
        | StatusKind::OutOfRange
        | StatusKind::CompareFailed
        | StatusKind::ReservationConflict
        | StatusKind::Path
        | StatusKind::Busy
        | StatusKind::Transport
        | StatusKind::Internal
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
            assert!(to_fuse(&Outcome::NotSent(Status::new(*kind))) > 0);
        }
        let raw = Outcome::Done(Status::with_raw(StatusKind::NoSpace, Raw::Os(122)));
        assert_eq!(to_fuse(&raw), 122);
    }
}
