//! Counts the bytes of a pool that several users hold together: users with the same name are one
//! holder and have one share.

use super::Pool;
use core::cell::Cell;
use std::rc::Rc;

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

impl Pool {
    /// The holder with this name. It exists as long as it is in use.
    pub fn holder(&self, name: &str) -> Rc<Holder> {
        let mut holders = self.0.holders.borrow_mut();
        if let Some(holder) = holders.get(name).and_then(std::rc::Weak::upgrade) {
            return holder;
        }
        holders.retain(|_, holder| holder.strong_count() > 0);
        let holder = Rc::<Holder>::default();
        holders.insert(name.to_owned(), Rc::downgrade(&holder));
        holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_one_name_are_one_holder() {
        let pool = Pool::new(1 << 20);
        let (first, second, other) = (pool.holder("a"), pool.holder("a"), pool.holder("b"));
        first.add(7);
        assert_eq!((second.bytes(), other.bytes()), (7, 0));
        drop((first, second));
        assert_eq!(pool.holder("a").bytes(), 0, "nobody had it any more");
        drop(other);
        let _one = pool.holder("c");
        assert_eq!(pool.0.holders.borrow().len(), 1, "names that nobody has are forgotten");
    }
}
