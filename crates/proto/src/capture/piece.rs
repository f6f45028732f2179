//! Shared by all redactors: the ends of a connection, and the output for their bytes.

/// One end of a connection, as the sender of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The host, initiator or client.
    Host,
    /// The controller, target or server.
    Target,
}

impl End {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Host => Self::Target,
            Self::Target => Self::Host,
        }
    }

    /// As an index.
    pub const fn index(self) -> usize {
        match self {
            Self::Host => 0,
            Self::Target => 1,
        }
    }
}

/// Bytes for a capture, and the number of those that are withheld.
#[derive(Debug, Default)]
pub struct CaptureBytes {
    /// Bytes that may be shown, in order.
    pub bytes: Vec<u8>,
    /// Number of bytes behind them that are not shown.
    pub withheld: u64,
}

impl CaptureBytes {
    /// Shows bytes as they are.
    pub fn pass(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Shows zeroes instead of bytes.
    pub(super) fn blank(&mut self, bytes: usize) {
        self.bytes.resize(self.bytes.len() + bytes, 0);
    }

    /// Shows nothing.
    pub(super) fn withhold(&mut self, bytes: usize) {
        self.withheld += bytes as u64;
    }
}

/// Returns a name as it was sent, up to its first zero; `None`: it is not text.
pub(super) fn name(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.split(|byte| *byte == 0).next()?;
    let name = str::from_utf8(bytes).ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}
