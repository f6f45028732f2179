//! SHA-256 of what is copied, in the order of its bytes.

use sha2::{Digest as _, Sha256};
use weft_io::Segment;

/// A digest under way.
#[derive(Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Adds what was read.
    pub fn data(&mut self, data: &[Segment]) {
        data.iter().for_each(|segment| self.0.update(&segment[..]));
    }

    /// Adds a hole.
    pub fn zeroes(&mut self, mut bytes: u64) {
        const ZEROES: [u8; 4096] = [0; 4096];
        while bytes > 0 {
            let len = bytes.min(ZEROES.len() as u64);
            self.0.update(&ZEROES[..len as usize]);
            bytes -= len;
        }
    }

    /// The digest in hexadecimal digits.
    pub fn finish(&mut self) -> String {
        let digest = core::mem::take(&mut self.0).finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `head -c 5000 /dev/zero | sha256sum`
    #[test]
    fn holes_count_as_zeroes() {
        let mut digest = Digest::default();
        digest.zeroes(5000);
        let mut whole = Digest::default();
        whole.0.update([0; 5000]);
        assert_eq!(digest.finish(), whole.finish());
        // FIPS 180-4: that of no bytes.
        assert!(Digest::default().finish().starts_with("e3b0c44298fc1c14"));
    }
}
