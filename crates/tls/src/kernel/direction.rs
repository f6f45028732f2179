//! The directions of a connection, which have keys of their own.

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsDirection {
    /// What is sent.
    Send,
    /// What is received.
    Receive,
}
