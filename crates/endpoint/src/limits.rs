//! Every limit of sources and exports, with its unit and what happens when it is reached.

use weft_proto::stream::Transmit;

/// Connections of one target. More are closed as soon as they are accepted, with a line in the log.
pub const CONNECTIONS_MAX: usize = 4096;

/// Connections of one export that have not been let in yet: before NVMe's Connect, iSCSI's login, NBD's choice of an export. Further ones are
/// closed as soon as they are accepted. One takes about 64 KiB at most, for as long as that may take (`HANDSHAKE_S`).
pub const NEWCOMERS_MAX: usize = 1024;

/// Connections that one address has in any case, if there is room at all. More of them, and more that have not been let in, may be no more than
/// [`HOST_TIMES_LEFT`] times what they leave to others. An address is IPv4's, or the first 64 bits of IPv6's.
pub const SEATS_GUARANTEED: usize = 16;

/// Addresses of this machine that hosts came by, of which the NVMe discovery log tells. Further ones are not told, and count as one of these.
pub const PORTS_MAX: usize = 64;

/// Memory of a connection with a queue of 128 entries beside its payload, bytes, at most: tables of commands, headers that wait to be
/// sent, bytes that were received and belong to a command not yet complete. Idle it is less than half of that. Deeper queues take
/// more in proportion. Nothing enforces it but the tables' sizes; `cargo xtask race --memory` and a gate measure it.
pub const CONNECTION_BYTES: usize = 64 << 10;

/// Data that a command capsule of an I/O queue may carry, in bytes; larger writes go by R2T.
pub const IN_CAPSULE_BYTES: u32 = 8192;

/// Largest transfer of one command, bytes (MDTS); less where a device takes less.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Seconds that a connection which is being closed gets to take what is still to be sent to it. Then it is cut off.
pub const CLOSE_S: u64 = 5;

/// Milliseconds that a connection which was closed for a broken protocol goes on taking what comes, so that the peer gets to hear why...
pub const LINGER_MS: u64 = 1_000;

/// ...and bytes that it takes at most. Then it is cut off.
pub const LINGER_BYTES: usize = 4 << 20;

/// Such connections on one loop. More are cut off at once.
pub const LINGERING_MAX: usize = 64;

/// Refused peers of an export that are written to the log at once...
pub const REFUSALS_LOGGED_MAX: u32 = 20;

/// ...and seconds for each further one; the log says how many were left out.
pub const REFUSALS_LOGGED_STEP_S: u64 = 5;

/// Hosts of a target of which the log says one by one what they do against the rules; all others are as one.
pub const REMARKED_HOSTS_MAX: usize = 1024;

/// Seconds within which a peer moves [`STALL_BYTES_MIN`] more of the data that it announced or was asked for, and takes as much of what is
/// sent to it, if it owes something all the while. Otherwise an export closes its connection.
pub const STALL_S: u64 = 30;

/// Bytes that a peer moves in [`STALL_S`] seconds at least.
pub const STALL_BYTES_MIN: u64 = 64 << 10;

/// Bytes that the answers to admin commands of one connection take up together; further commands wait until they are sent. One answer
/// alone may be larger, up to the largest transfer.
pub const ADMIN_ANSWER_BYTES: usize = 64 << 10;

/// Parts of a loop's payload memory of which one command may take up one, so that a few may run at a time: loops with little memory
/// announce a smaller largest transfer.
pub const POOL_PARTS: usize = 4;

/// Bytes of payload memory that each connection may hold whatever others hold: two small reads, or the data of a capsule.
pub const GUARANTEED_BYTES: usize = 8 << 10;

/// Parts of a loop's payload memory of which one is kept for that.
pub const GUARANTEED_PARTS: usize = 4;

/// Times as much of the rest as it leaves that all connections from one address may hold together. What one connection holds is no more than
/// what it leaves. More waits.
pub const HOST_TIMES_LEFT: usize = 3;

/// Microseconds that a turn of a busy connection takes before it answers: when it took longer the next one receives less, down to
/// [`SHARE_BYTES_MIN`]...
pub const ANSWER_US_MAX: u64 = 40;

