//! Memory of another owner, such as a guest or a driver of the system.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::rc::Rc;

/// The owner of the memory.
pub trait Owner {
    /// The memory with this name is no longer used.
    fn free(&self, name: u32);
}

/// Memory of another owner, who is notified when it is dropped.
pub struct ForeignMemory {
    start: NonNull<u8>,
    len: u32,
    /// The owner's name for it.
    name: u32,
    writable: bool,
    owner: Rc<dyn Owner>,
}

impl ForeignMemory {
    /// Memory that `owner` knows as `name`; `writable` says whether it may be written to.
    ///
    /// # Safety
    /// Until [`Owner::free`] is called with the name, `len` bytes from `start` are initialised
    /// memory of this process. Nobody else accesses them through Rust references or writes to them;
    /// with `writable`, nobody else reads them either. If the memory is shared with a party that
    /// may break this rule, such as a guest, use separate memory instead.
    pub unsafe fn new(
        start: NonNull<u8>,
        len: u32,
        writable: bool,
        owner: Rc<dyn Owner>,
        name: u32,
    ) -> Self {
        Self { start, len, name, writable, owner }
    }

    /// Returns whether it is writable.
    pub fn is_writable(&self) -> bool {
        self.writable
    }
}

impl Deref for ForeignMemory {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: what `new` was promised holds until this is dropped.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for ForeignMemory {
    /// # Panics
    /// If the memory is read-only.
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        assert!(self.writable, "this memory of another is only read");
        // SAFETY: as in `deref`; it may be written to, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }
}

impl Drop for ForeignMemory {
    fn drop(&mut self) {
        self.owner.free(self.name);
    }
}

impl core::fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Foreign({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Divided, Segment, Segments};
    use core::cell::RefCell;

    #[derive(Default)]
    struct Guest(RefCell<Vec<u32>>);

    impl Owner for Guest {
        fn free(&self, name: u32) {
            self.0.borrow_mut().push(name);
        }
    }

    #[test]
    fn the_owner_is_told_once_when_the_last_part_is_free() {
        let mut memory = vec![0u8; 8192];
        let start = NonNull::from(&mut memory[..]).cast::<u8>();
        let guest = Rc::new(Guest::default());
        let owner = || Rc::clone(&guest) as Rc<dyn Owner>;
        // SAFETY: the vector outlives both, they are apart, and nobody else uses it meanwhile.
        let (read, written) = unsafe {
            (
                ForeignMemory::new(start, 4096, true, owner(), 7),
                ForeignMemory::new(start.add(4096), 4096, false, owner(), 8),
            )
        };
        let mut read = Segment::Foreign(read);
        read.fill(9);
        drop(read);
        assert_eq!(*guest.0.borrow(), [7]);
        let written = Segment::Foreign(written);
        assert!(!written.is_writable() && written.iter().all(|&byte| byte == 0));
        let mut divided = Divided::new();
        divided.fill(Segments::from_iter([written]));
        let mut parts = Segments::new();
        divided.cut(0, 4000, &mut parts);
        assert!(!parts[0].is_writable(), "a part of what is only read is only read");
        drop(divided);
        assert_eq!(*guest.0.borrow(), [7]);
        drop(parts);
        assert_eq!(*guest.0.borrow(), [7, 8]);
        assert!(memory[..4096].iter().all(|&byte| byte == 9));
    }
}
