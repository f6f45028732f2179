//! Errors of the library: a code, a sentence, and the status of the protocol if a device reported
//! the error. The last one of each thread is kept for the functions that describe it.

use crate::reported;
use core::cell::RefCell;
use std::ffi::{CStr, CString};
use weft_block::{Error, ErrorKind, Outcome, Raw, Status, StatusKind};

/// Codes of errors. A function that fails returns the negative of one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No error.
    Ok = 0,
    /// A URL, an option or an argument is wrong.
    Usage = 1,
    /// A file, host name, subsystem or namespace does not exist.
    NotFound = 2,
    /// The system or the peer denies permission.
    Permission = 3,
    /// In use.
    InUse = 4,
    /// No memory or file descriptors are left.
    NoResources = 5,
    /// The peer refused or ended the connection.
    Refused = 6,
    /// No answer in time.
    TimedOut = 7,
    /// The peer uses another protocol or violates this one.
    Protocol = 8,
    /// The device does not support the request.
    Unsupported = 9,
    /// The blocks could not be read or written, or another error of the system.
    Io = 10,
    /// The operation was cancelled, or aborted by a reset.
    Cancelled = 11,
    /// The operation exceeds the end of the device.
    OutOfRange = 12,
    /// The device, or this path to it, does not accept writes.
    ReadOnly = 13,
    /// The backing store is full.
    NoSpace = 14,
    /// A reservation of another host conflicts.
    Conflict = 15,
    /// The compared blocks hold other data.
    Differs = 16,
    /// The device is gone for good.
    Gone = 17,
    /// Try again later: the queue is full, or the device is busy or cannot be reached at present.
    Again = 18,
    /// The process was forked after the library was first used; see "fork" above.
    Forked = 19,
    /// A defect of the library; please report the sentence.
    Internal = 20,
}

impl Code {
    /// All codes, in order.
    ///
    /// cbindgen:ignore
    pub const ALL: [Self; 21] = [
        Self::Ok,
        Self::Usage,
        Self::NotFound,
        Self::Permission,
        Self::InUse,
        Self::NoResources,
        Self::Refused,
        Self::TimedOut,
        Self::Protocol,
        Self::Unsupported,
        Self::Io,
        Self::Cancelled,
        Self::OutOfRange,
        Self::ReadOnly,
        Self::NoSpace,
        Self::Conflict,
        Self::Differs,
        Self::Gone,
        Self::Again,
        Self::Forked,
        Self::Internal,
    ];

    /// The negative of the code, which functions return.
    pub const fn negative(self) -> i32 {
        -(self as i32)
    }

    /// Its meaning, in some words.
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::Ok => c"no error",
            Self::Usage => c"a wrong argument",
            Self::NotFound => c"not found",
            Self::Permission => c"permission denied",
            Self::InUse => c"in use",
            Self::NoResources => c"no memory or file descriptors are left",
            Self::Refused => c"refused by the peer",
            Self::TimedOut => c"no answer in time",
            Self::Protocol => c"the peer violates the protocol",
            Self::Unsupported => c"not supported",
            Self::Io => c"input or output failed",
            Self::Cancelled => c"cancelled",
            Self::OutOfRange => c"beyond the end of the device",
            Self::ReadOnly => c"the device is read-only",
            Self::NoSpace => c"no space is left",
            Self::Conflict => c"another host has reserved the device",
            Self::Differs => c"the compared blocks hold other data",
            Self::Gone => c"the device is gone",
            Self::Again => c"busy; try again",
            Self::Forked => c"used in a forked process",
            Self::Internal => c"a defect of the library",
        }
    }
}

impl From<ErrorKind> for Code {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::PermissionDenied => Self::Permission,
            ErrorKind::InUse => Self::InUse,
            ErrorKind::NoResources => Self::NoResources,
            ErrorKind::Refused => Self::Refused,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::Protocol => Self::Protocol,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Io => Self::Io,
        }
    }
}

