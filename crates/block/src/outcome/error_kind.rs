//! Kinds of errors.

/// Kind of error: determines the exit status, and whether a retry may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The URL or an option is wrong.
    Usage,
    /// A file, host name, subsystem or namespace does not exist.
    NotFound,
    /// The system or the peer denies permission.
    PermissionDenied,
    /// In use.
    InUse,
    /// No space, memory or file descriptors.
    NoResources,
    /// The peer refused or ended the connection.
    Refused,
    /// No answer in time.
    TimedOut,
    /// The peer uses another protocol or violates this one.
    Protocol,
    /// The device does not support the request.
    Unsupported,
    /// Any other system error.
    Io,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Usage,
        Self::NotFound,
        Self::PermissionDenied,
        Self::InUse,
        Self::NoResources,
        Self::Refused,
        Self::TimedOut,
        Self::Protocol,
        Self::Unsupported,
        Self::Io,
    ];
}
