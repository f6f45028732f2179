//! What comes of bytes that went through a redactor.

/// Bytes for a capture, and the number of those that are withheld.
#[derive(Debug, Default)]
pub struct Output {
    /// What may be shown, in order.
    pub bytes: Vec<u8>,
    /// How many bytes behind them are not to be shown.
    pub withheld: u64,
}

impl Output {
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
