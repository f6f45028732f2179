//! Errors of building an inventory.

use super::Naa;
use uuid::Uuid;
use weft_block::{Error, ErrorKind, units};
use weft_connection::limits::HOST_LIMITS_MAX;
use weft_proto::limits::{ANA_GROUPS_MAX, NAMESPACES_MAX};
use weft_proto::nvme::controller::CNTLID_MAX;
use weft_proto::nvme::types::{Nqn, Nsid};

/// Why an inventory is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// Duplicate subsystem name.
    #[error("subsystem {0} already exists: use another NQN")]
    DuplicateSubsystem(Nqn),
    /// Reserved name.
    #[error("{0} is the name of discovery, not of a subsystem")]
    ReservedName(Nqn),
    /// The name that was given to discovery.
    #[error("{0} is the name of a subsystem that is served: give discovery another one")]
    DiscoveryName(Nqn),
    /// Unknown subsystem.
    #[error("there is no subsystem {0}")]
    NoSubsystem(Nqn),
    /// The identifier is in use.
    #[error("the subsystem {0} already has a namespace {1}: remove or replace it")]
    DuplicateNamespace(Nqn, Nsid),
    /// Unknown namespace.
    #[error("the subsystem {0} has no namespace {1}")]
    NoNamespace(Nqn, Nsid),
    /// Invalid namespace identifier.
    #[error("{0} is not a namespace identifier: use 1 to 4294967294")]
    Identifier(Nsid),
    /// Too many namespaces.
    #[error("the subsystem {0} has {NAMESPACES_MAX} namespaces, the maximum")]
    TooManyNamespaces(Nqn),
    /// Duplicate UUID.
    #[error("two namespaces have the UUID {0}: change one of them")]
    DuplicateUuid(Uuid),
    /// Duplicate NGUID.
    #[error("two namespaces have the NGUID {:032x}: change one of them", u128::from_be_bytes(*.0))]
    DuplicateNguid([u8; 16]),
    /// Duplicate EUI-64.
    #[error("two namespaces have the EUI-64 {:016x}: change one of them", u64::from_be_bytes(*.0))]
    DuplicateEui64([u8; 8]),
    /// Duplicate NAA identifier.
    #[error("two namespaces have the NAA identifier {0}: change one of them")]
    DuplicateNaa(Naa),
    /// Duplicate NBD export name.
    #[error("two namespaces have the name \"{0}\": change one of them")]
    DuplicateName(String),
    /// Invalid NBD export name.
    #[error("the name \"{0}\" is invalid: use 1 to 4096 bytes")]
    Name(String),
    /// The reservations of a namespace were stored, and cannot be read.
    #[error("{0}")]
    Reservations(String),
    /// An identifier of zeroes, which means "none".
    #[error("namespace {0}: an identifier must not be all zeroes")]
    ZeroIdentity(Nsid),
    /// The device is not usable as a namespace.
    #[error("{url}: cannot be namespace {nsid}: {reason}")]
    Device {
        /// URL of the device.
        url: String,
        /// The namespace.
        nsid: Nsid,
        /// The reason.
        reason: String,
    },
    /// More blocks than the device has.
    #[error("{url} has {}: namespace {nsid} cannot have {}", size(*blocks, *block_bytes), size(*wanted, *block_bytes))]
    Size {
        /// URL of the device.
        url: String,
        /// The namespace.
        nsid: Nsid,
        /// Blocks of the device.
        blocks: u64,
        /// Bytes of a block.
        block_bytes: u32,
        /// Requested blocks.
        wanted: u64,
    },
    /// Invalid group of namespaces.
    #[error("{0} is not a group of namespaces: use 1 to {ANA_GROUPS_MAX}")]
    Group(u32),
    /// Too many hosts have a limit.
    #[error(
        "the limit of the host {0}: {HOST_LIMITS_MAX} hosts have a limit; remove another one first"
    )]
    HostLimits(String),
    /// Invalid range of controller identifiers.
    #[error("{0}-{1} is not a range of controller identifiers: use a part of 1-{CNTLID_MAX}")]
    ControllerIdentifiers(u16, u16),
}

fn size(blocks: u64, block_bytes: u32) -> String {
    units::format_size(blocks.saturating_mul(block_bytes.into()))
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
