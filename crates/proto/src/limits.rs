//! Every limit of the engines, with its unit and what happens when it is reached.

/// Commands that one queue may have outstanding: the largest queue this crate offers (CAP.MQES + 1). A host that submits more
/// than its queue holds is cut off with a TermReq.
pub const QUEUE_ENTRIES_MAX: u16 = 1024;

/// Entries of an admin queue, at most.
pub const ADMIN_QUEUE_ENTRIES_MAX: u16 = 128;

/// MAXH2CDATA that a target offers, in bytes: a host puts no more into one H2CData PDU, so that its small commands need not wait
/// behind a large write for longer than that. A larger PDU ends the connection.
pub const H2C_DATA_MAX_BYTES: u32 = 128 << 10;

/// Bytes that a target puts into one C2HData PDU; longer reads take several, between which other commands get their turn.
pub const C2H_DATA_MAX_BYTES: u32 = 512 << 10;

/// Bytes that a target asks for with one R2T; longer writes take several.
pub const R2T_MAX_BYTES: u32 = 1 << 20;

/// R2Ts that may be outstanding for one command, of either end, at most. A host that receives more closes the connection.
pub const R2T_OUTSTANDING_MAX: u8 = 8;

/// Data of one command that a target takes or sends unless configured otherwise, in bytes (to be announced as MDTS). Longer
/// commands fail with Invalid Field.
pub const TRANSFER_MAX_BYTES: u32 = 1 << 20;

/// Namespaces of a subsystem (MNAN), whatever their identifiers. Adding a further one fails; an entry takes about 200 bytes.
pub const NAMESPACES_MAX: u32 = 1024;

/// Controllers of a subsystem unless configured otherwise. A further host is refused with Connect Controller Busy.
pub const CONTROLLERS_MAX: u16 = 4096;

/// I/O queues of a controller unless configured otherwise. The feature Number of Queues tells it; a Connect with a higher queue
/// identifier is refused with Connect Invalid Parameters.
pub const IO_QUEUES_MAX: u16 = 128;

/// Asynchronous Event Requests that a controller holds (AERL + 1). A further one fails with Asynchronous Event Request Limit
/// Exceeded.
pub const ASYNC_EVENTS_MAX: usize = 4;

/// Abort commands that a controller executes at once (ACL + 1). A further one is answered as not aborted.
pub const ABORTS_MAX: usize = 4;

/// Entries of the log page Error Information (ELPE + 1), 64 bytes each per controller; the oldest is forgotten for a new one.
pub const ERROR_ENTRIES_MAX: usize = 64;

/// Seconds from accepting a connection to the end of what a peer has to do first: NVMe's Connect, iSCSI's login, NBD's choice of an export.
/// Slower ones are closed.
pub const HANDSHAKE_S: u64 = 10;

/// Granularity of the Keep Alive Timer in milliseconds (KAS): timeouts are rounded up to it.
pub const KEEP_ALIVE_GRANULARITY_MS: u32 = 1_000;

/// How long, in milliseconds, a controller outlives its host's last admin command while no keep alive timer runs: when it is
/// disabled or shut down, or is a discovery controller without keep alive. Base §3.3.2.4 asks for two minutes at least. Then the
/// association is ended.
pub const ASSOCIATION_IDLE_MS: u32 = 120_000;

/// How long a controller may take to become ready, to reset and to shut down, in milliseconds, as CAP.TO, CRTO and RTD3E tell:
/// time for the device to finish the writes that it has. Hosts give up after it.
pub const READY_TIMEOUT_MS: u32 = 30_000;

/// Commands after which an I/O queue adds its counters to those of the log page SMART / Health Information.
pub const STATISTICS_COMMANDS: u64 = 1024;

/// Namespaces of a remote subsystem that a host looks at; an entry takes about 700 bytes. Those with higher identifiers can be had
/// by asking for one of them alone.
pub const REMOTE_NAMESPACES_MAX: usize = 4096;

/// Entries of a discovery log that a host reads, 1 KiB each. A longer log is refused.
pub const DISCOVERY_ENTRIES_MAX: usize = 4096;

/// How often a host begins anew to read a discovery log that changes under it, before it gives up.
pub const DISCOVERY_ATTEMPTS_MAX: u32 = 10;

/// Commands of a host that are being aborted or wait for that at one time. One more, and the controller is reset instead.
pub const STUCK_COMMANDS_MAX: usize = 128;

/// Bytes of the text of one iSCSI login step or text exchange, over all PDUs that carry it. A longer one ends the connection.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

/// Bytes of additional header segments of an iSCSI PDU. They are skipped; a PDU with more ends the connection.
pub const AHS_BYTES_MAX: usize = 200;

/// Logical units of a SCSI target, and one more than the highest LUN. Adding a further one fails.
pub const SCSI_UNITS_MAX: usize = 256;

/// Registrations of persistent reservations on one logical unit. A further one fails with Insufficient Registration Resources.
pub const SCSI_REGISTRATIONS_MAX: usize = 128;

/// Bytes of the longest response of a logical unit other than blocks: the full status of all registrations.
pub const SCSI_RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Bytes of the longest parameter list of MODE SELECT. A longer one fails with Parameter List Length Error.
pub const SCSI_MODE_LIST_BYTES_MAX: u32 = 512;

