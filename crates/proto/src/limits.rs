//! Every limit of the engines, with its unit and the effect of reaching it.

/// Maximum outstanding commands of a queue: the largest queue that this crate offers (CAP.MQES +
/// 1). A host that submits more commands than its queue holds is disconnected with a TermReq.
pub const QUEUE_ENTRIES_MAX: u16 = 1024;

/// Maximum entries of an admin queue.
pub const ADMIN_QUEUE_ENTRIES_MAX: u16 = 128;

/// MAXH2CDATA of a target, in bytes: the maximum data of one H2CData PDU, so that small commands of
/// the host do not wait longer behind a large write. A larger PDU ends the connection.
pub const H2C_DATA_MAX_BYTES: u32 = 128 << 10;

/// Maximum data of one C2HData PDU of a target, bytes; longer reads use several, and other commands
/// are sent between them.
pub const C2H_DATA_MAX_BYTES: u32 = 512 << 10;

/// Bytes that a target requests with one R2T; longer writes use several.
pub const R2T_MAX_BYTES: u32 = 1 << 20;

/// Maximum outstanding R2Ts of one command, for both ends. A host that receives more closes the
/// connection.
pub const R2T_OUTSTANDING_MAX: u8 = 8;

/// Source ranges of a Copy command (MSRC + 1). A command with more fails with Command Size Limit
/// Exceeded.
pub const COPY_RANGES_MAX: u32 = 128;

/// Maximum data that a Copy command copies, in bytes (MCL), and that one of its source ranges does
/// (MSSRL, at most 65,535 blocks). More fails with Command Size Limit Exceeded. A command that
/// copies uses about 5 KiB, and memory for one piece of its data.
pub const COPY_MAX_BYTES: u32 = 32 << 20;

/// Maximum data that a Copy command reads and writes at once, in bytes; the rest follows.
pub const COPY_PIECE_BYTES: u32 = 1 << 20;

/// Default maximum data of one command of a target, in bytes (announced as MDTS). Longer commands
/// fail with Invalid Field.
pub const TRANSFER_MAX_BYTES: u32 = 1 << 20;

/// Namespaces of a subsystem (MNAN), with any identifiers. Adding more fails; an entry uses about
/// 200 bytes.
pub const NAMESPACES_MAX: u32 = 1024;

/// Default maximum controllers of a subsystem. A further host is refused with Connect Controller
/// Busy.
pub const CONTROLLERS_MAX: u16 = 4096;

/// Default maximum I/O queues of a controller. The feature Number of Queues allocates at most this
/// many, and fewer if few connections are left. A Connect with a higher queue identifier is refused
/// with Connect Invalid Parameters.
pub const IO_QUEUES_MAX: u16 = 128;

/// Maximum I/O queues of a controller that can be configured (`--max-queues`).
pub const IO_QUEUES_CONFIGURED_MAX: u16 = 1024;

/// Asynchronous Event Requests that a controller holds (AERL + 1). A further one fails with
/// Asynchronous Event Request Limit Exceeded.
pub const ASYNC_EVENTS_MAX: usize = 4;

/// Abort commands that a controller executes at a time (ACL + 1). A further one is answered as not
/// aborted.
pub const ABORTS_MAX: usize = 4;

/// ANA groups (ANAGRPMAX, NANAGRPID): identifiers go from 1 to this. As many as nvmet has.
pub const ANA_GROUPS_MAX: u32 = 128;

/// Maximum seconds of a change of an ANA state (ANATT), as nvmet reports it. Hosts retry refused
/// commands for that time.
pub const ANA_TRANSITION_S: u8 = 10;

/// Cross-Controller Resets that a controller executes at a time (CCRL). A further one fails with
/// Cross-Controller Reset Limit Exceeded.
pub const CROSS_RESETS_EXECUTED_MAX: u8 = 4;

/// Milliseconds for which a controller may go on with commands after its keep alive timer has run
/// out (CQT): as long as a reset may take.
pub const CONTROLLER_QUIESCE_MS: u16 = READY_TIMEOUT_MS as u16;

/// Entries of the log page Error Information (ELPE + 1), 64 bytes each per controller; a new entry
/// replaces the oldest.
pub const ERROR_ENTRIES_MAX: usize = 64;

/// Seconds for a peer to complete the first steps of a connection: NVMe's Connect, iSCSI's login,
/// NBD's choice of an export. Slower connections are closed.
pub const HANDSHAKE_S: u64 = 10;

/// Granularity of the Keep Alive Timer in milliseconds (KAS): timeouts are rounded up to it.
pub const KEEP_ALIVE_GRANULARITY_MS: u32 = 1_000;

/// Milliseconds for which a controller exists after its host's last admin command if no keep alive
/// timer runs: when it is disabled or shut down, or is a discovery controller without keep alive.
/// Base §3.3.2.4 requires at least two minutes. Then the association is ended.
pub const ASSOCIATION_IDLE_MS: u32 = 120_000;

