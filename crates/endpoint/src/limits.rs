//! Every limit of sources and exports, with its unit and the effect of reaching it.

use weft_proto::stream::Transmit;

/// Maximum connections of a target. Further ones are closed when they are accepted, and logged.
pub const CONNECTIONS_MAX: usize = 4096;

/// Maximum connections of one export that are not admitted yet: before NVMe's Connect, iSCSI's
/// login, NBD's choice of an export. Further connections are closed when they are accepted. Such a
/// connection uses about 64 KiB at most, for at most `HANDSHAKE_S`.
pub const NEWCOMERS_MAX: usize = 1024;

/// Connections that each address is guaranteed, if any are left. Above this number, an address may
/// hold at most [`HOST_TIMES_LEFT`] times as many connections as it leaves to others; the same
/// applies to connections that are not admitted yet. An address is an IPv4 address, or the first 64
/// bits of an IPv6 address.
pub const SEATS_GUARANTEED: usize = 16;

/// Maximum addresses of this machine, by which hosts connected, in the NVMe discovery log page.
/// Further addresses are not listed, and count as one of these.
pub const PORTS_MAX: usize = 64;

/// Maximum ports of other gateways of its group of which an export's discovery tells, for each of
/// NVMe and iSCSI: 64 gateways with 8 listeners each. Further ports are not listed.
pub const OTHER_PORTS_MAX: usize = 512;

/// Maximum memory of a connection with a queue of 128 entries, without payload, bytes: tables of
/// commands, headers to be sent, and received bytes of incomplete commands. An idle connection uses
/// less than half of this; deeper queues use proportionally more. Only the sizes of the tables
/// enforce it; `cargo xtask race --memory` and a gate measure it.
pub const CONNECTION_BYTES: usize = 64 << 10;

/// Maximum data in a command capsule of an I/O queue, in bytes; larger writes use R2T.
pub const IN_CAPSULE_BYTES: u32 = 8192;

/// Maximum compare-and-write of an NVMe host, bytes, though at least a block (NACWU): the first
/// half waits for the second one, and what a capsule carries takes no memory of the pool meanwhile.
pub const FUSED_BYTES_MAX: u32 = 4096;

/// Maximum transfer of one command, bytes (MDTS); less if the device accepts less.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Maximum data in a command capsule of an I/O queue over RDMA, in bytes; larger writes are read
/// from the host's memory. Each entry of a queue has a receive of this size.
pub const RDMA_IN_CAPSULE_BYTES: u32 = 4096;

/// Pieces of a device's own memory that one RDMA WRITE sends; results in more pieces are copied. A
/// RAM disk has pieces of 64 KiB, so these are enough for the largest transfer.
pub const RDMA_LENT_PIECES: u8 = 17;

/// Memory for receives of all connections over RDMA, bytes. Connections beyond are rejected, as
/// with [`CONNECTIONS_MAX`].
pub const RDMA_RECEIVES_BYTES_MAX: usize = 1 << 30;

/// The part of it that connections may have whose Connect was not accepted yet, bytes.
pub const RDMA_RECEIVES_NEWCOMERS_BYTES: usize = 64 << 20;

/// What each address is guaranteed of both, if it is left: a queue with the most entries. Above
/// this, an address may hold at most [`HOST_TIMES_LEFT`] times as much as it leaves to others.
pub const RDMA_RECEIVES_GUARANTEED_BYTES: usize = 8 << 20;

/// Events of a queue pair that one turn takes.
pub const RDMA_EVENTS_PER_TURN: usize = 256;

/// Seconds in which a closing connection must receive the remaining data. Then it is disconnected.
pub const CLOSE_S: u64 = 5;

/// After a protocol violation, milliseconds for which a closed connection still receives data, so
/// that the peer can read the reason...
pub const LINGER_MS: u64 = 1_000;

/// ...and the maximum bytes that it receives. Then it is disconnected.
pub const LINGER_BYTES: usize = 4 << 20;

/// Maximum number of such connections on one loop. Further ones are disconnected at once.
pub const LINGERING_MAX: usize = 64;

/// Refused peers of an export that are logged at once...
pub const REFUSALS_LOGGED_MAX: u32 = 20;

/// ...and seconds until each further one is logged; the log reports the number of omitted ones.
pub const REFUSALS_LOGGED_STEP_S: u64 = 5;

/// Maximum hosts of a target whose deviations are logged separately; all other hosts count as one.
pub const REMARKED_HOSTS_MAX: usize = 1024;

