//! Limits of the authentication of hosts and initiators: DH-HMAC-CHAP, the keys for TLS that it
//! makes, and CHAP.

/// Authentications of NVMe hosts (DH-HMAC-CHAP) from one address that were begun and have not
/// succeeded: each may be a guess, unless its connection ended before the host answered the
/// challenge. Hosts are told to begin further ones later (Command Interrupted), without any
/// arithmetic, until one is forgotten.
pub const AUTHENTICATIONS_MAX: u32 = 256;

/// Milliseconds after which one of them is forgotten.
pub const AUTHENTICATION_STEP_MS: u64 = 250;

/// Bits of the largest Diffie-Hellman group that a target accepts by default. Twice the bits cost
/// five times the arithmetic.
pub const AUTHENTICATION_GROUP_BITS: u32 = 4096;

/// Threads on which a target computes for authentications. Event loops do not compute for them: so
/// those never take more than one processor.
pub const AUTHENTICATION_THREADS: usize = 1;

/// Milliseconds of arithmetic that authentications from one address may have at once, whether they
/// succeed or not, by a table of what an exchange costs with each group. Hosts are told to begin
/// further ones later (Command Interrupted).
pub const AUTHENTICATION_ADDRESS_MS: u64 = 4_000;

/// Rate at which that budget comes back, as a percentage of the time that passes.
pub const AUTHENTICATION_ADDRESS_PERCENT: u64 = 10;

/// The same, of all addresses together. The second half is for addresses from which a host has
/// authenticated within [`AUTHENTICATION_KNOWN_S`], and half of that also for those for which
/// nothing has been computed lately.
pub const AUTHENTICATION_TARGET_MS: u64 = 30_000;

/// Rate at which that budget comes back, as a percentage of the time that passes.
pub const AUTHENTICATION_TARGET_PERCENT: u64 = 50;

/// Seconds for which an address counts as one from which a host has authenticated: its
/// authentications are computed before others'.
pub const AUTHENTICATION_KNOWN_S: u64 = 3_600;

/// Addresses for which they are counted. All others count as one.
pub const AUTHENTICATIONS_ROWS: usize = 4096;

/// Host identifiers (HOSTID) that were registered without a proof, of which a server remembers who
/// proved itself with them first; further ones are not bound to a name until their host registers
/// again. Also the maximum number that a configuration can give.
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
/// of this many numbers, and names with the same number share a count.
pub const LOGIN_FAILURES_ROWS: u64 = 1024;

/// Seconds for which failed CHAP logins count, from the first one.
pub const LOGIN_FAILURES_S: u64 = 60;

/// Initiator names that a CHAP user without given names acquires by logging in. Further names are
/// refused.
pub const LOGIN_NAMES_MAX: usize = 64;
