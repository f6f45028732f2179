//! Failures of devices in the log: one line for each kind of a device's failures in a period, as a
//! disk that fails may fail every operation.

use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::{Completion, Op, OpKind, Status, StatusKind};
use weft_connection::limits::{FAILURE_KINDS_MAX, FAILURES_LOGGED_STEP_S};
use weft_connection::reported;
use weft_connection::url::without_secret;

/// The failures of this process.
static FAILURES: Failures = Failures(Lock::new(Vec::new()));

/// See the module.
struct Failures(Lock<Vec<Entry>>);

/// A kind of failure of a device.
struct Entry {
    device: String,
    kind: StatusKind,
    logged: Duration,
    /// Omitted since then.
    left_out: u64,
}

impl Failures {
    /// Counts a failure. Returns the number of omitted ones before it, or `None` if it is omitted.
    fn count(&self, device: &str, kind: StatusKind, now: Duration) -> Option<u64> {
        let mut all = self.0.lock();
        let found = all.iter_mut().find(|known| known.kind == kind && known.device == device);
        let Some(known) = found else {
            if all.len() == FAILURE_KINDS_MAX {
                let oldest = (0..all.len()).min_by_key(|at| all[*at].logged);
                oldest.map(|at| all.swap_remove(at));
            }
            all.push(Entry { device: device.to_owned(), kind, logged: now, left_out: 0 });
            return Some(0);
        };
        if now.saturating_sub(known.logged) < Duration::from_secs(FAILURES_LOGGED_STEP_S) {
            known.left_out += 1;
            return None;
        }
        known.logged = now;
        Some(core::mem::take(&mut known.left_out))
    }
}

/// Returns whether a failure is the device's, and not the host's or one of the ways in which hosts
/// deal with each other.
fn is_of_device(kind: StatusKind) -> bool {
    match kind {
        StatusKind::Media
        | StatusKind::NoSpace
        | StatusKind::Transport
        | StatusKind::Path
        | StatusKind::Gone
        | StatusKind::TimedOut
        | StatusKind::Internal => true,
        StatusKind::Success
        | StatusKind::OutOfRange
        | StatusKind::CompareFailed
        | StatusKind::WriteProtected
        | StatusKind::Unsupported
        | StatusKind::Invalid
        | StatusKind::Aborted
        | StatusKind::ReservationConflict
        | StatusKind::Busy => false,
    }
}

/// Logs a failed operation of the device with this URL.
pub(super) fn log(device: &str, Completion { op, outcome }: &Completion) {
    let status = outcome.status();
    if !is_of_device(status.kind) {
        return;
    }
    let now = weft_io::time::of_process().since_epoch();
    let Some(left_out) = FAILURES.count(device, status.kind, now) else { return };
    let omitted = match left_out {
        0 => String::new(),
        n => format!(" ({n} earlier errors of this kind were not logged)"),
    };
    let (device, what) = (without_secret(device), operation(op));
    tracing::warn!("{device}: {what} failed: {}{omitted}", words(status));
}

/// An operation in words.
fn operation(op: &Op) -> String {
    let what = match op.kind {
        OpKind::Read | OpKind::Compare => "reading",
        OpKind::Write { .. } => "writing",
        OpKind::Discard => "discarding",
        OpKind::WriteZeroes { .. } => "writing zeroes to",
        OpKind::CompareAndWrite { .. } => "comparing and writing",
        OpKind::Flush => return "a flush".to_owned(),
        OpKind::Reserve(_) | OpKind::ReservationReport => return "a reservation".to_owned(),
    };
    format!("{what} {} blocks at block {}", op.blocks, op.lba)
}

/// A status in words.
fn words(Status { kind, raw }: Status) -> String {
    if let Some(raw) = raw {
        return reported::words(&raw);
    }
    let words = match kind {
        StatusKind::Media => "the medium failed",
        StatusKind::NoSpace => "no space is left",
        StatusKind::Transport => "the data was damaged in transit",
        StatusKind::Path => "no path reaches the data at present",
        StatusKind::Gone => "the device is gone",
        StatusKind::TimedOut => "no answer in time",
        _ => "an internal error of the device",
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_logged_once_in_a_period() {
        let failures = Failures(Lock::default());
        let at = |steps: u64| Duration::from_secs(7 + steps * FAILURES_LOGGED_STEP_S);
        let count = |device, kind, steps| failures.count(device, kind, at(steps));
        assert_eq!(count("a", StatusKind::Media, 0), Some(0));
        assert_eq!(count("a", StatusKind::Media, 0), None);
        assert_eq!(count("a", StatusKind::NoSpace, 0), Some(0), "another kind");
        assert_eq!(count("b", StatusKind::Media, 0), Some(0), "another device");
        assert_eq!(count("a", StatusKind::Media, 1), Some(1));
        for n in 0..2 * FAILURE_KINDS_MAX {
            let device = n.to_string();
            assert_eq!(failures.count(&device, StatusKind::Media, at(2)), Some(0));
        }
        assert_eq!(failures.0.lock().len(), FAILURE_KINDS_MAX);
    }

    #[test]
    fn statuses_have_words_with_and_without_those_of_a_protocol() {
        let status = Status::with_raw(StatusKind::Media, weft_block::Raw::Nvme(0x280));
        assert_eq!(words(status), "NVMe status 0x280: Write Fault");
        assert_eq!(words(Status::new(StatusKind::NoSpace)), "no space is left");
    }
}
