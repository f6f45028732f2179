//! Why a device could not be opened or a queue not be made.

use crate::refusal::Refusal;

/// What kind of problem: decides the exit status and whether it may help to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The URL or an option is wrong.
    Usage,
    /// There is no such file, host name, subsystem, namespace.
    NotFound,
    /// The system or the peer does not permit it.
    PermissionDenied,
    /// Somebody else holds it.
    InUse,
    /// No space, memory or file descriptors.
    NoResources,
    /// The peer refused or ended the connection.
    Refused,
    /// No answer in time.
    TimedOut,
    /// The peer speaks another protocol or breaks the rules of this one.
    Protocol,
    /// The device cannot do what is asked of it.
    Unsupported,
    /// Anything else that failed in the system.
    Io,
}

/// A problem with a device: one sentence that says what is wrong and what to do, and the cause beneath it.
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
    /// A problem without a cause beneath it. The message names what failed and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), refusal: None, cause: None }
    }

    /// What this crate refuses about `url`.
    pub fn refused(url: &str, refusal: Refusal) -> Self {
        Self { kind: refusal.kind(), message: format!("{url}: {refusal}"), refusal: Some(refusal), cause: None }
    }

    /// A failed system call; the kind follows from it, the message says on what.
    pub fn io(message: impl Into<String>, cause: std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        let kind = match cause.kind() {
            E::NotFound => ErrorKind::NotFound,
            E::PermissionDenied | E::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
            E::AddrInUse | E::ResourceBusy => ErrorKind::InUse,
            E::StorageFull | E::QuotaExceeded | E::FileTooLarge | E::OutOfMemory => ErrorKind::NoResources,
            E::ConnectionRefused | E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe => ErrorKind::Refused,
            E::TimedOut => ErrorKind::TimedOut,
            E::InvalidInput | E::AddrNotAvailable => ErrorKind::Usage,
            E::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        Self { kind, message: message.into(), refusal: None, cause: Some(Box::new(cause)) }
    }

    /// The same, of `what` (a URL, say), which the message then begins with, if it does not name it anyway.
    pub fn of(self, what: &str) -> Self {
        if self.message.contains(what) {
            return self;
        }
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// What this crate refuses; none where a peer or the system said why.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}
