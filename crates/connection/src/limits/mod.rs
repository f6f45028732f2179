//! Every limit of sources and exports, with its unit and the effect of reaching it.

mod authentication;
mod capture;
mod disks;
mod paths;
mod pump;

pub use authentication::*;
pub use capture::*;
pub use disks::*;
pub use paths::*;
pub use pump::*;

/// Default maximum connections of a target (`--max-connections`), with those that controllers were
/// granted and have not used. Further ones are closed when they are accepted, and logged.
pub const CONNECTIONS_MAX: usize = 4096;

/// Maximum connections of one export that are not admitted yet: before NVMe's Connect, iSCSI's
/// login, NBD's choice of an export. Further connections are closed when they are accepted. Such a
/// connection uses about 64 KiB at most, for at most `HANDSHAKE_S`.
pub const NEWCOMERS_MAX: usize = 1024;

/// Connections that each address is guaranteed, if any are left. Above this number, an address may
/// hold at most [`HOST_TIMES_LEFT`] times as many connections as it leaves to others; the same
/// applies to connections that are not admitted yet. An address is an IPv4 address, or the first 64
/// bits of an IPv6 address.
pub const CONNECTIONS_GUARANTEED: usize = 16;

/// A controller is granted I/O queues from one of this many parts of the connections that are left
/// to its address, so that further controllers get some, too...
pub const GRANT_PARTS: usize = 8;

/// ...and at least this many, as far as they are left.
pub const GRANT_LEAST: usize = 4;

/// Minimum connections of a target that can be configured (`--max-connections`)...
pub const CONNECTIONS_CONFIGURED_MIN: usize = CONNECTIONS_GUARANTEED;

/// ...and the maximum.
pub const CONNECTIONS_CONFIGURED_MAX: usize = 65_000;

/// Entries of a queue over RDMA for which memory counts when queues are granted: what hosts ask for
/// by default.
pub const RDMA_GRANTED_ENTRIES: usize = 128;

/// Maximum ports of other gateways of its group of which an export's discovery tells, for each of
/// NVMe and iSCSI: 64 gateways with 8 listeners each. Further ports are not listed.
pub const OTHER_PORTS_MAX: usize = 512;

/// Maximum memory of a connection with a queue of 128 entries, without payload, bytes: tables of
/// commands, headers to be sent, and received bytes of incomplete commands. An idle connection uses
/// less than two thirds of this; deeper queues use proportionally more. Only the sizes of the
/// tables enforce it; `cargo xtask race --memory` and a gate measure it.
pub const CONNECTION_BYTES: usize = 48 << 10;

/// Maximum data in a command capsule of an I/O queue, in bytes; larger writes use R2T.
pub const IN_CAPSULE_BYTES: u32 = 8192;

/// Maximum compare-and-write of an NVMe host, bytes, though at least a block (NACWU): the first
/// half waits for the second one, and what a capsule carries takes no memory of the pool until
/// then.
pub const FUSED_BYTES_MAX: u32 = 4096;

/// Maximum transfer of one command, bytes (MDTS); less if the device accepts less.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Maximum data in a command capsule of an I/O queue over RDMA, in bytes; larger writes are read
/// from the host's memory. Each entry of a queue has a receive of this size.
pub const RDMA_IN_CAPSULE_BYTES: u32 = 4096;

/// Interval at which the counters of SMART logs are saved for the next process, seconds; a process
/// that is killed loses what it has counted since the last time.
pub const HEALTH_INTERVAL_S: u64 = 300;

/// Maximum files with the counters of subsystems. For a further subsystem the file that was written
/// longest ago is removed.
pub const HEALTH_FILES_MAX: usize = 256;

/// Maximum length of such a file, bytes; a longer one counts as damaged.
pub const HEALTH_FILE_BYTES_MAX: u64 = 4096;

/// Maximum names of files and disks that are recorded in the state directory. At this number, those
/// of files that are gone are removed before a further one is recorded.
pub const DISK_NAMES_MAX: usize = 4096;

/// Maximum length of the record of a name, bytes; a longer one counts as damaged.
pub const DISK_NAME_BYTES_MAX: u64 = 256 << 10;

/// Maximum places in the record of a file at which it was found; they tell a copy of its file
/// system apart.
pub const DISK_PLACES_MAX: usize = 8;

/// Seconds that a process waits for another one that records a name. Then it gives a name that is
/// not recorded, and says so.
pub const DISK_NAME_S: u64 = 30;

/// Seconds that a process waits for another one that looks which controller identifiers others
/// give. Then it serves, and warns.
pub const CLAIM_S: u64 = 5;

/// Maximum length of the file that a disk's process keeps for the one that takes the disk over,
/// bytes. A longer one counts as none.
pub const KEPT_RECORD_BYTES_MAX: u64 = 1 << 20;

