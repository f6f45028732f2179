//! Limits and times of a group of gateways.

/// Gateways of a group, present or not. Each has a slot, and with it [`CNTLIDS_PER_GATEWAY`]
/// controller identifiers of its own.
pub const GATEWAYS_MAX: u16 = 64;

/// Controller identifiers of each gateway.
pub const CNTLIDS_PER_GATEWAY: u16 = 1000;

/// ANA groups among which the namespaces of a group of gateways are spread. More than gateways, so
/// that what a lost gateway served is spread over all others.
pub const ANA_GROUPS: u32 = 48;

/// Longest name of a gateway, bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Longest record, bytes: 64 gateways with 8 addresses each.
pub const RECORD_BYTES_MAX: usize = 256 << 10;

/// Addresses at which a gateway listens that the record holds.
pub const LISTENERS_MAX: usize = 8;

/// Interval of a gateway's signs of life, milliseconds.
pub const BEAT_MS: u64 = 1000;

/// Time for which a gateway may serve after its last confirmed beat, milliseconds.
pub const LEASE_MS: u64 = 8000;

/// Attempts of one operation on reservations that fail as the cluster cannot be asked; then the
/// host is told to try again.
pub const RESERVATION_FAILURES_MAX: u32 = 3;

/// Attempts of one operation on reservations between which other gateways change the same
/// namespace; then the host is told to try again.
pub const RESERVATION_CONFLICTS_MAX: u32 = 1000;

/// Pause before the cluster is asked again for reservations that it could not give, milliseconds.
pub const RESERVATION_RETRY_MS: u64 = 200;

/// Changes of a namespace's reservations that a group keeps for gateways that have missed some.
pub const RESERVATION_CHANGES_KEPT: usize = 16;

/// Registrants that these changes name, together, unless it is one change.
pub const RESERVATION_MENTIONS_KEPT: usize = 256;

/// Longest object with the reservations of one namespace that a group stores, bytes.
pub const RESERVATION_RECORD_BYTES_MAX: usize = 512 << 10;
