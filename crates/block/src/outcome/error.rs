//! Errors of opening a device or a queue.

pub use crate::outcome::error_kind::ErrorKind;
use crate::outcome::refusal::Refusal;

/// Error numbers of a process or system without descriptors left, for which there is no
/// [`std::io::ErrorKind`]: ENFILE and EMFILE; on Windows ERROR_TOO_MANY_OPEN_FILES, WSAEMFILE.
const TOO_MANY_OPEN_FILES: [i32; 2] = if cfg!(windows) { [4, 10024] } else { [23, 24] };

/// Returns whether the process, or the system, has too many open files.
pub fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| TOO_MANY_OPEN_FILES.contains(&code))
}

/// An error: one sentence that says what is wrong and what to do, and its cause.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    refusal: Option<Refusal>,
    #[source]
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error without a cause. The message says what failed and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), refusal: None, cause: None }
    }

    /// A refusal of this crate about `url`.
    pub fn refused(url: &str, refusal: Refusal) -> Self {
        Self {
            kind: refusal.kind(),
            message: format!("{url}: {refusal}"),
            refusal: Some(refusal),
            cause: None,
        }
    }

    /// A failed system call. The kind follows from it; the message says what failed.
    pub fn io(message: impl Into<String>, cause: std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        let kind = match cause.kind() {
            E::NotFound => ErrorKind::NotFound,
            E::PermissionDenied | E::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
            E::AddrInUse | E::ResourceBusy => ErrorKind::InUse,
            E::StorageFull | E::QuotaExceeded | E::FileTooLarge | E::OutOfMemory => {
                ErrorKind::NoResources
            }
            E::ConnectionRefused | E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe => {
                ErrorKind::Refused
            }
            E::TimedOut => ErrorKind::TimedOut,
            E::InvalidInput | E::AddrNotAvailable => ErrorKind::Usage,
            E::Unsupported => ErrorKind::Unsupported,
            _ if is_out_of_descriptors(&cause) => ErrorKind::NoResources,
            _ => ErrorKind::Io,
        };
        Self { kind, message: message.into(), refusal: None, cause: Some(Box::new(cause)) }
    }

    /// The same error about `what` (for example a URL): puts it in front of the message unless the
    /// message contains it.
    pub fn of(self, what: &str) -> Self {
        if self.message.contains(what) {
            return self;
        }
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// The refusal, if this crate caused the error; none for errors of a peer or the system.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_follows_from_what_the_system_says() {
        let kind = |code| Error::io("it failed", std::io::Error::from_raw_os_error(code)).kind();
        for code in TOO_MANY_OPEN_FILES {
            assert_eq!(kind(code), ErrorKind::NoResources, "{code}");
        }
        // ENOENT and EIO; ERROR_FILE_NOT_FOUND and "the device does not function".
        assert_eq!(kind(2), ErrorKind::NotFound);
        assert_eq!(kind(if cfg!(windows) { 31 } else { 5 }), ErrorKind::Io);
    }
}