/// Pieces of a device's own memory that one RDMA WRITE sends; results in more pieces are copied. A
/// RAM disk has pieces of 64 KiB, so these are enough for the largest transfer.
pub const RDMA_LENT_PIECES: u8 = 17;

/// Memory for receives of all connections over RDMA, bytes. Connections beyond are rejected, as
/// with [`CONNECTIONS_MAX`].
pub const RDMA_RECEIVES_BYTES_MAX: usize = 1 << 30;

/// The part of it that connections may have whose Connect was not accepted yet, bytes.
pub const RDMA_RECEIVES_NEWCOMERS_BYTES: usize = 64 << 20;

/// The part of both that is guaranteed to each address, if it is left: a queue with the most
/// entries. Above this, an address may hold at most [`HOST_TIMES_LEFT`] times as much as it leaves
/// to others.
pub const RDMA_RECEIVES_GUARANTEED_BYTES: usize = 8 << 20;

/// Events of a queue pair that one turn takes.
pub const RDMA_EVENTS_PER_TURN: usize = 256;

/// Lines of the log of one kind that peers and other users can cause, logged at once: refused peers
/// of an export, clients of the control socket and of metrics, hosts whose keep alive expired...
pub const REFUSALS_LOGGED_MAX: u32 = 20;

/// ...and seconds until each further one is logged; the log reports the number of omitted ones.
pub const REFUSALS_LOGGED_STEP_S: u64 = 5;

/// Seconds in which one failure of each kind of a device is logged.
pub const FAILURES_LOGGED_STEP_S: u64 = 60;
/// Devices and kinds of failures that the log tells apart.
pub const FAILURE_KINDS_MAX: usize = 256;

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

/// iSCSI initiator ports that a target remembers when their sessions have ended. When one that is
/// not remembered comes again, the target reports a power on (29h/00h) instead of a lost nexus
/// (29h/07h), and the initiator may write unflushed data again.
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

/// Maximum data of an admin command of a user, bytes. A longer one is refused.
pub const ADMIN_DATA_BYTES_MAX: u32 = 128 << 10;

/// Data that a source of NVMe has its controller copy with one command, bytes: so that the command
/// ends within the time limit of I/O, and a copy can be stopped.
pub const OFFLOAD_BYTES_MAX: u32 = 8 << 20;

/// Requests for extents that a source of NBD has under way.
pub const EXTENT_REQUESTS_MAX: usize = 4;

/// Runs of data of an NBD export that are kept, 16 bytes each. What is behind them counts as data.
pub const EXTENT_RUNS_MAX: usize = 1 << 20;

/// Seconds after which weft stops asking an NBD server for extents. Blocks whose extents the server
/// has not returned count as data.
pub const EXTENTS_S: u64 = 10;

/// Maximum data of an I/O command of a user, bytes. A longer one is refused.
pub const PASSTHROUGH_BYTES_MAX: u32 = 1 << 20;

/// Seconds that a controller may take for an admin command of an association, including an Abort
/// and the aborted command; less if the time limit for I/O is lower. Then the association ends.
pub const ADMIN_TIMEOUT_S: u64 = 10;

/// Discovery controllers to which others refer, that are asked for paths; further ones are not.
pub const REFERRALS_MAX: usize = 16;

/// Paths that discovery gives for a subsystem or target; further ones are left out.
pub const DISCOVERED_PATHS_MAX: usize = 64;

/// Maximum records of one discovery that are skipped with a line in the log each; of further ones
/// only the number is logged.
pub const SKIPPED_LOGGED_MAX: usize = 8;

/// Addresses of subsystems that a discovery controller and those to which it refers give together;
/// further ones are left out.
pub const DISCOVERED_URLS_MAX: usize = 4096;

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

/// Operations of a queue of an export without a network that have not been reaped; further ones
/// stay with the caller.
pub const LOCAL_COMMANDS_MAX: usize = 256;

/// Attempts of an NBD request to write a part of a block by compare-and-write, while others change
/// the block. Then it fails.
pub const NBD_MERGES_MAX: u32 = 1024;

/// Minimum preferred block size of an NBD export, bytes; clients write whole blocks if they can.
pub const NBD_PREFERRED_BYTES: u32 = 4096;

/// Threads of a gateway of a group that execute operations on reservations, one namespace each. All
/// wait for the same cluster and the same other gateways; operations on further namespaces wait for
/// a thread.
pub const RESERVATION_THREADS_MAX: usize = 16;

/// Threads of a gateway of a group that read what other gateways have changed in reservations. They
/// wait for the cluster alone, never for another gateway.
pub const RESERVATION_READERS_MAX: usize = 4;

const _: () = assert!(
    weft_proto::nvme::controller::CNTLID_MAX as usize >= CONNECTIONS_CONFIGURED_MAX,
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