/// Maximum hosts of an export whose commands are counted separately, in `weft status` and as labels
/// of metrics. All other hosts count as one, `other`.
pub const HOSTS_COUNTED_MAX: usize = 64;

/// Milliseconds for which a report of the state waits for all event loops together to tell their
/// CPU time.
pub const REPORT_LOOP_MS: u64 = 500;

/// Hosts of a target with a limit of their own (`--host-limit`). A further limit is refused.
pub const HOST_LIMITS_MAX: usize = 1024;

/// Seconds in which a peer that owes data without interruption must transfer at least
/// [`STALL_BYTES_MIN`] of the data that it announced or was asked for, and receive as much of what
/// is sent to it. Otherwise the export closes its connection.
pub const STALL_S: u64 = 30;

/// Minimum bytes that a peer must transfer in [`STALL_S`] seconds.
pub const STALL_BYTES_MIN: u64 = 64 << 10;

/// Maximum memory of the responses to admin commands of one connection, bytes; further commands
/// wait until these are sent. A single response may be larger, up to the maximum transfer.
pub const ADMIN_ANSWER_BYTES: usize = 64 << 10;

/// One command may use one of this many parts of a loop's payload memory, so that several can run
/// at a time. Loops with little memory announce a smaller maximum transfer.
pub const POOL_PARTS: usize = 4;

/// Bytes of payload memory that each connection may always hold: two small reads, or the data of a
/// capsule.
pub const GUARANTEED_BYTES: usize = 8 << 10;

/// One of this many parts of a loop's payload memory is reserved for [`GUARANTEED_BYTES`].
pub const GUARANTEED_PARTS: usize = 4;

/// All connections from one address together may hold at most this many times the memory that is
/// left. One connection may hold no more than what is left. Further requests wait.
pub const HOST_TIMES_LEFT: usize = 3;

/// Microseconds that a turn of a busy connection may take before it answers. After a longer turn
/// the next one receives less, down to [`SHARE_BYTES_MIN`]...
pub const ANSWER_US_MAX: u64 = 40;

/// ...and after a turn shorter than this, it receives more, up to [`STAGING_BYTES`].
pub const ANSWER_US_MIN: u64 = 20;

/// Minimum share of a turn with payload: bytes that a connection receives, if available, before it
/// answers. The system calls of a turn are then its smaller part, whatever the number of
/// connections.
pub const SHARE_BYTES_MIN: usize = 32 << 10;

/// The minimum share without payload: some dozens of commands.
pub const SHARE_BYTES_MIN_BARE: usize = 4 << 10;

/// The share of a new connection.
pub const SHARE_BYTES_FIRST: usize = 128 << 10;

/// Receives of one turn of a connection; their bytes are its share. Then the other connections have
/// their turn.
pub const RECEIVES_PER_TURN: usize = 16;

/// Pieces of memory that one call receives into: the maximum transfer in pieces of a RAM disk, and
/// the staged bytes before and after it. More pieces need several calls.
pub const RECEIVE_PIECES: usize = 18;

/// If at least this many bytes of a payload are missing, they are received directly into place; for
/// a large payload, any number.
pub const DIRECT_BYTES_MIN: u32 = 8 << 10;

/// Bytes of a payload that one call receives into place. A turn then receives less than twice this,
/// and the other connections of the loop do not wait for a whole large payload.
pub const DIRECT_BYTES_MAX: u32 = STAGING_BYTES as u32;

/// After a payload of this size another large one is expected: then only its header is staged.
pub const LARGE_PAYLOAD_BYTES: u32 = 32 << 10;

/// Bytes staged if a large payload is expected: the headers before it, and very little of its data.
pub const STAGED_BEFORE_LARGE_BYTES: usize = 128;

/// Maximum payload, bytes, that is shown to the consumer as a whole; longer ones are received in
/// pieces.
pub const WHOLE_BYTES_MAX: u32 = 64 << 10;

/// Gather lists that one turn of a connection sends. Then the other connections have their turn.
pub const SENDS_PER_TURN: usize = 4;

/// Slices of memory that one call sends from, the maximum of POSIX systems. More slices need
/// several calls.
pub const GATHER_SLICES: usize = 1024;

/// Headers and payloads of one gather list, in addition to those of one step of an engine. More
/// parts go into another list. A connection that waits for its peer to receive holds one list;
/// otherwise all connections of a thread share its memory.
pub const GATHER_PARTS: usize = 1000;