/// ...and when it took less than this, more, up to [`STAGING_BYTES`].
pub const ANSWER_US_MIN: u64 = 20;

/// Bytes that one turn of a connection receives at least before it answers, if there are so many and payload is among them: enough for the calls of a
/// turn to be its smaller part, with however many connections it is shared.
pub const SHARE_BYTES_MIN: usize = 32 << 10;

/// The same without payload: some dozens of commands.
pub const SHARE_BYTES_MIN_BARE: usize = 4 << 10;

/// The same when a connection begins.
pub const SHARE_BYTES_FIRST: usize = 128 << 10;

/// Receives of one turn of a connection; their bytes are its share. Then other connections have theirs.
pub const RECEIVES_PER_TURN: usize = 16;

/// Pieces of memory that one call receives into: the largest transfer in a RAM disk's pieces, and what is staged before and behind it. What lies in
/// more takes several calls.
pub const RECEIVE_PIECES: usize = 18;

/// Missing bytes of a payload from which on they are received straight into place; of a large payload, any number.
pub const DIRECT_BYTES_MIN: u32 = 8 << 10;

/// Bytes of a payload behind which another such is expected: then only its header is staged.
pub const LARGE_PAYLOAD_BYTES: u32 = 32 << 10;

/// Bytes staged where a large payload is expected: the headers before it, and next to nothing of itself.
pub const STAGED_BEFORE_LARGE_BYTES: usize = 128;

/// Longest payload, bytes, that is shown whole to whoever stores it; longer ones are received in pieces.
pub const WHOLE_BYTES_MAX: u32 = 64 << 10;

/// Gather lists that one turn of a connection sends. Then other connections have their turn.
pub const SENDS_PER_TURN: usize = 4;

/// Slices of memory that one call sends from, the most that POSIX systems take. What lies in more takes several calls.
pub const GATHER_SLICES: usize = 1024;

/// Headers and payloads of one gather list, beside those of one step of an engine. What is due beyond that makes another list. A
/// connection that waits for its peer to take it holds one; when it is sent, all connections of a thread share its memory.
pub const GATHER_PARTS: usize = 1000;

/// Bytes of such a list.
pub const GATHER_BYTES: usize = Transmit::bytes(GATHER_PARTS);

/// Milliseconds after which a connection that found no payload memory tries again. The pause doubles with each attempt in vain...
pub const STARVED_RETRY_MS: u64 = 1;

/// ...up to this: thousands of connections that wait cost the others little.
pub const STARVED_RETRY_MS_MAX: u64 = 64;

/// Seconds that a write whose NVMe connection was lost waits to hear whether its controller has stopped; then the controller counts as one that
/// cannot be reached. Longer than a reset takes: the limit is for a control loop that does not answer.
pub const SETTLE_S: u64 = 30;

/// Seconds that a peer which was lost is given to end the writes that it has, where it does not tell how long it takes (--quiesce-time).
pub const QUIESCE_S: u64 = 10;

/// Requests of an NBD client whose export is over that are answered with ESHUTDOWN. One that goes on asking is cut off.
pub const ESHUTDOWN_MAX: usize = 256;

/// Seconds that commands under way get to end when a target is stopped.
pub const DRAIN_S: u64 = 10;

/// Times that an iSCSI initiator sends a command again which the disk has not executed (unit attentions), or whose data was damaged.
/// Then the operation fails.
pub const ISCSI_RETRIES_MAX: u32 = 20;

/// Milliseconds after which an iSCSI initiator sends a command again for which the disk was busy; for as long as an I/O command may
/// take.
pub const ISCSI_BUSY_PAUSE_MS: u64 = 10;

/// Data of an answer that an iSCSI initiator takes while it opens a logical unit, bytes. What is longer is cut to it.
pub const ISCSI_PROBE_BYTES: usize = 512;

/// Milliseconds after which a target is asked again whether a namespace or logical unit that it does not have any more has come back. (NVMe
/// controllers that send events tell it at once.)
pub const ABSENT_PAUSE_MS: u64 = 1000;

/// Times that an iSCSI initiator follows a target that says that it has moved. Then opening fails.
pub const ISCSI_REDIRECTIONS_MAX: usize = 4;

