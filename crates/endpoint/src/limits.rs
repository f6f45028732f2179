//! Every limit of sources and exports, with its unit and what happens when it is reached.

/// Connections of one target. More are closed as soon as they are accepted, with a line in the log.
pub const CONNECTIONS_MAX: usize = 4096;

/// Seconds from accepting a connection to its Connect. Slower ones are closed.
pub const HANDSHAKE_S: u64 = 10;

/// Data that a command capsule of an I/O queue may carry, in bytes; larger writes go by R2T.
pub const IN_CAPSULE_BYTES: u32 = 8192;

/// Largest transfer of one command, bytes (MDTS); less where a device takes less.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Milliseconds after which a connection that found no payload memory tries again.
pub const STARVED_RETRY_MS: u64 = 1;

/// Seconds that commands under way get to end when a target is stopped.
pub const DRAIN_S: u64 = 10;

const _: () = assert!(TRANSFER_BYTES_MAX as usize <= weft_io::limits::BUF_BYTES_MAX);
const _: () = assert!(IN_CAPSULE_BYTES.is_multiple_of(16));