/// Bytes of such a list.
pub const GATHER_BYTES: usize = Transmit::bytes(GATHER_PARTS);

/// Milliseconds after which a connection that got no payload memory tries again. The pause doubles
/// with each failed attempt.
pub const STARVED_RETRY_MS: u64 = 1;

/// The longest such pause, in milliseconds. It keeps the cost of thousands of waiting connections
/// low.
pub const STARVED_RETRY_MS_MAX: u64 = 64;

/// Seconds that a write on a lost NVMe connection waits for the confirmation that its controller
/// has stopped; then the controller counts as unreachable. This is longer than a reset takes: it
/// covers a control loop that does not answer.
pub const SETTLE_S: u64 = 30;

/// Seconds that a lost peer has to finish its outstanding writes, if it does not report a time of
/// its own (--quiesce-time).
pub const QUIESCE_S: u64 = 10;

/// Requests that are answered with ESHUTDOWN after the export of an NBD client has ended. Then the
/// client is disconnected.
pub const ESHUTDOWN_MAX: usize = 256;

/// Seconds for commands in flight to end when a target is stopped.
pub const DRAIN_S: u64 = 10;

/// Times that an iSCSI initiator repeats a command that was not executed (unit attentions) or whose
/// data was damaged. Then the operation fails.
pub const ISCSI_RETRIES_MAX: u32 = 20;

/// Milliseconds after which an iSCSI initiator repeats a command for which the disk was busy, for
/// as long as an I/O command may take.
pub const ISCSI_BUSY_PAUSE_MS: u64 = 10;

/// Data of a response that an iSCSI initiator reads while it opens a logical unit, bytes. Longer
/// responses are truncated.
pub const ISCSI_PROBE_BYTES: usize = 512;

/// Data of READ FULL STATUS that an iSCSI initiator reads, bytes: as many registrations as a report
/// has room for (63), each of at most 24 bytes and a TransportID of 248. Longer responses are cut
/// off, and the report says so.
pub const ISCSI_FULL_STATUS_BYTES: usize = 8 + 63 * (24 + 248);

/// Milliseconds after which weft checks again whether a removed namespace or logical unit is back.
/// (NVMe controllers that send events report it at once.)
pub const ABSENT_PAUSE_MS: u64 = 1000;

/// Redirections of a target (Target moved) that an iSCSI initiator follows. Then opening fails.
pub const ISCSI_REDIRECTIONS_MAX: usize = 4;

/// Maximum READ or WRITE of an iSCSI target, bytes, as reported in the VPD page Block Limits; less
/// if the loops have little payload memory. weft splits a command that exceeds the maximum
/// operation of the device. Longer commands are refused.
pub const ISCSI_TRANSFER_BYTES_MAX: u32 = 32 << 20;

/// Maximum data of one PDU for an iSCSI target, bytes (MaxRecvDataSegmentLength), and maximum
/// unsolicited data of one command (FirstBurstLength). A PDU with more ends the connection.
pub const ISCSI_PDU_BYTES: u32 = 256 << 10;

/// Data that an iSCSI target requests with one R2T, or sends in one sequence, bytes
/// (MaxBurstLength); longer transfers use several.
pub const ISCSI_BURST_BYTES: u32 = 1 << 20;

/// Connections of an iSCSI session (MaxConnections). A further one is refused with "too many
/// connections".
pub const ISCSI_CONNECTIONS_MAX: u16 = 1;

/// Seconds for closed connections to end when a target is stopped. Then its devices are flushed in
/// any case.
pub const DRAIN_CLOSE_S: u64 = 1;

/// Authentications of NVMe hosts (DH-HMAC-CHAP) from one address that were begun and have not
/// succeeded: each may be a guess, unless its connection ended before the host answered the
/// challenge. Hosts are told to begin further ones later (Command Interrupted), without any
/// arithmetic, until one is forgotten.
pub const AUTHENTICATIONS_MAX: u32 = 256;

/// Milliseconds after which one of them is forgotten.
pub const AUTHENTICATION_STEP_MS: u64 = 250;

/// Bits of the largest Diffie-Hellman group that a target accepts unless it is told which. Twice
/// the bits cost five times the arithmetic.
pub const AUTHENTICATION_GROUP_BITS: u32 = 4096;

/// Threads on which a target computes for authentications. Event loops do not compute for them: so
/// those never take more than one processor.
pub const AUTHENTICATION_THREADS: usize = 1;

