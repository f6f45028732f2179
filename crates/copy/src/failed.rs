//! Operations that failed, in words.

use crate::ends::shown;
use weft_block::{Device, Error, ErrorKind, OpKind, Outcome, StatusKind};

/// Returns the error for an operation on `bytes` bytes from byte `at` of the device at `url`.
pub fn failed(url: &str, kind: OpKind, at: u64, bytes: u64, outcome: &Outcome) -> Error {
    let status = outcome.status();
    let (kind_of, why) = words(status.kind);
    let raw = status.raw.map_or_else(String::new, |raw| format!(" ({raw})"));
    let what = match kind {
        OpKind::Read => "cannot read",
        OpKind::Flush => return Error::new(kind_of, format!("{url}: cannot flush: {why}{raw}")),
        OpKind::WriteZeroes { .. } | OpKind::Discard => "cannot zero",
        _ => "cannot write",
    };
    Error::new(kind_of, format!("{url}: {what} {bytes} bytes at byte {at}: {why}{raw}"))
}

/// The error for a device whose size, in bytes, is another one than that of the copy.
pub fn resized(device: &Device, now: u64, copied: u64) -> Error {
    let text = format!(
        "{}: its size changed to {now} bytes during a copy of {copied} bytes; copy it again when its size no longer changes",
        shown(device)
    );
    Error::new(ErrorKind::Refused, text)
}

fn words(kind: StatusKind) -> (ErrorKind, &'static str) {
    match kind {
        StatusKind::Media => (ErrorKind::Io, "the medium or its file failed"),
        StatusKind::OutOfRange => (ErrorKind::Refused, "the device has become smaller"),
        StatusKind::WriteProtected => (ErrorKind::PermissionDenied, "it is write-protected"),
        StatusKind::NoSpace => (ErrorKind::NoResources, "its backing store is full"),
        StatusKind::ReservationConflict => (ErrorKind::InUse, "another host has reserved it"),
        StatusKind::Unsupported => (ErrorKind::Unsupported, "it does not support that"),
        StatusKind::TimedOut => (ErrorKind::TimedOut, "it did not answer in time"),
        StatusKind::Gone => (ErrorKind::Refused, "it is gone"),
        StatusKind::Path => (ErrorKind::Refused, "it cannot be reached"),
        StatusKind::Aborted => (ErrorKind::Refused, "the operation was aborted"),
        StatusKind::Busy => (ErrorKind::InUse, "it is busy"),
        StatusKind::Transport => (ErrorKind::Io, "the data was damaged on its way"),
        StatusKind::Success
        | StatusKind::CompareFailed
        | StatusKind::Invalid
        | StatusKind::Internal => (ErrorKind::Io, "the device failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::Status;

    #[test]
    fn the_place_and_the_reason_are_told() {
        let full = Outcome::Done(Status::new(StatusKind::NoSpace));
        let error = failed("file:x", OpKind::Write { fua: false }, 8192, 4096, &full);
        assert_eq!(
            error.to_string(),
            "file:x: cannot write 4096 bytes at byte 8192: its backing store is full"
        );
        assert_eq!(error.kind(), ErrorKind::NoResources);
        let error = failed("file:x", OpKind::Flush, 0, 0, &full);
        assert_eq!(error.to_string(), "file:x: cannot flush: its backing store is full");
    }
}
