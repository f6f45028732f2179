//! Serial number arithmetic on 32 bits (RFC 1982; RFC 7143 §4.2.2), for CmdSN, StatSN, DataSN and
//! R2TSN.

use core::fmt;

/// A sequence number, which wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Serial(pub u32);

impl Serial {
    /// The one after.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// `n` further on; `n` is below 2³¹.
    #[inline]
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// The one before.
    #[inline]
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// Returns the distance of `self` ahead of `other`; negative when it is behind.
    #[inline]
    pub const fn distance(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Returns whether it comes before `other`. For two that are 2³¹ apart it is true both ways:
    /// the order is undefined there.
    #[inline]
    pub const fn precedes(self, other: Self) -> bool {
        self.distance(other) < 0
    }

    /// Takes this number once and moves on.
    #[inline]
    pub fn take(&mut self) -> Self {
        let taken = *self;
        *self = taken.next();
        taken
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let last = Serial(u32::MAX);
        assert!(last.precedes(last.next()));
        assert!(!last.next().precedes(last));
        assert_eq!(last.next(), Serial(0));
        assert_eq!(Serial(3).distance(Serial(u32::MAX)), 4);
        assert_eq!(Serial(0).previous(), last);
        assert!(!last.precedes(last));
    }

    #[test]
    fn taking_moves_on() {
        let mut next = Serial(u32::MAX);
        assert_eq!(next.take(), Serial(u32::MAX));
        assert_eq!(next.take(), Serial(0));
    }
}
