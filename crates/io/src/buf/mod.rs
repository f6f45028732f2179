//! Payload memory: size-classed, page-aligned buffers from a pool that belongs to one loop.
//!
//! The holder of a [`Buf`] owns it; dropping it returns it to its pool. A pool has a cap. At the
//! cap [`Pool::take`] returns `None`, which is the source of all backpressure. In steady state
//! nothing is allocated: free lists are last in, first out, so a busy loop works in memory that is
//! still in its caches.

mod observation;
mod observer;
mod system;

use crate::counters::Count;
use crate::limits::{BUF_ALIGN, BUF_BYTES_MAX, BUF_BYTES_MIN};
use core::cell::{Cell, RefCell};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
pub use observation::Observation;
pub use observer::PoolObserver;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

const CLASSES: usize = (BUF_BYTES_MAX / BUF_BYTES_MIN).trailing_zeros() as usize + 1;

const _: () = assert!(
    BUF_BYTES_MIN.is_power_of_two()
        && BUF_BYTES_MAX.is_power_of_two()
        && BUF_BYTES_MIN >= BUF_ALIGN
);

/// The pool of one loop. Clones refer to the same pool.
#[derive(Clone)]
pub struct Pool(Rc<PoolMemory>);

struct PoolMemory {
    /// Memory held from the system, by address.
    slabs: RefCell<BTreeMap<NonNull<u8>, usize>>,
    observers: RefCell<Vec<Rc<dyn PoolObserver>>>,
    /// By name.
    holders: RefCell<BTreeMap<String, Weak<Holder>>>,
    free: RefCell<[Vec<NonNull<u8>>; CLASSES]>,
    cap_bytes: usize,
    allocated_bytes: Cell<usize>,
    taken_bytes: Cell<usize>,
    allocations: Count,
    /// See [`PoolMemory::shrink`].
    shrink_below: Cell<usize>,
}

const fn class_bytes(class: u8) -> usize {
    BUF_BYTES_MIN << class
}

fn class_of(len: usize) -> Option<u8> {
    (len <= BUF_BYTES_MAX).then(|| {
        let size = len.max(BUF_BYTES_MIN).next_power_of_two();
        (size / BUF_BYTES_MIN).trailing_zeros() as u8
    })
}

/// Smaller buffers are cut from slabs of this size and alignment: if each small buffer were
/// page-aligned separately, an allocator would need as much memory again for its own bookkeeping.
const SLAB_BYTES: usize = 64 << 10;

impl Pool {
    /// An empty pool with a cap of `cap_bytes`.
    pub fn new(cap_bytes: usize) -> Self {
        Self(Rc::new(PoolMemory {
            slabs: RefCell::default(),
            observers: RefCell::default(),
            holders: RefCell::default(),
            free: RefCell::default(),
            cap_bytes,
            allocated_bytes: Cell::new(0),
            taken_bytes: Cell::new(0),
            allocations: Count::default(),
            shrink_below: Cell::new(usize::MAX),
        }))
    }

    /// Takes a buffer of `len` bytes with unspecified (but initialised) content. Returns `None` if
    /// the cap is reached or `len` exceeds [`BUF_BYTES_MAX`].
    #[inline]
    pub fn take(&self, len: usize) -> Option<Buf> {
        let class = class_of(len)?;
        let popped = self.0.free.borrow_mut()[class as usize].pop();
        let ptr = match popped {
            Some(ptr) => ptr,
            None => self.0.allocate(class)?,
        };
        self.0.taken_bytes.set(self.0.taken_bytes.get() + class_bytes(class));
        Some(Buf { ptr, len: len as u32, class, pool: Rc::clone(&self.0) })
    }

    /// Like [`Pool::take`], but may exceed the cap. For the one buffer that a connection needs to
    /// make progress and free others: the caller bounds the number of such buffers.
    pub fn take_reserve(&self, len: usize) -> Option<Buf> {
        if let Some(buf) = self.take(len) {
            return Some(buf);
        }
        let class = class_of(len)?;
        let ptr = self.0.allocate_uncapped(class)?;
        self.0.taken_bytes.set(self.0.taken_bytes.get() + class_bytes(class));
        Some(Buf { ptr, len: len as u32, class, pool: Rc::clone(&self.0) })
    }