/// Time limit for a controller to become ready, to reset and to shut down, in milliseconds, as
/// reported in CAP.TO, CRTO and RTD3E. It allows the device to finish the writes that it has. Hosts
/// give up after it.
pub const READY_TIMEOUT_MS: u32 = 30_000;

/// Commands after which an I/O queue adds its counters to those of the log page SMART / Health
/// Information.
pub const STATISTICS_COMMANDS: u64 = 1024;

/// Namespaces of a remote subsystem that a host scans; an entry uses about 700 bytes. A namespace
/// with a higher identifier can only be opened by its identifier.
pub const REMOTE_NAMESPACES_MAX: usize = 4096;

/// ANA groups of a remote subsystem that a host follows. Namespaces in a group beyond them count as
/// inaccessible.
pub const REMOTE_ANA_GROUPS_MAX: usize = 1024;

/// Cross-Controller Reset commands that a host has outstanding at a controller; further ones wait.
pub const CROSS_RESETS_MAX: usize = 4;

/// Entries of a discovery log that a host reads, 1 KiB each. A longer log is refused.
pub const DISCOVERY_ENTRIES_MAX: usize = 4096;

/// Times that a host restarts reading a discovery log that changes while it reads. Then it gives
/// up.
pub const DISCOVERY_ATTEMPTS_MAX: u32 = 10;

/// Commands of a host that are being aborted or waiting for that. With one more, the controller is
/// reset instead.
pub const STUCK_COMMANDS_MAX: usize = 128;

/// Bytes of the text of one iSCSI login step or text exchange, over all its PDUs. A longer text
/// ends the connection.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

/// Bytes of additional header segments of an iSCSI PDU. They are skipped; a PDU with more ends the
/// connection.
pub const AHS_BYTES_MAX: usize = 200;

/// Logical units of a SCSI target, and the highest LUN plus one. Adding more fails.
pub const SCSI_UNITS_MAX: usize = 256;

/// Target ports of a SCSI target, which are the portal groups of iSCSI: one for each address that
/// it listens at. Adding more fails.
pub const SCSI_PORTS_MAX: usize = 64;

/// Registrants of the reservations of one namespace, of all protocols together. A further
/// registration fails with Reservation Conflict (NVMe) or Insufficient Registration Resources
/// (SCSI).
pub const REGISTRANTS_MAX: usize = 128;

/// Unread reservation notifications of an NVMe controller. A further one replaces the oldest; the
/// host sees by their counts that some were lost.
pub const RESERVATION_NOTICES_MAX: usize = 64;

/// Maximum response of a logical unit other than blocks, bytes: the full status of all
/// registrations.
pub const SCSI_RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Maximum parameter list of MODE SELECT, bytes. A longer one fails with Parameter List Length
/// Error.
pub const SCSI_MODE_LIST_BYTES_MAX: u32 = 512;

/// Ranges of one UNMAP (reported in the VPD page Block Limits). More fail with Invalid Field in
/// Parameter List.
pub const SCSI_UNMAP_RANGES_MAX: u32 = 128;

/// Maximum bytes that one WRITE SAME writes (reported in the VPD page Block Limits, in blocks).
/// More fail with Invalid Field in CDB.
pub const SCSI_WRITE_SAME_BYTES_MAX: u64 = 16 << 20;

/// Bytes of blocks that a VERIFY, or a WRITE SAME that has to write data, handles in one step: its
/// memory.
pub const SCSI_STEP_BYTES: u32 = 256 << 10;

/// Default maximum outstanding commands of an iSCSI session (MaxCmdSN). Initiators hold back
/// further ones; as the standard requires, the target ignores commands beyond it.
pub const SESSION_COMMANDS_MAX: u16 = 128;

/// Maximum outstanding immediate commands and task management functions of an iSCSI session.
/// Further ones are rejected.
pub const IMMEDIATE_COMMANDS_MAX: u16 = 16;

/// Requests of one iSCSI login. A longer login is refused.
pub const LOGIN_STEPS_MAX: u32 = 64;

/// Keys of one iSCSI login that are answered with NotUnderstood, or that come again. More end the
/// login.
pub const UNKNOWN_KEYS_MAX: u32 = 64;

/// Bytes of login responses that may wait for the initiator to receive them when its next request
/// arrives. More end the connection.
pub const LOGIN_REPLIES_BYTES_MAX: usize = 16 << 10;

/// Maximum data of a NOP-Out that is echoed, bytes. A ping with more is rejected.
pub const PING_BYTES_MAX: u32 = 8 << 10;

/// Seconds of silence after which an iSCSI target pings the initiator.
pub const PING_AFTER_S: u64 = 15;

/// Seconds for an iSCSI initiator to answer a target's ping. Then its session ends.
pub const PING_TIMEOUT_S: u64 = 15;

/// Bytes of responses to pings, texts and similar requests that wait for the initiator to receive
/// them, and of the response to one text. More end the connection.
pub const REPLIES_BYTES_MAX: usize = 64 << 10;

/// Maximum data of one Data-In PDU of an iSCSI target, bytes, if the initiator accepts that much;
/// longer reads use several, and other commands are sent between them.
pub const DATA_IN_MAX_BYTES: u32 = 256 << 10;

