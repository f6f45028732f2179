//! The possible violations of NBD by a peer. The protocol has no message for them: the connection
//! is closed.

use super::code::{ChunkType, OptionCode};

/// Why this end closed the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The greeting is not that of an NBD server.
    #[error("the peer is not an NBD server")]
    NotNbd,
    /// The client sets flags that were not offered.
    #[error("the client sets flags that no server offers")]
    ClientFlags(u32),
    /// An option that does not start as one.
    #[error("the client sent something that is not an option")]
    OptionMagic,
    /// An option without an answer to a problem, and there is a problem.
    #[error("the client chose an unavailable export, with an option that has no error reply")]
    ExportName,
    /// Bytes after STARTTLS that are not TLS: an attacker in between may have inserted them.
    #[error("the peer sent plain text after the agreement on TLS")]
    PlainTextBeforeTls,
    /// A reply to an option that does not start as one.
    #[error("the server sent something that is not a reply to an option")]
    OptionReplyMagic,
    /// A reply to another option than the current one.
    #[error("the server answered an option that was not sent")]
    OptionMismatch(OptionCode),
    /// A reply with data of the wrong length, or too many replies.
    #[error("the server sent a malformed reply to the option to {0}")]
    OptionReply(OptionCode),
    /// The server accepted the export and did not say how large it is.
    #[error("the server did not send the size of the export")]
    NoSize,
    /// A request that does not start as one of the negotiated form.
    #[error("the client sent something that is not a request")]
    RequestMagic,
    /// A payload beyond every limit.
    #[error("the client sent a payload of {0} bytes")]
    Payload(u64),
    /// A reply that does not start as one of the negotiated form.
    #[error("the server sent something that is not a reply")]
    ReplyMagic,
    /// A reply to a request that is not outstanding.
    #[error("the server answered a request that is not outstanding")]
    Cookie,
    /// A simple reply to a read where that is not allowed.
    #[error(
        "the server answered a read with a simple reply although structured replies were negotiated"
    )]
    SimpleRead,
    /// A chunk that cannot come in answer to the request, or has an impossible length.
    #[error("the server sent an unexpected or malformed chunk ({0})")]
    Chunk(ChunkType),
    /// Data outside of what was asked for, or twice for the same place.
    #[error("the server sent data that was not asked for")]
    DataRange,
    /// A read that succeeded without all of its data.
    #[error("the server reported success before it had sent all data")]
    DataMissing,
    /// Data in more pieces than are kept account of.
    #[error("the server sent the data of a read in too many pieces out of order")]
    Scattered,
    /// Extents of no length, past the range, too many, or of a context that was not selected.
    #[error("the server sent a malformed block status")]
    Extents,
    /// The client did not choose its export in time.
    #[error("no export chosen within {} s", .0.as_secs_f32())]
    NegotiationLate(core::time::Duration),
}
