//! vhost-user, seen from the back end: a virtual machine monitor (the front end) has another
//! process serve a device of its guest, and tells it by messages over a Unix socket where the
//! guest's memory and the queues are.
//!
//! According to QEMU's `docs/interop/vhost-user.rst`. Numbers are little-endian, as on all machines
//! that both ends may run on together. Descriptors come with messages; what each message may bring
//! is in [`Request::descriptors`].

mod message;
mod request;
#[cfg(test)]
mod tests;

pub use message::{
    BackEndReply, Header, InflightDescription, backend_message, code, protocol_feature,
};
pub use request::{LogDescription, MemoryRegion, Request, VringAddress, VringFile, VringState};

/// Violation by a front end. Its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The version of the protocol is another one.
    #[error("the message is not of version 1 of the protocol")]
    Version,
    /// More bytes than any message has, or not as many as this one has.
    #[error("message {0} has a wrong length")]
    Length(u32),
    /// The data behind the header is not allowed.
    #[error("message {0} has values that are not allowed")]
    Value(u32),
    /// More or fewer descriptors than the message has.
    #[error("message {0} has a wrong number of descriptors")]
    Descriptors(u32),
    /// It is for other devices, or for what was not negotiated.
    #[error("message {0} is not supported")]
    Unsupported(u32),
    /// It came before what must come first.
    #[error("message {0} came too early")]
    Early(u32),
}