/// Milliseconds of arithmetic that authentications from one address may have at once, whether they
/// succeed or not, by a table of what an exchange costs with each group. Hosts are told to begin
/// further ones later (Command Interrupted).
pub const AUTHENTICATION_ADDRESS_MS: u64 = 4_000;

/// How fast that comes back, as a percentage of the time that passes.
pub const AUTHENTICATION_ADDRESS_PERCENT: u64 = 10;

/// The same, of all addresses together. The second half is for addresses from which a host has
/// authenticated within [`AUTHENTICATION_KNOWN_S`], and half of that also for those for which
/// nothing has been computed lately.
pub const AUTHENTICATION_TARGET_MS: u64 = 30_000;

/// How fast that comes back, as a percentage of the time that passes.
pub const AUTHENTICATION_TARGET_PERCENT: u64 = 50;

/// Seconds for which an address counts as one from which a host has authenticated: its
/// authentications are computed before others'.
pub const AUTHENTICATION_KNOWN_S: u64 = 3_600;

/// Addresses for which they are counted. All others count as one.
pub const AUTHENTICATIONS_ROWS: usize = 4096;

/// Host identifiers (HOSTID) that were registered without a proof, of which a server remembers who
/// proved itself with them first; further ones are not bound to a name until their host registers
/// anew. Also those that a configuration can give.
pub const HOST_IDENTIFIERS_MAX: usize = 8192;

/// Seconds for an NVMe host to authenticate a queue, from its Connect. Slower hosts lose the
/// connection.
pub const AUTHENTICATION_S: u64 = 60;

/// Seconds that a key for TLS which an authentication has made waits for the association that comes
/// with it (secure channel concatenation).
pub const GENERATED_PSK_S: u64 = 60;

/// Seconds for an NVMe host to come again with TLS, from the authentication that made its key. Then
/// its plain connection is closed.
pub const CONCATENATION_PLAIN_S: u64 = 10;

/// Such keys that wait, of one host and subsystem. A further one takes the place of the oldest.
pub const GENERATED_PSKS_OF_HOST: usize = 16;

/// The same, of all hosts of a target.
pub const GENERATED_PSKS_MAX: usize = 1024;

/// Messages of an authentication whose memory one connection holds before its host has
/// authenticated.
pub const AUTHENTICATION_MESSAGES_MAX: usize = 4;

/// Logins with a wrong secret to an iSCSI target, from one address under one CHAP name, within
/// [`LOGIN_FAILURES_S`]. After that, logins from this address under this name are refused ("service
/// unavailable") until the time is over.
pub const LOGIN_FAILURES_MAX: u32 = 16;

/// Number of failure counts per address, which limits their memory: a CHAP name is reduced to one
/// of so many numbers, and names with the same number share a count.
pub const LOGIN_FAILURES_ROWS: u64 = 1024;

/// Seconds for which failed CHAP logins count, from the first one.
pub const LOGIN_FAILURES_S: u64 = 60;

/// Initiator names that a CHAP user without given names acquires by logging in. Further names are
/// refused.
pub const LOGIN_NAMES_MAX: usize = 64;

/// iSCSI initiator ports that a target remembers when their sessions have ended. One that is not
/// remembered is told of a power on (29h/00h) when it comes again, instead of a lost nexus
/// (29h/07h), and may write unflushed data again.
pub const PORTS_KNOWN_MAX: usize = 1024;

/// Seconds for iSCSI initiators to log out when a target is stopped.
pub const LOGOUT_WAIT_S: u16 = 1;

/// Maximum NBD payload that an export announces, bytes; less if the loops have little payload
/// memory.
pub const NBD_TRANSFER_BYTES_MAX: u32 = weft_proto::limits::NBD_PAYLOAD_BYTES_MAX;

/// Payload memory of the control loop, bytes: for connections that are being opened and for admin
/// commands.
pub const CONTROL_POOL_BYTES: usize = 16 << 20;

/// Payload memory of the loop behind a `Disk`, bytes.
pub const DISK_POOL_BYTES: usize = 64 << 20;

/// Seconds that a program waits at its end for its associations and sessions to be closed. Then
/// they are cut off.
pub const FINISH_S: u64 = 6;

/// Seconds that a query to a loop waits for the answer. Then it fails, so that status queries never
/// hang.
pub const LOOP_ANSWER_S: u64 = 2;

/// Milliseconds between two checks of a stopping target whether all connections have ended.
pub const DRAIN_STEP_MS: u64 = 2;

