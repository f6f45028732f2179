//! The only drivers of engines.
//!
//! A pump owns a socket, the staged bytes and the gather list of one connection; a [`StreamEngine`]
//! says what they mean, and a [`Handler`] (one per source and export) owns the payload memory and
//! speaks to the layer above.
//!
//! [`StreamEngine`]: weft_proto::stream::StreamEngine

mod gather;
mod handler;
mod linger;
mod link;
mod payload;
mod scratch;
mod share;
mod stream;

pub use handler::{Flow, Handler, Pieces};
pub use link::Link;
pub use stream::{ConnectionEnd, StreamPump};
