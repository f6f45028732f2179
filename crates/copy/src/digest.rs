//! SHA-256 of what is copied, in the order of its bytes.

use sha2::{Digest as _, Sha256};
use weft_io::Segment;

/// A digest under way, of a number of bytes: what follows them, the padding of the last block, does
/// not count.
#[derive(Default)]
pub struct RunningDigest {
    sha256: Sha256,
    left: u64,
}

impl RunningDigest {
    /// A digest of the first `bytes` bytes that are added.
    pub fn of_first(bytes: u64) -> Self {
        Self { left: bytes, ..Self::default() }
    }

    /// Returns how many of the next `bytes` bytes count.
    fn take(&mut self, bytes: u64) -> u64 {
        let counted = bytes.min(self.left);
        self.left -= counted;
        counted
    }

    /// Adds what was read.
    pub fn data(&mut self, data: &[Segment]) {
        for segment in data {
            let counted = self.take(segment.len() as u64) as usize;
            self.sha256.update(&segment[..counted]);
        }
    }

    /// Adds a hole.
    pub fn zeroes(&mut self, bytes: u64) {
        const ZEROES: [u8; 4096] = [0; 4096];
        let mut bytes = self.take(bytes);
        while bytes > 0 {
            let len = bytes.min(ZEROES.len() as u64);
            self.sha256.update(&ZEROES[..len as usize]);
            bytes -= len;
        }
    }

    /// The digest in hexadecimal digits.
    pub fn finish(&mut self) -> String {
        let digest = core::mem::take(&mut self.sha256).finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `head -c 5000 /dev/zero | sha256sum`
    #[test]
    fn holes_count_as_zeroes_and_padding_not_at_all() {
        let mut digest = RunningDigest::of_first(5000);
        digest.zeroes(4608);
        digest.zeroes(512);
        let mut whole = RunningDigest::default();
        whole.sha256.update([0; 5000]);
        assert_eq!(digest.finish(), whole.finish());
        // FIPS 180-4: that of no bytes.
        assert!(RunningDigest::default().finish().starts_with("e3b0c44298fc1c14"));
    }
}
