//! Counts the bytes of a pool that several users hold together: users with the same name are one
//! holder and have one share.

use core::cell::Cell;

/// The bytes that all users of one name hold. They report changes themselves.
#[derive(Debug, Default)]
pub struct Holder {
    bytes: Cell<usize>,
}

impl Holder {
    /// Bytes held.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Adds bytes.
    #[inline]
    pub fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Subtracts bytes.
    #[inline]
    pub fn remove(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() - bytes);
    }
}