impl From<StatusKind> for Code {
    fn from(kind: StatusKind) -> Self {
        match kind {
            StatusKind::Success => Self::Ok,
            StatusKind::Media | StatusKind::Transport | StatusKind::Internal => Self::Io,
            StatusKind::OutOfRange => Self::OutOfRange,
            StatusKind::CompareFailed => Self::Differs,
            StatusKind::WriteProtected => Self::ReadOnly,
            StatusKind::NoSpace => Self::NoSpace,
            StatusKind::Unsupported => Self::Unsupported,
            StatusKind::Invalid => Self::Usage,
            StatusKind::Aborted => Self::Cancelled,
            StatusKind::ReservationConflict => Self::Conflict,
            StatusKind::Busy | StatusKind::Path => Self::Again,
            StatusKind::Gone => Self::Gone,
            StatusKind::TimedOut => Self::TimedOut,
        }
    }
}

/// The operation may have been executed although it failed.
pub const MAY_HAVE_EXECUTED: u32 = 1;

/// The operation may even be executed later.
pub const MAY_STILL_EXECUTE: u32 = 2;

/// A completed operation, as programs see it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The number that was given with the operation.
    pub user: u64,
    /// 0, or the negative of a `weft_error`.
    pub result: i32,
    /// `WEFT_MAY_HAVE_EXECUTED`, `WEFT_MAY_STILL_EXECUTE`: what is known of a failed write.
    pub flags: u32,
    /// The protocol of `status`: `WEFT_PROTOCOL_NONE` if there is none.
    pub protocol: u32,
    /// The status as the device reported it. NVMe: code type in bits 10:8, code in bits 7:0, Do Not
    /// Retry in bit 14. SCSI: status byte, sense key, additional sense code and qualifier, one byte
    /// each. NBD and the system: the error number.
    pub status: u32,
}

impl Completion {
    /// The completion of an operation with this outcome.
    pub fn of(user: u64, outcome: &Outcome) -> Self {
        let (protocol, status) = raw_of(outcome.status());
        let (result, flags) = match *outcome {
            Outcome::Done(status) | Outcome::NotSent(status) => (Code::from(status.kind), 0),
            Outcome::MayHaveExecuted { status, settled } => {
                let later = if settled { 0 } else { MAY_STILL_EXECUTE };
                // What is not known to have succeeded has not.
                let code = match status.kind {
                    StatusKind::Success => Code::Io,
                    kind => Code::from(kind),
                };
                (code, MAY_HAVE_EXECUTED | later)
            }
        };
        Self { user, result: result.negative(), flags, protocol, status }
    }

    /// The completion of an operation that the library itself refuses or ends.
    pub fn failed(user: u64, code: Code, flags: u32) -> Self {
        Self { user, result: code.negative(), flags, protocol: 0, status: 0 }
    }

    /// Returns whether the operation succeeded.
    pub fn is_success(&self) -> bool {
        self.result == 0
    }

    /// The completion in one sentence.
    pub fn sentence(&self) -> String {
        match self.is_success() {
            true => "the operation succeeded".into(),
            false => CallFailure::of(self, "the operation").text,
        }
    }
}

/// Number of the protocol, and the code.
fn raw_of(status: Status) -> (u32, u32) {
    let Some(raw) = status.raw else { return (0, 0) };
    let protocol = match raw {
        Raw::Nvme(_) => 1,
        Raw::Scsi(_) => 2,
        Raw::Nbd(_) => 3,
        Raw::Os(_) => 4,
    };
    (protocol, raw.code())
}

/// An error.
#[derive(Debug)]
pub struct CallFailure {
    code: Code,
    text: String,
    protocol: u32,
    status: u32,
    flags: u32,
}

impl CallFailure {
    /// An error with a sentence that says what is wrong and what to do.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), protocol: 0, status: 0, flags: 0 }
    }

    /// A wrong argument.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(Code::Usage, text)
    }

    /// A failed operation, which `what` describes.
    pub fn of(completion: &Completion, what: &str) -> Self {
        let at = usize::try_from(-i64::from(completion.result)).unwrap_or(usize::MAX);
        let code = Code::ALL.get(at).copied().unwrap_or(Code::Internal);
        let Completion { protocol, status, flags, .. } = *completion;
        let known = match flags {
            0 => None,
            MAY_HAVE_EXECUTED => Some("it may have been executed"),
            _ => Some("it may have been executed, or be executed later"),
        };
        let about = reported::words(protocol, status);
        let about: Vec<_> = about.into_iter().chain(known.map(str::to_owned)).collect();
        let mut text = format!("{what} failed: {}", code.text().to_string_lossy());
        if !about.is_empty() {
            text += &format!(" ({})", about.join("; "));
        }
        Self { code, text, protocol, status, flags }
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// A sentence.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The protocol, and the status as the device reported it, as in [`Completion`].
    pub fn status(&self) -> (u32, u32) {
        (self.protocol, self.status)
    }

    /// Flags of a failed write, as in [`Completion`].
    pub fn flags(&self) -> u32 {
        self.flags
    }
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        Self::new(error.kind().into(), error.to_string())
    }
}

