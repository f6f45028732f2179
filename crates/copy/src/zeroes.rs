//! Runs of zeroes in what was read.

use crate::limits::GRAIN_BYTES;
use weft_io::Segment;

/// Returns whether all bytes are zero. It ends at the first part that has another one.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(256).all(|part| part.iter().fold(0, |all, byte| all | byte) == 0)
}

/// A run of bytes that are all zero, or that must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its start in the chunk.
    pub at: usize,
    /// Its bytes.
    pub len: usize,
    /// True if all are zero.
    pub is_zero: bool,
}

/// Splits what was read into runs of whole grains, of which neighbours are of different kinds.
pub fn runs(data: &[Segment], into: &mut Vec<Run>) {
    into.clear();
    let mut at = 0;
    for grain in data.iter().flat_map(|segment| segment.chunks(GRAIN_BYTES)) {
        let is_zero = is_zero(grain);
        match into.last_mut() {
            Some(run) if run.is_zero == is_zero => run.len += grain.len(),
            _ => into.push(Run { at, len: grain.len(), is_zero }),
        }
        at += grain.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_io::Pool;

    #[test]
    fn runs_are_of_whole_grains() {
        let pool = Pool::new(4 << 20);
        let mut buf = pool.take(4 * GRAIN_BYTES + 512).unwrap();
        buf.fill(0);
        buf[GRAIN_BYTES + 7] = 1;
        buf[3 * GRAIN_BYTES - 1] = 1;
        let mut found = Vec::new();
        runs(&[buf.into()], &mut found);
        let told: Vec<_> = found.iter().map(|run| (run.at, run.len, run.is_zero)).collect();
        assert_eq!(
            told,
            [
                (0, GRAIN_BYTES, true),
                (GRAIN_BYTES, 2 * GRAIN_BYTES, false),
                (3 * GRAIN_BYTES, GRAIN_BYTES + 512, true)
            ]
        );
    }

    #[test]
    fn the_last_byte_counts() {
        let mut bytes = vec![0; 1000];
        assert!(is_zero(&bytes) && is_zero(&[]));
        bytes[999] = 1;
        assert!(!is_zero(&bytes));
    }
}
