//! The status of an operation, as reported by the device.

macro_rules! kinds {
    ($(#[$outer:meta])* pub enum $list:ident { $($(#[$inner:meta])* $kind:ident,)* }) => {
        $(#[$outer])*
        pub enum $list {
            $($(#[$inner])* $kind,)*
        }

        impl $list {
            /// Every kind, for tests of tables.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
        }
    };
}

kinds! {
    /// The kind of a status, in terms that every protocol has. This is the only such list. One
    /// table per protocol (`endpoint::status`) translates it; this file translates errors of the
    /// operating system.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum StatusKind {
        /// The operation succeeded.
        Success,
        /// The blocks could not be read or written: the medium, a checksum or the backing file
        /// failed.
        Media,
        /// The operation exceeds the end of the device.
        OutOfRange,
        /// A compare found different data.
        CompareFailed,
        /// The device, or this path to it, does not accept writes.
        WriteProtected,
        /// The backing store is full.
        NoSpace,
        /// The device does not support this kind of operation.
        Unsupported,
        /// The operation is malformed.
        Invalid,
        /// It was cancelled, or aborted by a reset.
        Aborted,
        /// A reservation of another host conflicts.
        ReservationConflict,
        /// Try again later.
        Busy,
        /// The data was damaged in transit.
        Transport,
        /// This path does not reach the data at present; another path may, or this one later. The
        /// operation was not done.
        Path,
        /// The device is gone.
        Gone,
        /// The device did not answer in time; or it is sent nothing because it still owes such an
        /// answer.
        TimedOut,
        /// Any other internal error of the device.
        Internal,
    }
}

impl StatusKind {
    /// Returns whether the same operation may succeed if it is sent to the same device again.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Aborted | Self::Busy | Self::Transport | Self::Path)
    }
}

/// The original status of a protocol. It is passed through unchanged if the other side uses the
/// same protocol, and otherwise translated by the protocols' own rules if there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Raw {
    /// NVMe status: code type in bits 10:8, code in bits 7:0, Do Not Retry in bit 14.
    Nvme(u16),
    /// SCSI status and sense data.
    Scsi(RawScsi),
    /// NBD error.
    Nbd(u32),
    /// Error number of this operating system.
    Os(i32),
}

/// The result of a SCSI command (SAM-5 §5.3, SPC-4 §4.5), without the field pointer: it refers to a
/// CDB, and the CDB of a forwarded operation is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawScsi {
    /// Status byte.
    pub status: u8,
    /// Sense key, four bits; 0 without sense data.
    pub sense_key: u8,
    /// Additional sense code in the high byte, qualifier in the low byte.
    pub additional_sense: u16,
    /// INFORMATION, if it is valid: as a rule a block address.
    pub information: Option<u64>,
}

impl Raw {
    /// The protocol that defines this status.
    pub const fn protocol(&self) -> &'static str {
        match self {
            Self::Nvme(_) => "NVMe",
            Self::Scsi(_) => "SCSI",
            Self::Nbd(_) => "NBD",
            Self::Os(_) => "OS",
        }
    }

    /// The code as one number. For SCSI: status byte, sense key, additional sense code and
    /// qualifier, one byte each.
    pub const fn code(&self) -> u32 {
        match *self {
            Self::Nvme(code) => code as u32,
            Self::Scsi(raw) => {
                (raw.status as u32) << 24
                    | (raw.sense_key as u32) << 16
                    | raw.additional_sense as u32
            }
            Self::Nbd(code) => code,
            Self::Os(code) => code as u32,
        }
    }
}

impl core::fmt::Display for Raw {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let protocol = self.protocol();
        match *self {
            Self::Nvme(code) => write!(f, "{protocol} status {code:#x}"),
            Self::Scsi(RawScsi { status, sense_key: 0, additional_sense: 0, .. }) => {
                write!(f, "{protocol} status {status:02x}h")
            }
            Self::Scsi(RawScsi { sense_key, additional_sense, .. }) => {
                let [code, qualifier] = additional_sense.to_be_bytes();
                write!(f, "{protocol} sense {sense_key:x}h/{code:02x}h/{qualifier:02x}h")
            }
            Self::Nbd(code) => write!(f, "{protocol} error {code}"),
            Self::Os(code) => write!(f, "{protocol} error {code}"),
        }
    }
}

/// A kind, with the original status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// The kind.
    pub kind: StatusKind,
    /// The original status of the protocol or system.
    pub raw: Option<Raw>,
}

/// Every completion contains one.
const _: () = assert!(size_of::<Status>() <= 32);

impl Status {
    /// Success.
    pub const SUCCESS: Self = Self { kind: StatusKind::Success, raw: None };

    /// A status without an original.
    pub const fn new(kind: StatusKind) -> Self {
        Self { kind, raw: None }
    }

    /// A status with its original.
    pub const fn with_raw(kind: StatusKind, raw: Raw) -> Self {
        Self { kind, raw: Some(raw) }
    }

    /// Returns whether the operation succeeded.
    #[inline]
    pub const fn is_success(&self) -> bool {
        matches!(self.kind, StatusKind::Success)
    }
}

impl From<&std::io::Error> for Status {
    /// The meaning of a failed system call on a backing file.
    fn from(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        let kind = match error.kind() {
            _ if is_device_gone(error) => StatusKind::Gone,
            E::StorageFull | E::QuotaExceeded | E::FileTooLarge => StatusKind::NoSpace,
            E::PermissionDenied | E::ReadOnlyFilesystem => StatusKind::WriteProtected,
            E::Unsupported => StatusKind::Unsupported,
            E::InvalidInput => StatusKind::Invalid,
            E::UnexpectedEof => StatusKind::Media,
            E::ResourceBusy | E::WouldBlock => StatusKind::Busy,
            E::NotFound => StatusKind::Gone,
            _ => StatusKind::Media,
        };
        Self { kind, raw: error.raw_os_error().map(Raw::Os) }
    }
}

/// Returns whether the system reports that the device below is gone.
fn is_device_gone(error: &std::io::Error) -> bool {
    // ENXIO, ENODEV, ENOMEDIUM; ERROR_DEV_NOT_EXIST, ERROR_DEVICE_NOT_CONNECTED,
    // ERROR_DEVICE_REMOVED, ERROR_NO_SUCH_DEVICE.
    const GONE: &[i32] = match () {
        () if cfg!(target_os = "linux") => &[6, 19, 123],
        () if cfg!(windows) => &[55, 1167, 1617, 433],
        () => &[6, 19],
    };
    error.raw_os_error().is_some_and(|code| GONE.contains(&code))
}
