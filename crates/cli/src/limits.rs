//! Limits of the program.

/// Payload memory of an event loop at least, in bytes: with a few KiB no host could even connect,
/// so less is a mistake.
pub const POOL_BYTES_MIN: u64 = 1 << 20;

/// Longest request on a control socket, in bytes: a line with a whole configuration.
pub const REQUEST_BYTES_MAX: usize = 5 << 20;

/// Longest configuration of a group of gateways, in bytes: some 40,000 namespaces.
pub const GROUP_CONFIGURATION_BYTES_MAX: usize = 4 << 20;

/// Seconds that a gateway of a group waits for the cluster's monitors when it may not serve any
/// more; then it ends, and its hosts turn to others.
pub const GROUP_MONITORS_S: u64 = 4;

/// Clients of one control socket at a time; further ones are refused.
pub const CONTROL_CLIENTS_MAX: usize = 16;

/// Seconds that a client of a control socket may take to read an answer, before it loses its
/// connection.
pub const CONTROL_SEND_S: u64 = 10;

/// Seconds after which a client of a control socket that asks nothing loses its connection.
pub const CONTROL_IDLE_S: u64 = 600;

/// Seconds that a command waits for an answer of a server: opening a source may take as long as
/// connecting does.
pub const CONTROL_ANSWER_S: u64 = 120;

/// Longest answer of a server that a command reads, in bytes: the counters of some 40,000
/// namespaces and their hosts.
pub const CONTROL_ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Clients of `--metrics` at a time; further ones take the place of those that have sent no
/// request, or are refused.
pub const METRICS_CLIENTS_MAX: usize = 8;

/// Seconds between two lines of the log about clients of the metrics that were turned away.
pub const METRICS_LOG_S: u64 = 10;

/// Longest request for metrics with its header, in bytes.
pub const METRICS_REQUEST_BYTES_MAX: usize = 8 << 10;

/// Seconds in which a request for metrics must have arrived...
pub const METRICS_REQUEST_S: u64 = 5;

/// ...and in which its client must have received the response. Otherwise it is disconnected.
pub const METRICS_SEND_S: u64 = 10;

/// Seconds in which the old process must have ended when a new one takes over.
pub const HANDOVER_S: u64 = 60;

/// Milliseconds for which a file may still be in use by a namespace that was removed, or a process
/// that was taken over: who opens it waits.
pub const LET_GO_MS: u64 = 2_000;

/// Listening sockets that a new process takes over at most.
pub const HANDOVER_SOCKETS_MAX: usize = 128;

/// Discovery controllers that a search by mDNS finds at most.
pub const MDNS_FOUND_MAX: usize = 64;

/// Milliseconds that a server takes to take back its announcement by mDNS, at most.
pub const MDNS_GOODBYE_MS: u64 = 1_000;

/// Seconds in which whoever connects to an agent must have proved that it has the key; the same for
/// an agent that a study connects to.
pub const AGENT_PROOF_S: u64 = 10;

/// Connections to an agent that have not proved that they have the key, at a time; for a further
/// one the oldest silent one goes of the address that has most.
pub const AGENT_STRANGERS_MAX: usize = 16;

/// The same of one address, or one IPv6 network of 64 bits; for a further one its oldest silent one
/// goes.
pub const AGENT_STRANGERS_ADDRESS_MAX: usize = 4;

/// Seconds without a word after which a study and an agent give each other up: both speak each
/// second while a run goes on.
pub const AGENT_SILENCE_S: u64 = 30;

/// Seconds in which a message must have been sent, before the connection counts as lost.
pub const AGENT_SEND_S: u64 = 10;

/// Seconds that an agent may take to open a device, and a run to connect and to end after its time.
pub const AGENT_OPEN_S: u64 = 120;

/// Seconds between two lines of an agent's log about connections that were refused.
pub const AGENT_LOG_S: u64 = 10;

/// Longest file of pre-shared keys, in bytes.
pub const PSK_FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest configuration of an agent, and longest file of known agents, in bytes.
pub const AGENT_FILE_BYTES_MAX: u64 = 1 << 20;

/// Shortest slice that fio measures in a study, seconds: its start and end, which take tens of
/// milliseconds, are not measured.
pub const FIO_SLICE_S: u64 = 1;

/// Seconds that fio may take beyond the time of its slice, to connect and to end; then it is ended,
/// and the slice has failed.
pub const FIO_LATE_S: u64 = 30;

/// Most bytes of what fio writes that are read; the rest is dropped.
pub const FIO_OUTPUT_BYTES_MAX: u64 = 16 << 20;

/// Longest line of fio's that is repeated in a message, characters.
pub const FIO_LINE_CHARS_MAX: usize = 400;
