//! Why an inventory cannot be served.

use uuid::Uuid;
use weft_block::{Error, ErrorKind};
use weft_proto::limits::NAMESPACES_MAX;
use weft_proto::nvme::types::{Nqn, Nsid};

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// Two subsystems of one name.
    #[error("subsystem {0} already exists: use another NQN")]
    DuplicateSubsystem(Nqn),
    /// A name that means something else.
    #[error("{0} is the name of discovery, not of a subsystem")]
    ReservedName(Nqn),
    /// There is no such subsystem.
    #[error("there is no subsystem {0}")]
    NoSubsystem(Nqn),
    /// The identifier is in use.
    #[error("the subsystem {0} already has a namespace {1}: remove or replace it")]
    DuplicateNamespace(Nqn, Nsid),
    /// There is no such namespace.
    #[error("the subsystem {0} has no namespace {1}")]
    NoNamespace(Nqn, Nsid),
    /// No identifier of a namespace.
    #[error("{0} is not a namespace identifier: use 1 to 4294967294")]
    Identifier(Nsid),
    /// No room for a further namespace.
    #[error("the subsystem {0} has {NAMESPACES_MAX} namespaces, the maximum")]
    TooManyNamespaces(Nqn),
    /// Two namespaces that hosts would take for one.
    #[error("two namespaces have the UUID {0}: change one of them")]
    DuplicateUuid(Uuid),
    /// Two namespaces that hosts would take for one.
    #[error("two namespaces have the NGUID {:032x}: change one of them", u128::from_be_bytes(*.0))]
    DuplicateNguid([u8; 16]),
    /// Two namespaces that hosts would take for one.
    #[error("two namespaces have the EUI-64 {:016x}: change one of them", u64::from_be_bytes(*.0))]
    DuplicateEui64([u8; 8]),
    /// Two namespaces that NBD clients would call the same.
    #[error("two namespaces have the name \"{0}\": change one of them")]
    DuplicateName(String),
    /// A name that NBD has another use for, or none.
    #[error("the name \"{0}\" is invalid: use 1 to 4096 bytes")]
    Name(String),
    /// An identity that says that there is none.
    #[error("namespace {0}: an identifier must not be all zeroes")]
    ZeroIdentity(Nsid),
    /// The device cannot be a namespace.
    #[error("{url}: cannot be namespace {nsid}: {reason}")]
    Device {
        /// What the device was opened by.
        url: String,
        /// The namespace.
        nsid: Nsid,
        /// Why.
        reason: String,
    },
    /// More than there is.
    #[error("{url} has {blocks} blocks: namespace {nsid} cannot have {wanted}")]
    Size {
        /// What the device was opened by.
        url: String,
        /// The namespace.
        nsid: Nsid,
        /// Blocks of the device.
        blocks: u64,
        /// Blocks that were asked for.
        wanted: u64,
    },
    /// The same place twice.
    #[error("{0} is already a listen address")]
    DuplicateListener(String),
    /// No such place.
    #[error("{0} is not a listen address")]
    NoListener(String),
}

impl From<InventoryError> for Error {
    fn from(e: InventoryError) -> Self {
        let kind = match e {
            InventoryError::Device { .. } => ErrorKind::Unsupported,
            _ => ErrorKind::Usage,
        };
        Self::new(kind, e.to_string())
    }
}
