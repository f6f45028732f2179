//! Limits of the pumps: turns of a connection, what it receives and sends in one, and its end.

use super::TRANSFER_BYTES_MAX;
use weft_proto::stream::Transmit;

/// Seconds in which a closing connection must receive the remaining data. Then it is disconnected.
pub const CLOSE_S: u64 = 5;

/// After a protocol violation, milliseconds for which a closed connection still receives data, so
/// that the peer can read the reason...
pub const LINGER_MS: u64 = 1_000;

/// ...and the maximum bytes that it receives. Then it is disconnected.
pub const LINGER_BYTES: usize = 4 << 20;

/// Maximum number of such connections on one loop. Further ones are disconnected at once.
pub const LINGERING_MAX: usize = 64;

/// Seconds in which a peer that owes data without interruption must transfer at least
/// [`STALL_BYTES_MIN`] of the data that it announced or was asked for, and receive as much of what
/// is sent to it. Otherwise the export closes its connection.
pub const STALL_S: u64 = 30;

/// Minimum bytes that a peer must transfer in [`STALL_S`] seconds.
pub const STALL_BYTES_MIN: u64 = 64 << 10;

/// Microseconds that a turn of a busy connection may take before it answers. After a longer turn
/// the next one receives less, down to [`SHARE_BYTES_MIN`]...
pub const ANSWER_US_MAX: u64 = 40;

/// ...and after a turn shorter than this, it receives more, up to [`STAGING_BYTES`].
pub const ANSWER_US_MIN: u64 = 20;

/// Minimum share of a turn with payload: bytes that a connection receives, if available, before it
/// answers. The system calls of a turn are then its smaller part, whatever the number of
/// connections.
pub const SHARE_BYTES_MIN: usize = 32 << 10;

/// The minimum share without payload: a dozen commands, or some dozens of responses, in whose place
/// a host sends as many commands, with their payload.
pub const SHARE_BYTES_MIN_BARE: usize = 1 << 10;

/// The share of a new connection.
pub const SHARE_BYTES_FIRST: usize = 128 << 10;

/// Bytes to write in a submission from which it is sent at once, not at the end of the turn: the
/// target executes it while the rest of the turn makes more.
pub const SEND_AHEAD_BYTES: usize = 32 << 10;

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

/// Bytes of one receive, and maximum bytes that a connection has already received when it must wait
/// for memory: small enough for the second-level cache, large enough for dozens of small commands.
/// All connections of a thread share one staging buffer.
pub const STAGING_BYTES: usize = 256 << 10;

/// Times that completions may lead to new operations of one connection within one turn; then the
/// other connections have their turn.
pub const WORK_PASSES_PER_TURN: usize = 8;

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
