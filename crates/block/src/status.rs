//! How an operation ended, as the device says it.

/// What happened, in terms that every protocol has a word for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusKind {
    /// The operation was done.
    Success,
    /// The blocks could not be read or written: medium, checksum or backing file failed.
    Media,
    /// The operation names blocks beyond the end.
    OutOfRange,
    /// A compare found other data.
    CompareFailed,
    /// The device, or this path to it, does not accept writes.
    WriteProtected,
    /// The backing store is full.
    NoSpace,
    /// The device does not do this kind of operation.
    Unsupported,
    /// The operation is malformed.
    Invalid,
    /// It was cancelled, or aborted by a reset.
    Aborted,
    /// A reservation of another host forbids it.
    ReservationConflict,
    /// Try again later.
    Busy,
    /// The data was damaged on its way.
    Transport,
    /// The device is no longer there.
    Gone,
    /// Anything else that is the device's own fault.
    Internal,
}

/// Which protocol's code a [`Raw`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RawProtocol {
    /// NVMe status: code type in bits 10:8, code in bits 7:0, Do Not Retry in bit 14.
    Nvme,
    /// An error number of this operating system.
    Os,
    /// An error of NBD.
    Nbd,
}

/// The code behind a status, so that it comes out unchanged where the same protocol is spoken on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Raw {
    /// Whose code.
    pub protocol: RawProtocol,
    /// The code.
    pub code: u16,
}

/// A kind, and the code that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// What happened.
    pub kind: StatusKind,
    /// In the words of the protocol or system that said so.
    pub raw: Option<Raw>,
}

impl Status {
    /// Success.
    pub const SUCCESS: Self = Self { kind: StatusKind::Success, raw: None };

    /// A status without a foreign code.
    pub const fn new(kind: StatusKind) -> Self {
        Self { kind, raw: None }
    }

    /// An NVMe status.
    pub const fn nvme(kind: StatusKind, code: u16) -> Self {
        Self { kind, raw: Some(Raw { protocol: RawProtocol::Nvme, code }) }
    }

    /// An error of NBD.
    pub const fn nbd(kind: StatusKind, code: u16) -> Self {
        Self { kind, raw: Some(Raw { protocol: RawProtocol::Nbd, code }) }
    }

    /// Whether the operation was done.
    #[inline]
    pub const fn is_success(&self) -> bool {
        matches!(self.kind, StatusKind::Success)
    }
}

impl From<&std::io::Error> for Status {
    /// What a failed system call on a backing file means.
    fn from(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        let kind = match error.kind() {
            E::StorageFull | E::QuotaExceeded | E::FileTooLarge => StatusKind::NoSpace,
            E::PermissionDenied | E::ReadOnlyFilesystem => StatusKind::WriteProtected,
            E::Unsupported => StatusKind::Unsupported,
            E::InvalidInput => StatusKind::Invalid,
            E::UnexpectedEof => StatusKind::Media,
            E::ResourceBusy | E::WouldBlock => StatusKind::Busy,
            E::NotFound => StatusKind::Gone,
            _ => StatusKind::Media,
        };
        let raw = error.raw_os_error().and_then(|n| u16::try_from(n).ok()).map(|code| Raw { protocol: RawProtocol::Os, code });
        Self { kind, raw }
    }
}
