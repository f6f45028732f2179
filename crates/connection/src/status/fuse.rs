//! FUSE: a failure is an error number, which the program that uses the file gets.
//!
//! The kernel rejects answers with numbers from 512 on, and takes ENOSYS for "never ask again": a
//! flush that fails with it would count as done, as would all later ones.

use weft_block::{Outcome, Raw, StatusKind};

const EIO: i32 = 5;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;
const ETIMEDOUT: i32 = 110;

/// Numbers that the kernel accepts are below this one.
const NUMBERS_END: i32 = 512;

/// The positive error number of a request that was not done.
pub fn to_fuse(outcome: &Outcome) -> i32 {
    let status = outcome.status();
    match status.raw {
        // Programs know what it means for a file.
        Some(Raw::Os(number)) if (1..NUMBERS_END).contains(&number) && number != ENOSYS => number,
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
        for number in [ENOSYS, NUMBERS_END, -5] {
            let raw = Outcome::Done(Status::with_raw(StatusKind::Media, Raw::Os(number)));
            assert_eq!(to_fuse(&raw), EIO, "{number}");
        }
    }
}