/// Milliseconds after which another queue of a device is requested, if all its queues were in use.
pub const QUEUE_RETRY_MS: u64 = 10;

/// Bytes of one receive, and maximum bytes that a connection has already received when it must wait
/// for memory: small enough for the second-level cache, large enough for dozens of small commands.
/// All connections of a thread share one staging buffer.
pub const STAGING_BYTES: usize = 256 << 10;

/// Times that completions may lead to new operations of one connection within one turn; then the
/// other connections have their turn.
pub const WORK_PASSES_PER_TURN: usize = 8;

/// Maximum data of an admin command that a caller may request, bytes. A longer request is
/// truncated.
pub const ADMIN_DATA_BYTES_MAX: u32 = 128 << 10;

/// Seconds that a controller may take for an admin command of an association, including an Abort
/// and the aborted command; less if the time limit for I/O is lower. Then the association ends.
pub const ADMIN_TIMEOUT_S: u64 = 10;

/// Discovery controllers to which others refer, that are asked for paths; further ones are not.
pub const REFERRALS_MAX: usize = 16;

/// Paths that discovery gives for a subsystem or target; further ones are left out.
pub const DISCOVERED_PATHS_MAX: usize = 64;

/// ISIDs of iSCSI sessions that a control remembers, so that a session which takes the place of a
/// lost one has the same.
pub const ISIDS_MAX: usize = 1024;

/// Lost associations and sessions whose writes may still be executed, of one control, that an
/// answer of their peer may settle; the oldest of more is settled by time alone.
pub const UNSETTLED_MAX: usize = 1024;

/// Seconds that a caller waits for its admin command. Then the call fails.
pub const ADMIN_COMMAND_S: u64 = 30;

/// Writes of at least this many bytes are received into memory of the device, if it lends some;
/// shorter ones are copied once anyway.
pub const SPARE_BYTES_MIN: u32 = 8 << 10;

/// Seconds between two checks of iSCSI sessions that no queue uses: targets ping them too.
pub const ISCSI_IDLE_STEP_S: u64 = 1;

/// Milliseconds between two checks of sessions that are being logged out.
pub const ISCSI_LOGOUT_STEP_MS: u64 = 20;

/// Milliseconds between two queries of a logical unit that is being opened and is not ready.
pub const ISCSI_READY_PAUSE_MS: u64 = 100;

/// Attempts of an NBD request to write a part of a block by compare-and-write, while others change
/// the block. Then it fails.
pub const NBD_MERGES_MAX: u32 = 1024;

/// Minimum preferred block size of an NBD export, bytes; clients write whole blocks if they can.
pub const NBD_PREFERRED_BYTES: u32 = 4096;

/// Milliseconds before the first attempt to reconnect a path. The pause doubles with each attempt,
/// up to --reconnect-delay.
pub const RECONNECT_FIRST_MS: u64 = 100;

/// Maximum pause between attempts to reconnect, in seconds, unless --reconnect-delay sets another
/// one.
pub const RECONNECT_DELAY_S: u64 = 10;

/// Seconds between two looks at whether a device that no queue uses is still connected.
pub const PATH_LOOK_S: u64 = 1;

/// Milliseconds that no operation is sent on a path that has just refused one.
pub const PATH_PAUSE_MS: u64 = 100;

/// Operations of a queue of a device that wait while no path takes them. Further operations stay
/// with whoever submits them.
pub const PATH_WAITING_OPS: usize = 1024;

/// Operations that a queue of a device gives to a path at a time.
pub const PATH_BATCH_OPS: usize = 64;

/// With --iopolicy=latency, operations after which another path is measured.
pub const PATH_PROBE_OPS: u32 = 128;

/// How often an operation is sent again that a device has aborted, or whose data was damaged in
/// transit. Then it fails.
pub const PATH_REPEATS_MAX: u8 = 5;

/// How often an operation is sent again that was refused because of the path, although the target
/// reports that the path works. Then it fails.
pub const PATH_REFUSALS_MAX: u8 = 100;

/// Threads of a gateway of a group that execute operations on reservations, one namespace each. All
/// wait for the same cluster and the same other gateways; operations on further namespaces wait for
/// a thread.
pub const RESERVATION_THREADS_MAX: usize = 16;

/// Threads of a gateway of a group that read what other gateways have changed in reservations. They
/// wait for the cluster alone, never for another gateway.
pub const RESERVATION_READERS_MAX: usize = 4;

/// Unflushed writes that are written again at a time, after a restart of their target.
pub const REPLAY_OPS: usize = 16;

