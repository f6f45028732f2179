//! Limits of captures.

/// Maximum bytes of traffic that wait to be written to the file of a capture. Traffic beyond is
/// missing in the file, and counted.
pub const CAPTURE_QUEUE_BYTES: usize = 16 << 20;

/// Maximum receives and sends that wait to be written to the file of a capture. Further ones are
/// missing in the file, and counted.
pub const CAPTURE_QUEUE_RECORDS: usize = 8192;

/// Maximum connections that one capture shows at a time. Further ones are missing in the file.
pub const CAPTURE_CONNECTIONS_MAX: usize = 1024;

/// Bytes of a connection that a capture of one host keeps until the connection's host is known. A
/// connection on which more passes before is left out.
pub const CAPTURE_WAITING_BYTES: usize = 32 << 10;

/// Milliseconds between two looks at whether a capture is to end.
pub const CAPTURE_LOOK_MS: u64 = 50;
