//! Every limit of sources and exports, with its unit and what happens when it is reached.

/// Connections of one target. More are closed as soon as they are accepted, with a line in the log.
pub const CONNECTIONS_MAX: usize = 4096;

/// Memory of a connection with a queue of 128 entries beside its payload, bytes, at most: tables of commands, headers that wait to be
/// sent, bytes that were received and belong to a command not yet complete. Idle it is less than half of that. Deeper queues take
/// more in proportion. Nothing enforces it but the tables' sizes; `cargo xtask race --memory` and a gate measure it.
pub const CONNECTION_BYTES: usize = 64 << 10;

/// Seconds from accepting a connection to its Connect. Slower ones are closed.
pub const HANDSHAKE_S: u64 = 10;

/// Data that a command capsule of an I/O queue may carry, in bytes; larger writes go by R2T.
pub const IN_CAPSULE_BYTES: u32 = 8192;

/// Largest transfer of one command, bytes (MDTS); less where a device takes less.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Seconds that a connection which is being closed gets to take what is still to be sent to it. Then it is cut off.
pub const CLOSE_S: u64 = 5;

/// Bytes that the answers to admin commands of one connection take up together; further commands wait until they are sent. One answer
/// alone may be larger, up to the largest transfer.
pub const ADMIN_ANSWER_BYTES: usize = 64 << 10;

/// Parts of a loop's payload memory of which one command may take up one, so that a few may run at a time: loops with little memory
/// announce a smaller largest transfer.
pub const POOL_PARTS: usize = 4;

/// Milliseconds after which a connection that found no payload memory tries again.
pub const STARVED_RETRY_MS: u64 = 1;

/// Seconds that commands under way get to end when a target is stopped.
pub const DRAIN_S: u64 = 10;

/// Times that an iSCSI initiator sends a command again which the disk has not executed (unit attentions), or whose data was damaged.
/// Then the operation fails.
pub const ISCSI_RETRIES_MAX: u32 = 20;

/// Milliseconds after which an iSCSI initiator sends a command again for which the disk was busy; for as long as an I/O command may
/// take.
pub const ISCSI_BUSY_PAUSE_MS: u64 = 10;

/// Times that an iSCSI initiator follows a target that says that it has moved. Then opening fails.
pub const ISCSI_REDIRECTIONS_MAX: usize = 4;

/// Data that an iSCSI target takes in one PDU, bytes (MaxRecvDataSegmentLength), and unsolicited for one command (FirstBurstLength). A PDU
/// with more ends the connection.
pub const ISCSI_PDU_BYTES: u32 = 256 << 10;

/// Data that an iSCSI target asks for with one R2T, or sends in one sequence, bytes (MaxBurstLength); longer transfers take several.
pub const ISCSI_BURST_BYTES: u32 = 1 << 20;

/// Connections of an iSCSI session (MaxConnections). A further one is refused with "too many connections".
pub const ISCSI_CONNECTIONS_MAX: u16 = 1;

/// Seconds of silence after which an iSCSI initiator is pinged.
pub const PING_AFTER_S: u64 = 15;

/// Seconds that an iSCSI initiator gets to answer a ping. Then its session ends.
pub const PING_TIMEOUT_S: u64 = 15;

/// Milliseconds that iSCSI initiators get to log out when a target is stopped.
pub const LOGOUT_WAIT_MS: u64 = 1_000;

/// Longest NBD payload that an export announces, bytes; less where the loops have little payload memory.
pub const NBD_TRANSFER_BYTES_MAX: u32 = weft_proto::limits::NBD_PAYLOAD_BYTES_MAX;

const _: () = assert!(TRANSFER_BYTES_MAX as usize <= weft_io::limits::BUF_BYTES_MAX);
const _: () = assert!(IN_CAPSULE_BYTES.is_multiple_of(16));