/// Ranges of one UNMAP (told in the page Block Limits). More fail with Invalid Field in Parameter List.
pub const SCSI_UNMAP_RANGES_MAX: u32 = 128;

/// Bytes that one WRITE SAME writes, at most (told in the page Block Limits in blocks). More fail with Invalid Field in CDB.
pub const SCSI_WRITE_SAME_BYTES_MAX: u64 = 16 << 20;

/// Bytes of blocks that a VERIFY, or a WRITE SAME that has to write data, handles in one step: its memory.
pub const SCSI_STEP_BYTES: u32 = 256 << 10;

/// Commands that an iSCSI session may have outstanding unless configured otherwise (MaxCmdSN). Initiators wait with more; those that
/// are sent nevertheless are ignored, as the standard has it.
pub const SESSION_COMMANDS_MAX: u16 = 128;

/// Immediate commands and task management functions that an iSCSI session may have outstanding. Further ones are rejected.
pub const IMMEDIATE_COMMANDS_MAX: u16 = 16;

/// Requests of one iSCSI login. A longer login is refused.
pub const LOGIN_STEPS_MAX: u32 = 64;

/// Keys of one iSCSI login that are answered with NotUnderstood, or that come again. More end the login.
pub const UNKNOWN_KEYS_MAX: u32 = 64;

/// Bytes of login responses that may wait for the initiator to take them when its next request comes. More end the connection.
pub const LOGIN_REPLIES_BYTES_MAX: usize = 16 << 10;

/// Data of a NOP-Out, bytes, that is echoed. A ping with more is rejected.
pub const PING_BYTES_MAX: u32 = 8 << 10;

/// Seconds of silence after which an iSCSI target pings the initiator.
pub const PING_AFTER_S: u64 = 15;

/// Seconds that an iSCSI initiator gets to answer a target's ping. Then its session ends.
pub const PING_TIMEOUT_S: u64 = 15;

/// Bytes of answers to pings, texts and the like that wait until the initiator takes them, and of the answer to one text. More of them end the
/// connection.
pub const REPLIES_BYTES_MAX: usize = 64 << 10;

/// Data that an iSCSI target puts into one Data-In PDU, bytes, where the initiator takes so much; longer reads take several, between which
/// other commands get their turn.
pub const DATA_IN_MAX_BYTES: u32 = 256 << 10;

/// Data that an iSCSI initiator takes in one PDU (MaxRecvDataSegmentLength), in bytes. A target that sends more is cut off.
pub const ISCSI_RECEIVE_BYTES: u32 = 512 << 10;

/// Data that an iSCSI initiator wants to be asked for at once, and to get in one sequence (MaxBurstLength), in bytes; the target may
/// want less. An R2T for more ends the session.
pub const ISCSI_BURST_BYTES: u32 = 1 << 20;

/// Data that an iSCSI initiator wants to send without being asked (FirstBurstLength), in bytes; the target may want less.
pub const ISCSI_FIRST_BURST_BYTES: u32 = 256 << 10;

/// Data that an iSCSI initiator puts into one PDU, in bytes, whatever more the target takes: other commands need not wait for longer.
pub const ISCSI_DATA_OUT_BYTES: u32 = 256 << 10;

/// Data of one PDU before login has succeeded, in bytes: MaxRecvDataSegmentLength by default. More ends the connection.
pub const ISCSI_LOGIN_TEXT_BYTES: u32 = 8192;

/// Login responses of one login. A target that wants to negotiate longer is given up.
pub const ISCSI_LOGIN_EXCHANGES_MAX: u32 = 32;

/// Bytes of the list of targets that a discovery session takes. A longer one ends the session.
pub const ISCSI_TARGETS_BYTES_MAX: usize = 4 << 20;

/// Text responses that such a list may come in.
pub const ISCSI_TEXT_EXCHANGES_MAX: u32 = 8192;

/// Pings of a target that may wait for their answer to be sent. A target that sends more is cut off.
pub const ISCSI_PINGS_MAX: usize = 16;

/// Requests under way on one NBD connection, in either direction: a server reads no more meanwhile, a client holds more back. A slot takes
/// about 100 bytes.
pub const NBD_REQUESTS_MAX: u16 = 256;

/// Longest string of NBD, bytes. The specification's own limit.
pub const NBD_STRING_BYTES_MAX: usize = 4096;

/// Data of an NBD option, or of the reply to one, that is kept, bytes. More is thrown away by a server, which answers that it is too
/// big, and ends the connection of a client.
pub const NBD_OPTION_BYTES_MAX: usize = 16 << 10;

/// Longest payload of an NBD request, bytes: what a server should take where it says nothing. A longer one ends the connection.
pub const NBD_PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Answers of an NBD server to options, bytes, that wait to be sent; it reads no more options meanwhile.
pub const NBD_NEGOTIATION_BYTES: usize = 64 << 10;

/// Replies of an NBD server to one option, beyond which a client takes it for mad and ends the connection.
pub const NBD_OPTION_REPLIES_MAX: u32 = 64;

/// Pieces, out of order, in which an NBD server may send the data of one read. More end the connection.
pub const NBD_FRAGMENTS_MAX: usize = 1024;