    /// The cap, without reserves, in bytes.
    pub fn cap_bytes(&self) -> usize {
        self.0.cap_bytes
    }

    /// Bytes in buffers that are in use.
    pub fn taken_bytes(&self) -> usize {
        self.0.taken_bytes.get()
    }

    /// Bytes held from the system, in use or free.
    pub fn allocated_bytes(&self) -> usize {
        self.0.allocated_bytes.get()
    }

    /// Number of buffers allocated from the system so far.
    pub fn allocations(&self) -> u64 {
        self.0.allocations.value()
    }

    /// Returns all free buffers to the system.
    pub fn trim(&self) {
        self.0.free_unused(usize::MAX);
    }

    /// The holder with this name. It exists as long as it is in use.
    pub fn holder(&self, name: &str) -> Rc<Holder> {
        let mut holders = self.0.holders.borrow_mut();
        if let Some(holder) = holders.get(name).and_then(Weak::upgrade) {
            return holder;
        }
        holders.retain(|_, holder| holder.strong_count() > 0);
        let holder = Rc::<Holder>::default();
        holders.insert(name.to_owned(), Rc::downgrade(&holder));
        holder
    }
}

impl PoolMemory {
    #[cold]
    fn allocate(&self, class: u8) -> Option<NonNull<u8>> {
        let bytes = self.piece_bytes(class);
        let over = (self.allocated_bytes.get() + bytes).saturating_sub(self.cap_bytes);
        if over > 0 && self.free_unused(over) < over {
            return None;
        }
        self.allocate_uncapped(class)
    }

    #[cold]
    fn allocate_uncapped(&self, class: u8) -> Option<NonNull<u8>> {
        let bytes = self.piece_bytes(class);
        let ptr = self.make_slab(bytes)?;
        self.shrink_below.set(usize::MAX);
        let more = (class_bytes(class)..bytes).step_by(class_bytes(class)).rev();
        // SAFETY: within the piece that was just allocated.
        self.free.borrow_mut()[class as usize].extend(more.map(|at| unsafe { ptr.add(at) }));
        Some(ptr)
    }

    /// Bytes allocated at a time for buffers of a class. A small pool allocates single buffers.
    fn piece_bytes(&self, class: u8) -> usize {
        if self.cap_bytes < 16 * SLAB_BYTES {
            class_bytes(class)
        } else {
            class_bytes(class).max(SLAB_BYTES)
        }
    }

    /// Returns below the cap after a reserve was taken, if a slab is entirely unused. After a
    /// failed attempt the next one is made when only half as much is in use, because each attempt
    /// scans all free buffers.
    #[cold]
    fn shrink(&self) {
        let taken = self.taken_bytes.get();
        if taken > self.shrink_below.get() {
            return;
        }
        let over = self.allocated_bytes.get() - self.cap_bytes;
        let done = self.free_unused(over) >= over;
        self.shrink_below.set(if done { usize::MAX } else { taken / 2 });
    }

    /// Frees unused buffers, the largest first, until `wanted` bytes are freed or no slab is
    /// entirely unused; returns the number of bytes freed.
    fn free_unused(&self, wanted: usize) -> usize {
        let mut freed = 0;
        let mut free = self.free.borrow_mut();
        for class in (0..CLASSES as u8).rev() {
            let bytes = self.piece_bytes(class);
            let list = &mut free[class as usize];
            if freed < wanted && bytes > class_bytes(class) {
                freed += self.free_slabs(list, bytes / class_bytes(class), wanted - freed);
                continue;
            }
            while freed < wanted
                && let Some(ptr) = list.pop()
            {
                // SAFETY: a slab of its own of this size, and nobody holds it: it was on the free
                // list.
                unsafe { self.free_slab(ptr, bytes) };
                freed += bytes;
            }
        }
        freed
    }

