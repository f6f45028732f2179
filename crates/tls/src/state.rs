//! State of a connection whose handshake is over, and sending as far as that allows.

use std::io::{self, ErrorKind};

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Data goes both ways.
    Open,
    /// The other end has ended its direction.
    PeerClosed,
    /// It is over, for this reason.
    Failed(ErrorKind, String),
}

impl ConnectionState {
    /// # Errors
    /// Why it is over, the same with each call.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self {
            Self::Failed(kind, why) => Err(io::Error::new(*kind, why.clone())),
            Self::Open | Self::PeerClosed => Ok(()),
        }
    }

    /// It is over now; the error that says so.
    pub(crate) fn fail(&mut self, kind: ErrorKind, why: String) -> io::Error {
        *self = Self::Failed(kind, why.clone());
        io::Error::new(kind, why)
    }
}

/// What was sent as far as that goes now: that the socket takes no more is no error.
///
/// # Errors
/// Any other.
pub(crate) fn as_far_as_it_goes(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(()),
        other => other,
    }
}
