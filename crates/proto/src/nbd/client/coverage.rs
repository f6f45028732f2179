//! Arrived parts of a read: a server may send the data in pieces and in any order.

use crate::limits::NBD_FRAGMENTS_MAX;
use crate::nbd::Violation;

/// Ranges that are there: in order, apart from each other. One is the common case.
#[derive(Debug, Default)]
pub(super) struct Coverage(Vec<(u32, u32)>);

impl Coverage {
    /// Forgets everything; keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a range that is not empty.
    ///
    /// # Errors
    /// [`Violation::DataRange`] when a part of it was there already, [`Violation::Scattered`] when
    /// there are too many ranges.
    #[inline]
    pub fn add(&mut self, from: u32, to: u32) -> Result<(), Violation> {
        let at = self.0.partition_point(|(start, _)| *start < from);
        let before = at.checked_sub(1).map(|n| self.0[n]);
        let after = self.0.get(at).copied();
        if before.is_some_and(|(_, end)| end > from) || after.is_some_and(|(start, _)| start < to) {
            return Err(Violation::DataRange);
        }
        match (before.filter(|(_, end)| *end == from), after.filter(|(start, _)| *start == to)) {
            (Some(_), Some((_, end))) => {
                self.0[at - 1].1 = end;
                self.0.remove(at);
            }
            (Some(_), None) => self.0[at - 1].1 = to,
            (None, Some(_)) => self.0[at].0 = from,
            (None, None) if self.0.len() == NBD_FRAGMENTS_MAX => return Err(Violation::Scattered),
            (None, None) => self.0.insert(at, (from, to)),
        }
        Ok(())
    }

    /// Returns whether all of `0..len` is there.
    #[inline]
    pub fn is_whole(&self, len: u32) -> bool {
        self.0[..] == [(0, len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_become_whole() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [2, 0, 3, 1]] {
            let mut coverage = Coverage::default();
            for piece in order {
                assert!(!coverage.is_whole(40));
                coverage.add(piece * 10, piece * 10 + 10).unwrap();
            }
            assert!(coverage.is_whole(40));
        }
    }

    #[test]
    fn overlaps_are_found() {
        let mut coverage = Coverage::default();
        coverage.add(10, 20).unwrap();
        coverage.add(30, 40).unwrap();
        for (from, to) in [(10, 20), (0, 11), (19, 25), (12, 13), (5, 45), (39, 50), (25, 31)] {
            assert_eq!(coverage.add(from, to), Err(Violation::DataRange), "{from}..{to}");
        }
        assert_eq!(coverage.add(20, 30), Ok(()));
    }

    #[test]
    fn pieces_have_a_limit() {
        let mut coverage = Coverage::default();
        let many = (0..).map(|n| coverage.add(n * 2, n * 2 + 1)).take_while(Result::is_ok).count();
        assert_eq!(many, NBD_FRAGMENTS_MAX);
    }
}