/// Bytes that are read back at a time to look whether a target that may have restarted still has
/// what was not flushed; [`REPLAY_OPS`] of them are in memory.
pub const LOOK_BYTES: usize = 64 << 10;

/// Bytes written as zeroes without a flush that are read back after a restart; of more the next
/// flush fails, so that I/O does not wait for ever.
pub const LOOK_ZEROES_BYTES_MAX: u64 = 1 << 30;

/// Attempts to write unflushed data again that a target answers with an error; then the data is
/// lost, and the next flush fails.
pub const REPLAY_ATTEMPTS: u32 = 8;

/// Maximum bytes of completed writes of a device that are kept until a flush, to write them again
/// if the target restarts (--unflushed). If there are more when it does, the next flush fails.
pub const UNFLUSHED_BYTES: usize = 64 << 20;

const _: () = assert!(
    weft_proto::limits::CONTROLLERS_MAX as usize >= CONNECTIONS_MAX,
    "connections run out first: they are shared fairly"
);
const _: () = assert!(TRANSFER_BYTES_MAX as usize <= weft_io::limits::BUF_BYTES_MAX);
const _: () = assert!(IN_CAPSULE_BYTES.is_multiple_of(16));
const _: () =
    assert!(SPARE_BYTES_MIN >= IN_CAPSULE_BYTES, "data in a capsule is copied once anyhow");
const _: () = assert!(
    ISCSI_PDU_BYTES <= ISCSI_BURST_BYTES,
    "a burst holds at least one PDU (RFC 7143 §13.13, §13.14)"
);
const _: () = assert!(
    TRANSFER_BYTES_MAX as usize * POOL_PARTS <= CONTROL_POOL_BYTES,
    "the control loop serves every admin command"
);
const _: () = assert!(
    IN_CAPSULE_BYTES as usize <= GUARANTEED_BYTES,
    "a capsule's data is guaranteed to who has nothing else"
);
const _: () = assert!(ADMIN_DATA_BYTES_MAX as usize <= CONTROL_POOL_BYTES);
const _: () =
    assert!(ADMIN_TIMEOUT_S < ADMIN_COMMAND_S, "the association ends before its caller gives up");
const _: () = assert!(ANSWER_US_MIN < ANSWER_US_MAX, "a share that fits is left alone");
const _: () =
    assert!(SHARE_BYTES_MIN_BARE <= SHARE_BYTES_MIN && SHARE_BYTES_MIN <= SHARE_BYTES_FIRST);
const _: () = assert!(SHARE_BYTES_FIRST <= STAGING_BYTES, "a share is staged in one buffer");
const _: () =
    assert!(WHOLE_BYTES_MAX as usize <= STAGING_BYTES, "a payload that is shown whole is staged");
const _: () = assert!(
    DIRECT_BYTES_MIN <= LARGE_PAYLOAD_BYTES,
    "a large payload is received straight into place"
);
const _: () = assert!(
    STAGED_BEFORE_LARGE_BYTES < DIRECT_BYTES_MIN as usize,
    "next to nothing of a payload is staged"
);
const _: () =
    assert!(RECEIVE_PIECES >= TRANSFER_BYTES_MAX as usize / weft_io::region::CHUNK_BYTES + 2);
const _: () = assert!(
    GATHER_PARTS < GATHER_SLICES,
    "a list whose payloads lie in one piece each goes out in one call"
);
const _: () =
    assert!(STAGING_BYTES >= weft_proto::stream::HEADER_MAX, "a header is parsed in one piece");
const _: () =
    assert!(DRAIN_S > CLOSE_S, "a connection that is cut off does not keep a target from stopping");

/// Maximum bytes that a target with `loops` loops of `pool_bytes` payload memory each and
/// `connections` connections uses, without the program itself and what its devices hold (the blocks
/// of a RAM disk; for each file, [`weft_block::limits::FILE_SCRATCH_OPS`] transfers of the maximum
/// length): pools, staging buffers, and for each connection its tables, the data that it sent ahead
/// while it waits for memory, a gather list that it does not receive, and the memory of one command
/// beyond the cap. Connections with queues of more than 128 entries use proportionally more.
pub fn target_bytes(loops: usize, pool_bytes: usize, connections: usize) -> usize {
    loops * (pool_bytes + STAGING_BYTES)
        + connections * (CONNECTION_BYTES + STAGING_BYTES + GATHER_BYTES + GUARANTEED_BYTES)
}
