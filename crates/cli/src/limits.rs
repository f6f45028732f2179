//! Limits of the program.

/// Discovery controllers, or subsystems, that `weft connect-all` asks at the same time.
pub const CONNECT_ALL_AT_ONCE: usize = 8;

/// Seconds after which a command says what it waits for.
pub const PATIENCE_S: u64 = 5;

/// Milliseconds within which a command that serves nobody ends after SIGTERM or Ctrl-C.
pub const END_MS: u64 = 1_000;

/// Milliseconds of waits, of [`END_MS`], after which such a command ends without what it waits for.
pub const END_WAIT_MS: u64 = 700;

/// Milliseconds for which `--persist` waits for a daemon that does not listen yet.
pub const DAEMON_START_MS: u64 = 2_000;

/// Longest file of discovery controllers and subsystems that `weft connect-all` reads, in bytes.
pub const CONTROLLERS_FILE_BYTES_MAX: u64 = 1 << 20;

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

/// Longest configuration of an agent, and longest file of known agents, in bytes.
pub const AGENT_FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest `results.json` that `weft study compare`, `gate`, `pack`, `publish` and `render` read, in bytes.
pub const STUDY_RESULTS_BYTES_MAX: u64 = 256 << 20;

/// Studies of a site that `weft study publish` makes, at most.
pub const SITE_STUDIES_MAX: usize = 1000;

/// Longest list of the files of such a site, in bytes.
pub const SITE_LIST_BYTES_MAX: u64 = 1 << 20;

/// Shortest slice that fio measures in a study, seconds: its start and end, which take tens of
/// milliseconds, are not measured.
pub const FIO_SLICE_S: u64 = 1;

/// Seconds that fio may take beyond the time of its slice, to connect and to end; then it is ended,
/// and the slice has failed.
pub const FIO_LATE_S: u64 = 30;

/// Most bytes of the output of fio, or of another program of a study, that are read; the rest is
/// dropped.
pub const OUTPUT_BYTES_MAX: u64 = 16 << 20;

/// Longest line of such a program that is repeated in a message, characters.
pub const LINE_CHARS_MAX: usize = 400;

/// Seconds that a target of another project may take until it listens, and that each command which
/// configures it may take.
pub const PEER_START_S: u64 = 10;

/// Milliseconds that such a target has to end after SIGTERM; then it is killed.
pub const PEER_END_MS: u64 = 500;

/// Keep alive timeout, in seconds, of a target of another project that is stopped while others are
/// measured.
pub const PEER_KEEP_ALIVE_S: u32 = 3600;

/// Seconds that a command which changes objects of the kernel may take.
pub const KERNEL_STEP_S: u64 = 10;

/// Seconds within which the kernel makes the changes of a part of a study, or undoes them.
pub const KERNEL_REPLY_S: u64 = 60;

/// Seconds that a study waits at its end until all changes of objects of the kernel are undone.
pub const KERNEL_END_S: u64 = 60;

/// Connections that a relay of a study passes on at a time; further ones are closed.
pub const RELAY_CONNECTIONS_MAX: usize = 64;

/// Bytes that a relay receives at a time.
pub const RELAY_CHUNK_BYTES: usize = 64 << 10;

/// Such pieces that wait in each direction of a connection; then the relay stops receiving.
pub const RELAY_CHUNKS_MAX: usize = 256;

/// Seconds in which a relay must have connected to its target.
pub const RELAY_CONNECT_S: u64 = 5;

/// Seconds after which an operation fails whose target of another project is gone.
pub const PEER_OUTAGE_S: u64 = 2;