/// Longest READ or WRITE of an iSCSI target, bytes, as the page Block Limits tells; less where the loops have little payload memory. What is
/// longer than an operation of the device may be becomes several. Longer ones are refused.
pub const ISCSI_TRANSFER_BYTES_MAX: u32 = 32 << 20;

/// Data that an iSCSI target takes in one PDU, bytes (MaxRecvDataSegmentLength), and unsolicited for one command (FirstBurstLength). A PDU
/// with more ends the connection.
pub const ISCSI_PDU_BYTES: u32 = 256 << 10;

/// Data that an iSCSI target asks for with one R2T, or sends in one sequence, bytes (MaxBurstLength); longer transfers take several.
pub const ISCSI_BURST_BYTES: u32 = 1 << 20;

/// Connections of an iSCSI session (MaxConnections). A further one is refused with "too many connections".
pub const ISCSI_CONNECTIONS_MAX: u16 = 1;

/// Seconds that closed connections get to be gone when a target is stopped. Then its devices are flushed all the same.
pub const DRAIN_CLOSE_S: u64 = 1;

/// Logins to an iSCSI target from one address under one CHAP name in which the secret was wrong, within [`LOGIN_FAILURES_S`]. Then logins from
/// there under that name are refused ("the target does not serve at present") until that time is over.
pub const LOGIN_FAILURES_MAX: u32 = 16;

/// Numbers by which CHAP names are told apart for that: so many counts are kept of one address at most. Names with the same number share one.
pub const LOGIN_FAILURES_ROWS: u64 = 1024;

/// Seconds for which CHAP's failures count, from the first one.
pub const LOGIN_FAILURES_S: u64 = 60;

/// Initiator names that become those of a CHAP user by logging in, where none were given to that user. One more is refused.
pub const LOGIN_NAMES_MAX: usize = 64;

/// Seconds that iSCSI initiators get to log out when a target is stopped.
pub const LOGOUT_WAIT_S: u16 = 1;

/// Longest NBD payload that an export announces, bytes; less where the loops have little payload memory.
pub const NBD_TRANSFER_BYTES_MAX: u32 = weft_proto::limits::NBD_PAYLOAD_BYTES_MAX;

/// Payload memory of the control loop, bytes: for connections that are being opened and for admin commands.
pub const CONTROL_POOL_BYTES: usize = 16 << 20;

/// Payload memory of the loop behind a `Disk`, bytes.
pub const DISK_POOL_BYTES: usize = 64 << 20;

/// Seconds that the end of a program waits for its associations and sessions to be closed. Then they break off.
pub const FINISH_S: u64 = 6;

/// Seconds that a question to a loop waits for its answer. Then it fails: status never hangs.
pub const LOOP_ANSWER_S: u64 = 2;

/// Milliseconds between two looks of a target that is being stopped at whether everybody has finished.
pub const DRAIN_STEP_MS: u64 = 2;

/// Milliseconds after which a device whose queues are all in use is asked for one again.
pub const QUEUE_RETRY_MS: u64 = 10;

/// Bytes of one receive, and that a connection may have sent ahead when it has to wait for memory: small enough to stay in the second-level
/// cache, large enough for dozens of small commands. One staging buffer serves all connections of a thread.
pub const STAGING_BYTES: usize = 256 << 10;

/// Times that completions may lead to new operations of one connection within one turn; then other connections have theirs.
pub const WORK_PASSES_PER_TURN: usize = 8;

/// Data of an admin command that a caller may ask a controller for, bytes. A longer request is cut to it.
pub const ADMIN_DATA_BYTES_MAX: u32 = 128 << 10;

/// Seconds that a controller may take for an admin command of an association, an Abort and what it is to end included; less where I/O may
/// take less. Then the association ends.
pub const ADMIN_TIMEOUT_S: u64 = 10;

/// Seconds that a caller waits for an admin command of its own. Then the call fails.
pub const ADMIN_COMMAND_S: u64 = 30;

/// Bytes from which on a write is received into memory of its device, where that gives some; less is copied once anyhow.
pub const SPARE_BYTES_MIN: u32 = 8 << 10;