    /// Frees slabs whose `count` buffers are all on the list.
    fn free_slabs(&self, list: &mut Vec<NonNull<u8>>, count: usize, wanted: usize) -> usize {
        list.sort_unstable_by_key(|ptr| core::cmp::Reverse(ptr.addr()));
        let slab = |ptr: &NonNull<u8>| ptr.addr().get() / SLAB_BYTES;
        let mut freed = 0;
        let mut kept = Vec::with_capacity(list.len());
        for buffers in list.chunk_by(|a, b| slab(a) == slab(b)) {
            if freed < wanted && buffers.len() == count {
                // SAFETY: the lowest address is the slab's start, and nobody holds any of its
                // buffers: all of them were on the free list.
                unsafe { self.free_slab(buffers[count - 1], SLAB_BYTES) };
                freed += SLAB_BYTES;
            } else {
                kept.extend_from_slice(buffers);
            }
        }
        *list = kept;
        freed
    }
}

impl Drop for PoolMemory {
    fn drop(&mut self) {
        self.free_unused(usize::MAX);
    }
}

/// Owned payload memory: page-aligned, initialised, returned to its pool on drop.
pub struct Buf {
    ptr: NonNull<u8>,
    len: u32,
    class: u8,
    pool: Rc<PoolMemory>,
}

impl Buf {
    /// Changes the length of the buffer, up to [`Self::capacity`].
    ///
    /// # Panics
    /// If `len` exceeds the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity());
        self.len = len as u32;
    }

    /// Maximum length of the buffer.
    pub fn capacity(&self) -> usize {
        class_bytes(self.class)
    }
}

impl Deref for Buf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `ptr` is valid for `capacity >= len` initialised bytes, and this `Buf` owns them
        // alone.
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len as usize) }
    }
}

impl Drop for Buf {
    #[inline]
    fn drop(&mut self) {
        self.pool.taken_bytes.set(self.pool.taken_bytes.get() - class_bytes(self.class));
        self.pool.free.borrow_mut()[self.class as usize].push(self.ptr);
        if self.pool.allocated_bytes.get() > self.pool.cap_bytes {
            self.pool.shrink();
        }
    }
}

impl core::fmt::Debug for Buf {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

// Counts the bytes of a pool that several users hold together: users with the same name are one
// holder and have one share.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back() {
        let pool = Pool::new(1 << 20);
        let first = pool.take(5000).unwrap();
        assert_eq!((first.len(), first.capacity()), (5000, 8192));
        assert_eq!(first.as_ptr() as usize % BUF_ALIGN, 0);
        let at = first.as_ptr();
        drop(first);
        assert_eq!(pool.take(8192).unwrap().as_ptr(), at);
        assert_eq!(pool.allocations(), 1);
    }

    #[test]
    fn the_cap_holds_and_other_classes_give_way() {
        let pool = Pool::new(64 << 10);
        let all: Vec<_> = (0..16).map(|_| pool.take(4096).unwrap()).collect();
        assert!(pool.take(1).is_none());
        drop(all);
        assert!(pool.take(64 << 10).is_some());
        assert!(pool.allocated_bytes() <= 64 << 10);
        assert!(pool.take(BUF_BYTES_MAX + 1).is_none());
    }

    #[test]
    fn small_buffers_share_slabs_that_are_freed_whole() {
        let pool = Pool::new(1 << 20);
        let mut all: Vec<_> = (0..33).map(|_| pool.take(4096).unwrap()).collect();
        assert_eq!((pool.allocations(), pool.allocated_bytes()), (3, 3 * SLAB_BYTES));
        all.iter_mut().enumerate().for_each(|(n, buf)| buf.fill(n as u8));
        assert!(all.iter().enumerate().all(|(n, buf)| buf.iter().all(|&byte| byte == n as u8)));
        let held = all.swap_remove(7);
        drop(all);
        pool.trim();
        assert_eq!(pool.allocated_bytes(), SLAB_BYTES, "the slab of the buffer that is held");
        drop(held);
        pool.trim();
        assert_eq!(pool.allocated_bytes(), 0);
        // A slab that is in use gives way to nobody.
        let held = pool.take(4096).unwrap();
        assert!(pool.take(1 << 20).is_none());
        drop(held);
        assert!(pool.take(1 << 20).is_some());
    }

    #[test]
    fn the_reserve_goes_beyond_the_cap_and_back() {
        let pool = Pool::new(8 << 10);
        let held = pool.take(8 << 10).unwrap();
        let reserve = pool.take_reserve(4 << 10).unwrap();
        assert_eq!(pool.allocated_bytes(), 12 << 10);
        drop(reserve);
        assert_eq!(pool.allocated_bytes(), 8 << 10);
        drop(held);
    }

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
