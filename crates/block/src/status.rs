//! How an operation ended, as the device says it.

macro_rules! kinds {
    ($(#[$outer:meta])* pub enum $list:ident { $($(#[$inner:meta])* $kind:ident,)* }) => {
        $(#[$outer])*
        pub enum $list {
            $($(#[$inner])* $kind,)*
        }

        impl $list {
            /// Every kind, so that a test of a table can go through them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
        }
    };
}

kinds! {
    /// What happened, in terms that every protocol has a word for. This is the only such list; what each kind is called in a protocol stands in
    /// one table per protocol (`endpoint::status`), and for the operating system in this file.
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
}

impl StatusKind {
    /// Whether the same operation may succeed when it is sent to the same device again.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Aborted | Self::Busy | Self::Transport)
    }
}

/// The words of a protocol for a status, so that it comes out unchanged where the same protocol is spoken on the other side, and is
/// translated by the protocols' own rules where that is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Raw {
    /// NVMe status: code type in bits 10:8, code in bits 7:0, Do Not Retry in bit 14.
    Nvme(u16),
    /// Status and sense data of SCSI.
    Scsi(RawScsi),
    /// An error of NBD.
    Nbd(u32),
    /// An error number of this operating system.
    Os(i32),
}

/// How a SCSI command ended (SAM-5 §5.3, SPC-4 §4.5). Without the pointer to a field of the CDB: the CDB of whoever sends the same
/// operation on is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawScsi {
    /// Status byte.
    pub status: u8,
    /// Sense key, four bits; 0 where there is no sense data.
    pub sense_key: u8,
    /// Additional sense code in the high byte, its qualifier in the low one.
    pub additional_sense: u16,
    /// INFORMATION, if it is valid: as a rule a block address.
    pub information: Option<u64>,
}

impl Raw {
    /// Whose words these are.
    pub const fn protocol(&self) -> &'static str {
        match self {
            Self::Nvme(_) => "NVMe",
            Self::Scsi(_) => "SCSI",
            Self::Nbd(_) => "NBD",
            Self::Os(_) => "OS",
        }
    }

    /// The code as one number. Of SCSI: status byte, sense key, additional sense code and qualifier, one byte each.
    pub const fn code(&self) -> u32 {
        match *self {
            Self::Nvme(code) => code as u32,
            Self::Scsi(raw) => (raw.status as u32) << 24 | (raw.sense_key as u32) << 16 | raw.additional_sense as u32,
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
            Self::Scsi(RawScsi { status, sense_key: 0, additional_sense: 0, .. }) => write!(f, "{protocol} status {status:02x}h"),
            Self::Scsi(RawScsi { sense_key, additional_sense, .. }) => {
                let [code, qualifier] = additional_sense.to_be_bytes();
                write!(f, "{protocol} sense {sense_key:x}h/{code:02x}h/{qualifier:02x}h")
            }
            Self::Nbd(code) => write!(f, "{protocol} error {code}"),
            Self::Os(code) => write!(f, "{protocol} error {code}"),
        }
    }
}

/// A kind, and the words that it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// What happened.
    pub kind: StatusKind,
    /// In the words of the protocol or system that said so.
    pub raw: Option<Raw>,
}

/// It travels with every completion.
const _: () = assert!(size_of::<Status>() <= 32);

impl Status {
    /// Success.
    pub const SUCCESS: Self = Self { kind: StatusKind::Success, raw: None };

    /// A status without a foreign code.
    pub const fn new(kind: StatusKind) -> Self {
        Self { kind, raw: None }
    }

    /// A status in the words of a protocol.
    pub const fn with_raw(kind: StatusKind, raw: Raw) -> Self {
        Self { kind, raw: Some(raw) }
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
        Self { kind, raw: error.raw_os_error().map(Raw::Os) }
    }
}