/// Seconds after which iSCSI sessions that no queue uses are looked after again: targets ping them, too.
pub const ISCSI_IDLE_STEP_S: u64 = 1;

/// Milliseconds after which sessions that are being logged out are looked after again.
pub const ISCSI_LOGOUT_STEP_MS: u64 = 20;

/// Milliseconds after which a logical unit that is not ready is asked again while it is opened.
pub const ISCSI_READY_PAUSE_MS: u64 = 100;

/// Times that an NBD request which writes a part of a block reads it and tries to write it whole, while others change it. Then it fails.
pub const NBD_MERGES_MAX: u32 = 1024;

/// Smallest block size that an NBD export prefers, bytes; clients write whole ones where they can.
pub const NBD_PREFERRED_BYTES: u32 = 4096;

const _: () =
    assert!(weft_proto::limits::CONTROLLERS_MAX as usize >= CONNECTIONS_MAX, "connections run out first: they are shared fairly");
const _: () = assert!(TRANSFER_BYTES_MAX as usize <= weft_io::limits::BUF_BYTES_MAX);
const _: () = assert!(IN_CAPSULE_BYTES.is_multiple_of(16));
const _: () = assert!(SPARE_BYTES_MIN >= IN_CAPSULE_BYTES, "data in a capsule is copied once anyhow");
const _: () = assert!(ISCSI_PDU_BYTES <= ISCSI_BURST_BYTES, "a burst holds at least one PDU (RFC 7143 §13.13, §13.14)");
const _: () =
    assert!(TRANSFER_BYTES_MAX as usize * POOL_PARTS <= CONTROL_POOL_BYTES, "the control loop serves every admin command");
const _: () = assert!(IN_CAPSULE_BYTES as usize <= GUARANTEED_BYTES, "a capsule's data is guaranteed to who has nothing else");
const _: () = assert!(ADMIN_DATA_BYTES_MAX as usize <= CONTROL_POOL_BYTES);
const _: () = assert!(ADMIN_TIMEOUT_S < ADMIN_COMMAND_S, "the association ends before its caller gives up");
const _: () = assert!(ANSWER_US_MIN < ANSWER_US_MAX, "a share that fits is left alone");
const _: () = assert!(SHARE_BYTES_MIN_BARE <= SHARE_BYTES_MIN && SHARE_BYTES_MIN <= SHARE_BYTES_FIRST);
const _: () = assert!(SHARE_BYTES_FIRST <= STAGING_BYTES, "a share is staged in one buffer");
const _: () = assert!(WHOLE_BYTES_MAX as usize <= STAGING_BYTES, "a payload that is shown whole is staged");
const _: () = assert!(DIRECT_BYTES_MIN <= LARGE_PAYLOAD_BYTES, "a large payload is received straight into place");
const _: () = assert!(STAGED_BEFORE_LARGE_BYTES < DIRECT_BYTES_MIN as usize, "next to nothing of a payload is staged");
const _: () = assert!(RECEIVE_PIECES >= TRANSFER_BYTES_MAX as usize / weft_io::region::CHUNK_BYTES + 2);
const _: () = assert!(GATHER_PARTS < GATHER_SLICES, "a list whose payloads lie in one piece each goes out in one call");
const _: () = assert!(STAGING_BYTES >= weft_proto::stream::HEADER_MAX, "a header is parsed in one piece");
const _: () = assert!(DRAIN_S > CLOSE_S, "a connection that is cut off does not keep a target from stopping");

/// Bytes that a target with `loops` loops of `pool_bytes` payload memory each and with `connections` connections may take at most, beside
/// what its devices hold (the blocks of a RAM disk; for each file, [`weft_block::limits::FILE_SCRATCH_OPS`] of the longest transfers) and the
/// program itself: pools, staging buffers, and for each connection its
/// tables, what it has sent ahead while it waits for memory, a gather list that it does not take, and what one command takes beyond the cap.
/// Connections with queues of more than 128 entries take more in proportion.
pub fn target_bytes(loops: usize, pool_bytes: usize, connections: usize) -> usize {
    loops * (pool_bytes + STAGING_BYTES) + connections * (CONNECTION_BYTES + STAGING_BYTES + GATHER_BYTES + GUARANTEED_BYTES)
}