/// Maximum data of one PDU that an iSCSI initiator accepts (MaxRecvDataSegmentLength), in bytes. A
/// target that sends more is disconnected.
pub const ISCSI_RECEIVE_BYTES: u32 = 512 << 10;

/// Maximum data that an iSCSI initiator offers to be asked for at once, and to receive in one
/// sequence (MaxBurstLength), in bytes; the target may choose less. An R2T for more ends the
/// session.
pub const ISCSI_BURST_BYTES: u32 = 1 << 20;

/// Unsolicited data that an iSCSI initiator offers to send (FirstBurstLength), in bytes; the target
/// may choose less.
pub const ISCSI_FIRST_BURST_BYTES: u32 = 256 << 10;

/// Maximum data that an iSCSI initiator puts into one PDU, in bytes, even if the target accepts
/// more, so that other commands do not wait longer.
pub const ISCSI_DATA_OUT_BYTES: u32 = 256 << 10;

/// Data of one PDU before a successful login, in bytes: the default MaxRecvDataSegmentLength. More
/// ends the connection.
pub const ISCSI_LOGIN_TEXT_BYTES: u32 = 8192;

/// Login responses of one login. If the target negotiates longer, the initiator gives up.
pub const ISCSI_LOGIN_EXCHANGES_MAX: u32 = 32;

/// Bytes of the list of targets that a discovery session accepts. A longer list ends the session.
pub const ISCSI_TARGETS_BYTES_MAX: usize = 4 << 20;

/// Maximum text responses that transfer such a list.
pub const ISCSI_TEXT_EXCHANGES_MAX: u32 = 8192;

/// Pings of a target whose answers may wait to be sent. A target that sends more is disconnected.
pub const ISCSI_PINGS_MAX: usize = 16;

/// Outstanding requests of one NBD connection: a server reads no more until one completes, a client
/// holds back more. A slot uses about 100 bytes.
pub const NBD_REQUESTS_MAX: u16 = 256;

/// Maximum string of NBD, bytes, as in the specification.
pub const NBD_STRING_BYTES_MAX: usize = 4096;

/// Data of an NBD option, or of the reply to one, that is kept, bytes. A server discards more and
/// answers that the option is too big; a client ends the connection.
pub const NBD_OPTION_BYTES_MAX: usize = 16 << 10;

/// Maximum payload of an NBD request, bytes: what a server should accept if it announces nothing. A
/// longer one ends the connection.
pub const NBD_PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Responses of an NBD server to options, bytes, that wait to be sent; it reads no more options
/// until they are sent.
pub const NBD_NEGOTIATION_BYTES: usize = 64 << 10;

/// Replies of an NBD server to one option. If there are more, the client ends the connection.
pub const NBD_OPTION_REPLIES_MAX: u32 = 64;

/// Extents of which an NBD server may tell in the answer to one block status request. More end the
/// connection. It is what the largest of servers send; none of them is kept here.
pub const NBD_EXTENTS_MAX: u64 = 1 << 20;

/// Out-of-order pieces in which an NBD server may send the data of one read. More end the
/// connection.
pub const NBD_FRAGMENTS_MAX: usize = 1024;

/// Pre-shared keys for TLS that one end knows. A file with more is refused.
pub const PSK_KEYS_MAX: usize = 1024;

/// Characters of what a peer says that are shown to a person; the longest names of NVMe and iSCSI
/// have 223.
pub const PRINTABLE_CHARS_MAX: usize = 256;

/// Maximum entries of a virtqueue. A front end that asks for more is disconnected.
pub const VIRTIO_QUEUE_SIZE_MAX: u16 = 1024;

/// Maximum pieces of memory of one request of a virtqueue, in the ring or in its table. A longer
/// chain breaks its queue.
pub const VIRTIO_CHAIN_PIECES_MAX: usize = 1024;

/// Data segments of a request that a virtio block device announces (`seg_max`): with the header and
/// the status, 128 descriptors.
pub const VIRTIO_SEGMENTS_MAX: u32 = 126;

/// Ranges of one discard or write zeroes command of a virtio block device (`max_discard_seg`,
/// `max_write_zeroes_seg`). A command with more fails.
pub const VIRTIO_RANGES_MAX: u32 = 16;

/// Sectors of 512 bytes of one such range. A longer one fails.
pub const VIRTIO_RANGE_SECTORS_MAX: u32 = 1 << 22;

/// Queues of a vhost-user device: as many as there are bits for in its messages.
pub const VHOST_USER_QUEUES_MAX: u16 = 64;

/// Memory regions of a vhost-user front end. A further one is refused.
pub const VHOST_USER_REGIONS_MAX: usize = 64;

/// Bytes of a vhost-user message. A front end that sends a longer one is disconnected.
pub const VHOST_USER_MESSAGE_BYTES_MAX: usize = 4096;

/// Descriptors that come with one vhost-user message. A front end that sends more is disconnected.
pub const VHOST_USER_DESCRIPTORS_MAX: usize = 8;
