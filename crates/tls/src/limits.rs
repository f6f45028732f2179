//! Every limit of TLS, with its unit and the effect of reaching it.

/// Bytes that one connection encrypts ahead of its socket; more wait until these are sent.
pub const TLS_SEND_BYTES: usize = 128 << 10;

/// Encrypted bytes that one connection receives at once and holds: four records of full length as
/// weft makes them, so that a full receive ends with a record where the peer fills its own.
pub const TLS_RECEIVE_BYTES: usize = 4 * (TLS_RECORD_BYTES + 22);

/// Buffers of records of each direction that a thread keeps for its connections.
pub const TLS_SPARE_BUFFERS: usize = 8;

/// Identities in a ClientHello that are looked up; further ones are ignored.
pub const TLS_IDENTITIES_MAX: usize = 4;

/// Records in one direction after which new keys are made (KeyUpdate). AES-GCM is good for 24
/// million (RFC 8446 §5.5).
pub const TLS_KEY_RECORDS_MAX: u64 = 1 << 24;

/// Bytes in one direction after which the records of the kernel are counted, to make new keys in
/// time.
pub const TLS_COUNT_BYTES: usize = 64 << 20;

/// Records without data in a row, such as a peer's new keys, after which a connection is cut off.
pub const TLS_CONTROL_RECORDS_MAX: u32 = 32;

/// Payload of a record, bytes (RFC 8446 §5.1).
pub const TLS_RECORD_BYTES: usize = 16 << 10;

const _: () = assert!(TLS_SEND_BYTES.is_multiple_of(TLS_RECORD_BYTES));