/// The last error of a thread.
struct Last {
    code: Code,
    text: CString,
    protocol: u32,
    status: u32,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Keeps the error for this thread, and returns its code.
pub fn keep(failure: CallFailure) -> Code {
    let CallFailure { code, text, protocol, status, .. } = failure;
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = Some(Last { code, text, protocol, status }));
    code
}

/// The code of the last error of this thread.
pub fn last_code() -> Code {
    LAST.with(|last| last.borrow().as_ref().map_or(Code::Ok, |last| last.code))
}

/// Calls `use_it` with the sentence of the last error of this thread; empty if there was none. The
/// text stays where it is until the next error.
pub fn with_last_text<R>(use_it: impl FnOnce(&CStr) -> R) -> R {
    LAST.with(|last| use_it(last.borrow().as_ref().map_or(c"", |last| last.text.as_c_str())))
}

/// Protocol and status of the last error of this thread.
pub fn last_status() -> (u32, u32) {
    LAST.with(|last| last.borrow().as_ref().map_or((0, 0), |last| (last.protocol, last.status)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::RawScsi;

    #[test]
    fn codes_are_in_order() {
        assert!(Code::ALL.iter().zip(0..).all(|(code, n)| *code as i32 == n));
    }

    #[test]
    fn what_may_have_been_executed_is_no_success() {
        let unsure = Completion::of(7, &Outcome::unsettled(Status::SUCCESS));
        assert_eq!((unsure.result, unsure.flags), (Code::Io.negative(), 3));
        assert!(Completion::of(7, &Outcome::SUCCESS).is_success());
    }

    #[test]
    fn completions_are_sentences() {
        assert_eq!(Completion::default().sentence(), "the operation succeeded");
        let failed = Completion::failed(7, Code::Cancelled, 0).sentence();
        assert_eq!(failed, "the operation failed: cancelled");
        let status = Status::with_raw(StatusKind::Media, Raw::Nbd(5));
        assert_eq!(
            Completion::of(7, &Outcome::unsettled(status)).sentence(),
            "the operation failed: input or output failed (NBD error 5: input/output error; \
             it may have been executed, or be executed later)"
        );
        let unknown = Completion { result: 5, ..Completion::default() };
        assert_eq!(unknown.sentence(), "the operation failed: a defect of the library");
    }

    #[test]
    fn the_numbers_of_a_completion_have_the_words_of_its_status() {
        let scsi = RawScsi { status: 2, sense_key: 3, additional_sense: 0x1100, information: None };
        for raw in [Raw::Nvme(0x4281), Raw::Scsi(scsi), Raw::Nbd(28), Raw::Os(5)] {
            let outcome = Outcome::Done(Status::with_raw(StatusKind::Media, raw));
            let sentence = Completion::of(1, &outcome).sentence();
            let words = weft_endpoint::reported::words(&raw);
            assert!(sentence.ends_with(&format!("failed ({words})")), "{sentence}");
        }
    }

    #[test]
    fn the_status_of_the_protocol_is_kept_for_the_thread() {
        let status = Status::with_raw(StatusKind::Media, Raw::Nvme(0x281));
        let failure = CallFailure::of(&Completion::of(1, &Outcome::Done(status)), "a read");
        assert_eq!(keep(failure), Code::Io);
        assert_eq!((last_code(), last_status()), (Code::Io, (1, 0x281)));
        let expected =
            c"a read failed: input or output failed (NVMe status 0x281: Unrecovered Read Error)";
        with_last_text(|text| assert_eq!(text, expected));
        let elsewhere = std::thread::spawn(|| (last_code(), last_status()));
        assert_eq!(elsewhere.join().unwrap(), (Code::Ok, (0, 0)));
    }
}
