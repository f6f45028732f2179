//! Identity of the other end of a connection, and the holder of its records.

use std::sync::{Arc, OnceLock};

/// Holder of the records of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// The kernel.
    Kernel,
    /// This process, in user space.
    UserSpace,
}

impl Records {
    /// A word for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::UserSpace => "user space",
        }
    }
}

/// Identity of the other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer(Arc<PeerFacts>);

#[derive(Debug, Default)]
struct PeerFacts {
    identity: OnceLock<Box<[u8]>>,
    records: OnceLock<Records>,
}

impl Peer {
    /// The identity whose key both ends have proved to know; none before that.
    pub fn identity(&self) -> Option<&[u8]> {
        self.0.identity.get().map(AsRef::as_ref)
    }

    /// Returns the holder of the connection's records; unknown before the end of the handshake.
    pub fn records(&self) -> Option<Records> {
        self.0.records.get().copied()
    }

    pub(crate) fn has_proved(&self, identity: Vec<u8>) {
        // A connection has one handshake.
        let _ = self.0.identity.set(identity.into());
    }

    pub(crate) fn has_records_in(&self, records: Records) {
        // They change hands once at most.
        let _ = self.0.records.set(records);
    }
}
