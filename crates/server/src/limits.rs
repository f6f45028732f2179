//! Limits of servers.

/// Payload memory of an event loop at least, in bytes: with a few KiB no host could even connect,
/// so less is a mistake.
pub const POOL_BYTES_MIN: u64 = 1 << 20;

/// Seconds that a server waits for its connections to close when it goes away from its hosts.
pub const LEAVE_S: u64 = 5;

/// Longest request on a control socket, in bytes: a line with a whole configuration.
pub const REQUEST_BYTES_MAX: usize = 5 << 20;

/// Longest configuration of a group of gateways, in bytes: some 40,000 namespaces.
pub const GROUP_CONFIGURATION_BYTES_MAX: usize = 4 << 20;

/// Seconds that a gateway of a group waits for the cluster's monitors when it may no longer serve;
/// then it ends, and its hosts turn to others.
pub const GROUP_MONITORS_S: u64 = 4;

/// Clients of one control socket at a time; further ones are refused.
pub const CONTROL_CLIENTS_MAX: usize = 16;

/// Seconds that a client of a control socket may take to read an answer, before it loses its
/// connection.
pub const CONTROL_SEND_S: u64 = 10;

/// Seconds after which a client of a control socket that asks nothing loses its connection.
pub const CONTROL_IDLE_S: u64 = 600;

/// Seconds that a command waits for its place in the queue of a control socket, and a server for
/// that in the queue of the one that takes over.
pub const CONTROL_CONNECT_S: u64 = 5;

/// Seconds that a command waits for an answer of a server: opening a source may take as long as
/// connecting does.
pub const CONTROL_ANSWER_S: u64 = 120;

/// Longest answer of a server that a command reads, in bytes: the counters of some 40,000
/// namespaces and their hosts.
pub const CONTROL_ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Seconds that the check of a configuration waits for the identity of a file; after that it
/// compares paths.
pub const FILE_CHECK_S: u64 = 2;

/// Checks of files that may wait for file systems beyond that; with these, paths are compared at
/// once.
pub const FILE_CHECKS_LATE_MAX: usize = 4;

/// Clients of `--metrics` at a time; further ones take the place of those that have sent no
/// request, or are refused.
pub const METRICS_CLIENTS_MAX: usize = 8;

/// Longest request for metrics with its header, in bytes.
pub const METRICS_REQUEST_BYTES_MAX: usize = 8 << 10;

/// Seconds in which a request for metrics must have arrived...
pub const METRICS_REQUEST_S: u64 = 5;

/// ...and in which its client must have received the response. Otherwise it is disconnected.
pub const METRICS_SEND_S: u64 = 10;

/// Lines of a list that the page of the metrics' port shows.
pub const HOME_LINES_MAX: usize = 64;

/// Seconds in which the old process must have ended when a new one takes over.
pub const HANDOVER_S: u64 = 60;

/// Milliseconds for which a file may still be in use by a namespace that was removed, or a process
/// that was taken over: who opens it waits.
pub const RELEASE_MS: u64 = 2_000;

/// Listening sockets that a new process takes over at most.
pub const HANDOVER_SOCKETS_MAX: usize = 128;

/// Longest file of pre-shared keys, in bytes.
pub const PSK_FILE_BYTES_MAX: u64 = 1 << 20;

/// Connections that a daemon records at most.
pub const CONNECTIONS_RECORDED_MAX: usize = 1024;

/// Longest command of a recorded connection, in bytes.
pub const CONNECTION_WORDS_BYTES_MAX: usize = 16 << 10;

/// Longest record of connections that is read, in bytes.
pub const CONNECTIONS_FILE_BYTES_MAX: u64 = 32 << 20;

/// Seconds after which a daemon tries a connection again that has failed for the first time; the
/// pause doubles with each failure...
pub const RESTORE_DELAY_MIN_S: u64 = 1;

/// ...up to this many seconds.
pub const RESTORE_DELAY_MAX_S: u64 = 30;

/// Connections that a daemon makes at a time; further ones wait their turn.
pub const RESTORES_MAX: usize = 64;

/// Milliseconds after which Windows starts a service again that has failed: for the first failure,
/// the second, and each further one.
pub const SERVICE_RESTARTS_MS: [u64; 3] = [1_000, 5_000, 60_000];

/// Seconds without a failure after which Windows counts a service's failures from zero again.
pub const SERVICE_FAILURES_FORGOTTEN_S: u64 = 86_400;

/// Seconds that a service has to end in order when Windows shuts down: it lets commands finish, and
/// flushes all sources.
pub const SERVICE_SHUTDOWN_S: u64 = 60;

/// Seconds for which a service that starts or ends may say nothing, before `weft service` gives up
/// waiting for it.
pub const SERVICE_SILENCE_S: u64 = 30;
