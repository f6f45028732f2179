//! NBD: both ends of a connection, according to the protocol's specification (`doc/proto.md` of the
//! Network Block Device project, with its branch `extension-ext-header`).
//!
//! * [`server`]: fixed newstyle negotiation, requests and their replies in all three forms.
//! * [`client`]: the client's side of these.
//! * [`code`]: numbers on the wire; [`export`]: the negotiated properties of an export.
//!
//! Numbers are big-endian. Strings have at most 4096 bytes.

pub mod client;
pub mod code;
pub mod export;
mod message;
pub mod server;
mod violation;
mod wire;

pub use client::{ClientConfig, ClientEvent, NbdClient};
pub use export::{BlockSizes, ExportInfo};
pub use server::{NbdEngine, ServerConfig, ServerEvent};
pub use violation::Violation;

/// Negotiated layout of requests and replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Compact requests, simple replies.
    #[default]
    Simple,
    /// Compact requests, structured replies to what has data.
    Structured,
    /// Extended requests and replies: 64-bit lengths.
    Extended,
}
