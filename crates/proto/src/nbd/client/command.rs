//! Commands of the layer above a client, and events for it.

use crate::nbd::code::{CommandCode, CommandFlags, ErrorCode};
#[cfg(doc)]
use crate::nbd::export::ExportInfo;
use crate::stream::Tag;

/// A command for a server. Offset and length are bytes, as [`ExportInfo`] allows them; both 0 for a
/// flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientCommand {
    /// Any command except disconnect; block status only where
    /// [`NbdClient::tells_extents`](super::NbdClient::tells_extents).
    pub code: CommandCode,
    /// Its flags.
    pub flags: CommandFlags,
    /// First byte.
    pub offset: u64,
    /// Bytes; not more than [`NbdClient::effect_bytes_max`](super::NbdClient::effect_bytes_max).
    pub length: u64,
}

/// Why a command was not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many requests are outstanding as there may be.
    #[error("all slots for requests are in use")]
    Full,
    /// The connection takes no requests: it is being negotiated, or closed.
    #[error("the connection accepts no requests")]
    Closed,
}

/// Events for the layer above a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The server agreed on TLS: replace the stream, then call
    /// [`NbdClient::secured`](super::NbdClient::secured); nothing may be received until then.
    StartTls,
    /// [`NbdClient::export`](super::NbdClient::export) is known, and requests may be submitted.
    Ready,
    /// The server refused something without which it cannot go on: see
    /// [`NbdClient::refusal`](super::NbdClient::refusal). `Closed` comes next.
    Refused,
    /// This much of the memory of a read is zeroes, which the server did not send.
    Hole {
        /// The read.
        tag: Tag,
        /// First byte of its memory.
        offset: u32,
        /// Bytes.
        len: u32,
    },
    /// The server's report about the next bytes of a block status request: they follow those of the
    /// previous event, and lie within the requested range.
    Extent {
        /// The request.
        tag: Tag,
        /// Bytes; more than 0.
        length: u64,
        /// They read as zeroes.
        zero: bool,
    },
    /// A request is answered. If it succeeded then all its data has moved.
    Response {
        /// Names the request until [`NbdClient::release`](super::NbdClient::release).
        tag: Tag,
        /// 0 or why it failed.
        error: ErrorCode,
    },
}
